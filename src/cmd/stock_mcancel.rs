//! `STOCK.MCANCEL`: gives the units of an id back in several sales.

use super::Command;
use super::cart;
use crate::error::Error;
use crate::module::cart_session::Rule;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `STOCK.MCANCEL id numkeys key [key …]`
///
/// Gives the units of the order `id` back in each of the sales where it holds or has bought some, in one step.
///
/// Replies `[status, five, five …]`, with the five fields of `STOCK.CANCEL` for each sale, in the order named. The status is `OK` if this
/// call cancelled at least one order, else that of the first sale. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, and for a sale that is named twice; `WRONGTYPE`. Nothing was cancelled then. At most
/// `lockstock.max-keys` sales. O(k log n) for k sales with n holds in each.
pub struct StockMcancel;

impl Command for StockMcancel {
    const SPEC: Spec = Spec {
        name: c"stock.mcancel",
        flags: c"write",
        acl: c"write slow",
        arity: -4,
        summary: c"Gives the units of an id back in several sales, once.",
        since: c"0.2.0",
        complexity: c"O(K*log(N)) with K sales and N holds in each",
        tips: c"",
        keys: Keys::Counted(2, KeyUse::Update),
        args: &[register::Arg::string(c"id"), register::Arg::integer(c"numkeys"), register::Arg::key().multiple()],
    };
}

impl Run for StockMcancel {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        cart::decide_held(call, Rule::Each, |now, id, sale| sale.cancel(now, id))
    }
}

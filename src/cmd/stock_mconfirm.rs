//! `STOCK.MCONFIRM`: the held orders of an id in several sales become sold ones, all or none.

use super::Command;
use super::cart;
use crate::error::Error;
use crate::module::cart_session::Rule;
use crate::server::entry::{Call, Run};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `STOCK.MCONFIRM id numkeys key [key …]`
///
/// Turns the units that `id` holds in each of the sales into sold ones, or in none of them. A hold that has expired takes its units again, as
/// with `STOCK.CONFIRM`. If a sale refuses that, it is final for that sale, and not for those that say `SKIPPED`.
///
/// Replies `[status, five, five …]`, as `STOCK.MDECR_ONCE`. Works outside the window, and when the server is out of memory.
///
/// Errors: `ERR` for a bad argument, and for a sale that is named twice; `WRONGTYPE`. Nothing has changed then. At most `lockstock.max-keys`
/// sales. O(k log n) for k sales with n holds in each.
pub struct StockMconfirm;

impl Command for StockMconfirm {
    const SPEC: Spec = Spec {
        name: c"stock.mconfirm",
        flags: c"write",
        acl: c"write slow",
        arity: -4,
        summary: c"Makes the holds of an id in several sales sales, all or none.",
        since: c"0.2.0",
        complexity: c"O(K*log(N)) with K sales and N holds in each",
        tips: c"",
        keys: Keys::Counted(2, KeyUse::Update),
        args: &[register::Arg::string(c"id"), register::Arg::integer(c"numkeys"), register::Arg::key().multiple()],
    };
}

impl Run for StockMconfirm {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        cart::decide_held(call, Rule::AllOrNone, |now, id, sale| sale.confirm(now, id))
    }
}

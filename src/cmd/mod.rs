//! The commands: one file each, with its documentation, its parser and its code.
//!
//! Each file has the same order: the documentation of the command, its `SPEC` for the server, `run`, the parser.
#![expect(refining_impl_trait, reason = "the server ring knows of an error only that it can be shown")]

// The words in which every command is written.
use crate::error::Error;
use crate::server::args::{Arg, ArgError, Args, Range, Spelled};
use crate::server::clock;
use crate::server::command::{Command, Param, Spec};
use crate::server::ctx::Ctx;
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register;

pub(crate) mod cart;
mod fence;
pub(crate) mod keep;
mod lease;
pub(crate) mod lock_acquire;
pub(crate) mod lock_apply;
pub(crate) mod lock_extend;
#[cfg(debug_assertions)]
mod lock_fault;
mod lock_guard;
mod lock_info;
pub(crate) mod lock_macquire;
pub(crate) mod lock_mextend;
pub(crate) mod lock_mrelease;
pub(crate) mod lock_release;
pub mod lock_reply;
mod lock_request;
mod order_options;
pub(crate) mod stock_adjust;
pub(crate) mod stock_alter;
pub(crate) mod stock_apply;
mod stock_buyer;
mod stock_cancel;
mod stock_confirm;
pub(crate) mod stock_create;
pub(crate) mod stock_decr_once;
pub(crate) mod stock_extend;
mod stock_info;
pub(crate) mod stock_mcancel;
pub(crate) mod stock_mconfirm;
pub(crate) mod stock_mdecr_once;
mod stock_order;
pub(crate) mod stock_orders;
mod stock_reply;

/// Registers every command; the error names the command that the server refused.
pub fn register(ctx: &Ctx<'_>) -> Result<(), String> {
    one::<lock_acquire::LockAcquire>(ctx)?;
    one::<lock_release::LockRelease>(ctx)?;
    one::<lock_extend::LockExtend>(ctx)?;
    one::<lock_info::LockInfo>(ctx)?;
    one::<lock_macquire::LockMacquire>(ctx)?;
    one::<lock_mrelease::LockMrelease>(ctx)?;
    one::<lock_mextend::LockMextend>(ctx)?;
    one::<lock_guard::LockGuard>(ctx)?;
    one::<lock_apply::LockApply>(ctx)?;
    #[cfg(debug_assertions)]
    one::<lock_fault::LockFault>(ctx)?;
    one::<stock_create::StockCreate>(ctx)?;
    one::<stock_alter::StockAlter>(ctx)?;
    one::<stock_adjust::StockAdjust>(ctx)?;
    one::<stock_decr_once::StockDecrOnce>(ctx)?;
    one::<stock_confirm::StockConfirm>(ctx)?;
    one::<stock_cancel::StockCancel>(ctx)?;
    one::<stock_extend::StockExtend>(ctx)?;
    one::<stock_mdecr_once::StockMdecrOnce>(ctx)?;
    one::<stock_mconfirm::StockMconfirm>(ctx)?;
    one::<stock_mcancel::StockMcancel>(ctx)?;
    one::<stock_order::StockOrder>(ctx)?;
    one::<stock_buyer::StockBuyer>(ctx)?;
    one::<stock_info::StockInfo>(ctx)?;
    one::<stock_orders::StockOrders>(ctx)?;
    one::<stock_apply::StockApply>(ctx)
}

fn one<C: Command>(ctx: &Ctx<'_>) -> Result<(), String> {
    if register::register::<C>(ctx) {
        return Ok(());
    }
    Err(format!("the server refused the command {}", C::SPEC.name.to_string_lossy()))
}

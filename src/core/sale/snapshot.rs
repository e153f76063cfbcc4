//! A sale as bytes, for RDB, AOF rewrite, DUMP and slot migration.
//!
//! First a header with the conditions of the sale, then blocks with its orders, oldest first, then those with the ids of adjustments. No
//! sums are written: they follow from the orders. So a file cannot contradict itself, and a sale that has loaded only some of its blocks is
//! consistent, too.

use std::collections::BTreeSet;
use std::{iter, mem};

use derive_more::{Display, From};

use super::Sale;
use super::cutoff::Cutoff;
use super::orders::record::{BuyerRef, Record};
use super::terms::{Stream, Terms};
use crate::core::codec::{Corrupt, Encode, Reader};
use crate::core::limits::{MAX_SEQ, MAX_UNITS};
use crate::core::time::UnixMs;

/// The version of headers, and of blocks without refused orders.
pub const VERSION: u8 = 1;

/// The version of blocks with at least one refused order. Lockstock 0.1 does not know refusals and refuses such a block. A sale without
/// them has the bytes that 0.1 wrote.
pub const WITH_REFUSALS: u8 = 2;

/// The version of blocks with the ids of adjustments. Lockstock 0.1 refuses such a block. A sale without such ids has none.
pub const ADJUSTMENTS: u8 = 3;

/// The bytes before the id of an adjustment in the digest. No order begins with it.
const ADJUSTMENT: u8 = u8::MAX;

/// The most bytes of one block.
pub const BLOCK: usize = 64 * 1024;

/// The most orders or ids of one block. A block is loaded in one call, which has to be short.
pub const BLOCK_ORDERS: u32 = 512;

const REBUY: u8 = 1;
const START: u8 = 2;
const END: u8 = 4;
const STREAM: u8 = 8;
const CUTOFF: u8 = 16;
const DEADLINES: u8 = 32;
/// The number of orders. Lockstock 0.1 refuses such a header. The blocks of a sale without it have no waiting orders.
const COUNT: u8 = 64;

/// Why bytes are not a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, From)]
pub enum CorruptSale {
    /// They are not of the form that is written here.
    #[from]
    #[display("{_0}")]
    Bytes(Corrupt),
    /// An id has two orders.
    #[display("an id has two orders")]
    Repeated,
    /// More units are held and sold than there are.
    #[display("more is taken than there is")]
    Oversold,
    /// There are more orders or adjustments than a sale can remember.
    #[display("it has too many orders or adjustments")]
    Full,
}

impl Sale {
    /// The conditions, the sequence number, the cutoff, and the number of orders if some of them wait.
    pub fn header(&self) -> Vec<u8> {
        self.header_with(self.expects())
    }

    /// The header with the number of orders, whether some of them wait or not. It is for a sale that is loaded by several commands: such a
    /// sale decides nothing before it is whole. Lockstock 0.1 refuses it, unless the sale has no orders.
    pub fn counting_header(&self) -> Vec<u8> {
        let orders = self.orders().max(u64::from(self.expected));
        self.header_with((orders > 0).then_some(orders))
    }

    fn header_with(&self, expects: Option<u64>) -> Vec<u8> {
        let terms = &self.terms;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut out = Vec::new();
        out.push(VERSION);
        out.push(
            flag(terms.rebuy, REBUY)
                | flag(terms.start.is_some(), START)
                | flag(terms.end.is_some(), END)
                | flag(terms.stream.is_some(), STREAM)
                | flag(self.cutoff.is_some(), CUTOFF)
                | flag(terms.tells_deadlines(), DEADLINES)
                | flag(expects.is_some(), COUNT),
        );
        out.number(terms.total);
        out.number(terms.limit);
        out.number(self.seq);
        let cutoff = self.cutoff.map(|cutoff| cutoff.at);
        for time in [terms.start, terms.end, cutoff].into_iter().flatten() {
            out.signed(time.0);
        }
        if let Some(orders) = expects {
            out.number(orders);
        }
        out.extend_from_slice(terms.stream.as_ref().map_or(&[], |stream| &*stream.key));
        out
    }

    /// The orders and the ids of adjustments, in blocks of at most [`BLOCK`] bytes and [`BLOCK_ORDERS`] of them, each made when it is
    /// asked for.
    pub fn blocks(&self) -> impl Iterator<Item = Vec<u8>> {
        self.order_blocks().chain(self.adjustment_blocks())
    }

    /// The sale of this header, still without orders.
    ///
    /// # Errors
    ///
    /// When the bytes are not a header as [`Sale::header`] makes it.
    pub fn from_header(bytes: &[u8]) -> Result<Self, CorruptSale> {
        let (reader, _) = Reader::versioned(bytes, VERSION)?;
        let (terms, seq, cutoff, expected) = read_header(reader)?;
        Ok(Self { seq, cutoff, expected, ..Self::new(terms) })
    }

    /// Adds all that a block has, or nothing.
    ///
    /// # Errors
    ///
    /// When the bytes are not a block as [`Sale::blocks`] makes it, or do not fit the blocks before.
    pub fn load_block(&mut self, bytes: &[u8]) -> Result<(), CorruptSale> {
        if self.is_behind_orders(bytes)? {
            return self.load_adjustments(bytes);
        }
        let (mut unsold, mut ids) = (self.unsold(), BTreeSet::new());
        for order in Strict::open(bytes)? {
            let order = order?;
            self.check(&order, &mut unsold)?;
            if self.table.find(&order.id).is_some() || !ids.insert(order.id) {
                return Err(CorruptSale::Repeated);
            }
        }
        if ids.len() > self.table.room() {
            return Err(CorruptSale::Full);
        }
        for order in Strict::open(bytes)? {
            let order = order?;
            self.count_if_over(&order);
            let buyer = if let BuyerRef::Named(buyer) = order.buyer { buyer } else { order.id };
            self.table.enter(None, order, &buyer);
        }
        self.revision = self.revision.wrapping_add(1);
        Ok(())
    }

    /// Checks that a loaded order can be one of this sale and that there are units for it, which are no longer `unsold` then.
    pub(super) fn check(&self, order: &Record<'_>, unsold: &mut u64) -> Result<(), CorruptSale> {
        let takes = order.active() && !self.is_over(order);
        let may_wait = self.expected > 0 && order.units <= self.terms.total && order.ticket.number <= self.seq;
        if (takes && order.refused) || (order.waits() && !may_wait) {
            return Err(Corrupt::Invalid.into());
        }
        if takes {
            *unsold = unsold.checked_sub(order.units).ok_or(CorruptSale::Oversold)?;
        }
        Ok(())
    }

    /// Counts the units of a loaded hold that the cutoff has ended.
    pub(super) fn count_if_over(&mut self, order: &Record<'_>) {
        if self.is_over(order) {
            self.recount_over(|over| over.wrapping_add(order.units));
        }
    }

    /// How many orders there are, or will be when all are loaded, if some of them wait.
    fn expects(&self) -> Option<u64> {
        (self.table.has_line() || !self.is_whole()).then(|| self.orders().max(u64::from(self.expected)))
    }

    /// Whether a block has ids of adjustments. These come last, so that equal sales have equal bytes.
    fn is_behind_orders(&self, block: &[u8]) -> Result<bool, CorruptSale> {
        let is_behind = block.first() == Some(&ADJUSTMENTS);
        if is_behind || self.adjustments.is_none() { Ok(is_behind) } else { Err(Corrupt::Invalid.into()) }
    }

    /// Calls `part` with the header and then with each order and each adjustment. Equal sales give equal byte strings, whatever happened to
    /// them before.
    pub fn digest(&self, mut part: impl FnMut(&[u8])) {
        part(&self.header());
        let mut bytes = Vec::new();
        for (_, order) in self.table.orders.from(0) {
            bytes.truncate(0);
            self.spell(&order, &mut bytes);
            part(&bytes);
        }
        for id in self.adjustments_from(0) {
            bytes.truncate(0);
            bytes.push(ADJUSTMENT);
            id.write(&mut bytes);
            part(&bytes);
        }
    }

    fn order_blocks(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut next = 0_u32;
        iter::from_fn(move || {
            let mut block = vec![VERSION];
            let last = next.saturating_add(BLOCK_ORDERS);
            for (number, order) in self.table.orders.from(next) {
                let before = block.len();
                self.spell(&order, &mut block);
                if block.len() > BLOCK || number >= last {
                    block.truncate(before);
                    break;
                }
                if let Some(version) = block.first_mut()
                    && order.refused
                {
                    *version = WITH_REFUSALS;
                }
                next = number.saturating_add(1);
            }
            (block.len() > 1).then_some(block)
        })
    }

    /// Writes an order with its buyer's name and its full deadline, not relative to values that only this copy of the sale knows.
    fn spell(&self, order: &Record<'_>, out: &mut Vec<u8>) {
        let buyer = self.table.buyer_of(order);
        let buyer = if buyer == order.id { BuyerRef::Own } else { BuyerRef::Named(buyer) };
        Record { buyer, ..*order }.write(UnixMs(0), out);
    }
}

/// Whether a block has orders.
pub(super) fn is_of_orders(block: &[u8]) -> bool {
    matches!(block.first(), Some(&(VERSION | WITH_REFUSALS)))
}

/// Reads the orders of a block that may be damaged or hostile.
pub(super) struct Strict<'a> {
    reader: Reader<'a>,
    /// The block's version says that it has refusals, and none was read so far.
    lacks_refusal: bool,
    /// The block may have refusals.
    refusals: bool,
}

impl<'a> Strict<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let (reader, version) = Reader::versioned(bytes, ADJUSTMENTS)?;
        if reader.is_empty() {
            // An empty block is never written, so that equal sales have equal bytes.
            return Err(Corrupt::Invalid);
        }
        let refusals = version == WITH_REFUSALS;
        Ok(Self { reader, lacks_refusal: refusals, refusals })
    }
}

impl<'a> Iterator for Strict<'a> {
    type Item = Result<Record<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return mem::take(&mut self.lacks_refusal).then_some(Err(Corrupt::Invalid));
        }
        let order = Record::read_strict(&mut self.reader);
        let is_refused = order.is_ok_and(|order| order.refused);
        self.lacks_refusal &= !is_refused;
        Some(if is_refused && !self.refusals { Err(Corrupt::Invalid) } else { order })
    }
}

fn read_header(mut reader: Reader<'_>) -> Result<(Terms, u64, Option<Cutoff>, u32), Corrupt> {
    let flags = reader.byte()?;
    if flags & !(REBUY | START | END | STREAM | CUTOFF | DEADLINES | COUNT) != 0 {
        return Err(Corrupt::Invalid);
    }
    let (total, limit, seq) = (reader.number()?, reader.number()?, reader.number()?);
    if total > MAX_UNITS || limit > MAX_UNITS || seq > MAX_SEQ {
        return Err(Corrupt::Invalid);
    }
    let mut time = |flag| if flags & flag == 0 { Ok(None) } else { reader.signed().map(|time| Some(UnixMs(time))) };
    let (start, end) = (time(START)?, time(END)?);
    // No command takes such a time.
    if start.into_iter().chain(end).any(|time| time < UnixMs(1)) {
        return Err(Corrupt::Invalid);
    }
    let cutoff =
        if flags & CUTOFF == 0 { None } else { Some(Cutoff::new(UnixMs(reader.signed()?)).ok_or(Corrupt::Invalid)?) };
    let expected =
        if flags & COUNT == 0 { 0 } else { u32::try_from(reader.number()?).map_err(|_| Corrupt::Invalid)? };
    if flags & COUNT != 0 && expected == 0 {
        return Err(Corrupt::Invalid);
    }
    let deadlines = flags & DEADLINES != 0;
    let stream = if flags & STREAM == 0 { None } else { Some(Stream { key: reader.rest().into(), deadlines }) };
    if stream.is_none() && (deadlines || !reader.is_empty()) {
        return Err(Corrupt::Invalid);
    }
    Ok((Terms { total, limit, start, end, rebuy: flags & REBUY != 0, stream }, seq, cutoff, expected))
}

//! A sale as bytes, for RDB, AOF rewrite, DUMP and slot migration.
//!
//! A header with what concerns the sale as a whole, then any number of blocks with the orders in the order of their creation. What
//! remains is not written: it follows from the orders, so a file cannot contradict itself, and a sale that has loaded
//! only some of its blocks is consistent as well.

use std::collections::BTreeSet;
use std::fmt;
use std::mem;

use super::Sale;
use super::cutoff::Cutoff;
use super::orders::record::{BuyerRef, Record};
use super::terms::{Stream, Terms};
use crate::core::codec::{Corrupt, Reader, Writer};
use crate::core::limits::{MAX_SEQ, MAX_UNITS};
use crate::core::time::UnixMs;

/// The form of headers, and of blocks whose orders a late confirmation can still bring back.
pub const VERSION: u8 = 1;

/// The form of blocks with an order whose confirmation was refused for good, which lockstock 0.1 does not know. It has no use for
/// others: a sale without such orders has the bytes that 0.1 gave it.
pub const WITH_REFUSALS: u8 = 2;

/// The most bytes of one block.
pub const BLOCK: usize = 64 * 1024;

/// The most orders of one block: loading one is a call like any other, and has to be short.
pub const BLOCK_ORDERS: u32 = 512;

const REBUY: u8 = 1;
const START: u8 = 2;
const END: u8 = 4;
const STREAM: u8 = 8;
const CUTOFF: u8 = 16;
const DEADLINES: u8 = 32;

/// Why bytes are not a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorruptSale {
    /// They are not of the form that is written here.
    Bytes(Corrupt),
    /// An id has two orders.
    Repeated,
    /// More units are held and sold than there are.
    Oversold,
    /// There are more orders than a sale can remember.
    Full,
}

impl From<Corrupt> for CorruptSale {
    fn from(why: Corrupt) -> Self {
        Self::Bytes(why)
    }
}

impl fmt::Display for CorruptSale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(Corrupt::Newer { version, newest }) => {
                write!(f, "a sale of version {version}; this lockstock reads up to {newest}")
            }
            Self::Bytes(Corrupt::Truncated | Corrupt::Invalid) => f.write_str("a sale whose bytes are malformed"),
            Self::Repeated => f.write_str("a sale in which an id has two orders"),
            Self::Oversold => f.write_str("a sale of which more is taken than there is"),
            Self::Full => f.write_str("a sale with too many orders"),
        }
    }
}

impl Sale {
    /// The conditions, the sequence number and the cutoff.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        let terms = &self.terms;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut out = Writer::new();
        out.byte(VERSION);
        out.byte(
            flag(terms.rebuy, REBUY)
                | flag(terms.start.is_some(), START)
                | flag(terms.end.is_some(), END)
                | flag(terms.stream.is_some(), STREAM)
                | flag(self.cutoff.is_some(), CUTOFF)
                | flag(terms.tells_deadlines(), DEADLINES),
        );
        out.number(terms.total);
        out.number(terms.limit);
        out.number(self.seq);
        let cutoff = self.cutoff.map(|cutoff| cutoff.at);
        for time in [terms.start, terms.end, cutoff].into_iter().flatten() {
            out.signed(time.0);
        }
        out.bytes(terms.stream.as_ref().map_or(&[], |stream| &*stream.key));
        out.finish()
    }

    /// The orders, in blocks of at most [`BLOCK`] bytes and [`BLOCK_ORDERS`] orders, each made when it is asked for.
    pub fn blocks(&self) -> impl Iterator<Item = Vec<u8>> {
        Blocks { sale: self, next: 0 }
    }

    /// The sale of this header, still without orders.
    ///
    /// # Errors
    ///
    /// When the bytes are not what [`Sale::header`] makes.
    pub fn from_header(bytes: &[u8]) -> Result<Self, CorruptSale> {
        let (reader, _) = Reader::versioned(bytes, VERSION)?;
        let (terms, seq, cutoff) = read_header(reader)?;
        Ok(Self { seq, cutoff, ..Self::new(terms) })
    }

    /// Adds the orders of a block.
    ///
    /// # Errors
    ///
    /// When the bytes are not what [`Sale::blocks`] makes, or do not fit what was loaded before. The sale is then
    /// consistent, and lacks the block's orders from the offending one on.
    pub fn load_block(&mut self, bytes: &[u8]) -> Result<(), CorruptSale> {
        self.revision = self.revision.wrapping_add(1);
        for order in Strict::open(bytes)? {
            let order = order?;
            let over = self.is_over(&order);
            if order.refused && order.active() && !over {
                return Err(CorruptSale::Bytes(Corrupt::Invalid));
            }
            if order.active() && !over && order.units > self.unsold() {
                return Err(CorruptSale::Oversold);
            }
            if self.table.find(&order.id).is_some() {
                return Err(CorruptSale::Repeated);
            }
            if self.table.is_full() {
                return Err(CorruptSale::Full);
            }
            if over {
                self.recount_over(|over| over.wrapping_add(order.units));
            }
            let buyer = if let BuyerRef::Named(buyer) = order.buyer { buyer } else { order.id };
            self.table.enter(None, order, &buyer);
        }
        Ok(())
    }

    /// Adds the orders of a block, or none of them.
    ///
    /// # Errors
    ///
    /// As [`Sale::load_block`]; nothing has changed then.
    pub fn load_whole_block(&mut self, bytes: &[u8]) -> Result<(), CorruptSale> {
        let (mut units, mut ids) = (0_u64, BTreeSet::new());
        for order in Strict::open(bytes)? {
            let order = order?;
            if order.active() && !self.is_over(&order) {
                if order.refused {
                    return Err(CorruptSale::Bytes(Corrupt::Invalid));
                }
                units = units.saturating_add(order.units);
            }
            if units > self.unsold() {
                return Err(CorruptSale::Oversold);
            }
            if self.table.find(&order.id).is_some() || !ids.insert(order.id) {
                return Err(CorruptSale::Repeated);
            }
        }
        if ids.len() > self.table.room() {
            return Err(CorruptSale::Full);
        }
        self.load_block(bytes)
    }

    /// Calls `part` with byte strings whose set is the same for equal sales, wherever they are and however they came
    /// to be: first the header, then each order.
    pub fn digest(&self, mut part: impl FnMut(&[u8])) {
        part(&self.header());
        let (mut at, mut bytes) = (0, Writer::new());
        while let Some((run, next)) = self.table.orders.run(at) {
            for (_, order) in run {
                bytes.truncate(0);
                self.spell(&order, &mut bytes);
                part(&bytes);
            }
            at = next;
        }
    }

    /// An order without what only this copy of the sale knows.
    fn spell(&self, order: &Record<'_>, out: &mut Writer) {
        let buyer = self.table.buyer_of(order);
        let buyer = if buyer == order.id { BuyerRef::Own } else { BuyerRef::Named(buyer) };
        Record { buyer, ..*order }.write(UnixMs(0), out);
    }
}

struct Blocks<'a> {
    sale: &'a Sale,
    next: u32,
}

impl Iterator for Blocks<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut block = Writer::new();
        block.byte(VERSION);
        let last = self.next.saturating_add(BLOCK_ORDERS);
        while self.next < last
            && let Some((run, next)) = self.sale.table.orders.run(self.next)
        {
            for (number, order) in run {
                let before = block.len();
                self.sale.spell(&order, &mut block);
                if block.len() > BLOCK || number >= last {
                    block.truncate(before);
                    self.next = number;
                    return Some(block.finish());
                }
                if order.refused {
                    block.set_first(WITH_REFUSALS);
                }
            }
            self.next = next;
        }
        (block.len() > 1).then(|| block.finish())
    }
}

/// The orders of a block, for which nobody vouches.
struct Strict<'a> {
    reader: Reader<'a>,
    /// Whether the block is of the form that has refusals, and has shown none.
    lacks_refusal: bool,
    /// Whether it may have some.
    refusals: bool,
}

impl<'a> Strict<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let (reader, version) = Reader::versioned(bytes, WITH_REFUSALS)?;
        if reader.is_empty() {
            // None is ever written, so that equal sales have equal bytes.
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

fn read_header(mut reader: Reader<'_>) -> Result<(Terms, u64, Option<Cutoff>), Corrupt> {
    let flags = reader.byte()?;
    if flags & !(REBUY | START | END | STREAM | CUTOFF | DEADLINES) != 0 {
        return Err(Corrupt::Invalid);
    }
    let (total, limit, seq) = (reader.number()?, reader.number()?, reader.number()?);
    if total > MAX_UNITS || limit > MAX_UNITS || seq > MAX_SEQ {
        return Err(Corrupt::Invalid);
    }
    let start = if flags & START == 0 { None } else { Some(UnixMs(reader.signed()?)) };
    let end = if flags & END == 0 { None } else { Some(UnixMs(reader.signed()?)) };
    let cutoff =
        if flags & CUTOFF == 0 { None } else { Some(Cutoff::new(UnixMs(reader.signed()?)).ok_or(Corrupt::Invalid)?) };
    let deadlines = flags & DEADLINES != 0;
    let stream = if flags & STREAM == 0 { None } else { Some(Stream { key: reader.rest().into(), deadlines }) };
    if stream.is_none() && (deadlines || !reader.is_empty()) {
        return Err(Corrupt::Invalid);
    }
    Ok((Terms { total, limit, start, end, rebuy: flags & REBUY != 0, stream }, seq, cutoff))
}

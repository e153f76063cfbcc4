//! An order as it lies in memory: a few bytes more than its id.
//!
//! One byte says which of the other fields there are. The plainest order, one unit sold to a numbered buyer, takes two
//! bytes more than the number.

pub use super::order_state::State;
use super::order_state::{STATE, WAITING};
use super::pages::Layout;
use crate::core::codec::{Corrupt, Encode, Reader};
use crate::core::id::PackedId;
use crate::core::limits::{MAX_SEQ, MAX_UNITS};
use crate::core::time::{Millis, UnixMs};

/// Whose limit an order counts against.
///
/// Most buyers have one order, and nothing else is kept of them. A buyer with a second order gets an entry with sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuyerRef<'a> {
    /// The id itself, and no other order has this buyer.
    Own,
    /// This one, and no other order has it.
    Named(PackedId<'a>),
    /// The entry with this number, for this and other orders.
    Shared(u32),
}

/// The fields of a waiting order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The number of the event with which it joined the line: an order with a lower number is served before.
    pub number: u64,
    /// How long its units will be held, from the instant at which it is served; `None`: they will be sold.
    pub hold: Option<Millis>,
}

/// One order.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub state: State,
    pub units: u64,
    pub id: PackedId<'a>,
    /// When a hold ends. Not kept in the other states.
    pub deadline: UnixMs,
    /// Kept only while the order waits.
    pub ticket: Ticket,
    pub buyer: BuyerRef<'a>,
    pub reference: Option<PackedId<'a>>,
    /// A confirmation came too late and was refused, for good. Only of orders that have expired, or are over by the cutoff.
    pub refused: bool,
}

/// The fields that a sum tree asks for, without the others.
pub struct HoldPart {
    pub deadline: UnixMs,
    pub units: u64,
    /// The entry of its buyer; `u32::MAX` if it is the buyer's only order.
    pub entry: u32,
}

const MANY: u8 = 0b0000_0100;
const BUYER: u8 = 0b0001_1000;
const NAMED: u8 = 0b0000_1000;
const SHARED: u8 = 0b0001_0000;
const REFERENCE: u8 = 0b0010_0000;
const REFUSED: u8 = 0b0100_0000;

impl<'a> Record<'a> {
    /// Reads the order at the front of `bytes`. Deadlines are kept relative to `base`, which makes them short.
    #[inline]
    pub fn read(bytes: &'a [u8], base: UnixMs) -> Result<Self, Corrupt> {
        Self::read_next(&mut Reader::new(bytes), base)
    }

    /// As [`Record::read`], and passes over the order.
    #[inline]
    pub fn read_next(reader: &mut Reader<'a>, base: UnixMs) -> Result<Self, Corrupt> {
        Self::read_with(reader, base, PackedId::read_trusted)
    }

    /// Reads an order of a snapshot, which may be damaged or hostile. Its form must be the one that is written, with the name of its
    /// buyer and an absolute deadline.
    pub fn read_strict(reader: &mut Reader<'a>) -> Result<Self, Corrupt> {
        let first = reader.rest().first().copied();
        let order = Self::read_with(reader, UnixMs(0), PackedId::read)?;
        let names_buyer = match order.buyer {
            BuyerRef::Own => true,
            BuyerRef::Named(name) => name != order.id,
            BuyerRef::Shared(_) => false,
        };
        let is_sound = first == Some(order.flags())
            && (1..=MAX_UNITS).contains(&order.units)
            && (!order.waits() || (1..=MAX_SEQ).contains(&order.ticket.number))
            && (!order.refused || matches!(order.state, State::Held | State::Expired));
        if is_sound && names_buyer { Ok(order) } else { Err(Corrupt::Invalid) }
    }

    #[inline]
    fn read_with(
        reader: &mut Reader<'a>,
        base: UnixMs,
        id: impl Fn(&mut Reader<'a>) -> Result<PackedId<'a>, Corrupt>,
    ) -> Result<Self, Corrupt> {
        let flags = reader.byte()?;
        let state = State::of(flags);
        let own = id(reader)?;
        let units = if flags & MANY == 0 { 1 } else { reader.number()? };
        let deadline = if state == State::Held { base.0.wrapping_add(reader.signed()?) } else { 0 };
        let ticket = if state == State::Waiting { Ticket::read(reader)? } else { Ticket::default() };
        let buyer = match flags & BUYER {
            0 => BuyerRef::Own,
            NAMED => BuyerRef::Named(id(reader)?),
            _ => BuyerRef::Shared(read_entry(reader)?),
        };
        let reference = if flags & REFERENCE == 0 { None } else { Some(id(reader)?) };
        let (deadline, refused) = (UnixMs(deadline), flags & REFUSED != 0);
        Ok(Self { state, units, id: own, deadline, ticket, buyer, reference, refused })
    }

    /// The first byte: which fields follow.
    fn flags(&self) -> u8 {
        let buyer = match self.buyer {
            BuyerRef::Own => 0,
            BuyerRef::Named(_) => NAMED,
            BuyerRef::Shared(_) => SHARED,
        };
        let many = if self.units == 1 { 0 } else { MANY };
        let reference = if self.reference.is_some() { REFERENCE } else { 0 };
        let refused = if self.refused { REFUSED } else { 0 };
        self.state as u8 | many | buyer | reference | refused
    }

    /// Appends the order.
    pub fn write(&self, base: UnixMs, out: &mut Vec<u8>) {
        out.push(self.flags());
        self.id.write(out);
        if self.units != 1 {
            out.number(self.units);
        }
        if self.state == State::Held {
            out.signed(self.deadline.0.wrapping_sub(base.0));
        }
        if self.state == State::Waiting {
            self.ticket.write(out);
        }
        match self.buyer {
            BuyerRef::Own => {}
            BuyerRef::Named(name) => name.write(out),
            BuyerRef::Shared(entry) => out.number(u64::from(entry)),
        }
        if let Some(reference) = self.reference {
            reference.write(out);
        }
    }

    /// Whether the order holds or has bought its units.
    pub fn active(&self) -> bool {
        matches!(self.state, State::Held | State::Sold)
    }

    /// Whether the order is on the waitlist.
    pub fn waits(&self) -> bool {
        self.state == State::Waiting
    }

    /// Whether the order is cancelled or has expired.
    pub fn ended(&self) -> bool {
        matches!(self.state, State::Cancelled | State::Expired)
    }

    /// The units that the order counts against its buyer's limit at `now`, with those that it waits for.
    pub fn counted_at(&self, now: UnixMs) -> u64 {
        if self.waits() { self.units } else { self.units_at(now) }
    }

    /// The order's state at `now`: a hold has expired from its deadline on, committed or not.
    pub fn state_at(&self, now: UnixMs) -> State {
        if self.state == State::Held && self.deadline.reached(now) { State::Expired } else { self.state }
    }

    /// The units that the order holds or has bought at `now`.
    pub fn units_at(&self, now: UnixMs) -> u64 {
        match self.state_at(now) {
            State::Held | State::Sold => self.units,
            State::Cancelled | State::Expired | State::Waiting => 0,
        }
    }
}

impl Ticket {
    /// Kept out of the way of records that have none.
    #[cold]
    fn read(reader: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let (number, hold) = (reader.number()?, reader.number()?);
        let hold = i64::try_from(hold).map_err(|_| Corrupt::Invalid)?;
        Ok(Self { number, hold: (hold > 0).then_some(Millis(hold)) })
    }

    fn write(self, out: &mut Vec<u8>) {
        out.number(self.number);
        out.number(self.hold.map_or(0, |hold| hold.0.cast_unsigned()));
    }
}

/// The bytes after the first byte of a record: the id, and then the other fields.
#[inline]
pub fn id_part(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(1..)
}

impl HoldPart {
    /// Reads the values of the hold at the front of `bytes` that a sum tree needs.
    #[inline]
    pub fn read(bytes: &[u8], base: UnixMs) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let flags = reader.byte().ok()?;
        if flags & STATE != State::Held as u8 {
            return None;
        }
        PackedId::skip(&mut reader)?;
        let units = if flags & MANY == 0 { 1 } else { reader.number().ok()? };
        let deadline = UnixMs(base.0.wrapping_add(reader.signed().ok()?));
        let entry = if flags & SHARED == 0 { u32::MAX } else { read_entry(&mut reader).ok()? };
        Some(Self { deadline, units, entry })
    }
}

#[inline]
fn read_entry(reader: &mut Reader<'_>) -> Result<u32, Corrupt> {
    u32::try_from(reader.number()?).map_err(|_| Corrupt::Invalid)
}

/// The shape of orders.
pub struct OrderLayout;

impl Layout for OrderLayout {
    #[inline]
    fn length(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(bytes);
        let flags = reader.byte().ok()?;
        PackedId::skip(&mut reader)?;
        if flags & MANY != 0 {
            reader.skip_number()?;
        }
        if flags & STATE == State::Held as u8 {
            reader.skip_number()?;
        }
        if flags & WAITING != 0 {
            reader.skip_number()?;
            reader.skip_number()?;
        }
        match flags & BUYER {
            0 => {}
            NAMED => PackedId::skip(&mut reader)?,
            _ => reader.skip_number()?,
        }
        if flags & REFERENCE != 0 {
            PackedId::skip(&mut reader)?;
        }
        bytes.len().checked_sub(reader.rest().len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_order_is_two_bytes_more_than_its_number() {
        let mut out = Vec::new();
        let id = PackedId::new(b"1000000").unwrap();
        let order = Record {
            state: State::Sold,
            units: 1,
            id,
            deadline: UnixMs(0),
            ticket: Ticket::default(),
            buyer: BuyerRef::Own,
            reference: None,
            refused: false,
        };
        order.write(UnixMs(0), &mut out);
        assert_eq!(out.len(), 5);
    }

    proptest! {
        #[test]
        fn any_order_comes_back(
            code in 0..5_u8, units in 1..1_u64 << 53, id in "[a-z0-9]{1,40}", named in proptest::option::of("[a-z]{1,9}"),
            shared in proptest::option::of(any::<u32>()), reference in proptest::option::of("[a-z]{1,9}"),
            deadline: i64, base: i64, refused: bool, ticket in 0..1_u64 << 53, hold in 0..i64::MAX,
        ) {
            let state = State::ALL[usize::from(code)];
            let ticket = Ticket { number: ticket, hold: (hold > 0).then_some(Millis(hold)) };
            let order = Record {
                state,
                units,
                id: PackedId::new(id.as_bytes()).unwrap(),
                deadline: UnixMs(if state == State::Held { deadline } else { 0 }),
                ticket: if state == State::Waiting { ticket } else { Ticket::default() },
                buyer: match (&named, shared) {
                    (_, Some(entry)) => BuyerRef::Shared(entry),
                    (Some(name), None) => BuyerRef::Named(PackedId::new(name.as_bytes()).unwrap()),
                    (None, None) => BuyerRef::Own,
                },
                reference: reference.as_ref().map(|text| PackedId::new(text.as_bytes()).unwrap()),
                refused,
            };
            let mut out = Vec::new();
            order.write(UnixMs(base), &mut out);
            prop_assert_eq!(OrderLayout::length(&out), Some(out.len()));
            let again = Record::read(&out, UnixMs(base)).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{order:?}"));
            if state == State::Held {
                let part = HoldPart::read(&out, UnixMs(base)).unwrap();
                prop_assert_eq!((part.deadline, part.units), (order.deadline, units));
                if let BuyerRef::Shared(entry) = order.buyer {
                    prop_assert_eq!(part.entry, entry);
                }
            }
        }
    }
}

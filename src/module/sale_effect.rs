//! The effects of a sale for replicas and the AOF: `STOCK.APPLY key EFFECT …`.

use std::ffi::CStr;
use std::iter;

use smallvec::SmallVec;

use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::{Change, NewOrder, Sale};
use crate::core::time::{Millis, UnixMs};
use crate::error::Error;
use crate::server::args::{Arg, Args, Name, Range};
use crate::server::ctx::Ctx;
use crate::server::replicate::{self, Fixed};

/// The command that carries the effects.
const APPLY: &CStr = c"STOCK.APPLY";

static TAKEN: Fixed = Fixed::new(b"TAKEN");
static WAITING: Fixed = Fixed::new(b"WAITING");
static SERVED: Fixed = Fixed::new(b"SERVED");
static CONFIRMED: Fixed = Fixed::new(b"CONFIRMED");
static KEPT: Fixed = Fixed::new(b"KEPT");
static REFUSED: Fixed = Fixed::new(b"REFUSED");
static CANCELLED: Fixed = Fixed::new(b"CANCELLED");
static LAPSED: Fixed = Fixed::new(b"LAPSED");
static EXTENDED: Fixed = Fixed::new(b"EXTENDED");
static CUTOFF: Fixed = Fixed::new(b"CUTOFF");
static ADJUSTED: Fixed = Fixed::new(b"ADJUSTED");
static ALTERED: Fixed = Fixed::new(b"ALTERED");

/// A parsed effect.
pub enum Effect<'a> {
    /// A change of an existing sale.
    Change(Change<'a>),
    /// A part of a whole sale.
    Part(Part<'a>),
}

/// A part of a whole sale, as an AOF rewrite writes it.
pub enum Part<'a> {
    /// Its terms and sums; the orders follow.
    Head(&'a [u8]),
    /// Some of its orders.
    Orders(&'a [u8]),
}

/// The keyspace event of the module for a change. A cutoff has none, because the events of its expirations follow. A refusal has none,
/// and an adjustment by nothing neither, because they change no stock.
pub fn event_name(change: &Change<'_>) -> Option<&'static CStr> {
    Some(match change {
        Change::Take { .. } | Change::Serve { .. } => c"stock.ok",
        Change::Wait { .. } => c"stock.wait",
        Change::Confirm { .. } => c"stock.confirm",
        Change::Cancel { .. } => c"stock.cancel",
        Change::Keep { .. } => c"stock.keep",
        Change::Extend { .. } => c"stock.extend",
        Change::Expire { .. } => c"stock.expire",
        Change::Adjust { delta, .. } if *delta != 0 => c"stock.adjust",
        Change::Alter { .. } => c"stock.alter",
        Change::Adjust { .. } | Change::Refuse { .. } | Change::Cutoff { .. } => return None,
    })
}

/// Sends a change.
pub fn send(ctx: &Ctx<'_>, name: &Name<'_>, change: &Change<'_>) {
    let send = |effect: &'static Fixed, words: &[&[u8]]| send_words(ctx, name, effect, words);
    let (mut one, mut two, mut three) = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
    match change {
        Change::Take { order, deadline } => send_new(ctx, name, &TAKEN, order, deadline.map_or(0, |at| at.0)),
        Change::Wait { order, hold } => send_new(ctx, name, &WAITING, order, hold.map_or(0, |hold| hold.0)),
        Change::Serve { id, deadline: None } => send(&SERVED, &[id]),
        Change::Serve { id, deadline: Some(deadline) } => send(&SERVED, &[id, one.format(deadline.0).as_bytes()]),
        Change::Confirm { id, units: None } => send(&CONFIRMED, &[id]),
        Change::Confirm { id, units: Some(units) } => send(&CONFIRMED, &[id, one.format(*units).as_bytes()]),
        Change::Keep { id, units } => send(&KEPT, &[id, one.format(*units).as_bytes()]),
        Change::Refuse { id } => send(&REFUSED, &[id]),
        Change::Cancel { id } => send(&CANCELLED, &[id]),
        Change::Expire { id } => send(&LAPSED, &[id]),
        Change::Extend { id, deadline } => send(&EXTENDED, &[id, one.format(deadline.0).as_bytes()]),
        Change::Cutoff { at } => send(&CUTOFF, &[one.format(at.0).as_bytes()]),
        Change::Adjust { delta, id } if id.is_empty() => send(&ADJUSTED, &[one.format(*delta).as_bytes()]),
        Change::Adjust { delta, id } => send(&ADJUSTED, &[one.format(*delta).as_bytes(), id]),
        Change::Alter { limit, start, end, rebuy } => {
            let [start, end] = [start, end].map(|time| time.map_or(0, |time| time.0));
            let (limit, start, end) = (one.format(*limit), two.format(start), three.format(end));
            let rebuy: &[u8] = if *rebuy { b"yes" } else { b"no" };
            send(&ALTERED, &[limit.as_bytes(), start.as_bytes(), end.as_bytes(), rebuy]);
        }
    }
}

/// Sends a new order: `id units [deadline [buyer [ref]]]` or `id units [hold [buyer [ref]]]`. A missing value is 0 or empty, and is left out
/// at the end.
fn send_new(ctx: &Ctx<'_>, name: &Name<'_>, effect: &'static Fixed, order: &NewOrder<'_>, time: i64) {
    let NewOrder { id, units, buyer, reference } = order;
    let (mut one, mut two) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (units, buyer) = (one.format(*units).as_bytes(), buyer.as_deref().unwrap_or_default());
    match (time, buyer, &**reference) {
        (0, [], []) => send_words(ctx, name, effect, &[id, units]),
        (_, buyer, reference) => {
            let words = [id, units, two.format(time).as_bytes(), buyer, reference];
            let missing = words.iter().rev().take_while(|word| word.is_empty()).count();
            send_words(ctx, name, effect, words.get(..words.len().saturating_sub(missing)).unwrap_or(&words));
        }
    }
}

fn send_words(ctx: &Ctx<'_>, name: &Name<'_>, effect: &'static Fixed, words: &[&[u8]]) {
    let words = words.iter().map(|word| Name::make(word));
    let words: SmallVec<[Name<'_>; 6]> = iter::once(effect.word()).chain(words).collect();
    replicate::effect(ctx, APPLY, name, &words);
}

/// Sends a whole sale, for a key that is empty at the receiver.
pub fn send_whole(ctx: &Ctx<'_>, name: &Name<'_>, sale: &Sale) {
    replicate::effect(ctx, APPLY, name, &[Name::make(b"LOAD"), Name::make(&sale.header())]);
    sale.blocks().for_each(|block| replicate::effect(ctx, APPLY, name, &[Name::make(b"MORE"), Name::make(&block)]));
}

/// Parses an effect from the arguments after the key.
pub fn parse<'a>(args: &mut Args<'a>) -> Result<Effect<'a>, Error> {
    let what = args.keyword().ok_or(Error::SYNTAX)?;
    Ok(Effect::Change(match what.text() {
        b"TAKEN" => {
            let (order, deadline) = parse_new(args, "deadline")?;
            Change::Take { order, deadline }
        }
        b"WAITING" => {
            let (order, hold) = parse_new(args, "hold")?;
            Change::Wait { order, hold: hold.map(|hold| Millis(hold.0)) }
        }
        b"SERVED" => Change::Serve {
            id: args.ident_bytes("id")?.into(),
            deadline: if args.len() > 0 { time(args, "deadline")? } else { None },
        },
        b"CONFIRMED" => Change::Confirm {
            id: args.ident_bytes("id")?.into(),
            units: if args.len() > 0 { Some(units(args)?) } else { None },
        },
        b"KEPT" => Change::Keep { id: args.ident_bytes("id")?.into(), units: units(args)? },
        b"REFUSED" => Change::Refuse { id: args.ident_bytes("id")?.into() },
        b"CANCELLED" => Change::Cancel { id: args.ident_bytes("id")?.into() },
        b"LAPSED" => Change::Expire { id: args.ident_bytes("id")?.into() },
        b"EXTENDED" => {
            let id = args.ident_bytes("id")?.into();
            Change::Extend { id, deadline: time(args, "deadline")?.ok_or(Error::Payload)? }
        }
        b"CUTOFF" => Change::Cutoff { at: time(args, "cutoff")?.ok_or(Error::Payload)? },
        b"ADJUSTED" => {
            let delta = args.integer("delta", Range::either_way(MAX_UNITS))?;
            Change::Adjust { delta, id: if args.len() > 0 { args.ident_bytes("id")?.into() } else { IdText::NONE } }
        }
        b"ALTERED" => Change::Alter {
            limit: args.unsigned("limit", Range::below(MAX_UNITS))?,
            start: time(args, "start")?,
            end: time(args, "end")?,
            rebuy: args.yes_or_no("rebuy")?,
        },
        b"LOAD" => return Ok(Effect::Part(Part::Head(args.next()?.bytes()))),
        b"MORE" => return Ok(Effect::Part(Part::Orders(args.next()?.bytes()))),
        _ => return Err(Error::SYNTAX),
    }))
}

/// Parses the words that [`send_new`] makes of an order and a time.
fn parse_new<'a>(args: &mut Args<'a>, name: &'static str) -> Result<(NewOrder<'a>, Option<UnixMs>), Error> {
    let (id, units) = (args.ident_bytes("id")?.into(), units(args)?);
    let time = if args.len() > 0 { time(args, name)? } else { None };
    let mut text = || if args.len() > 0 { args.next().map(Arg::bytes) } else { Ok(&[][..]) };
    let (buyer, reference) = (text()?, text()?.into());
    let buyer = (!buyer.is_empty()).then(|| buyer.into());
    Ok((NewOrder { id, units, buyer, reference }, time))
}

fn units(args: &mut Args<'_>) -> Result<u64, Error> {
    Ok(args.unsigned("units", Range::up_to(MAX_UNITS))?)
}

/// A time; 0 for none.
fn time(args: &mut Args<'_>, name: &'static str) -> Result<Option<UnixMs>, Error> {
    let ms = args.integer(name, Range::new(0..=i64::MAX))?;
    Ok((ms > 0).then_some(UnixMs(ms)))
}

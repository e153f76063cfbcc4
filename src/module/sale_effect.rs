//! The effects of a sale for replicas and the AOF: `STOCK.APPLY key EFFECT …`.

use std::ffi::CStr;

use crate::core::id::IdText;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::{Change, Sale, Taking, Waiting};
use crate::core::time::{Millis, UnixMs};
use crate::error::Error;
use crate::server::args::{Arg, Args, Range};
use crate::server::ctx::Ctx;
use crate::server::key::Name;
use crate::server::replicate;

/// The command that carries the effects.
const APPLY: &CStr = c"STOCK.APPLY";

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
        Change::Take(_) | Change::Serve { .. } => c"stock.ok",
        Change::Wait(_) => c"stock.wait",
        Change::Confirm { .. } => c"stock.confirm",
        Change::Cancel { .. } => c"stock.cancel",
        Change::Extend { .. } => c"stock.extend",
        Change::Expire { .. } => c"stock.expire",
        Change::Adjust { delta, .. } if *delta != 0 => c"stock.adjust",
        Change::Alter { .. } => c"stock.alter",
        Change::Adjust { .. } | Change::Refuse { .. } | Change::Cutoff { .. } => return None,
    })
}

/// Sends a change.
pub fn send(ctx: &Ctx<'_>, name: &Name<'_>, change: &Change<'_>) {
    let send = |words: &[&[u8]]| replicate::effect(ctx, APPLY, name, words);
    let (mut one, mut two, mut three) = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
    match change {
        Change::Take(Taking { id, units, buyer, deadline, reference }) => {
            let deadline = deadline.map_or(0, |deadline| deadline.0);
            send_new(ctx, name, b"TAKEN", id, (*units, deadline), buyer.as_deref(), reference);
        }
        Change::Wait(Waiting { id, units, buyer, hold, reference }) => {
            let hold = hold.map_or(0, |hold| hold.0);
            send_new(ctx, name, b"WAITING", id, (*units, hold), buyer.as_deref(), reference);
        }
        Change::Serve { id, deadline: None } => send(&[b"SERVED", id]),
        Change::Serve { id, deadline: Some(deadline) } => send(&[b"SERVED", id, one.format(deadline.0).as_bytes()]),
        Change::Confirm { id } => send(&[b"CONFIRMED", id]),
        Change::Refuse { id } => send(&[b"REFUSED", id]),
        Change::Cancel { id } => send(&[b"CANCELLED", id]),
        Change::Expire { id } => send(&[b"LAPSED", id]),
        Change::Extend { id, deadline } => send(&[b"EXTENDED", id, one.format(deadline.0).as_bytes()]),
        Change::Cutoff { at } => send(&[b"CUTOFF", one.format(at.0).as_bytes()]),
        Change::Adjust { delta, id } if id.is_empty() => send(&[b"ADJUSTED", one.format(*delta).as_bytes()]),
        Change::Adjust { delta, id } => send(&[b"ADJUSTED", one.format(*delta).as_bytes(), id]),
        Change::Alter { limit, start, end, rebuy } => {
            let [start, end] = [start, end].map(|time| time.map_or(0, |time| time.0));
            let (limit, start, end) = (one.format(*limit), two.format(start), three.format(end));
            let rebuy: &[u8] = if *rebuy { b"yes" } else { b"no" };
            send(&[b"ALTERED", limit.as_bytes(), start.as_bytes(), end.as_bytes(), rebuy]);
        }
    }
}

/// Sends a whole sale, for a key that is empty at the receiver.
pub fn send_whole(ctx: &Ctx<'_>, name: &Name<'_>, sale: &Sale) {
    replicate::effect(ctx, APPLY, name, &[b"LOAD", &sale.header()]);
    sale.blocks().for_each(|block| replicate::effect(ctx, APPLY, name, &[b"MORE", &block]));
}

/// `TAKEN id units [deadline [buyer [ref]]]` or `WAITING id units [hold [buyer [ref]]]`: a missing value is 0 or empty, and is left out at
/// the end.
fn send_new(
    ctx: &Ctx<'_>,
    name: &Name<'_>,
    effect: &[u8],
    id: &[u8],
    (units, time): (u64, i64),
    buyer: Option<&[u8]>,
    reference: &[u8],
) {
    let mut texts = (itoa::Buffer::new(), itoa::Buffer::new());
    let buyer = buyer.unwrap_or_default();
    let words: [&[u8]; 6] =
        [effect, id, texts.0.format(units).as_bytes(), texts.1.format(time).as_bytes(), buyer, reference];
    let len = match (reference, buyer, time) {
        ([], [], 0) => 3,
        ([], [], _) => 4,
        ([], _, _) => 5,
        _ => 6,
    };
    replicate::effect(ctx, APPLY, name, words.get(..len).unwrap_or(&words));
}

/// The id of an order, its units, a time, its buyer and its reference.
type NewOrder<'a> = (IdText<'a>, u64, Option<UnixMs>, Option<IdText<'a>>, IdText<'a>);

/// Parses an effect from the arguments after the key.
pub fn parse<'a>(args: &mut Args<'a>) -> Result<Effect<'a>, Error> {
    let what = args.keyword().ok_or(Error::SYNTAX)?;
    Ok(Effect::Change(match what.word() {
        b"TAKEN" => {
            let (id, units, deadline, buyer, reference) = parse_new(args, "deadline")?;
            Change::Take(Taking { id, units, buyer, deadline, reference })
        }
        b"WAITING" => {
            let (id, units, hold, buyer, reference) = parse_new(args, "hold")?;
            Change::Wait(Waiting { id, units, buyer, hold: hold.map(|hold| Millis(hold.0)), reference })
        }
        b"SERVED" => Change::Serve {
            id: args.ident_bytes("id")?.into(),
            deadline: if args.len() > 0 { time(args, "deadline")? } else { None },
        },
        b"CONFIRMED" => Change::Confirm { id: args.ident_bytes("id")?.into() },
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

/// Parses what [`send_new`] sends after the effect's name.
fn parse_new<'a>(args: &mut Args<'a>, name: &'static str) -> Result<NewOrder<'a>, Error> {
    let id: IdText<'a> = args.ident_bytes("id")?.into();
    let units = args.unsigned("units", Range::up_to(MAX_UNITS))?;
    let time = if args.len() > 0 { time(args, name)? } else { None };
    let mut text = || if args.len() > 0 { args.next().map(Arg::bytes) } else { Ok(&[][..]) };
    let (buyer, reference) = (text()?, text()?);
    let buyer = (!buyer.is_empty()).then(|| buyer.into());
    Ok((id, units, time, buyer, reference.into()))
}

/// A time; 0 for none.
fn time(args: &mut Args<'_>, name: &'static str) -> Result<Option<UnixMs>, Error> {
    let ms = args.integer(name, Range::new(0..=i64::MAX))?;
    Ok((ms > 0).then_some(UnixMs(ms)))
}

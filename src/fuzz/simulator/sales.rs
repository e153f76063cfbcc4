//! Commands on sales, carried out without a server.
#![expect(clippy::expect_used, reason = "a panic is what a fuzz target has to say")]

use super::Simulator;
use crate::cmd::{
    cart, keep, stock_adjust, stock_alter, stock_apply, stock_create, stock_decr_once, stock_extend, stock_mdecr_once,
    stock_orders,
};
use crate::core::limits::MAX_UNITS;
use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::{Answer, Budget, Changes, Decision, Sale, Status};
use crate::error::Error;
use crate::fuzz::keys::{Keys, Primary, Value, place};
use crate::module::sale_effect::{Effect, Part};
use crate::server::args::Args;

impl Simulator {
    pub(super) fn stock(&mut self, name: &[u8], args: Args<'_>) -> Result<(), Error> {
        let now = self.now.ms;
        match name {
            b"CREATE" => {
                let (key, terms) = stock_create::parse(args)?;
                assert!(terms.total <= MAX_UNITS && terms.limit <= MAX_UNITS);
                terms.check_window()?;
                let key = place(key.bytes());
                if self.keyspace.keys.0.contains_key(&key) {
                    return Err(Error::BusyKey);
                }
                // There are no streams here, only locks and sales.
                if terms.stream.as_ref().is_some_and(|stream| self.keyspace.keys.0.contains_key(&place(&stream.key))) {
                    return Err(Error::WrongType);
                }
                let sale = |terms| Value::Sale(Box::new(Sale::new(terms)));
                self.keyspace.replica.1.0.insert(key.clone(), sale(terms.clone()));
                self.keyspace.keys.0.insert(key, sale(terms));
            }
            b"DECR_ONCE" => {
                let (key, take, waitlist) = stock_decr_once::parse(args, now)?;
                let decide = |sale: &Sale| {
                    if waitlist { sale.take_or_wait(now, &take) } else { sale.take(now, Budget::COMMAND, &take) }
                };
                self.decide(key.bytes(), |sale| Ok(decide(sale)?))?;
            }
            b"CONFIRM" => {
                let (key, id, keep) = keep::parse(args)?;
                self.confirm(key.bytes(), id, keep)?;
            }
            b"CANCEL" => {
                let (key, id, keep) = keep::parse(args)?;
                self.decide(key.bytes(), |sale| Ok(sale.cancel(now, Budget::COMMAND, id, keep)))?;
            }
            b"EXTEND" => {
                let (key, id, deadline) = stock_extend::parse(args, now)?;
                assert!(deadline > now);
                self.decide(key.bytes(), |sale| Ok(sale.extend(now, id, deadline)))?;
            }
            b"ADJUST" => {
                let (key, delta, id) = stock_adjust::parse(args)?;
                let (after, changes) = self.sale(key.bytes())?.ok_or(Error::NoStock)?.adjust(now, delta, id)?;
                self.commit(key.bytes(), &changes);
                let sale = self.sale(key.bytes())?.ok_or(Error::NoStock)?;
                assert_eq!(sale.remaining(now), after);
                let again = sale.adjust(now, delta, id);
                assert!(id.is_empty() || again == Ok((after, Changes::default())), "{again:?}: an id adjusts once");
            }
            b"ALTER" => {
                let (key, alteration) = stock_alter::parse(args)?;
                let sale = self.sale(key.bytes())?.ok_or(Error::NoStock)?;
                let changes = sale.alter(now, &alteration)?;
                self.commit(key.bytes(), &changes);
            }
            b"MDECR_ONCE" => {
                let sales = stock_mdecr_once::parse(args, now)?;
                let keys: Vec<&[u8]> = sales.iter().map(|(key, _)| key.bytes()).collect();
                self.decide_all(&keys, sales[0].1.id, false, |nth, budget, sale| {
                    Ok(sale.take(now, budget, &sales[nth].1)?)
                })?;
            }
            b"MCONFIRM" => {
                let (id, keys) = cart::parse(args)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                self.decide_all(&keys, id, false, |_, budget, sale| Ok(sale.confirm(now, budget, id, None)?))?;
            }
            b"MCANCEL" => {
                let (id, keys) = cart::parse(args)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                self.decide_all(&keys, id, true, |_, budget, sale| Ok(sale.cancel(now, budget, id, None)))?;
            }
            b"ORDER" => {
                let (key, id) = args.key_and_ident("id")?;
                let sale = self.sale(key.bytes())?;
                let order = sale.and_then(|sale| Some((sale.order(now, id)?, sale.place(id), sale.waiting())));
                assert!(order.is_none_or(|(order, place, waiting)| {
                    *order.id == *id && place.is_none_or(|place| (1..=waiting).contains(&place))
                }));
            }
            b"ORDERS" => {
                let (key, cursor, count, state) = stock_orders::parse(args)?;
                if let Some(sale) = self.sale(key.bytes())? {
                    let page = sale.page(now, cursor, count, state);
                    assert!(page.rows.len() <= count);
                }
            }
            b"BUYER" => {
                let (key, buyer) = args.key_and_ident("buyer")?;
                if let Some(sale) = self.sale(key.bytes())? {
                    assert!(sale.buyer(now, buyer) <= MAX_UNITS);
                }
            }
            b"INFO" => drop(self.sale(args.only()?.bytes())?.map(|sale| sale.info(now))),
            b"APPLY" => {
                let (key, effect) = stock_apply::parse(args)?;
                let Primary { keys, replica, .. } = &mut self.keyspace;
                apply_to_sale(keys, key.bytes(), &effect)?;
                apply_to_sale(&mut replica.1, key.bytes(), &effect).expect("the replica has what the primary has");
            }
            _ => return Err(Error::SYNTAX),
        }
        Ok(())
    }

    fn sale(&mut self, key: &[u8]) -> Result<Option<&mut Sale>, Error> {
        match self.keyspace.keys.0.get_mut(&place(key)) {
            None => Ok(None),
            Some(Value::Sale(sale)) => Ok(Some(sale)),
            Some(Value::Lock(_)) => Err(Error::WrongType),
        }
    }

    /// The outcome of a confirmation stays true.
    fn confirm(&mut self, key: &[u8], id: &[u8], keep: Option<u64>) -> Result<(), Error> {
        let now = self.now.ms;
        let confirm = |sale: &Sale| Ok(sale.confirm(now, Budget::COMMAND, id, keep)?);
        let told = self.decide(key, confirm)?;
        let again = self.decide(key, confirm)?;
        let expected = told.map(|status| match status {
            Status::Ok => Status::Duplicate,
            Status::Limit => Status::Expired,
            same => same,
        });
        assert_eq!(again, expected, "after {told:?}");
        Ok(())
    }

    fn decide<'a>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Sale) -> Result<Decision<'a>, Error>,
    ) -> Result<Option<Status>, Error> {
        let now = self.now.ms;
        let Some(sale) = self.sale(key)? else { return Ok(None) };
        let Decision { answer, changes } = decide(sale)?;
        self.commit(key, &changes);
        let Answer { status, units, remaining, .. } = answer;
        assert_eq!(self.sale(key)?.map(|sale| sale.remaining(now)), Some(remaining), "{status:?}");
        assert!(status != Status::Ok || !changes.is_empty());
        assert!(units <= MAX_UNITS);
        Ok(Some(status))
    }

    /// As the commands on several sales do: all or none, or `each` as it can.
    fn decide_all<'a>(
        &mut self,
        keys: &[&[u8]],
        id: &[u8],
        each: bool,
        decide: impl Fn(usize, Budget, &Sale) -> Result<Decision<'a>, Error>,
    ) -> Result<(), Error> {
        let now = self.now.ms;
        let (mut budget, mut decisions) = (Budget::COMMAND, Vec::new());
        for (nth, key) in keys.iter().enumerate() {
            let sale = self.sale(key)?;
            let decision = sale.map_or(Ok(Answer::NO_STOCK.unchanged()), |sale| decide(nth, budget, sale))?;
            budget = budget.after(&decision.changes);
            decisions.push(decision);
        }
        let mut answers: Vec<_> = decisions.iter().map(|decision| decision.answer.clone()).collect();
        let skip = |nth: usize| {
            decisions[nth].changes = Changes::default();
            Ok::<_, Error>(self.sale(keys[nth])?.ok_or(Error::NoStock)?.skipped(now, id))
        };
        let status = if each { at_least_one(&answers) } else { all_or_none(&mut answers, skip)? };
        decisions.iter_mut().zip(answers).for_each(|(decision, answer)| decision.answer = answer);
        let done = decisions.iter().any(|decision| decision.answer.status == Status::Ok);
        assert_eq!(status == Status::Ok, done, "{decisions:?}");
        for (key, Decision { answer, changes }) in keys.iter().zip(decisions) {
            self.commit(key, &changes);
            assert_eq!(self.sale(key)?.map_or(0, |sale| sale.remaining(now)), answer.remaining, "{answer:?}");
        }
        Ok(())
    }

    /// What was decided fits the sale, and fits the replica's copy of it.
    pub(super) fn commit(&mut self, key: &[u8], changes: &Changes<'_>) {
        let Primary { keys, replica, .. } = &mut self.keyspace;
        for change in changes.iter() {
            let sale = keys.sale(key).expect("a sale that was decided on");
            let told = sale.seq().saturating_add(u64::from(sale.event(change).is_some())).min(MAX_UNITS);
            assert_eq!(sale.commit(change), Ok(()), "{change:?}");
            assert_eq!(sale.seq(), told, "{change:?}: each event has a number, and nothing else has one");
            let follows = replica.1.sale(key).map(|sale| sale.replay(change));
            assert_eq!(follows, Some(Ok(())), "{change:?} on the replica");
        }
    }
}

/// As `STOCK.APPLY` does.
fn apply_to_sale(keys: &mut Keys, key: &[u8], effect: &Effect<'_>) -> Result<(), Error> {
    match (effect, keys.0.get_mut(&place(key))) {
        (_, Some(Value::Lock(_))) => Err(Error::WrongType),
        (Effect::Change(change), Some(Value::Sale(sale))) => sale.replay(change).map_err(|_| Error::Payload),
        (Effect::Part(Part::Head(head)), None) => {
            let sale = Sale::from_header(head).map_err(|_| Error::Payload)?;
            keys.0.insert(place(key), Value::Sale(Box::new(sale)));
            Ok(())
        }
        (Effect::Part(Part::Orders(block)), Some(Value::Sale(sale))) => {
            sale.load_block(block).map_err(|_| Error::Payload)
        }
        (Effect::Part(Part::Head(_)), Some(Value::Sale(_))) => Err(Error::BusyKey),
        (_, None) => Err(Error::NoStock),
    }
}

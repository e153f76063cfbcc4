//! Readers of a sale's stream in a random schedule, which never see the sale itself.

use std::collections::BTreeMap;

use super::model::Model;
use super::rebuilt::{self, Rebuilt};
use crate::core::sale::{Change, Event, Sale, State, Terms};
use crate::core::time::UnixMs;

/// A reader that knows the units of every order, which any stream tells; and where the stream tells deadlines, a reader that knows everything.
#[derive(Clone)]
pub struct Readers {
    pub seq: u64,
    pub total: i64,
    pub units: BTreeMap<Vec<u8>, i64>,
    /// The units for which the orders in line wait.
    waiting: BTreeMap<Vec<u8>, i64>,
    rebuilt: Option<Rebuilt>,
}

impl Readers {
    pub fn new(terms: &Terms) -> Self {
        let total = terms.total.cast_signed();
        let rebuilt = terms.tells_deadlines().then(|| Rebuilt::new(total));
        Self { seq: 0, total, units: BTreeMap::new(), waiting: BTreeMap::new(), rebuilt }
    }

    /// They read the event of `change`, which is about to be committed, if it makes one.
    pub fn read(&mut self, sale: &Sale, change: &Change<'_>) {
        let Some(event) = sale.event(change) else { return };
        self.seq += 1;
        if let Some(rebuilt) = &mut self.rebuilt {
            rebuilt.read(&entry(self.seq, &event));
        }
        if event.kind == "wait" {
            self.waiting.insert(event.id.to_vec(), event.units);
            return;
        }
        if let Some(wanted) = self.waiting.remove(&*event.id) {
            assert!(event.units == wanted && matches!(event.kind, "ok" | "cancel"), "{event:?}");
            if event.kind == "cancel" {
                return;
            }
        }
        let now = match event.kind {
            "ok" | "confirm" | "keep" | "extend" => event.units,
            "cancel" | "expire" | "wait" => 0,
            "adjust" => {
                self.total += event.units;
                return;
            }
            other => panic!("{other}"),
        };
        let before = self.units.insert(event.id.to_vec(), now).unwrap_or(0);
        assert!(event.kind != "keep" || event.units < before, "{event:?} is of {before} units");
        let had = matches!(event.kind, "cancel" | "expire" | "extend");
        assert!(!had || before == event.units, "{event:?} is of {before} units");
    }

    /// Once they have read the events of all holds that are due, they have what the model has.
    pub fn agree(&self, sale: &Sale, model: &Model, now: UnixMs) {
        let Some(mut rebuilt) = self.rebuilt.clone() else { return };
        for (expiration, seq) in sale.expirations(now, usize::MAX).iter().zip(self.seq + 1..) {
            rebuilt.read(&entry(seq, &sale.event(expiration).unwrap()));
        }
        let units = [model.terms.total, model.remaining(), model.amount(State::Held), model.amount(State::Sold)];
        assert_eq!(
            [rebuilt.total, rebuilt.remaining(), rebuilt.held(), rebuilt.sold()],
            units.map(u64::cast_signed),
            "{rebuilt:?}"
        );
        assert_eq!(rebuilt.orders.len(), model.orders.len());
        let line = model.line.iter().map(|at| (&model.orders[*at].id, model.orders[*at].units.cast_signed()));
        assert!(rebuilt.line.iter().map(|(id, units)| (id, *units)).eq(line), "{:?}", rebuilt.line);
        for order in &model.orders {
            let state = model.state(order);
            let expected = rebuilt::Order {
                state: state.word(),
                units: model.has(order).cast_signed(),
                buyer: order.buyer.clone(),
                reference: order.reference.clone(),
                deadline: if state == State::Held { order.deadline.0 } else { -1 },
            };
            assert_eq!(rebuilt.orders.get(&order.id), Some(&expected), "{}", order.id);
            assert_eq!(rebuilt.of_buyer(&order.buyer), model.buyer(&order.buyer).cast_signed(), "{}", order.buyer);
        }
    }
}

/// The entry of the stream that the server would append.
fn entry(seq: u64, event: &Event<'_>) -> rebuilt::Event {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    rebuilt::Event {
        seq,
        event: event.kind.to_owned(),
        id: text(&event.id),
        units: event.units,
        buyer: text(&event.buyer),
        reference: text(&event.reference),
        deadline: event.deadline.map_or(-1, |time| time.0),
    }
}

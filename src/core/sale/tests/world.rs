//! A sale among all that must agree with it: its model, its replica, its file, and the readers of its stream.

use std::mem;

use super::model::Model;
use super::occurrences::saw;
use super::readers::Readers;
use super::steps::{NAMES, Step};
use crate::core::id::IdText;
use crate::core::sale::budget::{MOST_ENDED, MOST_SERVED, SERVICES_OF_AN_END};
use crate::core::sale::{
    Answer, Budget, Change, Changes, CorruptSale, Decision, Loading, NewOrder, Sale, State, Take, TakeError, Terms,
};
use crate::core::tests::canonical::canonical;
use crate::core::time::{Millis, UnixMs};

fn take_or_wait<'a>(sale: &Sale, now: UnixMs, take: &Take<'a>, waitlist: bool) -> Result<Decision<'a>, TakeError> {
    if waitlist { sale.take_or_wait(now, take) } else { sale.take(now, ALL, take) }
}

/// A command to one sale may do all that a command may.
const ALL: Budget = Budget::COMMAND;

/// A header and blocks.
type File = (Vec<u8>, Vec<Vec<u8>>);

/// A sale, its replica, and the readers of its stream.
pub struct World {
    pub now: UnixMs,
    pub sale: Sale,
    replica: Sale,
    pub model: Model,
    readers: Readers,
    /// How many steps of the next command can be done.
    takes: usize,
    saved: Option<(File, Model, Readers)>,
}

pub fn digest(sale: &Sale) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    sale.digest(|part| parts.push(part.to_vec()));
    parts
}

pub fn load_whole(header: &[u8], blocks: impl Iterator<Item = Vec<u8>>) -> Result<Sale, CorruptSale> {
    let mut loading = Loading::new(header)?;
    blocks.into_iter().try_for_each(|block| loading.block(&block))?;
    loading.finish()
}

pub fn reload(sale: &Sale) -> Sale {
    // As a file brings it, and as commands do.
    load(&sale.header(), &sale.blocks().collect::<Vec<_>>())
}

fn load(header: &[u8], blocks: &[Vec<u8>]) -> Sale {
    let mut again = Sale::from_header(header).unwrap();
    for block in blocks {
        again.load_block(block).unwrap();
    }
    let whole = load_whole(header, blocks.iter().cloned()).unwrap();
    assert_eq!(digest(&whole), digest(&again));
    // From here on the sale is the one that a file brings.
    assert_eq!(again.info(UnixMs(0)), whole.info(UnixMs(0)));
    whole
}

impl World {
    pub fn new(terms: &Terms) -> Self {
        Self {
            now: UnixMs(0),
            sale: Sale::new(terms.clone()),
            replica: Sale::new(terms.clone()),
            model: Model::new(terms.clone()),
            readers: Readers::new(terms),
            takes: usize::MAX,
            saved: None,
        }
    }

    pub fn step(&mut self, step: &Step) {
        let (now, before) = (self.now, self.model.clone());
        let changes = match step {
            Step::Take { id, units, buyer, hold, reference, waitlist } => {
                let take = Take {
                    id: NAMES[*id].as_bytes(),
                    units: *units,
                    buyer: buyer.map(|buyer| NAMES[buyer].as_bytes()),
                    deadline: hold.map(|hold| now.plus(Millis(hold)).unwrap()),
                    reference: if *reference { NAMES[*id].as_bytes() } else { b"" },
                };
                let decided = take_or_wait(&self.sale, now, &take, *waitlist);
                match decided {
                    Ok(decision) => decide(decision, &mut self.model, |model| model.take(&take, *waitlist).unwrap()),
                    Err(refused) => {
                        assert_eq!(self.model.take(&take, *waitlist), Err(refused));
                        Changes::default()
                    }
                }
            }
            Step::Confirm(id, keep) => self.confirm(NAMES[*id].as_bytes(), *keep),
            Step::Cancel(id, keep) => self.cancel(NAMES[*id].as_bytes(), *keep),
            Step::Extend(id, span) => {
                let (id, deadline) = (NAMES[*id].as_bytes(), now.plus(Millis(*span)).unwrap());
                decide(self.sale.extend(now, id, deadline), &mut self.model, |model| model.extend(id, deadline))
            }
            Step::Adjust(delta, id) => {
                let id = id.map_or(&b""[..], |id| NAMES[id].as_bytes());
                let decided = self.sale.adjust(now, *delta, id);
                let changes = decided.as_ref().map_or(Changes::default(), |(_, changes)| changes.clone());
                self.model.hear(&changes.due_first, MOST_SERVED);
                assert_eq!(decided.map(|(after, _)| after), self.model.adjust(*delta, id));
                agree(served(&changes), &self.model);
                changes
            }
            Step::Alter(alteration) => {
                self.model.hear(&[], 0);
                let changes = self.sale.alter(now, alteration);
                assert_eq!(changes.as_ref().map(drop), self.model.alter(alteration).as_ref().map(drop));
                let changes = changes.unwrap_or_default();
                agree(served(&changes), &self.model);
                changes
            }
            Step::Timer(most) => {
                let due_first = self.sale.overdue(now, *most);
                // The timer serves as many orders, however many holds it lets expire.
                let ended = due_first.iter().filter(|change| matches!(change, Change::Expire { .. })).count();
                self.model.hear(&due_first, MOST_SERVED.min(*most) + ended * SERVICES_OF_AN_END);
                Changes { due_first, ..Changes::default() }
            }
            Step::Pass(span) => {
                self.now = now.plus(Millis(*span)).unwrap();
                self.model.pass(self.now);
                Changes::default()
            }
            Step::Reload => {
                let again = reload(&self.sale);
                assert_eq!(digest(&self.sale), digest(&again));
                self.sale = again;
                Changes::default()
            }
            Step::Failover(behind) => {
                saw(if *behind > 0 { "a promotion of a server whose clock is behind" } else { "a promotion" });
                mem::swap(&mut self.sale, &mut self.replica);
                self.now = UnixMs((now.0 - behind).max(0));
                self.model.pass(self.now);
                Changes::default()
            }
            Step::Refuse(takes) => {
                self.takes = *takes;
                return;
            }
            Step::Save => {
                let file = (self.sale.header(), self.sale.blocks().collect());
                self.saved = Some((file, self.model.clone(), self.readers.clone()));
                Changes::default()
            }
            Step::PowerCut => {
                if let Some(((header, blocks), model, readers)) = &self.saved {
                    if self.readers.seq != readers.seq {
                        saw("a power cut that loses events");
                    }
                    (self.sale, self.replica) = (load(header, blocks), load(header, blocks));
                    (self.model, self.readers) = (model.clone(), readers.clone());
                    self.model.pass(now);
                }
                Changes::default()
            }
        };
        self.carry_out(&changes, before);
    }

    fn confirm(&mut self, id: &[u8], keep: Option<u64>) -> Changes<'static> {
        match self.sale.confirm(self.now, ALL, id, keep) {
            Ok(decision) => decide(decision, &mut self.model, |model| model.confirm(id, keep).unwrap()),
            Err(refused) => {
                saw("a confirmation of too many");
                assert_eq!(self.model.confirm(id, keep), Err(refused));
                Changes::default()
            }
        }
    }

    fn cancel(&mut self, id: &[u8], keep: Option<u64>) -> Changes<'static> {
        decide(self.sale.cancel(self.now, ALL, id, keep), &mut self.model, |model| model.cancel(id, keep))
    }

    /// Does all of it, step by step; or, if the stream refuses, as many steps as it takes.
    fn carry_out(&mut self, changes: &Changes<'_>, before: Model) {
        let takes = mem::replace(&mut self.takes, usize::MAX);
        let changes: Vec<&Change<'_>> = changes.iter().collect();
        let steps: Vec<_> = changes.chunk_by(|before, next| next.continues_step(before)).collect();
        let done: Vec<Change<'_>> = steps.iter().take(takes).flat_map(|step| step.iter().copied().cloned()).collect();
        if takes < steps.len() {
            saw(if takes == 0 { "a stream refuses everything" } else { "a stream refuses what comes later" });
            self.model = before;
            self.model.hear(&done, 0);
        }
        self.commit(&done);
    }

    pub fn commit(&mut self, changes: &[Change<'_>]) {
        for change in changes {
            self.readers.read(&self.sale, change);
        }
        for step in changes.chunk_by(|before, next| next.continues_step(before)) {
            saw_step(step);
        }
        for change in changes {
            self.sale.commit(change).unwrap();
            self.replica.commit(change).unwrap();
            // A reader that counts along with the events never sees a buyer take more than the limit.
            if let Change::Take { order, .. } = change {
                let buyer = order.buyer.as_ref().unwrap_or(&order.id);
                let (counted, limit) = (self.sale.buyer(UnixMs(i64::MIN), buyer), self.sale.terms().limit);
                assert!(limit == 0 || counted <= limit, "{buyer:?} has {counted}");
            }
        }
    }

    /// Everything that decides what can happen next.
    pub fn state(&self) -> String {
        let (sale, now) = (&self.sale, self.now);
        let rows = sale.page(now, 0, u32::MAX as usize, None).rows;
        let places: Vec<_> = NAMES.iter().map(|name| sale.place(name.as_bytes())).collect();
        let cutoff = sale.cutoff.as_ref().map(|cutoff| cutoff.at);
        let due = (sale.overdue(now, 1), sale.overdue(now, usize::MAX), sale.next_due(|| now));
        let saved = self.saved.as_ref().map(|(_, model, readers)| (model, self.readers.seq == readers.seq));
        let state = (sale.terms(), rows, places, cutoff, due, &self.model, self.takes, saved);
        canonical(&format!("{state:?}"), now.0, &[])
    }

    pub fn check(&self) {
        let (now, model) = (self.now, &self.model);
        let info = self.sale.info(now);
        assert_eq!(info.total, info.remaining + info.held + info.sold);
        assert_eq!(
            (info.total, info.remaining, info.held, info.sold),
            (model.terms.total, model.remaining(), model.amount(State::Held), model.amount(State::Sold)),
        );
        assert_eq!((self.sale.orders(), info.buyers), (model.orders.len() as u64, model.buyers() as u64));
        assert_eq!(self.sale.waiting(), model.line.len() as u64);
        if self.sale.waiting() > 1 {
            saw("several wait");
        }
        for (at, order) in model.orders.iter().enumerate() {
            let place = model.line.iter().position(|other| *other == at).map(|place| place as u64 + 1);
            assert_eq!(self.sale.place(order.id.as_bytes()), place, "the place of {}", order.id);
        }
        for name in NAMES {
            assert_eq!(self.sale.buyer(now, name.as_bytes()), model.buyer(name), "units of {name}");
        }
        let mut rows = Vec::new();
        let mut cursor = 0;
        loop {
            let page = self.sale.page(now, cursor, 2, None);
            rows.extend(page.rows);
            cursor = page.next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(rows.len(), model.orders.len());
        for (row, order) in rows.iter().zip(&model.orders) {
            assert_eq!(
                (&*row.id, row.state, row.units, &*row.buyer, &*row.reference),
                (
                    order.id.as_bytes(),
                    model.state(order),
                    model.has(order),
                    order.buyer.as_bytes(),
                    order.reference.as_bytes()
                ),
            );
            assert_eq!(row.deadline, (model.state(order) == State::Held).then_some(order.deadline));
            assert_eq!(self.sale.order(now, &row.id).as_ref(), Some(row));
        }
        assert_eq!(digest(&self.sale), digest(&self.replica));
        assert_eq!(self.readers.seq, self.sale.seq());
        self.readers.agree(&self.sale, model, now);
        // The events show as much taken as the books do: with a cutoff it can be more than there is.
        let taken = (self.sale.table.held + self.sale.table.sold).cast_signed();
        assert_eq!(self.readers.units.values().sum::<i64>(), taken);
        assert!(taken <= self.readers.total || self.sale.cutoff.is_some());
        let due = self.sale.next_due(|| now).is_some_and(|next| next.reached(now));
        assert_eq!(due, !self.sale.overdue(now, 1).is_empty());
        assert!(due || !model.can_serve(), "nobody is forgotten");
    }
}

/// Keeps count of what happens.
fn saw_step(step: &[Change<'_>]) {
    let serves = step.iter().any(|change| matches!(change, Change::Serve { .. }));
    let confirms = step.iter().any(|change| matches!(change, Change::Confirm { .. }));
    saw(match (&step[0], serves) {
        (Change::Expire { .. }, true) => "served by a lapse",
        (Change::Cancel { .. }, true) => "served by a cancellation",
        (Change::Keep { .. }, true) if confirms => "served by a hold that is settled for less",
        (Change::Keep { .. }, true) => "served by what an order gives back",
        (Change::Keep { .. }, false) if confirms => "a hold that is settled for less",
        (Change::Keep { .. }, false) => "an order that gives some units back",
        (Change::Confirm { units: Some(_), .. }, _) => "a confirmation of so many units",
        (Change::Adjust { .. }, true) => "served by a restock",
        (Change::Alter { .. }, true) => "served by new conditions",
        (Change::Serve { .. }, _) => "served by the clock",
        (Change::Expire { .. }, _) => "a lapse",
        (Change::Wait { .. }, _) => "joins the line",
        (Change::Cutoff { .. }, _) => "a cutoff",
        (Change::Refuse { .. }, _) => "a final refusal",
        (Change::Adjust { id, .. }, _) if !id.is_empty() => "an adjustment with an id",
        _ => "another change",
    });
}

/// The model's answer must be the decision's, once it has heard what comes first.
fn decide(
    decision: Decision<'_>,
    model: &mut Model,
    answer: impl FnOnce(&mut Model) -> Answer<'static>,
) -> Changes<'static> {
    let Changes { due_first, step } = &decision.changes;
    model.hear(due_first, MOST_SERVED);
    assert_eq!(decision.answer, answer(model));
    let served = served(&decision.changes);
    let confirmed = served.iter().take_while(|change| matches!(change, Change::Confirm { .. })).count();
    assert!(confirmed <= usize::from(matches!(step.first(), Some(Change::Keep { .. }))), "{served:?}");
    agree(&served[confirmed..], model);
    let first = due_first.chunk_by(|before, next| next.continues_step(before)).count();
    let serves = due_first.len() - first + served.len() - confirmed;
    assert!(first <= MOST_ENDED + 1 && (serves == 0 || serves + first * SERVICES_OF_AN_END <= MOST_SERVED));
    detached(decision.changes)
}

/// Changes without what they borrow.
pub fn detached(changes: Changes<'_>) -> Changes<'static> {
    Changes { due_first: changes.due_first, step: changes.step.into_iter().map(owned).collect() }
}

/// What follows the caller's own change in its step.
pub fn served<'c, 'a>(changes: &'c Changes<'a>) -> &'c [Change<'a>] {
    changes.step.get(1..).unwrap_or_default()
}

/// Those are served whom the model serves.
pub fn agree(served: &[Change<'_>], model: &Model) {
    let of =
        |(id, deadline): &(String, _)| Change::Serve { id: IdText::from(id.as_bytes()).detach(), deadline: *deadline };
    assert_eq!(served, model.served.iter().map(of).collect::<Vec<_>>());
}

pub fn owned(change: Change<'_>) -> Change<'static> {
    let order_of = |NewOrder { id, units, buyer, reference }: NewOrder<'_>| NewOrder {
        id: id.detach(),
        units,
        buyer: buyer.map(|buyer| buyer.detach()),
        reference: reference.detach(),
    };
    match change {
        Change::Take { order, deadline } => Change::Take { order: order_of(order), deadline },
        Change::Wait { order, hold } => Change::Wait { order: order_of(order), hold },
        Change::Serve { id, deadline } => Change::Serve { id: id.detach(), deadline },
        Change::Confirm { id, units } => Change::Confirm { id: id.detach(), units },
        Change::Keep { id, units } => Change::Keep { id: id.detach(), units },
        Change::Refuse { id } => Change::Refuse { id: id.detach() },
        Change::Cancel { id } => Change::Cancel { id: id.detach() },
        Change::Extend { id, deadline } => Change::Extend { id: id.detach(), deadline },
        Change::Expire { id } => Change::Expire { id: id.detach() },
        Change::Cutoff { at } => Change::Cutoff { at },
        Change::Adjust { delta, id } => Change::Adjust { delta, id: id.detach() },
        Change::Alter { limit, start, end, rebuy } => Change::Alter { limit, start, end, rebuy },
    }
}

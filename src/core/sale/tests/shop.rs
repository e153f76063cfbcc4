//! A sale with a server around it, for stories.

use crate::core::sale::{
    AdjustError, Alteration, Answer, Budget, Decision, KeepError, Sale, State, Status, Stream, Take, TakeError, Terms,
};
use crate::core::time::UnixMs;

/// A sale with a clock and a server around it that does what servers do: decide, commit, answer.
pub struct Shop {
    pub sale: Sale,
    pub now: i64,
}

pub type Row = (Status, u64, u64, i64, String);

pub fn shop(total: u64) -> Shop {
    with(Terms { total, ..Terms::default() })
}

/// A shop whose sale tells deadlines in its events.
pub fn telling(total: u64) -> Shop {
    with(Terms {
        stream: Some(Stream { key: b"events".as_slice().into(), deadlines: true }),
        total,
        ..Terms::default()
    })
}

pub fn with(terms: Terms) -> Shop {
    Shop { sale: Sale::new(terms), now: 1_000 }
}

impl Shop {
    pub fn now(&self) -> UnixMs {
        UnixMs(self.now)
    }

    pub fn does(&mut self, decision: &Decision<'_>) -> Row {
        for change in decision.changes.iter() {
            self.sale.commit(change).unwrap();
        }
        self.sale.count_answer(decision.answer.status);
        row(&decision.answer)
    }

    pub fn take(&mut self, id: &str, units: u64) -> Row {
        self.order(id, units, None, 0, "")
    }

    pub fn hold(&mut self, id: &str, units: u64, span: i64) -> Row {
        self.order(id, units, None, span, "")
    }

    pub fn buy(&mut self, id: &str, units: u64, buyer: &str) -> Row {
        self.order(id, units, Some(buyer), 0, "")
    }

    pub fn order(&mut self, id: &str, units: u64, buyer: Option<&str>, hold: i64, reference: &str) -> Row {
        let deadline = (hold > 0).then_some(UnixMs(self.now + hold));
        let buyer = buyer.map(str::as_bytes);
        let take = Take { id: id.as_bytes(), units, buyer, deadline, reference: reference.as_bytes() };
        let decision = self.sale.take(self.now(), Budget::COMMAND, &take).unwrap();
        self.does(&decision)
    }

    /// As `order`, with WAITLIST.
    pub fn wait(&mut self, id: &str, units: u64, buyer: Option<&str>, hold: i64, reference: &str) -> Row {
        let deadline = (hold > 0).then_some(UnixMs(self.now + hold));
        let buyer = buyer.map(str::as_bytes);
        let take = Take { id: id.as_bytes(), units, buyer, deadline, reference: reference.as_bytes() };
        let decision = self.sale.take_or_wait(self.now(), &take).unwrap();
        self.does(&decision)
    }

    /// What the timer does.
    pub fn tick(&mut self, most: usize) -> usize {
        let changes = self.sale.overdue(self.now(), most);
        for change in &changes {
            self.sale.commit(change).unwrap();
        }
        changes.len()
    }

    /// The waiting orders, in line.
    pub fn line(&self) -> Vec<String> {
        let mut line: Vec<_> = self.ids(Some(State::Waiting));
        line.sort_by_key(|id| self.sale.place(id.as_bytes()));
        line
    }

    /// Why `buyer` gets nothing for `id`, whatever is left.
    pub fn refuses(&self, id: &str, buyer: Option<&str>) -> TakeError {
        let buyer = buyer.map(str::as_bytes);
        let take = Take { id: id.as_bytes(), units: 1, buyer, deadline: None, reference: b"" };
        self.sale.take(self.now(), Budget::COMMAND, &take).unwrap_err()
    }

    pub fn confirm(&mut self, id: &str) -> Row {
        let decision = self.sale.confirm(self.now(), Budget::COMMAND, id.as_bytes(), None).unwrap();
        self.does(&decision)
    }

    pub fn confirm_keeping(&mut self, id: &str, keep: u64) -> Result<Row, KeepError> {
        let decision = self.sale.confirm(self.now(), Budget::COMMAND, id.as_bytes(), Some(keep))?;
        Ok(self.does(&decision))
    }

    pub fn cancel_keeping(&mut self, id: &str, keep: u64) -> Row {
        let decision = self.sale.cancel(self.now(), Budget::COMMAND, id.as_bytes(), Some(keep));
        self.does(&decision)
    }

    pub fn cancel(&mut self, id: &str) -> Row {
        let decision = self.sale.cancel(self.now(), Budget::COMMAND, id.as_bytes(), None);
        self.does(&decision)
    }

    pub fn extend(&mut self, id: &str, span: i64) -> Row {
        let decision = self.sale.extend(self.now(), id.as_bytes(), UnixMs(self.now + span));
        self.does(&decision)
    }

    pub fn adjust(&mut self, delta: i64) -> Result<u64, AdjustError> {
        self.adjust_once(delta, "")
    }

    pub fn adjust_once(&mut self, delta: i64, id: &str) -> Result<u64, AdjustError> {
        let (after, changes) = self.sale.adjust(self.now(), delta, id.as_bytes())?;
        for change in changes.iter() {
            self.sale.commit(change).unwrap();
        }
        Ok(after)
    }

    pub fn alter(&mut self, alteration: Alteration) {
        let changes = self.sale.alter(self.now(), &alteration).unwrap();
        for change in changes.iter() {
            self.sale.commit(change).unwrap();
        }
    }

    pub fn state(&self, id: &str) -> (State, u64) {
        let order = self.sale.order(self.now(), id.as_bytes()).unwrap();
        (order.state, order.units)
    }

    pub fn bought(&self, buyer: &str) -> u64 {
        self.sale.buyer(self.now(), buyer.as_bytes())
    }

    pub fn ids(&self, state: Option<State>) -> Vec<String> {
        let page = self.sale.page(self.now(), 0, 100, state);
        assert_eq!(page.next, 0);
        page.rows.iter().map(|row| String::from_utf8(row.id.to_vec()).unwrap()).collect()
    }
}

pub fn row(answer: &Answer<'_>) -> Row {
    let reference = String::from_utf8(answer.reference.to_vec()).unwrap();
    (answer.status, answer.units, answer.remaining, answer.deadline.map_or(-1, |deadline| deadline.0), reference)
}

pub fn says(status: Status, units: u64, remaining: u64, deadline: i64) -> Row {
    (status, units, remaining, deadline, String::new())
}

pub fn names(status: Status, units: u64, remaining: u64, deadline: i64, reference: &str) -> Row {
    (status, units, remaining, deadline, reference.to_owned())
}

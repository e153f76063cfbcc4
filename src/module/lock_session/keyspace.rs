//! The engine's view of a session: its questions about the keyspace, and its reports.

use super::{AtWork, LockSession};
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::{EndReason, Found, Hold, Keyspace, Lock, Mode, Notice, WaitResult, WaiterId};
use crate::core::slot::Slot;
use crate::core::time::Millis;
use crate::module::blocked::BLOCKED;
use crate::module::{lock_effect, notify_message};
use crate::server::args::Name;
use crate::server::cluster::{self, Nodes, Serves};
use crate::server::faults;

impl Keyspace for LockSession<'_> {
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_> {
        faults::point();
        match self.open(at).content() {
            Ok(None) => Found::Nothing,
            Ok(Some(lock)) => Found::Lock(lock),
            Err(_) => Found::Foreign,
        }
    }

    fn put(&mut self, at: KeyRef<'_>, lock: Lock) {
        faults::point();
        self.open(at).set(lock);
    }

    fn delete(&mut self, at: KeyRef<'_>) {
        faults::point();
        let key = self.open(at);
        // If the key holds any other value, a listener has put it there.
        if let Ok(Some(lock)) = key.content::<Lock>()
            && lock.is_empty()
        {
            // The engine knows of this deletion, so the callback of the type need not report it.
            lock.take_deadline_id();
            key.delete();
        }
    }

    fn held(&mut self, at: KeyRef<'_>, mode: Mode, hold: Hold) {
        faults::point();
        if self.at(at).change.held.is_some() {
            self.send();
        }
        let AtWork { change, events, .. } = self.at(at);
        change.held = Some((mode, hold));
        events.push(c"lock.held");
    }

    fn ended(&mut self, at: KeyRef<'_>, token: Ident, why: EndReason) {
        faults::point();
        let change = &self.at(at).change;
        if change.ended.is_some() || change.held.is_some() {
            self.send();
        }
        let AtWork { change, events, .. } = self.at(at);
        events.push(lock_effect::event_of(why));
        change.ended = Some((token, why));
    }

    fn clear_expire(&mut self, at: KeyRef<'_>) {
        faults::point();
        self.open(at).persist();
    }

    fn block_client(&mut self, limit: Millis) -> bool {
        if self.block_on.is_some() && self.selected != Some(self.db) {
            // A circle of waiting tokens may lead through other databases, and the server blocks a client in the one that is selected.
            self.go_to(self.db);
        }
        self.block_on.is_some_and(|lock| BLOCKED.block(self.ctx(), lock, limit))
    }

    fn client_blocked(&mut self, waiter: WaiterId) {
        faults::point();
        BLOCKED.name(waiter);
    }

    fn answer(&mut self, waiter: WaiterId, answer: WaitResult) {
        faults::point();
        self.answers.push((waiter, answer));
    }

    fn publish(&mut self, notice: Box<Notice>, outcome: WaitResult) {
        let text = notify_message::message(&notice, &outcome);
        self.messages.push((notice.channel, text));
    }

    fn owns_slot(&mut self, at: KeyRef<'_>) -> bool {
        if !cluster::is_node() {
            return true;
        }
        self.go_to(at.db);
        let name = Name::make(at.key);
        let serves = cluster::serves(self.free_ctx(), &name);
        self.down = serves == Serves::Nothing;
        serves == Serves::These
    }

    fn has_moved(&mut self, at: KeyRef<'_>) -> bool {
        // `MIGRATE` deletes what it moves. A node that takes the slot over serves the keys that it lacks, too.
        cluster::is_node()
            && self.ctx().flags().is_transaction()
            && matches!(self.find(at), Found::Nothing)
            && !self.owns_slot(at)
            && Nodes::known(self.free_ctx()).is_none_or(|nodes| !nodes.takes_over(Slot::of(at.key)))
    }

    fn serves_nothing(&mut self) -> bool {
        self.down
    }
}

//! A keyspace made of a map, with locks and sales in it.

use std::collections::BTreeMap;

use crate::core::id::Ident;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::{EndReason, Engine, Found, Hold, Keyspace, Lock, Mode, Notice, WaitResult, WaiterId};
use crate::core::sale::Sale;
use crate::core::time::Millis;
use crate::module::notify_message;

/// What a key holds.
pub enum Value {
    /// A lock.
    Lock(Lock),
    /// A sale.
    Sale(Box<Sale>),
}

/// The keys of a server.
#[derive(Default)]
pub struct Keys(pub BTreeMap<KeyBuf, Value>);

/// The keys of a primary, which tell a replica what happens to them.
#[derive(Default)]
pub struct Primary {
    /// Its own.
    pub keys: Keys,
    /// What the replica made of the effects.
    pub replica: (Engine, Keys),
    /// Answers to parked clients that have not been delivered.
    pub answers: Vec<(WaiterId, WaitResult)>,
    /// How many outcomes were published.
    pub published: usize,
}

impl Keys {
    /// The sale under a key, unless the key holds something else.
    pub fn sale(&mut self, key: &[u8]) -> Option<&mut Sale> {
        match self.0.get_mut(&place(key)) {
            Some(Value::Sale(sale)) => Some(sale),
            Some(Value::Lock(_)) | None => None,
        }
    }
}

/// The key of this name.
pub fn place(key: &[u8]) -> KeyBuf {
    KeyRef { db: 0, key }.to_buf()
}

impl Keyspace for Keys {
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_> {
        match self.0.get_mut(&at.to_buf()) {
            None => Found::Nothing,
            Some(Value::Lock(lock)) => Found::Lock(lock),
            Some(Value::Sale(_)) => Found::Foreign,
        }
    }

    fn put(&mut self, at: KeyRef<'_>, lock: Lock) {
        assert!(!lock.is_empty(), "a free lock leaves no key");
        assert!(self.0.insert(at.to_buf(), Value::Lock(lock)).is_none(), "the key held something");
    }

    fn delete(&mut self, at: KeyRef<'_>) {
        let gone = self.0.remove(&at.to_buf());
        assert!(matches!(gone, Some(Value::Lock(lock)) if lock.is_empty()), "not a free lock was deleted");
    }

    fn held(&mut self, _: KeyRef<'_>, _: Mode, _: Hold) {}

    fn ended(&mut self, _: KeyRef<'_>, _: Ident, _: EndReason) {}

    fn clear_expire(&mut self, _: KeyRef<'_>) {}

    fn block_client(&mut self, _: Millis) -> bool {
        panic!("somebody waits on a server that does not decide");
    }

    fn client_blocked(&mut self, _: WaiterId) {}

    fn answer(&mut self, waiter: WaiterId, _: WaitResult) {
        panic!("{waiter:?} is answered by a server that does not decide");
    }

    fn publish(&mut self, notice: Box<Notice>, _: WaitResult) {
        panic!("{notice:?} is answered by a server that does not decide");
    }

    fn owns_slot(&mut self, _: KeyRef<'_>) -> bool {
        panic!("a server that does not decide is about to grant");
    }
}

impl Keyspace for Primary {
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_> {
        self.keys.find(at)
    }

    fn put(&mut self, at: KeyRef<'_>, lock: Lock) {
        self.keys.put(at, lock);
    }

    fn delete(&mut self, at: KeyRef<'_>) {
        self.keys.delete(at);
    }

    fn held(&mut self, at: KeyRef<'_>, mode: Mode, hold: Hold) {
        let (engine, keys) = &mut self.replica;
        engine.apply_held(at, mode, hold, keys).expect("the replica has what the primary has");
    }

    fn ended(&mut self, at: KeyRef<'_>, token: Ident, _: EndReason) {
        let (engine, keys) = &mut self.replica;
        engine.apply_ended(at, &token, keys).expect("the replica has what the primary has");
    }

    fn clear_expire(&mut self, _: KeyRef<'_>) {}

    fn block_client(&mut self, _: Millis) -> bool {
        true
    }

    fn client_blocked(&mut self, _: WaiterId) {}

    fn answer(&mut self, waiter: WaiterId, answer: WaitResult) {
        self.answers.push((waiter, answer));
    }

    fn publish(&mut self, notice: Box<Notice>, outcome: WaitResult) {
        let text = notify_message::message(&notice, &outcome);
        assert!(text.starts_with("{\"event\":\"") && !text.contains(char::is_control), "{text:?} is no message");
        self.published = self.published.saturating_add(1);
    }

    fn owns_slot(&mut self, _: KeyRef<'_>) -> bool {
        true
    }
}

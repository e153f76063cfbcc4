//! What becomes of keys without the engine's doing.

use std::collections::BTreeMap;

use super::super::model::Key;
use super::super::world::{Keys, Value};
use super::{Trial, all_keys, place};
use crate::core::fence::Fence;
use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::{Engine, Lock};

impl Trial {
    /// DEL.
    pub(in super::super) fn delete(&mut self, key: Key) {
        self.relocate(&BTreeMap::from([(key, None)]));
    }

    /// RENAME, of a lock or of another value.
    pub(in super::super) fn rename(&mut self, from: Key, to: Key) {
        if from != to && self.world.keys.values.contains_key(&place(from)) {
            self.relocate(&BTreeMap::from([(from, Some(to)), (to, None)]));
        }
    }

    /// SET.
    pub(in super::super) fn overwrite(&mut self, key: Key) {
        if self.serves(&[key]) {
            self.delete(key);
            self.model.foreign.insert(key);
            for keys in [&mut self.world.keys, &mut self.replica.1] {
                keys.values.insert(place(key), Value::Foreign);
            }
        }
    }

    fn relocate(&mut self, moves: &BTreeMap<Key, Option<Key>>) {
        if !moves.keys().all(|key| self.serves(&[*key])) {
            return;
        }
        self.catch_up(self.model.may_be_over());
        self.model.relocate(moves);
        for (engine, keys) in
            [(&mut self.world.engine, &mut self.world.keys), (&mut self.replica.0, &mut self.replica.1)]
        {
            let taken: Vec<_> = moves.iter().map(|(from, to)| (keys.values.remove(&place(*from)), from, to)).collect();
            for (value, from, _) in &taken {
                let entry = if let Some(Value::Lock(lock)) = value { lock.deadline_id() } else { None };
                engine.vanished(place(**from).as_key(), entry);
            }
            for (value, _, to) in taken {
                if let (Some(value), Some(to)) = (value, to) {
                    keys.values.insert(place(*to), value);
                    if let Some(Value::Lock(lock)) = keys.values.get_mut(&place(*to)) {
                        engine.register(place(*to).as_key(), lock);
                    } else {
                        engine.vanished(place(*to).as_key(), None);
                    }
                }
            }
        }
    }

    /// FLUSHDB or FLUSHALL.
    pub(in super::super) fn flush(&mut self, db: Option<i32>) {
        self.catch_up(self.model.may_be_over());
        let hit = |key: &Key| db.is_none_or(|db| key.0 == db);
        self.model.relocate(&all_keys().filter(hit).map(|key| (key, None)).collect());
        for (engine, keys) in
            [(&mut self.world.engine, &mut self.world.keys), (&mut self.replica.0, &mut self.replica.1)]
        {
            keys.values.retain(|place, _| db.is_some_and(|db| place.as_key().db != db));
            engine.flushed(db);
        }
    }

    /// SWAPDB.
    pub(in super::super) fn swap(&mut self) {
        if !self.model.elsewhere.is_empty() {
            return;
        }
        self.catch_up(self.model.may_be_over());
        let other = |db: i32| if db < 2 { 1 - db } else { db };
        self.model.relocate(&all_keys().map(|(db, number)| ((db, number), Some((other(db), number)))).collect());
        for (engine, keys) in
            [(&mut self.world.engine, &mut self.world.keys), (&mut self.replica.0, &mut self.replica.1)]
        {
            let swapped = |(place, value): (KeyBuf, Value)| {
                (KeyRef { db: other(place.as_key().db), ..place.as_key() }.to_buf(), value)
            };
            keys.values = keys.values.drain().map(swapped).collect();
            engine.swapped(0, 1);
        }
    }

    /// The keys of `db` move to another node, or come back. They stand for a slot: no request reaches beyond it.
    pub(in super::super) fn migrate(&mut self, db: i32) {
        self.tick(usize::MAX);
        let slot: Vec<Key> = all_keys().filter(|key| key.0 == db).collect();
        if self.model.elsewhere.iter().any(|key| key.0 == db) {
            self.model.elsewhere.retain(|key| key.0 != db);
            self.world.keys.elsewhere.retain(|place| place.as_key().db != db);
            // By then it has looked again.
            self.world.pass(100);
            self.model.now += 100;
            self.tick(usize::MAX);
        } else {
            self.world.keys.elsewhere.extend(slot.iter().map(|key| place(*key)));
            self.model.elsewhere.extend(slot);
        }
    }

    /// The replica takes over, with the connections that come anew. Its own replica begins with its file.
    pub(in super::super) fn promote(&mut self) {
        // What the timer would still end goes on until its lease does; the model ends it at once.
        self.tick(usize::MAX);
        let mut next = (Engine::default(), Keys::default());
        for (place, value) in &self.replica.1.values {
            let copy = match value {
                Value::Lock(lock) => Value::Lock(Lock::decode(&lock.encode()).unwrap()),
                Value::Foreign => Value::Foreign,
            };
            next.1.values.insert(place.clone(), copy);
            if let Some(Value::Lock(lock)) = next.1.values.get_mut(place) {
                next.0.register(place.as_key(), lock);
            }
        }
        let (engine, keys) = std::mem::replace(&mut self.replica, next);
        let old = std::mem::replace(&mut self.world.engine, engine);
        (self.world.engine.settings, self.world.engine.bound) = (old.settings, old.bound);
        self.world.keys = Keys { elsewhere: std::mem::take(&mut self.world.keys.elsewhere), ..keys };
        self.replica.0.observe_fence(Fence(self.world.engine.last_fence()));
        self.world.told();
        self.model.promoted();
        (self.parked, self.undelivered) = (Vec::new(), Vec::new());
        let after = self.clients.iter().max().unwrap() + 1;
        self.clients = (after..).take(self.clients.len()).collect();
    }
}

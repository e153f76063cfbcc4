//! Redisson's `RLock` and `FairLock`: the same commands in the same order, told after its public source.
//!
//! Every contender is a process of its own, as it is where a lock has to be a distributed one; so each has a connection for
//! commands and, when it has to wait, one for the channel on which a release is announced.

use std::time::{Duration, Instant, SystemTime};

use super::lock::{Sha, loading};
use super::{Hold, LEASE, token};
use crate::contest::Way;
use crate::crowd::{Desk, Member};
use crate::pump::{self, At, Script};
use crate::stand::{Side, Stand};
use crate::wire::Reply;

/// Takes the lock or enters it once more: null. Else the time that is left of it.
const LOCK: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
                      redis.call('hincrby', KEYS[1], ARGV[2], 1) \
                      redis.call('pexpire', KEYS[1], ARGV[1]) \
                      return nil \
                    end \
                    return redis.call('pttl', KEYS[1])";

/// Leaves it; the last one out deletes it and tells all waiters. A latch keeps the answer for a client that has to ask twice.
const UNLOCK: &str = "local before = redis.call('get', KEYS[3]) \
                      if before then return tonumber(before) end \
                      if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end \
                      local left = redis.call('hincrby', KEYS[1], ARGV[3], -1) \
                      if left > 0 then \
                        redis.call('pexpire', KEYS[1], ARGV[2]) \
                        redis.call('set', KEYS[3], 0, 'px', ARGV[4]) \
                        return 0 \
                      end \
                      redis.call('del', KEYS[1]) \
                      redis.call('publish', KEYS[2], ARGV[1]) \
                      redis.call('set', KEYS[3], 1, 'px', ARGV[4]) \
                      return 1";

/// How long a latch is kept, in milliseconds.
const LATCH: &[u8] = b"13500";

fn lock(sha: &Sha, key: &str, owner: &str, lease: &[u8], desk: &mut Desk<'_>) {
    desk.send(0, &[b"EVALSHA", sha.borrow().as_bytes(), b"1", key.as_bytes(), lease, owner.as_bytes()]);
}

fn unlock(sha: &Sha, key: &str, owner: &str, desk: &mut Desk<'_>) {
    let (channel, latch) = (channel(key), latch(key, owner));
    let keys: [&[u8]; 3] = [key.as_bytes(), channel.as_bytes(), latch.as_bytes()];
    let sha = sha.borrow();
    let [name, channel, latch] = keys;
    desk.send(0, &[b"EVALSHA", sha.as_bytes(), b"3", name, channel, latch, b"0", LEASE, owner.as_bytes(), LATCH]);
}

fn channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}

fn latch(key: &str, owner: &str) -> String {
    format!("redisson_unlock_latch:{{{key}}}:{owner}")
}

/// Takes and gives back locks that no other client wants.
pub fn cycle(depth: usize, key: impl Fn(At) -> String + Copy + 'static) -> Way {
    let (taking, load_taking) = loading(LOCK);
    let (leaving, load_leaving) = loading(UNLOCK);
    let script = Script::new(
        3,
        move |at, desk| {
            let (key, owner) = (key(at), token(at.connection));
            match at.step {
                0 => lock(&taking, &key, &owner, LEASE, desk),
                1 => unlock(&leaving, &key, &owner, desk),
                _ => desk.send(0, &[b"DEL", latch(&key, &owner).as_bytes()]),
            }
        },
        |at, reply| match at.step {
            0 => reply.is_null().then_some("granted"),
            _ => (reply.int() == Some(1)).then_some("released"),
        },
    );
    pump::way("Redisson RLock", Side::Plain, depth, &script).prepared(move |stand| {
        load_taking(stand);
        load_leaving(stand);
    })
}

/// Takes the lock if it is free and nobody or oneself is the first in line: null. Else a place in line, and the time until it is
/// due. A waiter that is overdue by the callers' clocks is struck off first, and a place that is used up shortens all others' times.
const FAIR_LOCK: &str = "local now = tonumber(ARGV[4]) \
    local function first() return redis.call('lindex', KEYS[2], 0) end \
    local function due(who) return tonumber(redis.call('zscore', KEYS[3], who)) end \
    while true do \
      local who = first() \
      if not who or due(who) > now then break end \
      redis.call('zrem', KEYS[3], who) \
      redis.call('lpop', KEYS[2]) \
    end \
    if redis.call('exists', KEYS[1]) == 0 and (redis.call('exists', KEYS[2]) == 0 or first() == ARGV[2]) then \
      redis.call('lpop', KEYS[2]) \
      redis.call('zrem', KEYS[3], ARGV[2]) \
      for _, who in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), who) end \
      redis.call('hset', KEYS[1], ARGV[2], 1) \
      redis.call('pexpire', KEYS[1], ARGV[1]) \
      return nil \
    end \
    if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
      redis.call('hincrby', KEYS[1], ARGV[2], 1) \
      redis.call('pexpire', KEYS[1], ARGV[1]) \
      return nil \
    end \
    local mine = redis.call('zscore', KEYS[3], ARGV[2]) \
    if mine then return mine - tonumber(ARGV[3]) - now end \
    local last = redis.call('lindex', KEYS[2], -1) \
    local left \
    if last then left = due(last) - now else left = redis.call('pttl', KEYS[1]) end \
    if redis.call('zadd', KEYS[3], left + tonumber(ARGV[3]) + now, ARGV[2]) == 1 then redis.call('rpush', KEYS[2], ARGV[2]) end \
    return left";

/// Leaves it, and tells the first in line.
const FAIR_UNLOCK: &str = "local now = tonumber(ARGV[4]) \
    local function first() return redis.call('lindex', KEYS[2], 0) end \
    while true do \
      local who = first() \
      if not who or tonumber(redis.call('zscore', KEYS[3], who)) > now then break end \
      redis.call('zrem', KEYS[3], who) \
      redis.call('lpop', KEYS[2]) \
    end \
    if redis.call('exists', KEYS[1]) == 0 then return 1 end \
    if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end \
    if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then \
      redis.call('pexpire', KEYS[1], ARGV[2]) \
      return 0 \
    end \
    redis.call('del', KEYS[1]) \
    local who = first() \
    if who then redis.call('publish', KEYS[4] .. ':' .. who, ARGV[1]) end \
    return 1";

/// How long a place in line is kept, in milliseconds: Redisson's default.
const PLACE: &[u8] = b"300000";

/// The lock that all contend for.
const NAME: &str = "contended";

/// A process that wants the lock again and again.
pub struct Contender {
    fair: bool,
    owner: String,
    hold: Hold,
    lock: Sha,
    unlock: Sha,
    state: State,
    /// How many replies are still to be read and dropped.
    unread: u32,
    /// When to wake up; earlier alarms are those of naps that were cut short.
    alarm: Instant,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// The first attempt is on its way.
    Trying,
    /// It had to wait, and is subscribing.
    Subscribing,
    /// Another attempt is on its way; a release may have been announced since.
    Retrying {
        told: bool,
    },
    /// It sleeps until a release is announced or the lease has ended.
    Waiting,
    Holding,
    Releasing,
}

impl Contender {
    fn try_lock(&self, desk: &mut Desk<'_>) {
        let lease = self.hold.lease();
        if !self.fair {
            return lock(&self.lock, NAME, &self.owner, lease.as_bytes(), desk);
        }
        let (sha, queue, times, now) = (self.lock.borrow(), queue(), times(), now());
        let call: [&[u8]; 3] = [b"EVALSHA", sha.as_bytes(), b"3"];
        let keys = [NAME.as_bytes(), queue.as_bytes(), times.as_bytes()];
        let args = [lease.as_bytes(), self.owner.as_bytes(), PLACE, now.as_bytes()];
        desk.send(0, &[&call[..], &keys, &args].concat());
    }

    fn release(&mut self, desk: &mut Desk<'_>) {
        self.state = State::Releasing;
        desk.tally.passed = Instant::now();
        if !self.fair {
            return unlock(&self.unlock, NAME, &self.owner, desk);
        }
        let (sha, queue, times, channel, now) = (self.unlock.borrow(), queue(), times(), channel(NAME), now());
        let call: [&[u8]; 3] = [b"EVALSHA", sha.as_bytes(), b"4"];
        let keys = [NAME.as_bytes(), queue.as_bytes(), times.as_bytes(), channel.as_bytes()];
        let args = [b"0", LEASE, self.owner.as_bytes(), now.as_bytes()];
        desk.send(0, &[&call[..], &keys, &args].concat());
    }

    fn subscription(&self) -> String {
        if self.fair { format!("{}:{}", channel(NAME), self.owner) } else { channel(NAME) }
    }

    fn sleep(&mut self, time: Duration, desk: &mut Desk<'_>) {
        self.alarm = Instant::now() + time;
        desk.pause(time);
    }

    fn granted(&mut self, desk: &mut Desk<'_>) {
        if self.state != State::Trying {
            desk.send(1, &[b"UNSUBSCRIBE", self.subscription().as_bytes()]);
        }
        desk.tally.finish(desk.number, desk.tally.passed);
        self.state = State::Holding;
        match self.hold.begin(desk.tally) {
            Some(time) => self.sleep(time, desk),
            None => self.release(desk),
        }
    }

    fn heard_channel(&mut self, reply: Reply<'_>, desk: &mut Desk<'_>) {
        match (reply.item(0).and_then(Reply::text).unwrap_or_default(), self.state) {
            (b"subscribe", State::Subscribing) | (b"message", State::Waiting) => {
                self.state = State::Retrying { told: false };
                self.try_lock(desk);
            }
            (b"message", State::Retrying { .. }) => self.state = State::Retrying { told: true },
            _ => (),
        }
    }
}

impl Member for Contender {
    fn lanes(&self) -> usize {
        2
    }

    fn start(&mut self, desk: &mut Desk<'_>) {
        self.state = State::Trying;
        self.try_lock(desk);
    }

    fn hear(&mut self, lane: usize, reply: Reply<'_>, desk: &mut Desk<'_>) {
        if lane == 1 {
            return self.heard_channel(reply, desk);
        }
        if self.unread > 0 {
            self.unread -= 1;
            return;
        }
        match self.state {
            State::Trying | State::Retrying { .. } if reply.is_null() => self.granted(desk),
            State::Trying => {
                self.state = State::Subscribing;
                desk.send(1, &[b"SUBSCRIBE", self.subscription().as_bytes()]);
            }
            State::Retrying { told: true } => {
                self.state = State::Retrying { told: false };
                self.try_lock(desk);
            }
            State::Retrying { told: false } => {
                self.state = State::Waiting;
                let left = reply.int().and_then(|left| u64::try_from(left).ok());
                self.sleep(Duration::from_millis(left.unwrap_or(1)), desk);
            }
            State::Releasing => {
                assert!(reply.int() == Some(1), "the lock was lost: {}", reply.show());
                if !self.fair {
                    desk.send(0, &[b"DEL", latch(NAME, &self.owner).as_bytes()]);
                    self.unread += 1;
                }
                self.start(desk);
            }
            State::Subscribing | State::Waiting | State::Holding => panic!("nothing was asked: {}", reply.show()),
        }
    }

    fn resume(&mut self, desk: &mut Desk<'_>) {
        if Instant::now() < self.alarm {
            return;
        }
        match (self.state, self.hold) {
            (State::Holding, Hold::Works { .. }) => self.release(desk),
            (State::Holding, Hold::Dies { .. }) => self.start(desk),
            (State::Waiting, _) => {
                self.state = State::Retrying { told: false };
                self.try_lock(desk);
            }
            _ => (),
        }
    }
}

fn queue() -> String {
    format!("redisson_lock_queue:{{{NAME}}}")
}

fn times() -> String {
    format!("redisson_lock_timeout:{{{NAME}}}")
}

/// The caller's clock, which is the one that counts here.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock that was set");
    since.as_millis().to_string()
}

/// Contenders for one lock.
pub fn contended(fair: bool, hold: Hold) -> Way {
    let (lock, load_lock) = loading(if fair { FAIR_LOCK } else { LOCK });
    let (unlock, load_unlock) = loading(if fair { FAIR_UNLOCK } else { UNLOCK });
    let member = move |number| Contender {
        fair,
        owner: format!("{}:1", token(number)),
        hold,
        lock: lock.clone(),
        unlock: unlock.clone(),
        state: State::Trying,
        unread: 0,
        alarm: Instant::now(),
    };
    let name = if fair { "Redisson FairLock" } else { "Redisson RLock" };
    Way::new(name, Side::Plain, member).prepared(move |stand: &mut Stand| {
        load_lock(stand);
        load_unlock(stand);
    })
}

//! Small plays about one lock each, for several connections of one client: replies that no client reads, connections that are cut off with
//! a grant on its way, waits that are ended from outside. Nobody else is there: with others about, the server hears of everything so
//! soon that hardly anything can go wrong.

use std::time::Duration;

use super::Worker;
use super::several::{LARGE, Peer, acquire};
use crate::history::Mode::{Exclusive, Shared};
use crate::history::{LockAnswer, LockCall, Mode, Outcome, millis};

/// How long a lease is that must not be waited for, in milliseconds, and how long its heirs wait.
const LONG: u64 = 4_000;
const WAIT: u64 = 3_000;

/// How many plays there are.
const PLAYS: usize = 7;

impl Worker<'_> {
    /// The next play.
    pub(super) fn unread(&mut self) {
        // The run's end, or the server's, ends it early.
        let _ = match self.count % PLAYS {
            0 => self.cut_off_after_its_grant(),
            1 => self.cut_off_before_its_grant(),
            2 => self.upgraded_in_vain(),
            3 => self.granted_the_rest_in_vain(),
            4 => self.told_no_in_the_same_packet(),
            5 => self.subscribed(),
            _ => self.twice_in_line(),
        };
        self.rest(0, 50);
    }

    /// A token of this play's own.
    fn named(&self, who: &str) -> String {
        format!("{}-{}-{who}", self.number, self.count)
    }

    /// A waiter reads its grant, and its connection ends while something else is unsent: it keeps the lock.
    fn cut_off_after_its_grant(&mut self) -> Option<()> {
        let (key, [h, v, x]) = (["unread"], ["h", "v", "x"].map(|who| self.named(who)));
        let (mut admin, mut holder, mut victim, mut heir) = (self.peer()?, self.peer()?, self.peer()?, self.peer()?);
        let (limited, at_once, behind_another) = (self.chance(30), self.chance(50), self.chance(50));
        if limited {
            admin.limits("1000000");
        }
        self.has(&mut holder, &key, acquire(&h, Exclusive, LONG, 0))?;
        let large = format!("GET {}", LARGE.0);
        let after = if at_once { vec![large.as_str()] } else { vec![] };
        let before = if behind_another { vec![large.as_str()] } else { vec![] };
        self.asks_between(&mut victim, &before, (&key, acquire(&v, Exclusive, LONG, WAIT)), &after);
        self.in_line(&mut admin, key[0], 1)?;
        self.asks(&mut heir, &key, acquire(&x, Exclusive, 200, WAIT));
        self.in_line(&mut admin, key[0], 2)?;
        self.has(&mut holder, &key, LockCall::Release { token: h })?;
        if behind_another {
            let _ = victim.client.hear(Duration::from_millis(WAIT));
        }
        self.hears(&mut victim, WAIT);
        if !at_once {
            victim.sends(&[&large]);
        }
        self.rest(2, 40);
        if limited {
            admin.limits("0");
        }
        let cut = self.any_cut();
        self.cut(victim, cut, &mut admin);
        let early = self.hears(&mut heir, 400);
        self.has(&mut holder, &key, LockCall::Release { token: v })?;
        self.heir_goes(&mut heir, &key, x, early.is_some())
    }

    /// The connection of a waiter ends before its grant can be handed to it: the next one has the lock.
    fn cut_off_before_its_grant(&mut self) -> Option<()> {
        let (key, [h, v, x]) = (["unread"], ["h", "v", "x"].map(|who| self.named(who)));
        let (mut admin, mut holder, mut victim, mut heir) = (self.peer()?, self.peer()?, self.peer()?, self.peer()?);
        self.has(&mut holder, &key, acquire(&h, Exclusive, LONG, 0))?;
        self.asks(&mut victim, &key, acquire(&v, Exclusive, LONG, WAIT));
        self.in_line(&mut admin, key[0], 1)?;
        self.asks(&mut heir, &key, acquire(&x, Exclusive, 200, WAIT));
        self.in_line(&mut admin, key[0], 2)?;
        self.frees_and_kills(&mut holder, &key, h, victim)?;
        self.meanwhile(&mut holder)?;
        self.heir_goes(&mut heir, &key, x, false)
    }

    /// A reader's upgrade is granted to a connection that ends before it can know: it is a reader as before.
    fn upgraded_in_vain(&mut self) -> Option<()> {
        let (key, [t, r]) = (["upgraded"], ["t", "r"].map(|who| self.named(who)));
        let (mut admin, mut owner, mut reader, mut victim) = (self.peer()?, self.peer()?, self.peer()?, self.peer()?);
        self.has(&mut owner, &key, acquire(&t, Shared, LONG, 0))?;
        self.has(&mut reader, &key, acquire(&r, Shared, LONG, 0))?;
        self.asks(&mut victim, &key, acquire(&t, Exclusive, LONG, WAIT));
        self.in_line(&mut admin, key[0], 1)?;
        self.frees_and_kills(&mut reader, &key, r, victim)?;
        self.meanwhile(&mut reader)?;
        self.rest(5, 60);
        self.still_has(&mut owner, "upgraded", &t, Shared)
    }

    /// The holder of one lock is granted this and another one over a connection that ends before it can know: it has the one as before.
    fn granted_the_rest_in_vain(&mut self) -> Option<()> {
        let (both, [h, t, x]) = (["first", "second"], ["h", "t", "x"].map(|who| self.named(who)));
        let (mut admin, mut holder, mut owner) = (self.peer()?, self.peer()?, self.peer()?);
        let (mut victim, mut heir) = (self.peer()?, self.peer()?);
        self.has(&mut owner, &["first"], acquire(&t, Exclusive, LONG, 0))?;
        self.has(&mut holder, &["second"], acquire(&h, Exclusive, LONG, 0))?;
        self.asks(&mut victim, &both, acquire(&t, Exclusive, LONG, WAIT));
        self.in_line(&mut admin, "second", 1)?;
        self.asks(&mut heir, &["second"], acquire(&x, Exclusive, 200, WAIT));
        self.in_line(&mut admin, "second", 2)?;
        self.frees_and_kills(&mut holder, &["second"], h, victim)?;
        self.meanwhile(&mut holder)?;
        self.heir_goes(&mut heir, &["second"], x, false)?;
        self.still_has(&mut owner, "first", &t, Exclusive)
    }

    /// The release that grants a waiter the lock and a `CLIENT UNBLOCK` of it come in one packet: a refused waiter does not hold it.
    fn told_no_in_the_same_packet(&mut self) -> Option<()> {
        let (key, [h, v, x]) = (["unread"], ["h", "v", "x"].map(|who| self.named(who)));
        let (mut admin, mut holder, mut victim, mut heir) = (self.peer()?, self.peer()?, self.peer()?, self.peer()?);
        self.has(&mut holder, &key, acquire(&h, Exclusive, LONG, 0))?;
        self.asks(&mut victim, &key, acquire(&v, Exclusive, LONG, WAIT));
        self.in_line(&mut admin, key[0], 1)?;
        self.asks(&mut heir, &key, acquire(&x, Exclusive, 200, WAIT));
        self.in_line(&mut admin, key[0], 2)?;
        let from = self.route.clock.now();
        let how = if self.chance(50) { "ERROR" } else { "TIMEOUT" };
        let unblock = format!("CLIENT UNBLOCK {} {how}", victim.id);
        self.asks_between(&mut holder, &[], (&key, LockCall::Release { token: h }), &[&unblock]);
        self.hears(&mut holder, WAIT)?;
        let _ = holder.client.hear(Duration::from_millis(WAIT));
        self.notices(&victim, "CLIENT UNBLOCK", from);
        let mut told = victim.client.hear(Duration::from_millis(WAIT)).ok()?;
        let mut replies = 1;
        while let Ok(other) = victim.client.hear(Duration::from_millis(20)) {
            replies += 1;
            // Redis 7.0 may say both, and then the grant counts: it is the one that others hear of.
            if told.is_error() {
                told = other;
            }
        }
        let info = admin.client.ask_within("INFO server", Duration::from_millis(WAIT)).ok()?.text();
        let most = if info.contains("redis_version:7.0.") { 2 } else { 1 };
        self.measured("replies to one request", replies, most);
        if let Outcome::Done(LockAnswer::Granted(_)) = self.heard(&mut victim, told) {
            self.has(&mut holder, &key, LockCall::Release { token: v })?;
        }
        self.heir_goes(&mut heir, &key, x, false)
    }

    /// A connection with RESP3 and a subscription waits as well as any, or is told at once that it cannot; in both cases one of its token's
    /// requests stays in line.
    fn subscribed(&mut self) -> Option<()> {
        let (key, [h, t]) = (["unread"], ["h", "t"].map(|who| self.named(who)));
        let (mut admin, mut holder, mut first, mut second) = (self.peer()?, self.peer()?, self.peer()?, self.peer()?);
        self.has(&mut holder, &key, acquire(&h, Exclusive, LONG, 0))?;
        self.asks(&mut first, &key, acquire(&t, Exclusive, 500, WAIT));
        self.in_line(&mut admin, key[0], 1)?;
        second.sends(&["HELLO 3", "SUBSCRIBE news"]);
        let _ = second.client.hear(Duration::from_millis(WAIT)).and(second.client.hear(Duration::from_millis(WAIT)));
        let from = self.route.clock.now();
        self.asks(&mut second, &key, acquire(&t, Exclusive, 500, WAIT));
        let sent_away = self.hears(&mut second, 30);
        self.notices(&second, "subscription", from);
        self.has(&mut holder, &key, LockCall::Release { token: h })?;
        let one = self.hears(&mut first, WAIT + 200);
        let other = sent_away.or_else(|| self.hears(&mut second, WAIT + 200));
        let granted = |told: &Option<_>| matches!(told, Some(Outcome::Done(LockAnswer::Granted(_))));
        if granted(&one) || granted(&other) {
            self.has(&mut holder, &key, LockCall::Release { token: t })?;
        } else {
            self.gives_up(&mut first);
        }
        Some(())
    }

    /// A token waits for three locks and, behind another token, once more for two of them: when it has the three, nothing is in its way.
    fn twice_in_line(&mut self) -> Option<()> {
        let [h, t, x] = ["h", "t", "x"].map(|who| self.named(who));
        let (mut admin, mut holder, mut heir) = (self.peer()?, self.peer()?, self.peer()?);
        let (mut first, mut second) = (self.peer()?, self.peer()?);
        self.has(&mut holder, &["{line}2"], acquire(&h, Exclusive, LONG, 0))?;
        self.asks(&mut first, &["{line}1", "{line}2", "{line}3"], acquire(&t, Exclusive, LONG, WAIT));
        self.in_line(&mut admin, "{line}2", 1)?;
        self.asks(&mut heir, &["{line}2", "{line}3"], acquire(&x, Exclusive, 200, WAIT));
        self.in_line(&mut admin, "{line}2", 2)?;
        self.asks(&mut second, &["{line}2", "{line}3"], acquire(&t, Exclusive, LONG, WAIT));
        self.in_line(&mut admin, "{line}2", 3)?;
        self.has(&mut holder, &["{line}2"], LockCall::Release { token: h })?;
        self.hears(&mut first, WAIT)?;
        if self.hears(&mut second, WAIT).is_none() {
            self.gives_up(&mut second);
        }
        self.has(&mut holder, &["{line}1", "{line}2", "{line}3"], LockCall::Release { token: t })?;
        self.heir_goes(&mut heir, &["{line}2", "{line}3"], x, false)
    }

    /// Nothing that has to do with it, or a question about another lock.
    fn meanwhile(&mut self, peer: &mut Peer) -> Option<()> {
        if self.chance(50) {
            self.has(peer, &["another"], LockCall::Look)?;
        }
        self.rest(0, 20);
        Some(())
    }

    /// The next one in line hears of it, if it has not `already`, and gives the lock back.
    fn heir_goes(&mut self, heir: &mut Peer, keys: &[&str], token: String, already: bool) -> Option<()> {
        if !already && self.hears(heir, WAIT + 500).is_none() {
            self.gives_up(heir);
            return None;
        }
        self.has(heir, keys, LockCall::Release { token })?;
        Some(())
    }

    /// The token has its lock as it had it, and gives it back.
    fn still_has(&mut self, owner: &mut Peer, key: &str, token: &str, mode: Mode) -> Option<()> {
        let again = if self.chance(50) {
            LockCall::Extend { token: token.to_owned(), lease: millis(LONG) }
        } else {
            acquire(token, mode, LONG, 0)
        };
        self.has(owner, &[key], again)?;
        self.has(owner, &[key], LockCall::Release { token: token.to_owned() })?;
        Some(())
    }
}

//! The books of a sale.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::client::{Order, Sale};
use crate::wire::{Answer, Outcome};

/// Everything known about a sale after the rush.
pub struct Books<'a> {
    /// Units it was opened with.
    pub total: u64,
    /// Requests the workers were given, the repeated clicks among them.
    pub requests: u64,
    /// Whether buyers who heard INSUFFICIENT asked again.
    pub settle: bool,
    /// Units that must be left over: demand is high, but may not fit.
    pub left: u64,
    /// What the workers heard, each worker's answers in order.
    pub answers: &'a [(usize, Answer)],
    /// `STOCK.INFO` afterwards.
    pub sale: &'a Sale,
    /// `STOCK.ORDER` afterwards, for every id that was ever used.
    pub orders: &'a BTreeMap<&'a str, Option<Order>>,
}

impl Books<'_> {
    /// Checks every rule.
    pub fn audit(&self) -> Findings {
        let mut findings = Findings::default();
        self.everyone_was_answered(&mut findings);
        self.units_are_conserved(&mut findings);
        self.orders_match_answers(&mut findings);
        self.orders_match_totals(&mut findings);
        self.no_unit_was_sold_twice(&mut findings);
        self.refusals_were_true(&mut findings);
        self.winners_stay_winners(&mut findings);
        findings
    }

    fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().map(|(_, answer)| answer)
    }

    fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Answer> {
        self.answers().filter(move |answer| answer.outcome == outcome)
    }

    fn standing(&self) -> impl Iterator<Item = (&str, &Order)> {
        self.orders.iter().filter_map(|(id, order)| Some((*id, order.as_ref()?)))
    }

    fn order(&self, id: &str) -> Option<&Order> {
        self.orders.get(id).and_then(Option::as_ref)
    }

    fn everyone_was_answered(&self, findings: &mut Findings) {
        let again = |answer: &Answer| self.settle && answer.outcome == Outcome::Insufficient;
        let last_words = self.answers().filter(|answer| answer.outcome != Outcome::Lost && !again(answer)).count();
        findings.check("every request was answered", u64::try_from(last_words) == Ok(self.requests), || {
            format!("{} requests, {last_words} answers", self.requests)
        });
        let known = [Outcome::Ok, Outcome::Duplicate, Outcome::Insufficient, Outcome::Soldout, Outcome::Lost];
        let strange = self.answers().filter(|answer| !known.contains(&answer.outcome));
        findings.none("only answers that fit this sale", strange.map(describe));
    }

    fn units_are_conserved(&self, findings: &mut Findings) {
        let Sale { total, remaining, held, sold, .. } = *self.sale;
        let seen = || format!("opened with {}; total {total}, {remaining} + {held} + {sold}", self.total);
        findings.check(
            "total = remaining + held + sold",
            total == self.total && total == remaining + held + sold,
            seen,
        );
        findings.check("nothing is on hold", held == 0, seen);
        findings.check("every unit that somebody wanted was sold", remaining == self.left, seen);
    }

    fn orders_match_answers(&self, findings: &mut Findings) {
        let mut told = BTreeSet::new();
        let twice = self.with(Outcome::Ok).filter(|answer| !told.insert(answer.id.as_str()));
        findings.none("no id heard OK twice", twice.map(describe));

        let wins = self.with(Outcome::Ok).chain(self.with(Outcome::Duplicate));
        let unfounded = wins.filter(|answer| {
            let own = |order: &Order| order.units == answer.units && order.state == "sold" && order.buyer == answer.id;
            !self.order(&answer.id).is_some_and(own)
        });
        findings.none("every OK and DUPLICATE stands in STOCK.ORDER", unfounded.map(describe));

        let lost: BTreeSet<_> = self.with(Outcome::Lost).map(|answer| answer.id.as_str()).collect();
        let unheard = self.standing().filter(|(id, _)| !told.contains(id) && !lost.contains(id));
        findings.none("every order was told to somebody", unheard.map(|(id, _)| id));

        let over_asked = self.with(Outcome::Ok).filter(|answer| answer.units != answer.asked);
        findings.none("nobody got more or fewer than asked", over_asked.map(describe));
    }

    fn orders_match_totals(&self, findings: &mut Findings) {
        let (count, units) =
            self.standing().fold((0, 0), |(count, units), (_, order)| (count + 1, units + order.units));
        findings.check("the orders add up to what was sold", units == self.sale.sold, || {
            format!("orders over {units} units, {} sold", self.sale.sold)
        });
        let Sale { orders, buyers, ok, .. } = *self.sale;
        findings.check("STOCK.INFO counts every order once", (orders, buyers, ok) == (count, count, count), || {
            format!("{count} orders; it counts {orders} orders, {buyers} buyers, {ok} OK")
        });
    }

    /// A reply's `remaining` is exact, so an OK over n units with r remaining took the units r to r + n: each unit has a
    /// number, and no two buyers may have the same.
    fn no_unit_was_sold_twice(&self, findings: &mut Findings) {
        let mut taken: Vec<_> = self.with(Outcome::Ok).collect();
        taken.sort_by_key(|answer| answer.remaining);
        let overlaps = taken.windows(2).filter_map(|pair| match pair {
            [low, high] if low.remaining + low.units > high.remaining => Some((low, high)),
            _ => None,
        });
        findings.none(
            "no unit was sold twice",
            overlaps.map(|(low, high)| format!("{} and {} share one", describe(low), describe(high))),
        );
        let beyond = taken.iter().filter(|answer| answer.remaining + answer.units > self.total);
        findings.none("no unit was sold that never was", beyond.map(|answer| describe(answer)));
        let heard: BTreeSet<_> = taken.iter().map(|answer| answer.id.as_str()).collect();
        let told: u64 = taken.iter().map(|answer| answer.units).sum();
        let untold: u64 = self.standing().filter(|(id, _)| !heard.contains(id)).map(|(_, order)| order.units).sum();
        findings.check("what the workers got is what was sold", told + untold == self.sale.sold, || {
            format!("they got {told}, and {untold} by replies they never read; {} sold", self.sale.sold)
        });
    }

    fn refusals_were_true(&self, findings: &mut Findings) {
        let untrue = self.answers().filter(|answer| match answer.outcome {
            Outcome::Soldout => answer.remaining != 0,
            Outcome::Insufficient => answer.remaining == 0 || answer.remaining >= answer.asked,
            _ => false,
        });
        findings.none("SOLDOUT means nothing, INSUFFICIENT too few", untrue.map(describe));
        let wronged = self.with(Outcome::Soldout).chain(self.with(Outcome::Insufficient));
        let wronged = wronged.filter(|answer| answer.asked <= self.sale.remaining);
        findings.none("nothing is left that somebody was refused", wronged.map(describe));
    }

    /// The classic mistake: a winner whose reply was lost asks again, and hears that everything is gone. No unit ever
    /// comes back to these sales, so every order was taken before the last unit went.
    fn winners_stay_winners(&self, findings: &mut Findings) {
        let betrayed = self.with(Outcome::Soldout).filter(|answer| self.order(&answer.id).is_some());
        findings.none("nobody who has bought hears SOLDOUT", betrayed.map(describe));
    }
}

/// One answer, for the report of a broken rule.
fn describe(answer: &Answer) -> String {
    let Answer { id, asked, outcome, units, remaining, .. } = answer;
    format!("{id} asked for {asked}: {outcome}, {units} units, {remaining} remaining")
}

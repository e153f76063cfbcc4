//! One request to several sales: a cart, or the legs of a journey.
//!
//! Each sale decides by itself, as if it were asked alone. Then the decisions are settled together: all of them happen or none.

use super::Sale;
use super::answer::{Answer, Status};
use crate::core::time::UnixMs;

/// Combines the decisions of several sales: all agree, or no units are taken from any sale. Returns the status of the whole.
///
/// If one refuses, the others that were about to agree say `SKIPPED` and change nothing; `skip` makes it so and gives the answer, see
/// [`Sale::skipped`].
/// A sale that already has the order (`DUPLICATE`) refuses nothing. A confirmation that is refused for good is recorded as that, also when
/// nothing else is done.
///
/// # Errors
///
/// Those of `skip`.
pub fn all_or_none<'a, E>(
    answers: &mut [Answer<'a>],
    mut skip: impl FnMut(usize) -> Result<Answer<'a>, E>,
) -> Result<Status, E> {
    let refusal = answers.iter().map(|answer| answer.status).find(|status| status.refuses());
    let Some(refusal) = refusal else { return Ok(at_least_one(answers)) };
    for (nth, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| answer.status == Status::Ok) {
        *answer = skip(nth)?;
    }
    Ok(refusal)
}

/// The status of several decisions that are all carried out: `OK` if one of them is `OK`, else the status of the first.
pub fn at_least_one(answers: &[Answer<'_>]) -> Status {
    let mut statuses = answers.iter().map(|answer| answer.status);
    let first = statuses.next().unwrap_or(Status::NoStock);
    if statuses.any(|status| status == Status::Ok) { Status::Ok } else { first }
}

impl Status {
    /// Whether a sale with this answer keeps others from selling in the same request.
    fn refuses(self) -> bool {
        !matches!(self, Self::Ok | Self::Duplicate)
    }
}

impl Sale {
    /// The answer of a sale that would have agreed when another one refused: the units that the id has there now.
    pub fn skipped(&self, now: UnixMs, id: &[u8]) -> Answer<'static> {
        Answer { status: Status::Skipped, ..self.look(now, id).0 }
    }
}

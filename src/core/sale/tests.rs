//! The sale as a whole: told as stories, compared with a model, fed with junk, weighed and timed.

mod hostile;
mod measure;
mod model;
mod schedule;
mod stories;

//! The conditions of a sale: its units, the limit for each buyer, and the window.

use crate::core::time::UnixMs;

/// The conditions of a sale. All but the total can be altered later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The units that the sale started with, plus all adjustments since: 0 to [`MAX_UNITS`](crate::core::limits::MAX_UNITS).
    pub total: u64,
    /// Units that one buyer may hold and have bought together; 0: no limit.
    pub limit: u64,
    /// The first millisecond in which it sells; `None`: since ever.
    pub start: Option<UnixMs>,
    /// The first millisecond in which it no longer sells; `None`: without end.
    pub end: Option<UnixMs>,
    /// Whether an id whose hold expired or was cancelled may buy again.
    pub rebuy: bool,
    /// Where every change of an order is told; `None`: nowhere.
    pub stream: Option<Stream>,
}

/// The stream of a sale's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its key.
    pub key: Box<[u8]>,
    /// Whether the events say until when units are held. A deadline that moves is an event, too, then: together they are
    /// all that became of the orders.
    pub deadlines: bool,
}

/// A request of `STOCK.ALTER`: `None` leaves a condition as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alteration {
    /// The new limit; `Some(0)`: no limit any more.
    pub limit: Option<u64>,
    /// The new start; `Some(None)`: since ever.
    pub start: Option<Option<UnixMs>>,
    /// The new end; `Some(None)`: without end.
    pub end: Option<Option<UnixMs>>,
    /// Whether to sell again to ids whose hold expired or was cancelled.
    pub rebuy: Option<bool>,
}

/// A window in which nothing is ever sold: it starts when it has ended, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyWindow {
    /// The start.
    pub start: UnixMs,
    /// The end.
    pub end: UnixMs,
}

/// Where an instant lies relative to a sale's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It starts at this instant.
    Ahead(UnixMs),
    /// It sells.
    Open,
    /// It has ended.
    Over,
}

impl Terms {
    /// Whether the sale sells at `now`: from `start` on, and no longer at `end`.
    pub fn window(&self, now: UnixMs) -> Window {
        match (self.start, self.end) {
            (Some(start), _) if !start.reached(now) => Window::Ahead(start),
            (_, Some(end)) if end.reached(now) => Window::Over,
            _ => Window::Open,
        }
    }

    /// Checks that the window has an instant in it.
    ///
    /// # Errors
    ///
    /// When it has none.
    pub fn check_window(&self) -> Result<(), EmptyWindow> {
        match (self.start, self.end) {
            (Some(start), Some(end)) if end.reached(start) => Err(EmptyWindow { start, end }),
            _ => Ok(()),
        }
    }

    /// Whether the sale's events say until when units are held.
    pub fn tells_deadlines(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.deadlines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_includes_its_start_and_not_its_end() {
        let terms = Terms { start: Some(UnixMs(10)), end: Some(UnixMs(20)), ..Terms::default() };
        assert_eq!(terms.window(UnixMs(9)), Window::Ahead(UnixMs(10)));
        assert_eq!(terms.window(UnixMs(10)), Window::Open);
        assert_eq!(terms.window(UnixMs(19)), Window::Open);
        assert_eq!(terms.window(UnixMs(20)), Window::Over);
        assert_eq!(Terms::default().window(UnixMs(i64::MIN)), Window::Open);
    }
}

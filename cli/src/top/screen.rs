//! One screen that refreshes.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::state::{State, seen};
use super::table::{LOCKS, RIGHT, SALES, locks, sales};
use crate::options::Top;

/// Shows what is known until its reader has had enough.
pub fn show(state: &Mutex<State>, options: &Top) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let outcome = (|| {
        let mut from = 0_usize;
        loop {
            terminal.draw(|frame| draw(frame, &seen(state), options, &mut from))?;
            if event::poll(options.every)? {
                match event::read()? {
                    Event::Key(key) if ends(key) => return Ok(()),
                    Event::Key(key) => from = scrolled(from, key.code),
                    _ => {}
                }
                // What is typed faster than that is one look.
                while event::poll(Duration::ZERO)? {
                    match event::read()? {
                        Event::Key(key) if ends(key) => return Ok(()),
                        Event::Key(key) => from = scrolled(from, key.code),
                        _ => {}
                    }
                }
            }
        }
    })();
    leave();
    outcome
}

/// The terminal is as it was.
pub fn leave() {
    ratatui::restore();
}

fn ends(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        || key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c')
}

fn scrolled(from: usize, key: KeyCode) -> usize {
    match key {
        KeyCode::Down | KeyCode::Char('j') => from.saturating_add(1),
        KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ') => from.saturating_add(20),
        KeyCode::PageUp => from.saturating_sub(20),
        KeyCode::Home => 0,
        _ => from,
    }
}

fn draw(frame: &mut Frame, state: &State, options: &Top, from: &mut usize) {
    let (locks, sales) = (locks(state), sales(state));
    *from = (*from).min(locks.len().saturating_sub(1).max(sales.len().saturating_sub(1)));
    // Sales get what they need, up to half of the screen, if there are locks.
    let height = frame.area().height;
    let wanted = u16::try_from(sales.len().saturating_add(2)).unwrap_or(u16::MAX);
    let below = if locks.is_empty() { height.saturating_sub(3) } else { wanted.min(height / 2) };
    let parts =
        Layout::vertical([Constraint::Length(1), Constraint::Min(2), Constraint::Length(below)]).split(frame.area());
    let [head, above, below] = parts.as_ref() else { return };
    let waiting: u64 = state.locks.values().map(|lock| lock.waiting).sum();
    let progress = if state.complete {
        String::new()
    } else {
        format!(", looked through {} of {} keys", state.scanned.min(state.keys), state.keys)
    };
    let summary = format!(
        " {}, {waiting} waiting, {}{progress}; every {:?}, q ends",
        count(state.locks.len(), "lock"),
        count(state.sales.len(), "sale"),
        options.every
    );
    frame.render_widget(Paragraph::new(summary).style(Style::new().add_modifier(Modifier::REVERSED)), *head);
    table(frame, *above, LOCKS, &locks, *from);
    table(frame, *below, SALES, &sales, *from);
}

fn count(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

fn table(frame: &mut Frame, area: Rect, head: [&str; 8], rows: &[[String; 8]], from: usize) {
    let from = from.min(rows.len().saturating_sub(1));
    let shown: Vec<&[String; 8]> = rows.iter().skip(from).take(area.height.into()).collect();
    let columns = head.iter().enumerate().map(|(place, name)| {
        let words = shown.iter().filter_map(|row| row.get(place));
        let width = words.map(|word| width(word)).chain([width(name)]).max().unwrap_or_default();
        Column { name, place, width }
    });
    let columns = fitting(columns.collect(), area.width.into());
    let cell = |column: &Column, word: &str| {
        let side = if RIGHT.contains(&column.name) { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(Line::from(word.to_owned()).alignment(side)))
    };
    let widths = columns.iter().map(|column| {
        let width = u16::try_from(column.width).unwrap_or(u16::MAX);
        if RIGHT.contains(&column.name) { Constraint::Length(width) } else { Constraint::Max(width) }
    });
    let lines = shown.iter().map(|row| {
        Row::new(columns.iter().map(|column| cell(column, row.get(column.place).map_or("", String::as_str))))
    });
    let header = Row::new(columns.iter().map(|column| cell(column, column.name)));
    let header = header.style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(lines, widths).header(header).column_spacing(SPACING), area);
}

/// Between two columns.
const SPACING: u16 = 2;
/// The columns that a narrow screen leaves out, in this order.
const DISPENSABLE: [&str; 7] = ["FENCE", "LONGEST", "MODE", "ORDERS", "NEXT IN LINE", "TOTAL", "ORDERS/S"];

struct Column<'a> {
    name: &'a str,
    /// Its place in a row.
    place: usize,
    width: usize,
}

/// The columns that fit into so much room; those that cannot be left out share what there is.
fn fitting(mut columns: Vec<Column<'_>>, room: usize) -> Vec<Column<'_>> {
    for name in DISPENSABLE {
        let wanted: usize = columns.iter().map(|column| column.width.saturating_add(SPACING.into())).sum();
        if wanted <= room.saturating_add(SPACING.into()) {
            break;
        }
        columns.retain(|column| column.name != name);
    }
    columns
}

/// How many places on the screen a text takes: a Chinese character takes two.
fn width(text: &str) -> usize {
    Line::from(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(room: usize) -> Vec<&'static str> {
        let columns = LOCKS.iter().enumerate().map(|(place, name)| Column { name, place, width: 10 });
        fitting(columns.collect(), room).iter().map(|column| column.name).collect()
    }

    #[test]
    fn a_narrow_screen_leaves_out_what_is_least_needed() {
        assert_eq!(names(94), LOCKS);
        assert_eq!(names(93), ["LOCK", "MODE", "HOLDER", "LEASE", "WAITING", "LONGEST", "NEXT IN LINE"]);
        assert_eq!(names(60), ["LOCK", "HOLDER", "LEASE", "WAITING", "NEXT IN LINE"]);
        assert_eq!(names(0), ["LOCK", "HOLDER", "LEASE", "WAITING"]);
    }

    #[test]
    fn a_chinese_character_takes_two_places() {
        assert_eq!(width("券:秒杀"), 7);
    }
}

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
        " {} locks, {waiting} waiting, {} sales{progress}; every {:?}, q ends",
        state.locks.len(),
        state.sales.len(),
        options.every
    );
    frame.render_widget(Paragraph::new(summary).style(Style::new().add_modifier(Modifier::REVERSED)), *head);
    table(frame, *above, LOCKS, &locks, *from);
    table(frame, *below, SALES, &sales, *from);
}

fn table(frame: &mut Frame, area: Rect, head: [&str; 8], rows: &[[String; 8]], from: usize) {
    let cell = |name: &str, word: &str| {
        let side = if RIGHT.contains(&name) { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(Line::from(word.to_owned()).alignment(side)))
    };
    let from = from.min(rows.len().saturating_sub(1));
    let shown: Vec<&[String; 8]> = rows.iter().skip(from).take(area.height.into()).collect();
    let widths = head.iter().enumerate().map(|(column, name)| {
        let words = shown.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count());
        let width = words.chain([name.chars().count()]).max().unwrap_or_default();
        if RIGHT.contains(name) {
            Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX))
        } else {
            Constraint::Max(u16::try_from(width).unwrap_or(u16::MAX))
        }
    });
    let lines = shown.iter().map(|row| Row::new(head.iter().zip(row.iter()).map(|(name, word)| cell(name, word))));
    let header = Row::new(head.iter().map(|name| cell(name, name))).style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(lines, widths).header(header).column_spacing(2), area);
}

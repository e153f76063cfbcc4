//! The fenced blocks of a page, and the little plays in some of them.

/// What stands between two fences.
pub struct Block<'a> {
    /// What the first fence says: `text`, `sh`, `conf` …
    pub language: &'a str,
    /// Line numbers, counted from 1, and the lines.
    pub lines: Vec<(usize, &'a str)>,
}

/// One thing that happens in a play.
pub struct Step<'a> {
    /// The line of the page it begins on.
    pub line: usize,
    /// The client that it is about; empty where there is only one.
    pub client: &'a str,
    /// What happens.
    pub what: What<'a>,
    /// What redis-cli prints then.
    pub printed: Vec<&'a str>,
}

/// What can happen in a play.
#[derive(Clone, Copy, PartialEq)]
pub enum What<'a> {
    /// `ann> COMMAND …`, and the reply behind it.
    Sends(&'a str),
    /// `ann> COMMAND …`, and below it `(waits)`, in Chinese `(等待)`.
    Parks(&'a str),
    /// `ann< …`: the reply that the client waited for.
    Hears,
    /// `(ann hangs up)`
    HangsUp,
    /// `(250 ms later)`
    Later(u64),
}

/// All fenced blocks of a text.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open) = (vec![], None::<Block<'_>>);
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some(Block { language, lines: vec![] }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push((index + 1, line));
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last fence stays open");
    blocks
}

impl<'a> Block<'a> {
    /// All of it.
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|(_, line)| *line).collect();
        lines.join("\n")
    }

    /// The commands that a reader types in a shell, `$ COMMAND …`, each with the lines that it prints.
    #[track_caller]
    pub fn shell_calls(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut calls: Vec<(&str, Vec<&str>)> = vec![];
        for &(number, line) in &self.lines {
            match (line.strip_prefix("$ "), calls.last_mut()) {
                (Some(call), _) => calls.push((call, vec![])),
                (None, Some((_, printed))) => printed.push(line),
                (None, None) => panic!("line {number}: no command prints this: {line}"),
            }
        }
        calls
    }

    /// The text above the first prompt: the syntax of commands, and drawings.
    pub fn head(&self) -> &[(usize, &'a str)] {
        let typed = self.lines.iter().position(|(_, line)| prompt(line, '>').is_some());
        typed.map_or(&self.lines, |typed| &self.lines[..typed])
    }

    /// The calls that are taken apart with an arrow under each argument.
    pub fn drawn_calls(&self) -> impl Iterator<Item = &'a str> {
        self.head().windows(2).filter(|pair| pair[1].1.contains('▲')).map(|pair| pair[0].1)
    }

    /// What happens in the block, if it is a play.
    #[track_caller]
    pub fn steps(&self) -> Vec<Step<'a>> {
        let mut steps: Vec<Step<'a>> = vec![];
        for &(number, line) in &self.lines[self.head().len()..] {
            let line = without_remark(line);
            let mut add = |client, what, printed| steps.push(Step { line: number, client, what, printed });
            if let Some((client, call)) = prompt(line, '>') {
                add(client, What::Sends(call), vec![]);
            } else if let Some((client, first)) = prompt(line, '<') {
                add(client, What::Hears, vec![first]);
            } else if let Some((client, what)) = direction(line) {
                add(client, what, vec![]);
            } else if let Some(step) = steps.last_mut() {
                match step.what {
                    What::Sends(call) if ["(waits)", "(等待)"].contains(&line) => step.what = What::Parks(call),
                    What::Hears => step.printed.push(line.get(step.client.len() + 2..).unwrap_or(line)),
                    _ => step.printed.push(line),
                }
            } else {
                panic!("line {number}: nobody said anything yet: {line}");
            }
        }
        steps
    }
}

/// `ann> rest` as client and rest; a client's name is a word in lower case, or nothing.
fn prompt(line: &str, sign: char) -> Option<(&str, &str)> {
    let (client, rest) = line.split_once(sign)?;
    let rest = rest.strip_prefix(' ')?;
    client.bytes().all(|byte| byte.is_ascii_lowercase()).then_some((client, rest))
}

/// What stands in round brackets and is no reply.
fn direction(line: &str) -> Option<(&str, What<'_>)> {
    let inside = line.strip_prefix('(')?.strip_suffix(')')?;
    if let Some(client) = inside.strip_suffix(" hangs up") {
        return Some((client, What::HangsUp));
    }
    let span = inside.strip_suffix(" ms later")?;
    Some(("", What::Later(span.parse().ok()?)))
}

/// The line without the remark behind its arrow.
fn without_remark(line: &str) -> &str {
    line.split_once('←').map_or(line, |(said, _)| said).trim_end()
}

//! A page of the documentation, as the tests read it.

use std::collections::BTreeSet;

use super::play::block::{Block, blocks};

/// A page and its path from the root.
pub struct Page {
    pub path: &'static str,
    pub text: &'static str,
}

pub const README: Page = Page { path: "README.md", text: include_str!("../../../README.md") };
pub const COMMANDS: Page = Page { path: "docs/commands.md", text: include_str!("../../../docs/commands.md") };

impl Page {
    /// The fenced blocks in `language`; those in `text` are plays, drawings or syntax.
    pub fn blocks(&self, language: &str) -> Vec<Block<'static>> {
        blocks(self.text).into_iter().filter(|block| block.language == language).collect()
    }

    /// What the page sets between back quotes.
    pub fn spans(&self) -> BTreeSet<&'static str> {
        let prose = self.text.split("```").step_by(2);
        prose.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
    }

    /// What the page points to, without the places within a page.
    pub fn links(&self) -> impl Iterator<Item = &'static str> {
        self.text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next())
    }
}

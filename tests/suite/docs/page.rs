//! A page of the documentation, as the tests read it.

use std::collections::BTreeSet;
use std::path::Path;

use super::play::block::{Block, blocks};

/// A page and its path from the root.
pub struct Page {
    pub path: &'static str,
    pub text: &'static str,
}

/// The page with its path from the root.
macro_rules! page {
    ($path:literal) => {
        Page { path: $path, text: include_str!(concat!("../../../", $path)) }
    };
}

pub const BUCKETS: Page = page!("examples/buckets/README.md");
pub const CART: Page = page!("examples/cart/README.md");
pub const RAILWAY: Page = page!("examples/railway/README.md");
pub const README: Page = page!("README.md");
pub const README_ZH: Page = page!("README.zh-CN.md");
pub const CLIENTS: Page = page!("docs/clients.md");
pub const DESIGN: Page = page!("DESIGN.md");
pub const COMMANDS: Page = page!("docs/commands.md");
pub const LOCKS: Page = page!("docs/locks.md");
pub const STOCK: Page = page!("docs/stock.md");
pub const GOALS: Page = page!("docs/goals.md");
pub const MIGRATING: Page = page!("docs/migrating.md");
pub const MIGRATING_ZH: Page = page!("docs/zh/migrating.md");
pub const OPERATIONS: Page = page!("docs/operations.md");
pub const PERFORMANCE: Page = page!("docs/performance.md");
pub const PYTHON: Page = page!("examples/python/README.md");
pub const RECIPES: Page = page!("docs/recipes.md");
pub const RUNBOOK: Page = page!("docs/runbook.md");
pub const SHOP: Page = page!("examples/shop/README.md");
pub const SUMMARY: Page = page!("docs/SUMMARY.md");

/// Every page for users.
pub const ALL: [Page; 35] = [
    README,
    README_ZH,
    COMMANDS,
    LOCKS,
    STOCK,
    OPERATIONS,
    MIGRATING,
    MIGRATING_ZH,
    page!("CHANGELOG.md"),
    page!("CONTRIBUTING.md"),
    page!("SECURITY.md"),
    DESIGN,
    page!("docs/abuse.md"),
    CLIENTS,
    GOALS,
    page!("docs/guarantees.md"),
    PERFORMANCE,
    page!("docs/outbox.md"),
    RECIPES,
    RUNBOOK,
    page!("docs/scaling.md"),
    SUMMARY,
    page!("docs/testing.md"),
    page!("docs/tools.md"),
    page!("clients/go/README.md"),
    page!("clients/java/README.md"),
    page!("clients/node/README.md"),
    page!("clients/python/README.md"),
    page!("clients/rust/README.md"),
    PYTHON,
    SHOP,
    CART,
    RAILWAY,
    BUCKETS,
    page!("examples/demo/README.md"),
];

impl Page {
    /// The fenced blocks in `language`; those in `text` are plays, drawings or syntax.
    pub fn blocks(&self, language: &str) -> Vec<Block<'static>> {
        blocks(self.text).into_iter().filter(|block| block.language == language).collect()
    }

    /// The text outside of fenced blocks.
    fn prose(&self) -> impl Iterator<Item = &'static str> {
        self.text.split("```").step_by(2)
    }

    /// What the page sets between back quotes.
    pub fn spans(&self) -> BTreeSet<&'static str> {
        self.prose().flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
    }

    /// What the page points to.
    pub fn links(&self) -> impl Iterator<Item = &'static str> {
        self.prose().flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split(')').next())
    }

    /// Whether a heading of the page has this anchor.
    fn has_anchor(&self, anchor: &str) -> bool {
        let headings = self.prose().flat_map(str::lines).filter(|line| line.starts_with('#'));
        headings.map(|line| anchor_of(line.trim_start_matches('#'))).any(|found| found == anchor)
    }
}

/// What a link to this heading ends with.
pub fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut links = 0;
    for page in &ALL {
        let folder = Path::new(page.path).parent().expect("a folder");
        for link in page.links().filter(|link| !link.starts_with("https://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root.join(page.path) } else { root.join(folder).join(path) };
            assert!(target.exists(), "{}: no {link}", page.path);
            let target = target.canonicalize().expect("a path");
            let into = ALL.iter().find(|other| root.join(other.path).canonicalize().expect("a page") == target);
            assert!(anchor.is_empty() || into.is_some_and(|into| into.has_anchor(anchor)), "{}: no {link}", page.path);
            links += 1;
        }
    }
    assert!(links > 20, "{links}");
}

#[test]
fn some_page_leads_to_every_example_and_client() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for kind in ["examples", "clients"] {
        let folders = root.join(kind).read_dir().expect(kind).map(|entry| entry.expect("an entry"));
        for folder in folders.filter(|entry| entry.file_type().expect("a type").is_dir()) {
            let path = format!("{kind}/{}", folder.file_name().display());
            assert!(README.links().any(|link| link == path), "README.md does not lead to {path}");
        }
    }
}

/// The order of the pages in the site.
#[test]
fn the_contents_lead_to_every_page() {
    let listed: BTreeSet<&str> = SUMMARY.links().collect();
    for page in ALL.iter().filter(|page| page.path != SUMMARY.path) {
        let link = page.path.strip_prefix("docs/").map_or_else(|| format!("../{}", page.path), String::from);
        assert!(listed.contains(link.as_str()), "{} does not lead to {link}", SUMMARY.path);
    }
}

#[test]
fn every_page_is_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inside =
        |folder: &str| root.join(folder).read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    let readmes = ["clients", "examples"].into_iter().flat_map(inside).map(|folder| folder.join("README.md"));
    let pages = ["docs", "docs/zh"].into_iter().flat_map(inside).chain(readmes);
    for path in pages.filter(|path| path.is_file() && path.extension().is_some_and(|extension| extension == "md")) {
        assert!(ALL.iter().any(|page| path.ends_with(page.path)), "{} is in no test", path.display());
    }
}

//! The pages of docs/ name the tests that show what they say: every one of those must exist.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `dir`.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether `text` is a path of modules and a function, as a page names a test.
fn is_test_path(text: &str) -> bool {
    let word =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    text.contains("::") && text.split("::").all(word)
}

/// Whether some source file at the place that `path` names has a test of its name.
fn exists(path: &str, sources: &[(String, String)]) -> bool {
    let (modules, name) = path.rsplit_once("::").expect("a path of modules");
    // `a::b::tests` may be the file a/b/tests.rs, a/b/tests/mod.rs or a module in a/b.rs.
    let inside = modules.strip_suffix("::tests").unwrap_or(modules).replace("::", "/");
    let test = format!("fn {name}(");
    sources.iter().any(|(file, text)| file.contains(&inside) && text.contains(&test))
}

#[test]
fn every_test_that_a_page_names_exists() {
    let mut files = vec![];
    for dir in ["tests", "src", "benches", "examples", "outbox"] {
        sources(&root().join(dir), &mut files);
    }
    let sources: Vec<(String, String)> = files
        .iter()
        .map(|file| (file.display().to_string(), fs::read_to_string(file).expect("a source file")))
        .collect();
    let mut named = 0;
    for page in fs::read_dir(root().join("docs")).expect("docs") {
        let page = page.expect("an entry").path();
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).expect("a page");
        for path in text.split('`').skip(1).step_by(2).filter(|code| is_test_path(code)) {
            assert!(exists(path, &sources), "{}: there is no test {path}", page.display());
            named += 1;
        }
    }
    assert!(named > 30, "the pages name only {named} tests");
    assert!(!exists("stock::a_test_that_nobody_wrote", &sources));
}

//! What the pages in docs/ state is shown by a test or a command, and those exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The file of the test `path`: `abuse::a_test` is in tests/suite/abuse.rs, `core::sale::tests::hostile::a_test` in src/core/….
fn file_of(path: &str) -> PathBuf {
    let (modules, _) = path.rsplit_once("::").expect("a test in a module");
    let file = format!("{}.rs", modules.replace("::", "/"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [root.join("tests/suite").join(&file), root.join("src").join(&file)]
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no file has {path}"))
}

/// The tests that a page names, between backquotes.
fn tests_named_in(page: &str) -> Vec<&str> {
    let is_test = |text: &&str| {
        text.contains("::") && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    page.split('`').skip(1).step_by(2).filter(is_test).collect()
}

#[test]
fn every_test_that_a_page_names_exists() {
    let mut named = 0;
    for page in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).expect("docs/") {
        let path = page.expect("a page").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).expect("a page");
        for test in tests_named_in(&page) {
            let (_, name) = test.rsplit_once("::").expect("a test in a module");
            let source = fs::read_to_string(file_of(test)).expect("a source");
            assert!(source.contains(&format!("fn {name}(")), "{} names {test}, which is gone", path.display());
            named += 1;
        }
    }
    assert!(named > 0, "no page names a test");
}

#[test]
fn only_names_of_tests_count_as_such() {
    assert_eq!(tests_named_in("`a::b_1` and `A::b` and `x` and a::c `d::e(f)`"), ["a::b_1"]);
}

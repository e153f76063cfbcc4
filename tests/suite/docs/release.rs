//! The version stands in one place, and every other place that names it is checked: `scripts/release agree`.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::repository;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What names the version, each with the words around it.
const PLACES: [(&str, &str, &str); 10] = [
    ("Cargo.lock", "name = \"lockstock\"\nversion = \"", "\""),
    ("CHANGELOG.md", "## ", ""),
    ("README.md", "Version ", ""),
    ("README.md", "badge/version-", "-blue"),
    ("README.zh-CN.md", "\n版本 ", ""),
    ("README.zh-CN.md", "badge/version-", "-blue"),
    ("clients/go/README.md", "lockstock/clients/go@v", " "),
    ("clients/java/pom.xml", "<version>", "</version>"),
    ("clients/node/package.json", "\"version\": \"", "\""),
    ("clients/python/lockstock/__init__.py", "__version__ = \"", "\""),
];

/// A copy of everything that names the version, and of the script that compares it.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for path in PLACES.iter().map(|(path, ..)| *path).chain(["Cargo.toml", "scripts/release"]) {
        let to = folder.path().join(path);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(repository().join(path), to).expect(path);
    }
    folder
}

/// What the script says there, or why it fails.
fn agree(folder: &Path, tag: &str) -> Result<String, String> {
    release(folder, &["agree", tag])
}

fn release(folder: &Path, words: &[&str]) -> Result<String, String> {
    let script = folder.join("scripts/release");
    // Not the script itself: a child of another test may still have the file open for writing.
    let output = Command::new("bash").arg(script).args(words).env("MACHINES", "x86_64").output().expect("bash");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

fn replace(folder: &Path, path: &str, old: &str, new: &str) {
    let path = folder.join(path);
    let text = fs::read_to_string(&path).expect("a text");
    assert!(text.contains(old), "{}: no {old}", path.display());
    fs::write(&path, text.replacen(old, new, 1)).expect("the folder is ours");
}

#[test]
fn every_place_that_names_the_version_names_the_same() {
    let said = agree(repository(), "").expect("they agree");
    assert!(said.starts_with(&format!("ok: version {VERSION}: ")), "{said}");
    for (path, before, after) in PLACES {
        let copy = copy();
        agree(copy.path(), "").expect("the copy is as it is here");
        replace(copy.path(), path, &format!("{before}{VERSION}{after}"), &format!("{before}9.9.9{after}"));
        let why = agree(copy.path(), "").expect_err(path);
        assert!(why.contains(path), "{path}: {why}");
    }
}

#[test]
fn a_tag_is_the_version_and_nothing_says_that_it_is_not_released() {
    let copy = copy();
    let here = copy.path();
    // As the commit before a tag has it.
    for (path, old, new) in [
        ("CHANGELOG.md", format!("## {VERSION}, not released yet\n"), format!("## {VERSION}\n")),
        ("README.md", format!("Version {VERSION}, not released yet"), format!("Version {VERSION}")),
        ("README.zh-CN.md", format!("版本 {VERSION}，尚未发布"), format!("版本 {VERSION}")),
        ("README.md", "Nothing is published yet: no release".into(), "Published: a release".into()),
        ("README.zh-CN.md", "目前什么都还没有发布：".into(), String::new()),
    ] {
        let text = fs::read_to_string(here.join(path)).expect("a text");
        if text.contains(&old) {
            let why = agree(here, &format!("v{VERSION}")).expect_err(path);
            assert!(why.contains(path), "{path}: {why}");
            replace(here, path, &old, &new);
        }
    }
    let said = agree(here, &format!("v{VERSION}")).expect("they agree");
    assert_eq!(said, format!("ok: version {VERSION}, tag v{VERSION}: ## {VERSION}\n"));
    for tag in ["v9.9.9", VERSION] {
        let why = agree(here, tag).expect_err(tag);
        assert!(why.contains(&format!("the tag is {tag}")), "{why}");
    }
}

#[test]
fn every_file_of_a_release_is_there_and_the_notes_lead_to_its_pages() {
    let copy = copy();
    let here = copy.path();
    let changes = fs::read_to_string(here.join("CHANGELOG.md")).expect("a text");
    let (before, _) = changes.split_once("\n## ").expect("a version");
    let ours = format!(
        "## {VERSION}\n\nHow to\n[go on](docs/a.md#b), [elsewhere](https://example.org).\n\n### Added\n\n- One thing,\n  in two lines.\n- Another.\n\n## 0.0.1\n\nOld.\n"
    );
    fs::write(here.join("CHANGELOG.md"), format!("{before}\n{ours}")).expect("the folder is ours");
    let files = here.join("files");
    fs::create_dir(&files).expect("a folder");
    let machine = format!("lockstock-{VERSION}-linux-x86_64");
    let lists = ["module", "lockstock", "lockstock-outbox"].map(|part| format!("{machine}-{part}.cdx.json"));
    let others =
        [format!("{machine}.tar.gz"), format!("{machine}-liblockstock.so"), format!("lockstock_{VERSION}_amd64.deb")];
    for name in lists.iter().chain(&others) {
        let why = release(here, &["gather", "files"]).expect_err("a file is missing");
        assert!(why.contains("there is no files/"), "{why}");
        fs::write(files.join(name), name).expect("the folder is ours");
    }
    let said = release(here, &["gather", "files", "https://example.org/blob/v1"]).expect("all are there");
    assert_eq!(said, format!("ok: 6 files, and the notes for {VERSION}\n"));
    let sums = fs::read_to_string(files.join("SHA256SUMS")).expect("a text");
    assert_eq!(sums.lines().count(), 6, "{sums}");
    let notes = fs::read_to_string(here.join("notes.md")).expect("a text");
    let told = "\nHow to [go on](https://example.org/blob/v1/docs/a.md#b), [elsewhere](https://example.org).\n\n### Added\n\n- One thing, in two lines.\n- Another.\n\n";
    assert_eq!(
        notes,
        format!("{told}### Files\n\n`sha256sum --check --ignore-missing SHA256SUMS` checks the files that you have.\n")
    );
}

/// The lines of one section of a `Cargo.toml` that name a dependency.
fn dependencies<'a>(manifest: &'a str, section: &str) -> Vec<&'a str> {
    let (_, behind) = manifest.split_once(&format!("\n[{section}]\n")).expect(section);
    let lines = behind.lines().take_while(|line| !line.starts_with('['));
    lines.filter(|line| line.contains('=') && !line.starts_with('#')).collect()
}

#[test]
fn the_fuzz_targets_are_built_with_what_the_module_is_built_with() {
    let read = |path| fs::read_to_string(repository().join(path)).expect(path);
    let (module, fuzz) = (read("Cargo.toml"), read("fuzz/Cargo.toml"));
    let pinned = dependencies(&module, "workspace.dependencies");
    let used = dependencies(&module, "dependencies");
    assert!(!used.is_empty());
    for line in used {
        let name = line.strip_suffix(".workspace = true").expect("all are pinned in one place");
        let pin = pinned.iter().find(|pin| pin.starts_with(&format!("{name} = "))).expect(name);
        assert!(dependencies(&fuzz, "dependencies").contains(pin), "fuzz/Cargo.toml lacks {pin}");
    }
}

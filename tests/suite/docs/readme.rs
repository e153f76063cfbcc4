//! README.md and its Chinese version are true: their examples print what they say, also a second time, and what they point to is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::Server;

use super::page::{Page, README, README_ZH};
use super::play::block::{Block, What};
use super::play::play;

const PAGES: [Page; 2] = [README, README_ZH];

/// A file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// A line of a program without its remark.
fn without_remark(line: &str) -> &str {
    line.split_once("# ").map_or(line, |(code, _)| code).trim_end()
}

/// What a reader types in a shell, without the remarks.
fn typed(page: &Page) -> Vec<&'static str> {
    let lines = page.blocks("sh").into_iter().flat_map(|block| block.lines);
    lines.map(|(_, line)| without_remark(line)).collect()
}

#[test]
fn every_example_prints_what_it_says_also_a_second_time() {
    let server = Server::start();
    for page in PAGES {
        play(&page, &server);
        play(&page, &server);
    }
    server.expect("DBSIZE", 0);
}

/// A reader who has followed the hints of `make run` holds their lock, and has their sale.
#[test]
fn the_examples_use_no_key_of_the_hints_of_make_run() {
    let script = file("scripts/run");
    let hints: Vec<&str> =
        script.lines().filter_map(|line| line.split_once("redis-cli -p $port ")).map(|(_, call)| call).collect();
    let keys: BTreeSet<&str> =
        hints.iter().filter(|call| call.contains('.')).filter_map(|call| call.split(' ').nth(1)).collect();
    assert_eq!(keys.len(), 2, "{hints:?}");
    for page in PAGES {
        for (number, line) in ["text", "python"].iter().flat_map(|kind| page.blocks(kind)).flat_map(|block| block.lines)
        {
            assert!(!keys.iter().any(|key| line.contains(key)), "{}:{number}: a key of make run: {line}", page.path);
        }
    }
}

#[test]
fn it_is_read_in_one_go() {
    for page in PAGES {
        let lines = page.text.lines().count();
        assert!(lines <= 120, "{}: {lines} lines", page.path);
    }
}

#[test]
fn what_it_has_you_type_is_there() {
    let makefile = file("Makefile");
    for page in PAGES {
        let lines = typed(&page).into_iter().chain(page.spans());
        let targets: BTreeSet<&str> = lines
            .flat_map(|line| line.split("make ").skip(1))
            .flat_map(|rest| rest.split(' ').take_while(|word| *word != "&&"))
            .filter(|word| !word.is_empty() && !word.contains('='))
            .collect();
        for wanted in ["run", "test", "demo", "dist", "deb", "build", "tools", "install"] {
            assert!(targets.contains(wanted), "{}: make {wanted} is not explained", page.path);
        }
        for target in targets {
            assert!(makefile.contains(&format!("\n{target}:")), "{}: no make {target}", page.path);
        }
        let rust = format!("Rust {}", env!("CARGO_PKG_RUST_VERSION"));
        assert!(page.text.contains(&rust), "{}: no {rust}", page.path);
        let version = env!("CARGO_PKG_VERSION");
        assert!(page.text.lines().take(8).any(|line| line.contains(version)), "{}: no {version}", page.path);
    }
}

/// `make test-fresh` runs this line as the package's own page has it.
#[test]
fn the_package_for_python_is_installed_as_its_page_says() {
    let package = file("clients/python/README.md");
    for page in PAGES {
        let pip = typed(&page).into_iter().find(|line| line.starts_with("pip ")).expect("pip");
        assert!(
            package.lines().any(|line| line.split(" # ").next().is_some_and(|line| line.trim_end() == pip)),
            "{pip}"
        );
    }
}

/// `make test-package` and `make test-fresh` install both and load them from where they are.
#[test]
fn the_module_is_where_each_way_of_installing_puts_it() {
    let package = file("scripts/package");
    for (way, prefix, line) in [
        ("make deb ", "/usr", "stage \"$root\" /usr\n"),
        ("make install PREFIX=/usr ", "/usr", "stage \"${DESTDIR:-}\" \"${PREFIX:-/usr/local}\"\n"),
    ] {
        assert!(package.contains(line), "{line}");
        assert!(package.contains("local module=$prefix/lib/lockstock/liblockstock.so\n"));
        for page in PAGES {
            let lines = page.blocks("sh").into_iter().flat_map(|block| block.lines);
            let (_, shown) = lines
                .map(|(_, line)| line)
                .find(|line| line.contains(way))
                .and_then(|line| line.split_once(" # "))
                .expect(way);
            assert_eq!(shown, format!("{prefix}/lib/lockstock/liblockstock.so"), "{}: {way}", page.path);
        }
    }
}

#[test]
fn a_server_starts_with_the_lines_for_redis_conf() {
    for block in PAGES.iter().flat_map(|page| page.blocks("conf")) {
        let mut server = Server::builder();
        for (_, line) in &block.lines {
            server = match line.split_once("liblockstock.so") {
                Some((start, args)) if start.starts_with("loadmodule /") => server.module_args(args.trim()),
                _ => server.config(line),
            };
        }
        let server = server.start();
        let set = block.lines.iter().filter(|(_, line)| line.starts_with("lockstock."));
        for (_, setting) in set {
            let (name, value) = setting.split_once(' ').expect("a value");
            server.expect(["CONFIG", "GET", name], (name, value));
        }
    }
}

/// What a block does, whatever language its remarks are in.
pub fn done(block: &Block<'static>) -> Vec<String> {
    if block.language == "text" {
        let what = |what: &What<'_>| match what {
            What::Sends(call) | What::Parks(call) => (*call).to_owned(),
            What::Hears => "hears".into(),
            What::HangsUp => "hangs up".into(),
            What::Later(span) => span.to_string(),
        };
        block
            .steps()
            .iter()
            .map(|step| format!("{}: {}\n{}", step.client, what(&step.what), step.printed.join("\n")))
            .collect()
    } else {
        block.lines.iter().map(|(_, line)| without_remark(line).to_owned()).collect()
    }
}

#[test]
fn both_languages_have_the_same_examples_links_and_shape() {
    let blocks = |kind: &str| PAGES.map(|page| page.blocks(kind).iter().map(done).collect::<Vec<_>>());
    for kind in ["text", "sh", "conf"] {
        let [english, chinese] = blocks(kind);
        assert!(!english.is_empty(), "{kind}");
        assert_eq!(english, chinese, "{kind}");
    }
    // Strings are translated, too.
    let unquoted = |text: &str| text.split('"').step_by(2).collect::<String>();
    let [english, chinese] =
        blocks("python").map(|blocks| blocks.iter().flatten().map(|line| unquoted(line)).collect::<Vec<_>>());
    assert!(english.len() > 10);
    assert_eq!(english, chinese);

    let links = PAGES.map(|page| {
        let mut links: Vec<&str> = page
            .links()
            .filter(|link| !["#", "README", "docs/zh/"].iter().any(|start| link.starts_with(start)))
            .collect();
        links.sort_unstable();
        links
    });
    assert_eq!(links[0], links[1]);
    for (page, other) in [(README, README_ZH), (README_ZH, README)] {
        assert!(page.links().any(|link| link == other.path), "{} does not lead to {}", page.path, other.path);
    }
    for start in ["## ", "- ", "**", "| ", "!["] {
        let count = PAGES.map(|page| page.text.lines().filter(|line| line.starts_with(start)).count());
        assert_eq!(count[0], count[1], "{start:?}");
    }
    // Names are not translated.
    let [english, chinese] = PAGES.map(|page| page.spans());
    let missing: Vec<&&str> = english.symmetric_difference(&chinese).collect();
    assert!(missing.is_empty(), "in one of the two only: {missing:?}");
}

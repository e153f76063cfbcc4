//! The bytes that DESIGN.md draws are those that the module reads. It reads each value in one form only, so they are those that it writes, too.

use harness::{OK, Server, unix_ms};

use super::page::DESIGN;

/// The drawings of the chapter on bytes, in order.
fn drawings() -> Vec<&'static str> {
    let (_, chapter) = DESIGN.text.split_once("## What are the bytes?").expect("the chapter");
    let (chapter, _) = chapter.split_once("\n## ").expect("the next one");
    chapter.split("```").skip(1).step_by(2).map(|block| block.trim_start_matches("text\n")).collect()
}

/// The bytes at the front of each line; what stands behind them is told by two spaces and more.
fn bytes(drawing: &str) -> Vec<u8> {
    let fronts = drawing.lines().map(|line| line.split("  ").next().unwrap_or_default());
    fronts.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect()
}

#[test]
fn the_bytes_and_the_effects_are_those_that_are_drawn() {
    let server = Server::builder().module_args("accept-effects yes").start();
    let far = 4_102_444_800_000_i64;
    let guarded = |token, fence, reply: &str| {
        let guard = format!("LOCK.GUARD lock {token} FENCE {fence} ECHO held");
        assert!(format!("{:?}", server.cmd(guard)).starts_with(reply), "{token} {fence}");
    };
    let is = |id: &str, wanted: &str| {
        let order = server.cmd(["STOCK.ORDER", "sale", id]).fields();
        let fields = ["state", "units", "buyer", "ref", "deadline"].map(|field| format!("{:?}", order[field]));
        assert_eq!(fields.join(" ").replace('"', ""), wanted);
    };
    let [lock, header, block, effects] = drawings().try_into().expect("four drawings");

    server.expect([&b"LOCK.APPLY"[..], b"lock", b"LOAD", &bytes(lock)], OK);
    assert_eq!(server.cmd("LOCK.INFO lock").field("mode").text(), "exclusive");
    guarded("ada", 1_700_000_000_000_001_i64, "-NOTHELD");
    guarded("ada", 1_700_000_000_000_000, "\"held\"");
    let left = server.cmd("LOCK.INFO lock").field("holders").at(0).field("lease-ms").int();
    assert!((far - unix_ms() - left).abs() < 60_000, "{left}");

    server.expect([&b"STOCK.APPLY"[..], b"sale", b"LOAD", &bytes(header)], OK);
    server.expect([&b"STOCK.APPLY"[..], b"sale", b"MORE", &bytes(block)], OK);
    is("4711", &format!("held 2 ada r-1 {far}"));
    assert_eq!(server.cmd("STOCK.INFO sale").field("total").int(), 100);
    assert_eq!(server.cmd("STOCK.INFO sale").field("seq").int(), 7);

    for effect in effects.lines() {
        server.expect(effect.split("  ").next().expect("words"), OK);
    }
    guarded("ada", 1_700_000_000_000_000, "-NOTHELD");
    guarded("bob", 1_700_000_000_000_001, "\"held\"");
    is("4711", "sold 2 ada r-1 -1");
    is("4712", &format!("held 3 ada r-2 {far}"));
    server.expect("STOCK.ADJUST sale 0", 95);
}

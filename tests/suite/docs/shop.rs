//! examples/shop: both shops answer what their page says, also a second time.
//!
//! They need `FastAPI`, Express, curl, sqlite3 and the outbox: `make test-docs` gets all but curl and sqlite3, and runs this.

use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};

use harness::{Server, eventually, free_port, kill, spawn};

use super::page::SHOP;
use super::python::python;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shop");

/// A shop that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        kill(&mut self.0);
    }
}

/// What a shell prints. It finds the outbox and the server, and writes in a folder of the server.
fn shell(line: &str, server: &Server) -> String {
    let path =
        format!("{}:{}", concat!(env!("CARGO_MANIFEST_DIR"), "/target/release"), env::var("PATH").expect("a path"));
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(server.dir()).env("PATH", path);
    let output = shell.env("LOCKSTOCK_URL", format!("redis://{}", server.address())).output().expect("a shell");
    String::from_utf8(output.stdout).expect("text").trim_end().into()
}

fn play(mut shop: Command, port: u16, server: &Server) {
    shop.current_dir(FOLDER).env("REDIS_URL", format!("redis://{}", server.address())).env("PORT", port.to_string());
    shop.stdin(Stdio::null());
    let _shop = Running(spawn(shop).expect("it starts"));
    let here = format!("localhost:{port}");
    eventually("it listens", || {
        shell(&format!("curl -s {here}/sales/x/orders/x"), server) == r#"{"status":"NOORDER"}"#
    });
    let again = SHOP.text.split("To begin anew, run `redis-cli ").nth(1).and_then(|rest| rest.split('`').next());
    let again = again.expect("how to begin anew");
    for _ in 0..2 {
        let mut played = 0;
        for block in SHOP.blocks("text") {
            for (call, printed) in block.shell_calls() {
                let call = call.replace("localhost:8000", &here).replace("curl ", "curl -s ");
                assert_eq!(shell(&call, server), printed.join("\n"), "{call}");
                played += 1;
            }
        }
        assert_eq!(played, 19);
        server.cmd(again);
        fs::remove_file(server.dir().join("orders.db")).expect("the outbox made it");
        server.expect("DBSIZE", 0);
    }
}

#[test]
#[ignore = "needs FastAPI: make test-docs"]
fn the_one_with_fastapi() {
    let (server, port) = (Server::start(), free_port());
    let mut shop = python();
    shop.args(["-m", "uvicorn", "shop:shop", "--log-level", "warning", "--port", &port.to_string()]);
    play(shop, port, &server);
}

#[test]
#[ignore = "needs Express: make test-docs"]
fn the_one_with_express() {
    let (server, port) = (Server::start(), free_port());
    let mut shop = Command::new("node");
    shop.arg("shop.mjs");
    play(shop, port, &server);
}

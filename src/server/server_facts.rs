//! Information of the server about itself and its clients: `INFO`, `CONFIG GET`, `CLIENT LIST`.

use std::ffi::CStr;
use std::ptr;

use super::api;
use super::call::{How, call};
use super::ctx::Ctx;
use super::timer;

/// Whether `client` has declared itself an import source, which only Valkey's import mode has.
pub fn is_import_source(ctx: &mut Ctx<'_>, client: u64) -> bool {
    line_of(ctx, client).is_some_and(|line| flags_of(&line).contains('I'))
}

/// Whether `client` is a connection, and not a client that the server made for a script or for another module.
pub fn is_connection(ctx: &mut Ctx<'_>, client: u64) -> bool {
    // If the server does not list clients, assume a connection.
    line_of(ctx, client).is_none_or(|line| !flags_of(&line).is_empty())
}

/// The flags in a line of `CLIENT LIST`.
fn flags_of(line: &str) -> &str {
    line.split(' ').find_map(|word| word.strip_prefix("flags=")).unwrap_or_default()
}

/// The line of `CLIENT LIST` for `client`, or an empty one. `None` if the server does not answer.
fn line_of(ctx: &mut Ctx<'_>, client: u64) -> Option<String> {
    let mut id = itoa::Buffer::new();
    let reply = call(ctx, c"CLIENT", How::Quietly, &[b"LIST", b"ID", id.format(client).as_bytes()])?;
    Some(String::from_utf8_lossy(&reply.text()).into_owned())
}

/// Whether a script or a function runs. If the server does not answer, assume one.
pub fn runs_script() -> bool {
    // While a script runs, the answer is an error; while a function runs, it describes the function.
    let stats = |ctx: &mut Ctx<'_>| call(ctx, c"FUNCTION", How::Quietly, &[b"STATS"]);
    timer::with_detached(stats).flatten().is_none_or(|stats| stats.is_error() || !stats.elements(1).is_empty())
}

/// The value of the server setting `name`; `None` if there is no such setting, or the server does not answer.
pub fn setting(ctx: &mut Ctx<'_>, name: &CStr) -> Option<String> {
    // Name and value; empty if there is no such setting.
    let reply = call(ctx, c"CONFIG", How::Quietly, &[b"GET", name.to_bytes()])?;
    reply.element(1).map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// The databases that hold keys. Do not select other databases without need: Valkey 9 allocates a database when it is selected, which in a
/// cluster takes most of a megabyte. If the server does not answer, all possible databases.
pub fn databases(ctx: &mut Ctx<'_>) -> Vec<i32> {
    match call(ctx, c"INFO", How::Quietly, &[b"keyspace"]) {
        Some(reply) => databases_in(&String::from_utf8_lossy(&reply.text())),
        None => (0..i32::MAX).take_while(|db| ctx.select(*db)).collect(),
    }
}

/// Parses the section of `INFO` that has a line for each database: `db0:keys=1,expires=0`.
fn databases_in(info: &str) -> Vec<i32> {
    info.lines().filter_map(|line| line.strip_prefix("db")?.split(':').next()?.parse().ok()).collect()
}

/// Whether the server is Valkey, for differences that no function reveals.
pub fn is_valkey() -> bool {
    of_info(c"server", c"valkey_version").is_some()
}

/// Whether this is a replica where clients may write.
pub fn is_writable_replica() -> bool {
    of_info(c"replication", c"slave_read_only").is_some_and(|read_only| read_only == "0")
}

/// The value of `field` in the section `section` of `INFO`.
pub fn of_info(section: &CStr, field: &CStr) -> Option<String> {
    // The server would use a context only to manage the memory of the data.
    let no_context = ptr::null_mut();
    // SAFETY: both texts are C strings. The returned text belongs to the data, and is copied before the data is freed.
    unsafe {
        let data = api::get_server_info(no_context, section.as_ptr());
        let text = if data.is_null() { ptr::null() } else { api::server_info_get_field_c(data, field.as_ptr()) };
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        if !data.is_null() {
            api::free_server_info(no_context, data);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::databases_in;

    #[test]
    fn the_databases_that_hold_keys() {
        let info = "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\ndb15:keys=2,expires=0\r\ndbx:keys=2\r\n";
        assert_eq!(databases_in(info), [0, 15]);
        assert_eq!(databases_in("# Keyspace\r\n"), [0; 0]);
    }
}

//! Memory from the server's own allocator, so that `used_memory`, `maxmemory` and `MEMORY USAGE` include all of ours.
//! Tests and fuzz targets of this library run without a server, on the allocator of the system.
//!
//! The bindings crate's own allocator lacks `realloc` and `alloc_zeroed`, so it would copy every growing vector.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use redis_module::raw;

use super::api;

/// The alignment of the server's allocator on every platform it supports.
const SERVER_ALIGN: usize = 16;

/// The server's allocator. It reports "out of memory" before the module is initialised, and for larger alignments than the server
/// guarantees, which nothing here requests.
struct ServerAlloc;

#[cfg_attr(not(any(test, fuzzing)), global_allocator)]
#[cfg_attr(any(test, fuzzing), expect(dead_code, reason = "there is no server"))]
static ALLOCATOR: ServerAlloc = ServerAlloc;

/// Whether the server's allocator can be called and satisfies `layout`.
fn usable(layout: Layout) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes, before any other thread of ours runs.
    layout.align() <= SERVER_ALIGN && unsafe { (&raw const raw::RedisModule_Alloc).read() }.is_some()
}

// SAFETY: the four functions forward to the server's allocator, which has malloc's guarantees, is thread-safe and does
// not unwind. Blocks are aligned to 16 bytes, and stronger demands are refused.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !usable(layout) {
            return ptr::null_mut();
        }
        // SAFETY: `usable` saw the API initialised.
        unsafe { api::alloc(layout.size()) }.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !usable(layout) {
            return ptr::null_mut();
        }
        // SAFETY: `usable` saw the API initialised.
        unsafe { api::calloc(1, layout.size()) }.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block came from `alloc`, so the API is initialised and the block is the server's.
        unsafe { api::free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, _layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from `alloc`, so the API is initialised and the block is the server's.
        unsafe { api::realloc(block.cast(), size) }.cast()
    }
}

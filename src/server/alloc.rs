//! Memory from the server's own allocator, so that `used_memory`, `maxmemory` and `MEMORY USAGE` include all of ours.
//! Tests and fuzz targets of this library run without a server, on the allocator of the system.
//!
//! The bindings crate's own allocator lacks `realloc`, so it would copy every growing vector.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use redis_module::raw;

use super::api;

/// The alignment of every block of the server's allocator. The jemalloc that Redis and Valkey bundle is built with a quantum of 8 bytes, so
/// a block of 40 bytes may begin at an odd multiple of 8; that of a distribution aligns all blocks to 16.
const BLOCK_ALIGN: usize = 8;

/// The alignment of every block whose size is a multiple of it.
const SERVER_ALIGN: usize = 16;

/// The server's allocator. It reports "out of memory" before the module is initialised, and for larger alignments than the server
/// guarantees, which nothing here requests.
struct ServerAlloc;

#[cfg_attr(not(any(test, fuzzing)), global_allocator)]
#[cfg_attr(any(test, fuzzing), expect(dead_code, reason = "there is no server"))]
static ALLOCATOR: ServerAlloc = ServerAlloc;

/// How many bytes to request for `size` bytes that must have this alignment.
fn padded(size: usize, align: usize) -> usize {
    // Rounded up, the size of a layout does not overflow.
    if align > BLOCK_ALIGN { size.checked_next_multiple_of(SERVER_ALIGN).unwrap_or(size) } else { size }
}

/// Whether the server's allocator can be called and satisfies `layout`.
fn usable(layout: Layout) -> bool {
    // SAFETY: a plain read of a pointer that only module initialisation writes, before any other thread of ours runs.
    layout.align() <= SERVER_ALIGN && unsafe { (&raw const raw::RedisModule_Alloc).read() }.is_some()
}

// SAFETY: the three functions forward to the server's allocator, which has malloc's guarantees apart from the alignment, is thread-safe and
// does not unwind. Blocks have the alignment that the layout demands, because `padded` rounds their sizes, and more than 16 is refused.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !usable(layout) {
            return ptr::null_mut();
        }
        // SAFETY: `usable` saw the API initialised.
        unsafe { api::alloc(padded(layout.size(), layout.align())) }.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block came from `alloc`, so the API is initialised and the block is the server's.
        unsafe { api::free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from `alloc`, so the API is initialised and the block is the server's.
        unsafe { api::realloc(block.cast(), padded(size, layout.align())) }.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of blocks whose size is no multiple of 16 the bundled jemalloc begins some at an odd multiple of 8.
    #[test]
    fn a_block_that_must_be_aligned_to_sixteen_has_a_size_that_the_server_aligns_so() {
        for size in 1..200 {
            assert_eq!(padded(size, 16), size.next_multiple_of(16));
            assert_eq!(padded(size, 8), size);
        }
    }
}

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockstock::fuzz::requests(data));

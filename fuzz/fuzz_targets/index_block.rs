//! libFuzzer entry point for the fuzz target `index_block` of `crates/tree`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("index_block", bytes));

//! libFuzzer entry point for the fuzz target `run_index` of `crates/tree`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("run_index", bytes));

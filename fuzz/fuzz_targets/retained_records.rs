//! libFuzzer entry point for the fuzz target `retained_records` of `crates/engine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("retained_records", bytes));

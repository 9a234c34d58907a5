//! libFuzzer entry point for the fuzz target `recovery` of `crates/engine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("recovery", bytes));

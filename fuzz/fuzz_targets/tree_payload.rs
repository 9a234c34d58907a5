//! libFuzzer entry point for the fuzz target `tree_payload` of `crates/tree`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("tree_payload", bytes));

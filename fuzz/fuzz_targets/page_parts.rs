//! libFuzzer entry point for the fuzz target `page_parts` of `crates/tree`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("page_parts", bytes));

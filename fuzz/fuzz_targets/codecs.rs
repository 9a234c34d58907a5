//! libFuzzer entry point for the fuzz target `codecs` of `crates/base`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("codecs", bytes));

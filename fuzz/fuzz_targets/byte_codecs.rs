//! libFuzzer entry point for the fuzz target `byte_codecs` of `crates/base`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("byte_codecs", bytes));

//! libFuzzer entry point for the fuzz target `log_headers` of `crates/write_ahead_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("log_headers", bytes));

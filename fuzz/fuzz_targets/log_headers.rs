//! The target `log_headers` of `crates/write_ahead_log`, in libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("log_headers", bytes));

//! libFuzzer entry point for the fuzz target `backup_list` of `crates/engine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("backup_list", bytes));

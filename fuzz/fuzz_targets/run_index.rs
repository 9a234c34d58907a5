//! The target `run_index` of `crates/tree`, in libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("run_index", bytes));

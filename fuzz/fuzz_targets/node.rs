//! The target `node` of `crates/tree`, in libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("node", bytes));

//! The target `tree_payload` of `crates/tree`, in libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("tree_payload", bytes));

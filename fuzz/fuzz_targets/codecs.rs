//! The target `codecs` of `crates/base`, in libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("codecs", bytes));

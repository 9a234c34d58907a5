//! The target `catalogue_records` of `crates/engine`, in libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("catalogue_records", bytes));

//! libFuzzer entry point for the fuzz target `superblock` of `crates/block_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| teak_fuzz::run("superblock", bytes));

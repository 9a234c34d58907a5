//! The tests of this crate that use its public interface, in one program: each program takes some seconds to be linked.

// A test fails by a panic, and the numbers that it converts are small.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod amplification;
mod block_map;
mod bulk;
mod checkpoint;
mod column_pages;
mod common;
mod concurrency;
mod crowded;
mod divided;
mod divided_lookups;
mod faults;
mod fuzz_smoke;
mod idle;
mod merges;
mod nodes;
mod oracle;
mod page_sample;
mod prefetch;
mod prefixes;
mod projection;
mod salvage;
mod separate;
mod shape;
mod space;
mod warm_pages;

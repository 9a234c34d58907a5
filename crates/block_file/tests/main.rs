//! The tests of this crate that use its public interface, in one program: each program takes some seconds to be linked.

// A test fails by a panic, and the numbers that it converts are small.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod checkpoint_pin;
mod common;
mod crash;
mod damage;
mod encryption;
mod failures;
mod format;
mod fuzz_smoke;
mod increments;
mod lifecycle;
mod older_state;
mod scan;

//! The tests of this crate that use its public interface, in one program: each program takes some seconds to be linked.

// A test fails by a panic, and the numbers that it converts are small.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod bound;
mod common;
mod copy;
mod crash;
mod damage;
mod encryption;
mod format;
mod full_disk;
mod fuzz_smoke;
mod group_commit;
mod recycled;
mod replay;
mod survey;

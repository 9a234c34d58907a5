//! Support for the fuzz targets of all crates: the target type, structured input, and a test that
//! runs on mutated inputs without a fuzzer. Not part of the public interface.
//!
//! A crate lists its targets in its own `fuzzing` module, and its test `fuzz_smoke`
//! runs them on mutated seeds. The fuzz crate has one program for each target. A
//! target panics when a property is violated.

// A target panics on a violation.
#![allow(clippy::expect_used, clippy::panic)]

mod input;
mod mutation;
mod target;
mod targets;

pub use input::Input;
pub use mutation::{Random, smoke};
pub use target::Target;
pub use targets::TARGETS;

//! What the fuzz targets of all crates share: their list, structured input,
//! and mutation of valid inputs for toolchains without a fuzzer. Not part of
//! the interface.
//!
//! Each crate lists its targets in its own `fuzzing` module. The fuzz crate
//! has one program for each; the crate's test `fuzz_smoke` runs them on
//! mutated seeds. A target panics when something does not hold.

mod input;
mod mutation;
mod targets;

pub use input::Input;
pub use mutation::{Random, smoke};
pub use targets::TARGETS;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its program in the fuzz crate.
    pub name: &'static str,
    /// Panics when something does not hold for the input.
    pub run: fn(&[u8]),
    /// Valid inputs to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

//! The description of a fuzz target.

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its program in the fuzz crate.
    pub name: &'static str,
    /// Runs one input. Panics when a property is violated.
    pub run: fn(&[u8]),
    /// Valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

//! Seeded rows for the benchmarks: the same shape, seed and count give the same rows on every
//! machine.
//!
//! This crate generates data only. The SQL benchmarks in `bench/sql` load it.
//!
//! - [`random`]: random numbers and words.
//! - [`text`]: rows in the format of LOAD DATA, or as multi-row INSERT statements.
//! - [`shapes`]: the tables: a star schema's facts, sensor readings, flights, purchases.

pub mod random;
pub mod shapes;
pub mod text;

//! Seeded rows for the benchmarks: the same shape, seed and count give the same rows on every
//! machine.
//!
//! This crate only generates rows. The SQL benchmarks in `bench/sql` load them.
//!
//! - [`random`]: random numbers and words.
//! - [`calendar`]: dates and times.
//! - [`text`]: rows in the format of LOAD DATA, or as multi-row INSERT statements.
//! - [`shapes`]: the rows of each table: facts of a star schema, sensor readings, flights,
//!   purchases.
//! - [`web_log`]: the rows of a web log of 105 columns.

pub mod calendar;
pub mod random;
pub mod shapes;
pub mod text;
pub mod web_log;

//! Seeded rows for the benchmarks: the same shape, seed and count give the same bytes on every machine.
//!
//! What it is not: a benchmark. The SQL benchmarks under `bench/sql` load what this writes.
//!
//! - [`random`]: the generator of numbers, and words made from them.
//! - [`text`]: rows as LOAD DATA reads them, or as multi-row INSERT statements.
//! - [`shapes`]: the tables: a star schema's facts, sensor readings, flights, purchases.

pub mod random;
pub mod shapes;
pub mod text;

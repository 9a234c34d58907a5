//! Seeded simulation of the whole engine on a faulty disk, compared with the
//! model (`crates/model`). One seed is one run:
//!
//! 1. A *swarm configuration* is drawn from the seed: sizes, shapes of rows,
//!    weights of the kinds of steps.
//! 2. An *incarnation* of the engine begins: the engine is opened, possibly while the disk fails.
//!    The contents of the disk are compared with the model: they must be the state after some
//!    prefix of the journal that contains every acknowledged event, including the preparation of
//!    transactions. Every block is verified.
//! 3. Steps follow: interleaved transactions with savepoints, reads, locking
//!    reads, two-phase commits, table changes, counters, background work,
//!    checkpoints. Each answer is compared with the model's. If a fault is
//!    planned, an error is allowed, but never a wrong answer.
//! 4. The incarnation ends by closing, by a kill of the process or by power
//!    loss. The next one begins.
//!
//! A run uses no threads and no clock: a failure replays from its seed. Races
//! between threads are tested by [`simulate_threads`], whose runs do not replay.

mod alter;
mod check;
mod counters;
mod faults;
mod hidden;
mod incarnation;
mod loads;
mod older_files;
mod outcome;
mod prepared;
mod reads;
mod report;
mod rows;
mod sessions;
mod simulate;
mod simulation;
mod steps;
mod swarm;
mod table_changes;
mod threads;
mod writes;

pub use report::{Failure, Report};
pub use simulate::simulate;
pub use threads::simulate_threads;

//! The oracle: what a storage engine with tables, indexes, transactions,
//! savepoints and snapshots should hold and answer, kept in ordered maps. It is
//! slow and obviously correct; it has no files, no threads and no dependency,
//! and shares no code with what it judges.
//!
//! Three ideas:
//! - Committed versions stand beside the key, each with its place in the commit
//!   order. A snapshot is a place in that order.
//! - A transaction is the list of what it wrote. A savepoint is a length of
//!   that list.
//! - The *journal* lists every commit, promise and table change in order. What is
//!   acknowledged is a prefix of it; after a crash the store holds some prefix
//!   at least as long, and nothing else.

mod contents;
mod journal;
mod marks;
mod model;
mod prepared;
mod reads;
mod tables;
mod writes;

pub use contents::{Contents, TableContents};
pub use journal::Event;
pub use marks::Stopped;
pub use model::{
    IndexSource, LockMode, Mark, Model, Moment, Place, Scope, TableId, TooOld, TransactionId,
};
pub use writes::{Check, Outcome};

/// A key, ordered by its bytes.
pub type Key = Vec<u8>;

/// A value.
pub type Value = Vec<u8>;

#[cfg(test)]
mod tests;

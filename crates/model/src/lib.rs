//! The model: the expected state and answers of a storage engine with tables, indexes,
//! transactions, savepoints and snapshots, kept in ordered maps. It is slow, but simple enough to
//! be verified by reading. It has no files, no threads and no dependencies, and shares no code with
//! the engine.
//!
//! Three ideas:
//! - Each key has its committed versions, numbered in commit order. A snapshot is
//!   a number in that order.
//! - A transaction is the list of its writes. A savepoint is the length of that list at the time.
//! - The *journal* lists every commit, prepare and table change in order. The
//!   acknowledged events are a prefix of it. After a crash an engine must have
//!   the state after some prefix that is at least as long.

mod apply;
mod contents;
mod events;
mod journal;
mod locking;
mod prepared;
mod range_locks;
mod reads;
mod store;
mod tables;
mod transactions;
mod types;
mod writes;

pub use contents::{Contents, TableContents};
pub use events::{Event, Writes};
pub use store::Model;
pub use types::{
    AccessOutcome, EntryKey, IndexSource, InsertBlocked, Key, LockMode, Moment, RowCheck,
    Savepoint, Scope, TableId, TooOld, TransactionId, Value,
};

#[cfg(test)]
mod tests;

//! Transactions without storage: the status and commit order of writes
//! ([`WriteIdTable`]), the versions that a reader sees ([`Snapshots`],
//! [`ReadView`]), and locks ([`Latches`], [`RowLocks`], [`RangeLocks`]) with
//! deadlock detection. [`TransactionSystem`] combines them.
//!
//! This crate stores no rows, writes no log and starts no threads. The engine allocates a write id
//! before the first write of a transaction, and publishes the ids after it has logged the commit
//! record.

mod counts;
mod error;
mod handle;
mod horizon;
mod latches;
mod lock_id;
mod lock_memory;
mod lock_types;
mod range_locks;
mod range_queue_positions;
mod read_view;
mod row_locks;
mod row_name;
mod running;
mod snapshots;
mod sync;
mod system;
mod transaction;
mod wait_graph;
mod wait_listener;
mod waker;
mod write_ids;
mod write_waits;

pub mod report;

pub use counts::TransactionCounts;
pub use error::WaitError;
pub use handle::TransactionHandle;
pub use horizon::MergeHorizon;
pub use latches::{LatchGuard, Latches};
pub use lock_id::LockId;
pub use lock_types::{BlockerKind, LockMode, RangeLockKind};
pub use range_locks::RangeLocks;
pub use range_queue_positions::RangeQueuePositions;
pub use read_view::{ReadView, ViewKind};
pub use row_locks::RowLocks;
pub use row_name::RowName;
pub use snapshots::Snapshots;
pub use system::TransactionSystem;
pub use teak_base::TransactionId;
pub use transaction::{Savepoint, Transaction};
pub use wait_listener::{Owner, WaitListener};
pub use write_ids::{WriteIdCounts, WriteIdTable};

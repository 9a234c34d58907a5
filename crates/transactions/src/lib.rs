//! Transactions without storage: which writes are committed and in what order
//! ([`WriteIdTable`]), what a reader may see ([`Snapshots`], [`View`]), and who
//! may write a row next ([`Latches`], [`RowLocks`], waits for other writers).
//!
//! This crate holds no rows, writes no log and starts no threads. The engine
//! calls it around its log appends: allocate a write id before the first write,
//! publish the ids after the commit record is durable.

mod range_waits;
mod ranges;
mod sync;
mod wait_graph;

pub mod error;
pub mod hash;
pub mod latches;
pub mod range_locks;
pub mod report;
pub mod row_locks;
pub mod shared;
pub mod snapshots;
pub mod system;
pub mod transaction;
pub mod view;
pub mod wait_listener;
pub mod waits;
pub mod write_ids;

pub use error::WaitError;
pub use hash::LockId;
pub use latches::{LatchGuard, Latches};
pub use range_locks::{RangeLockKind, RangeLocks};
pub use range_waits::RangeQueuePositions;
pub use row_locks::{LockMode, RowLocks, RowName};
pub use shared::TransactionHandle;
pub use snapshots::Snapshots;
pub use system::{MergeHorizon, TransactionSystem};
pub use teak_base::TransactionId;
pub use transaction::{Savepoint, Transaction};
pub use view::{ReadView, ViewKind};
pub use wait_listener::{Owner, WaitListener};
pub use write_ids::WriteIdTable;

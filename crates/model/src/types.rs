//! The value types of the model.

use std::collections::BTreeMap;

/// A key, ordered by its bytes.
pub type Key = Vec<u8>;

/// A value.
pub type Value = Vec<u8>;

/// Identifies a table independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId(pub u64);

/// Identifies a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(pub u64);

/// A savepoint: the number of writes of the transaction at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub(crate) usize);

/// The key of an entry, with its table and index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    /// The table.
    pub table: TableId,
    /// The number of the index in the table; index 0 contains the rows.
    pub index: usize,
    /// The key.
    pub key: Key,
}

/// The lifetime of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The snapshot lasts from the first read of a statement to the end of the
    /// statement.
    Statement,
    /// The snapshot lasts from the first read to the end of the transaction.
    Transaction,
}

/// The mode of an explicit row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// Conflicts with writes and exclusive locks.
    Shared,
    /// Conflicts with writes and all locks.
    Exclusive,
}

/// A point in the history of the store: the number of commits before it, and
/// the number of operations before it that an engine may count as commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub(crate) commits: u64,
    pub(crate) clock: u64,
}

/// The source of an index of an altered table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexSource {
    /// An index that the table already had, by its number before the change.
    Kept(usize),
    /// A new index.
    Added {
        /// Its entries.
        entries: BTreeMap<Key, Value>,
        /// When it was built.
        created_at: Moment,
    },
}

/// Whether a snapshot is too old to read an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooOld {
    /// The read must be served.
    No,
    /// The read must be refused.
    Yes,
    /// Both answers are correct, because nothing was committed between the snapshot and the
    /// creation of the index.
    Either,
}

/// The result of a write or of a locking read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOutcome {
    /// The write or read succeeded.
    Done,
    /// A key that must be free has a live entry.
    Duplicate,
    /// A row that must exist does not.
    NotFound,
    /// The row was changed by a commit after the transaction's snapshot.
    Conflict,
    /// Another open transaction wrote or locked a key.
    MustWait,
}

/// The requirement of a write on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCheck {
    /// The key has no live entry.
    Free,
    /// The key has a live entry that the transaction may write.
    Writable,
}

/// Whether gap locks of other transactions block an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InsertBlocked {
    /// No: no other transaction has read the table with locks.
    No,
    /// Possibly: another transaction has read the table with locks, and an engine may lock more
    /// than the range that was read.
    Possibly,
    /// Yes: another transaction has read, with locks, a range that contains the key.
    Yes,
}

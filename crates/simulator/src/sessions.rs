//! Open transactions, cursors and alterations. Each pairs the engine's object
//! with the state that the model expects.

use std::collections::BTreeSet;
use std::path::PathBuf;
use teak_engine::{Alteration, Cursor, EngineTransaction};
use teak_model::{Key, Moment, Savepoint, TableId, TransactionId, Value};

/// A cursor that remains open during other steps.
pub(crate) struct HeldCursor {
    pub(crate) cursor: Cursor,
    /// The entries that it must return, in its direction.
    pub(crate) expected: Vec<(Key, Value)>,
    pub(crate) next: usize,
    pub(crate) forward: bool,
}

/// An open transaction, in the engine and in the model.
pub(crate) struct Session {
    pub(crate) transaction: EngineTransaction,
    pub(crate) model: TransactionId,
    pub(crate) repeatable: bool,
    pub(crate) savepoints: Vec<(u64, Savepoint)>,
    /// Tables that it read or wrote.
    pub(crate) touched: BTreeSet<TableId>,
    pub(crate) held: Vec<HeldCursor>,
}

pub(crate) struct Prepared {
    pub(crate) name: String,
    /// The session with its handle, until it is detached or lost in a crash.
    pub(crate) session: Option<Session>,
}

/// A table that is being altered.
pub(crate) struct Altering {
    pub(crate) table: TableId,
    pub(crate) alteration: Alteration,
    /// The kinds of its indexes afterwards.
    pub(crate) kinds: Vec<u8>,
    /// The kinds of the added indexes.
    pub(crate) added: Vec<u8>,
    /// The moment at which the added indexes were built.
    pub(crate) built: Option<Moment>,
}

/// A hidden file, see `hidden`.
#[derive(Debug)]
pub(crate) struct HiddenFile {
    pub(crate) table: TableId,
    /// The table's name, which cannot change until the file is back.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) away: PathBuf,
}

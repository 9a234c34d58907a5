//! Open transactions, cursors and alterations. Each pairs the engine's object
//! with the state that the model expects.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use teak_base::FileId;
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
    /// Tables that the transaction has read or written.
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
    /// The kinds of all indexes of the table after the alteration.
    pub(crate) kinds: Vec<u8>,
    /// The kinds of the added indexes.
    pub(crate) added: Vec<u8>,
    /// Whether it is a repair: the rows are salvaged, and the files of the old indexes become orphans.
    pub(crate) repairs: bool,
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
    pub(crate) change: FileChange,
}

/// What the simulation knows of the index files. The keys are file ids, which are not reused.
#[derive(Default)]
pub(crate) struct KnownFiles {
    /// The number of a checkpoint; the catalogue contains this one or a later one.
    pub(crate) noted: BTreeMap<FileId, u64>,
    /// The number of the newest checkpoint in a copy of the file, and the copy.
    pub(crate) copies: BTreeMap<FileId, (u64, Vec<u8>)>,
    /// The names of files that a repair replaces.
    pub(crate) replaced: BTreeSet<OsString>,
}

/// What was done to a hidden file.
#[derive(Debug)]
pub(crate) enum FileChange {
    /// The file was moved to this path.
    Away(PathBuf),
    /// The file was moved to this path, and an older copy is in its place.
    Replaced(PathBuf),
    /// The byte at this offset, in the newest superblock, is damaged.
    Damaged(u64),
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(_) => f.write_str("moved away"),
            Self::Replaced(_) => f.write_str("replaced by an older copy"),
            Self::Damaged(offset) => write!(f, "damaged at byte {offset}"),
        }
    }
}

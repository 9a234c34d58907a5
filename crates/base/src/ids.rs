//! Identifiers that several crates use.

use std::fmt;

macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// Identifies the entries that a transaction wrote in one statement, or between two savepoints.
    /// Zero means settled: visible to every snapshot.
    WriteId
}
id! {
    /// A byte position in the logical log stream. Positions only increase and
    /// are never reused.
    Lsn
}
id! {
    /// Identifies one index file of the instance. Ids are never reused, except those of temporary
    /// tables after a restart.
    FileId
}
id! {
    /// The position of a commit in the total commit order. A snapshot is
    /// defined by the last sequence that it sees.
    CommitSequence
}
id! {
    /// Identifies a transaction while the engine is open.
    TransactionId
}

impl WriteId {
    /// The id of entries that every snapshot sees.
    pub const SETTLED: WriteId = WriteId(0);

    /// Whether the write is settled, so that no lookup of its status is needed.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.0 == 0
    }
}

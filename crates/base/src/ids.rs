//! Identifiers that more than one floor speaks of.

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
    /// Names one write of one transaction (a statement or a savepoint scope).
    /// Zero means settled: the write is visible to every snapshot there can be.
    WriteId
}
id! {
    /// A byte position in the logical log stream; never reused, grows for ever.
    Lsn
}
id! {
    /// Names one index file for the life of the instance; never reused.
    FileId
}
id! {
    /// The place of a commit in the one total commit order. A snapshot is the
    /// last sequence it may see.
    CommitSequence
}
id! {
    /// Names a transaction while the engine is open.
    TransactionId
}

impl WriteId {
    /// The id of entries that every snapshot sees.
    pub const SETTLED: WriteId = WriteId(0);

    /// Whether the entry needs no lookup of its writer's state.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.0 == 0
    }
}

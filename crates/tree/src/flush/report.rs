//! Kinds of jobs, and the report of a finished one.

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobKind {
    /// Flushes the oldest frozen memtable.
    Memtable,
    /// Pushes the runs of an inner child to the children below it.
    Child,
    /// Merges adjacent runs of an inner child, or adjacent pending runs of a leaf, with each other.
    Consolidate,
    /// Merges the pending runs of a leaf with the bottom runs that they overlap, or with all.
    Leaf,
    /// Marks runs of a child as settled, without rewriting them.
    Mark,
    /// Moves blocks of runs of a child to holes nearer to the start of the file.
    Relocate,
}

/// Counts of a finished job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushReport {
    /// Entries read.
    pub entries_read: u64,
    /// Entries written.
    pub entries_written: u64,
    /// Raw bytes written.
    pub raw_bytes_written: u64,
    /// Bytes written to the file, headers and padding included; zero for a relocation.
    pub stored_bytes_written: u64,
    /// Runs written.
    pub runs_written: u64,
    /// Runs moved down, or relocated in the file, without a merge.
    pub runs_moved: u64,
    /// Bytes that a relocation has written: copied blocks, and rewritten pages and indexes.
    pub bytes_relocated: u64,
}

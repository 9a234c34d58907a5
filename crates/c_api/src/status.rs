//! Status codes.

/// Result of a call. Values never change and are never reused; later versions may add values, so
/// treat an unknown value as an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_status {
    /// Success; out-parameters are written.
    TEAK_OK = 0,
    /// No such key, row, prepared transaction or list element; the cursor has no further row.
    TEAK_NOT_FOUND = 1,
    /// A live entry with the same unique key exists. No entry of the row was written.
    TEAK_DUPLICATE_KEY = 2,
    /// The timeout expired while the call waited for another transaction.
    TEAK_LOCK_TIMEOUT = 3,
    /// Deadlock: this transaction was selected from a cycle in the waits-for graph. Roll it back
    /// and retry it.
    TEAK_DEADLOCK = 4,
    /// Another transaction changed the row after this transaction's snapshot. Roll the transaction
    /// back and retry it.
    TEAK_CONFLICT = 5,
    /// teak_transaction_interrupt(), or the caller's interrupt callback, ended the call.
    TEAK_INTERRUPTED = 6,
    /// The disk or quota is full, or the log is full and no checkpoint could shorten it in time.
    TEAK_NO_SPACE = 7,
    /// Stored bytes are damaged. For a damaged file, the message contains its name and the offset.
    TEAK_CORRUPT = 8,
    /// A file operation failed.
    TEAK_IO = 9,
    /// A table of this name exists.
    TEAK_TABLE_EXISTS = 10,
    /// No table of this name exists.
    TEAK_NO_SUCH_TABLE = 11,
    /// A key, value or row exceeds its limit.
    TEAK_TOO_LARGE = 12,
    /// An earlier write or sync of the log failed: the engine accepts no more writes. Close it and
    /// open it again. teak_engine_checkpoint() also returns this after a failure of an index file;
    /// then only the writes of its table fail, with TEAK_READ_ONLY.
    TEAK_POISONED = 13,
    /// An invalid argument, such as NULL or a struct_size that is not set, or a call that the state
    /// of the table, transaction or alteration does not permit.
    TEAK_INVALID_ARGUMENT = 14,
    /// A file has a format version that this library does not read, usually a newer one.
    TEAK_UNSUPPORTED_FORMAT = 15,
    /// Out of memory. This version of the library does not return it.
    TEAK_OUT_OF_MEMORY = 16,
    /// Internal error, a call on a transaction that has ended, or the engine is closing.
    TEAK_INTERNAL = 17,
    /// Another process, or another engine of this process, has the data directory open.
    TEAK_IN_USE = 18,
    /// The index was created or replaced after the transaction's snapshot.
    TEAK_TABLE_CHANGED = 19,
    /// Locks have reached their memory limit.
    TEAK_TOO_MANY_LOCKS = 20,
    /// The table has no index with this number.
    TEAK_NO_SUCH_INDEX = 21,
    /// The table refuses writes, because one of its files could not be written or synced.
    TEAK_READ_ONLY = 22,
    /// A file of the table is missing, or log records that are retained for the table cannot be
    /// applied to it. No row is lost if the files can be read later.
    TEAK_UNAVAILABLE = 23,
    /// A backup cannot begin, or has ended before its copy was complete.
    TEAK_BACKUP_FAILED = 24,
    /// An encryption key is missing or wrong. The data is intact.
    TEAK_NO_KEY = 25,
}

impl From<()> for teak_status {
    fn from((): ()) -> Self {
        Self::TEAK_OK
    }
}

#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod autocommit;
mod builder;
mod database;
mod error;
mod index;
mod index_key;
mod rows;
mod scan;
mod schema;
mod session;
mod snapshot;
mod table;
mod table_state;
mod transaction;
mod writes;

pub use self::builder::{Builder, Durability, LogLevel};
pub use self::database::Database;
pub use self::error::{Error, Result};
pub use self::index::{Index, IndexRow, IndexRows};
pub use self::rows::{Row, Rows};
pub use self::schema::TableSchema;
pub use self::session::Isolation;
pub use self::snapshot::Snapshot;
pub use self::table::Table;
pub use self::transaction::{Savepoint, Transaction};
pub use teak_engine::{Codec, EngineStatistics as Statistics, IndexStatistics, Latencies};

/// Disks: where a database stores its files.
///
/// [`Database::open`] uses the file system. Tests can use a [`MemoryDisk`](disk::MemoryDisk), or
/// their own implementation of [`Disk`](disk::Disk), with [`Builder::disk`]:
///
/// ```
/// use std::sync::Arc;
/// use teak::{Database, disk::MemoryDisk};
///
/// # fn main() -> teak::Result<()> {
/// let disk = Arc::new(MemoryDisk::new());
/// let db = Database::builder("/db").disk(disk.clone()).open()?;
/// db.table("t")?.insert("key", "value")?;
/// db.close()?;
///
/// let db = Database::builder("/db").disk(disk).open()?; // the same files
/// assert_eq!(db.table("t")?.get("key")?.as_deref(), Some(b"value".as_slice()));
/// # Ok(())
/// # }
/// ```
pub mod disk {
    pub use teak_base::{StorageError, StorageResult};
    pub use teak_disk::{Disk, DiskFile, DiskLock, MemoryDisk, RealDisk};
}

/// Keys of encrypted tables, for [`Builder::keys`].
pub mod encryption {
    pub use teak_encryption::{KeySource, KeySourceError};
    pub use teak_engine::{KeyId, KeyVersion};
}

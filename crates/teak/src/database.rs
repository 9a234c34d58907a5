//! Open databases.

use crate::error::{Error, Result};
use crate::schema::TableSchema;
use crate::session::Isolation;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::table_state::TableState;
use crate::transaction::Transaction;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use teak_engine::{Engine, EngineError, EngineStatistics};

/// Maximum number of times that [`Database::transact`] runs its closure.
const ATTEMPTS_MAX: usize = 100;

/// An open database: tables in one directory. Clones are cheap, and threads may share it.
///
/// [`Database::close`] flushes all data and writes a checkpoint. If the database is dropped without
/// a close, only the log is made durable: no commit is lost, but the next opening has to replay the
/// log. An error of that sync is reported as a message
/// ([`Builder::messages`](crate::Builder::messages)).
///
/// ```
/// use teak::Database;
///
/// # fn main() -> teak::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("teak-doc-{}", std::process::id()));
/// let db = Database::open(&directory)?;
/// let fruit = db.table("fruit")?;
/// fruit.insert("pear", "green")?;
/// db.transact(|transaction| {
///     transaction.insert(&fruit, "plum", "blue")?;
///     transaction.update(&fruit, "pear", "yellow")?;
///     Ok(())
/// })?;
/// for row in db.snapshot().iter(&fruit) {
///     println!("{:?}", row?);
/// }
/// drop(fruit);
/// db.close()?;
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    engine: Arc<Engine>,
}

impl Database {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine: Arc::new(engine),
        }
    }

    /// Opens a table, which is created if it does not exist. `db.table("t")?` opens a table without
    /// secondary indexes.
    ///
    /// # Errors
    /// [`Error::SchemaMismatch`] when the table has other indexes than the schema;
    /// [`Error::Corrupt`] when its files are damaged; [`Error::TableUnavailable`] when one cannot be
    /// opened; [`Error::InvalidArgument`] when the schema is invalid; errors of the disk.
    pub fn table(&self, schema: impl Into<TableSchema>) -> Result<Table> {
        let schema = schema.into();
        let definition = schema.definition()?;
        let handle = match self.engine.open_table(&schema.name) {
            Err(EngineError::NoSuchTable { .. }) => {
                match self.engine.create_table(&definition) {
                    // Another thread may create it at the same time.
                    Ok(()) | Err(EngineError::TableExists { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                self.engine.open_table(&schema.name)?
            }
            opened => opened?,
        };
        schema.check(handle.metadata())?;
        Ok(Table {
            state: Arc::new(TableState {
                engine: Arc::clone(&self.engine),
                schema,
                handle,
            }),
        })
    }

    /// Whether a table of this name exists.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when it is not a valid name.
    pub fn has_table(&self, name: &str) -> Result<bool> {
        Ok(self.engine.table_exists(name)?)
    }

    /// The names of all tables, sorted.
    #[must_use]
    pub fn table_names(&self) -> Vec<String> {
        let mut names = self.engine.table_names();
        names.sort_unstable();
        names
    }

    /// Drops a table and removes its files. Open iterators can still read.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; errors of the disk.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        Ok(self.engine.drop_table(name)?)
    }

    /// Renames a table.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`], [`Error::TableExists`]; errors of the disk.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        Ok(self.engine.rename_table(from, to)?)
    }

    /// Removes all rows of a table, atomically and without reading them.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; errors of the disk.
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        Ok(self.engine.truncate_table(name)?)
    }

    /// Begins a transaction with [`Isolation::Snapshot`].
    #[must_use]
    pub fn begin(&self) -> Transaction {
        self.begin_with(Isolation::default())
    }

    /// Begins a transaction.
    #[must_use]
    pub fn begin_with(&self, isolation: Isolation) -> Transaction {
        Transaction::new(&self.engine, isolation)
    }

    /// Runs a transaction and commits it. An error of the closure rolls it back; after a conflict
    /// or a deadlock ([`Error::is_retryable`]) the closure runs again in a new transaction, up to
    /// 100 times in total. So the closure's effects outside the transaction must be repeatable. It
    /// does not run again after a lock timeout.
    ///
    /// ```
    /// use teak::{Database, Error};
    ///
    /// # fn main() -> teak::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock = db.table("stock")?;
    /// stock.insert("tea", [3])?;
    /// let take = |wanted: u8| {
    ///     db.transact(|transaction| {
    ///         let left = transaction.get_for_update(&stock, "tea")?.map_or(0, |value| value[0]);
    ///         if left < wanted {
    ///             return Err(Error::Aborted(format!("only {left} left")));
    ///         }
    ///         transaction.update(&stock, "tea", [left - wanted])?;
    ///         Ok(left - wanted)
    ///     })
    /// };
    /// assert_eq!(take(2)?, 1);
    /// assert!(matches!(take(2), Err(Error::Aborted(_))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Errors of the closure and of [`Transaction::commit`].
    pub fn transact<R>(&self, work: impl Fn(&Transaction) -> Result<R>) -> Result<R> {
        let mut attempt = 1;
        loop {
            let transaction = self.begin();
            let outcome = work(&transaction).and_then(|result| {
                transaction.commit()?;
                Ok(result)
            });
            let is_retryable = outcome.as_ref().err().is_some_and(Error::is_retryable);
            if !is_retryable || attempt == ATTEMPTS_MAX {
                return outcome;
            }
            // Later attempts wait longer, at most 10 ms.
            std::thread::sleep(Duration::from_micros(10 << attempt.min(10)));
            attempt += 1;
        }
    }

    /// A snapshot of all rows that are committed now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.engine)
    }

    /// Makes all committed transactions durable, by syncing the log.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn flush_log(&self) -> Result<()> {
        Ok(self.engine.flush_log()?)
    }

    /// Flushes every memtable, writes a checkpoint of every changed index, and waits until that is
    /// done. The database writes checkpoints automatically; an explicit one shortens the next
    /// recovery.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn checkpoint(&self) -> Result<()> {
        Ok(self.engine.checkpoint()?)
    }

    /// Changes the memory budget, at least 1 MiB.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the budget is too small.
    pub fn set_cache_bytes(&self, bytes: u64) -> Result<()> {
        Ok(self.engine.set_cache_bytes(bytes)?)
    }

    /// Counters since the database was opened, and sizes at the time of the call.
    ///
    /// ```
    /// # fn main() -> teak::Result<()> {
    /// # let db = teak::Database::in_memory()?;
    /// db.table("t")?.insert("key", "value")?;
    /// assert_eq!(db.statistics().rows_inserted, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn statistics(&self) -> EngineStatistics {
        self.engine.statistics()
    }

    /// A readable report on memory, log, flushes, locks and transactions.
    #[must_use]
    pub fn status_text(&self) -> String {
        self.engine.status_text()
    }

    /// Flushes, writes a checkpoint, and closes, so that the next opening has nothing to replay.
    /// Drop every table, transaction and snapshot first. If a table, an iterator or a clone of the
    /// database is still in use, this only writes a checkpoint, and the database closes when the
    /// last of them is dropped.
    ///
    /// A transaction that is open when the database closes is not rolled back. It can still be
    /// committed, durably; the next opening then replays its commit. Lock waits in progress end with
    /// an error. The directory can be opened again when the last transaction and snapshot are
    /// dropped.
    ///
    /// # Errors
    /// Errors of the disk; data that could not be flushed is in the log.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.engine) {
            Ok(engine) => engine.close()?,
            Err(shared) => shared.checkpoint()?,
        }
        Ok(())
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("tables", &self.table_names())
            .finish_non_exhaustive()
    }
}

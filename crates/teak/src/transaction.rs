//! Transactions.

use crate::error::Result;
use crate::index::Index;
use crate::rows::Rows;
use crate::scan::{Bounds, Scan};
use crate::session::{Isolation, Session};
use crate::table::Table;
use crate::writes;
use std::fmt;
use std::ops::RangeBounds;
use std::time::Duration;
use teak_engine::{Engine, IndexNumber, ReadMode};

/// A transaction. Dropping it rolls it back.
///
/// It sees its own writes. One thread uses it at a time; it can be sent to another thread while it
/// has no iterator. Iterators and writes can alternate.
///
/// ```
/// use teak::{Database, Error};
///
/// # fn main() -> teak::Result<()> {
/// let db = Database::in_memory()?;
/// let accounts = db.table("accounts")?;
/// accounts.insert("ada", [100])?;
/// accounts.insert("bob", [0])?;
///
/// let transaction = db.begin();
/// let balance = transaction.get_for_update(&accounts, "ada")?;
/// assert_eq!(balance, Some(vec![100]));
/// transaction.update(&accounts, "ada", [70])?;
/// let savepoint = transaction.savepoint()?;
/// transaction.update(&accounts, "bob", [31])?;
/// transaction.rollback_to(savepoint)?;
/// transaction.update(&accounts, "bob", [30])?;
/// transaction.commit()?; // durable when it returns
///
/// assert_eq!(accounts.get("bob")?, Some(vec![30]));
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    session: Session,
}

/// A point in a transaction to return to; see [`Transaction::rollback_to`]. It need not be
/// released.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint(u64);

impl Transaction {
    pub(crate) fn new(engine: &Engine, isolation: Isolation) -> Self {
        Self {
            session: Session::begin(engine, isolation),
        }
    }

    /// A transaction that has taken its snapshot.
    pub(crate) fn with_snapshot(engine: &Engine) -> Self {
        let transaction = Self::new(engine, Isolation::Snapshot);
        // This fails only if the transaction has ended. The error can be ignored, because every
        // later read fails with it, too.
        let _ = transaction.session.with(|own| own.take_snapshot());
        transaction
    }

    /// Sets the transaction's lock timeout, which overrides the database's
    /// [`lock_timeout`](crate::Builder::lock_timeout). `Duration::ZERO`: no wait; `Duration::MAX`:
    /// no limit.
    pub fn set_lock_timeout(&self, timeout: Duration) {
        self.session
            .with(|transaction| transaction.set_lock_timeout(timeout));
    }

    /// The value of the row with this primary key.
    ///
    /// # Errors
    /// Errors of the disk; [`Error::TableChanged`](crate::Error::TableChanged) when the table was
    /// created or truncated after the snapshot. Under [`Isolation::Serializable`] also
    /// [`Error::Deadlock`](crate::Error::Deadlock),
    /// [`Error::LockTimeout`](crate::Error::LockTimeout) and
    /// [`Error::TooManyLocks`](crate::Error::TooManyLocks).
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mode = self.session.begin_read()?;
        writes::get(&self.session, &table.state, key.as_ref(), mode)
    }

    /// The newest value of the row with this primary key, locked until the transaction ends: other
    /// transactions can read it but neither lock nor write it. A key without a row is also locked:
    /// no other transaction can insert it. Under
    /// [`Isolation::ReadCommitted`](crate::Isolation::ReadCommitted) only rows are locked, so
    /// another transaction can insert a key that was not found.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) when the row changed after the snapshot;
    /// [`Error::Deadlock`](crate::Error::Deadlock), [`Error::LockTimeout`](crate::Error::LockTimeout),
    /// [`Error::TooManyLocks`](crate::Error::TooManyLocks); errors of the disk.
    pub fn get_for_update(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mode = self.session.begin_write()?;
        writes::get(&self.session, &table.state, key.as_ref(), mode)
    }

    fn scan(&self, table: &Table, mode: Result<ReadMode>, bounds: Bounds) -> Rows<'_> {
        Rows::new(Scan::new(
            &self.session,
            &table.state,
            IndexNumber::ROWS,
            mode,
            bounds,
        ))
    }

    /// All rows in the order of their primary keys.
    pub fn iter(&self, table: &Table) -> Rows<'_> {
        self.scan(table, self.session.begin_read(), Bounds::default())
    }

    /// The rows whose primary key is in the range, in the order of the keys.
    pub fn range<K: AsRef<[u8]>>(&self, table: &Table, range: impl RangeBounds<K>) -> Rows<'_> {
        self.scan(table, self.session.begin_read(), Bounds::of(&range))
    }

    /// The newest versions of the rows whose primary key is in the range. When the iterator returns
    /// a row, the row is locked as by [`Transaction::get_for_update`]. No other transaction can
    /// insert into the part of the range that was read, except under
    /// [`Isolation::ReadCommitted`](crate::Isolation::ReadCommitted), which locks rows only.
    pub fn range_for_update<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<K>,
    ) -> Rows<'_> {
        self.scan(table, self.session.begin_write(), Bounds::of(&range))
    }

    /// The rows whose primary key begins with the prefix, in the order of the keys.
    pub fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Rows<'_> {
        let bounds = Bounds::prefix(prefix.as_ref());
        self.scan(table, self.session.begin_read(), bounds)
    }

    /// A secondary index of a table.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](crate::Error::NoSuchIndex).
    pub fn index(&self, table: &Table, name: &str) -> Result<Index<'_>> {
        Index::new(&self.session, &table.state, name)
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`](crate::Error::DuplicateKey) when a row has its primary key, or its key
    /// in a unique index; the transaction continues without the row.
    /// [`Error::Conflict`](crate::Error::Conflict) when such a row was deleted after the snapshot;
    /// [`Error::Deadlock`](crate::Error::Deadlock), [`Error::LockTimeout`](crate::Error::LockTimeout),
    /// [`Error::TooManyLocks`](crate::Error::TooManyLocks); [`Error::TooLarge`](crate::Error::TooLarge);
    /// [`Error::NoSpace`](crate::Error::NoSpace), [`Error::LogFull`](crate::Error::LogFull),
    /// [`Error::TableReadOnly`](crate::Error::TableReadOnly),
    /// [`Error::Poisoned`](crate::Error::Poisoned) and other errors of the disk.
    pub fn insert(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.session.begin_write()?;
        writes::insert(&self.session, &table.state, key.as_ref(), value.as_ref())
    }

    /// Inserts a row, or replaces the value of the row with this primary key.
    ///
    /// # Errors
    /// Errors of [`Transaction::insert`] (a duplicate key in a unique index only) and of
    /// [`Transaction::update`].
    pub fn upsert(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.session.begin_write()?;
        writes::upsert(&self.session, &table.state, key.as_ref(), value.as_ref())
    }

    /// Replaces the value of a row. `false` when there is no such row.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) when the row changed after the snapshot;
    /// otherwise the errors of [`Transaction::insert`].
    pub fn update(
        &self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        self.session.begin_write()?;
        writes::update(&self.session, &table.state, key.as_ref(), value.as_ref())
    }

    /// Deletes a row. `false` when there is no such row.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) when the row changed after the snapshot;
    /// otherwise the errors of [`Transaction::insert`].
    pub fn delete(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        self.session.begin_write()?;
        writes::delete(&self.session, &table.state, key.as_ref())
    }

    /// Sets a savepoint.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) when the transaction has ended.
    pub fn savepoint(&self) -> Result<Savepoint> {
        let set = self.session.with(|transaction| transaction.savepoint())?;
        Ok(Savepoint(set))
    }

    /// Undoes every write since the savepoint, in constant time. The rows of these writes are
    /// unlocked unless they were locked before the savepoint; all other locks remain.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) when the transaction has ended.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        let Savepoint(mark) = savepoint;
        let undone = self
            .session
            .with(|transaction| transaction.rollback_to_savepoint(mark));
        Ok(undone?)
    }

    /// Commits; durable on return with [`Durability::Immediate`](crate::Durability::Immediate).
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace): nothing was committed. After another disk error
    /// it is unknown whether the transaction was committed, until the database is opened again.
    pub fn commit(self) -> Result<()> {
        Ok(self.session.into_engine_transaction().commit()?)
    }

    /// Undoes every write, in constant time, and ends the transaction.
    pub fn rollback(self) {
        self.session.into_engine_transaction().rollback();
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

//! The open engine: what its parts share, and the calls that concern it as a
//! whole. Tables are in `tables`, rows in `write` and `cursor`, recovery in
//! `recovery`, work behind the scenes in `background` and `checkpoint`.

use crate::background::Background;
use crate::budget::Budget;
use crate::error::{EngineError, EngineResult};
use crate::options::{EngineOptions, Level, microseconds};
use crate::recovery;
use crate::statistics::EngineCounts;
use crate::table::{Index, Table};
use crate::tables::Tables;
use parking_lot::{Mutex, RwLock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskLock};
use teak_transactions::TransactionSystem;
use teak_tree::PageCache;
use teak_write_ahead_log::{Record, WriteAheadLog};

/// What the threads and handles of one engine share.
pub(crate) struct Inner {
    pub options: EngineOptions,
    pub disk: Arc<dyn Disk>,
    pub log: WriteAheadLog,
    pub instance: u64,
    pub transactions: TransactionSystem,
    pub cache: Arc<PageCache>,
    pub prepared: crate::prepared::PreparedList,
    pub tables: Mutex<Tables>,
    /// Serialises table changes and the capture of the catalogue.
    pub table_changes: Mutex<()>,
    /// Indexes that were written since they were opened.
    pub written: RwLock<Vec<Arc<Index>>>,
    pub budget: Budget,
    pub background: Background,
    /// One checkpoint at a time.
    pub house: crate::checkpoint::House,
    /// Tables whose counters the log does not know yet.
    pub counters_to_log: Mutex<Vec<(u64, Arc<crate::table::Counters>)>>,
    pub counters_wait: AtomicBool,
    /// Numbers the spill files of sorts.
    pub next_spill: Arc<AtomicU64>,
    pub commit_sync: AtomicBool,
    /// In microseconds; zero is never.
    pub log_sync_period: AtomicU64,
    /// A commit did not wait for the disk since the log was last synced for it.
    pub log_sync_owed: AtomicBool,
    /// From where recovery would read the log now.
    pub replay_from: AtomicU64,
    pub counts: EngineCounts,
    /// Keeps others away from the data directory.
    pub _lock: DiskLock,
}

impl Inner {
    /// Makes the record at `lsn` durable, or leaves that to the log's thread
    /// within its period.
    ///
    /// # Errors
    /// Those of the log; after `NoSpace` the record is void.
    pub(crate) fn sync_or_owe(&self, lsn: Lsn, waits: bool) -> StorageResult<()> {
        if waits {
            return self.log.sync_or_revoke(lsn);
        }
        self.log_sync_owed.store(true, Ordering::Release);
        Ok(())
    }
}

/// An open storage engine.
///
/// Dropping it without [`Engine::close`] is like a crash, except that its
/// threads end.
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

impl Inner {
    pub(crate) fn message(&self, level: Level, text: &str) {
        if let Some(sink) = &self.options.messages {
            sink(level, text);
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// Lists an index whose tree holds something that its file does not.
    #[inline]
    pub(crate) fn note_written(&self, index: &Arc<Index>) {
        if !index.listed.load(Ordering::Relaxed) {
            self.list_written(index);
        }
    }

    #[cold]
    fn list_written(&self, index: &Arc<Index>) {
        let mut written = self.written.write();
        if !index.listed.swap(true, Ordering::AcqRel) {
            written.push(Arc::clone(index));
        }
    }

    /// The written indexes at this moment.
    pub(crate) fn written_indexes(&self) -> Vec<Arc<Index>> {
        self.written.read().clone()
    }

    /// Takes dropped indexes off the list.
    pub(crate) fn unlist_gone(&self) {
        self.written.write().retain(|index| !index.is_gone());
    }

    /// Remembers that a table's counter moved, so that the next commit logs it.
    pub(crate) fn counter_moved(&self, table: &Table) {
        if !table.counters.listed.swap(true, Ordering::AcqRel) {
            let mut list = self.counters_to_log.lock();
            list.push((table.id, Arc::clone(&table.counters)));
            self.counters_wait.store(true, Ordering::Release);
        }
    }

    /// Appends the counters that moved. Under one mutex, so that the log's
    /// last value of a counter is its newest.
    pub(crate) fn log_counters(&self) -> StorageResult<()> {
        if !self.counters_wait.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut list = self.counters_to_log.lock();
        self.counters_wait.store(false, Ordering::Release);
        while let Some((table_id, counters)) = list.pop() {
            counters.listed.store(false, Ordering::Release);
            for (counter, value) in counters.unlogged() {
                let record = Record::Counter {
                    table_id,
                    counter,
                    value,
                };
                if let Err(error) = self.log.append(&record) {
                    if !counters.listed.swap(true, Ordering::AcqRel) {
                        list.push((table_id, counters));
                    }
                    self.counters_wait.store(true, Ordering::Release);
                    return Err(error);
                }
                counters.note_logged(counter, value);
            }
        }
        Ok(())
    }

    /// Notes that damage was met in an index and says so once.
    pub(crate) fn note_damage(&self, index: &Index, error: &StorageError) {
        if error.is_corrupt() && !index.damaged.swap(true, Ordering::AcqRel) {
            let text = format!(
                "index {} of file {} is damaged: {error}",
                index.entry.label,
                index.entry.path.display()
            );
            self.message(Level::Error, &text);
        }
    }

    /// Passes a result of an index on, noting damage.
    #[inline]
    pub(crate) fn checked<T>(&self, index: &Index, result: StorageResult<T>) -> EngineResult<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => {
                self.note_damage(index, &error);
                Err(EngineError::Storage(error))
            }
        }
    }
}

impl Engine {
    /// Opens the engine of a data directory, recovering what a crash left. An
    /// empty directory gets a new instance.
    ///
    /// # Errors
    /// `InUse` when the directory is open elsewhere; `Corrupt` when the catalogue
    /// or the durable log is damaged; `UnsupportedFormat`, `Io`, `NoSpace`.
    pub fn open(disk: Arc<dyn Disk>, options: EngineOptions) -> EngineResult<Self> {
        if options.cache_bytes < 1 << 20 {
            return Err(EngineError::InvalidArgument(
                "the memory budget is less than 1 MiB".into(),
            ));
        }
        let inner = Arc::new(recovery::open(disk, options)?);
        recovery::finish(&inner)?;
        inner.background.start(&inner)?;
        Ok(Self { inner })
    }

    /// Flushes, checkpoints and closes. What handles remain fail from now on
    /// where they need background work.
    ///
    /// # Errors
    /// What flushing or syncing met; the log still holds what is not flushed.
    pub fn close(self) -> EngineResult<()> {
        let outcome = crate::checkpoint::checkpoint_all(&self.inner, true);
        self.stop();
        outcome
    }

    /// Ends the engine's threads and waits without flushing.
    fn stop(&self) {
        self.inner.transactions.interrupt_all();
        self.inner.background.stop(&self.inner);
    }

    /// Changes the memory budget.
    ///
    /// # Errors
    /// `InvalidArgument` below 1 MiB.
    pub fn set_cache_bytes(&self, bytes: u64) -> EngineResult<()> {
        if bytes < 1 << 20 {
            return Err(EngineError::InvalidArgument(
                "the memory budget is less than 1 MiB".into(),
            ));
        }
        self.inner.budget.resize(bytes);
        self.inner
            .cache
            .set_capacity(self.inner.budget.page_cache_bytes());
        self.inner
            .transactions
            .set_lock_bytes_max(self.inner.budget.lock_bytes());
        crate::budget::make_room(&self.inner);
        Ok(())
    }

    /// Bounds what row and range locks take, in bytes; zero for an eighth of the
    /// memory budget.
    pub fn set_lock_bytes_max(&self, bytes: u64) {
        self.inner.budget.set_lock_bytes(bytes);
        self.inner
            .transactions
            .set_lock_bytes_max(self.inner.budget.lock_bytes());
    }

    /// Chooses whether commits are durable on return.
    pub fn set_commit_sync(&self, sync: bool) {
        self.inner.commit_sync.store(sync, Ordering::Release);
    }

    /// Chooses the time in which the log is synced after commits that did not
    /// wait for it; see [`crate::EngineOptions::log_sync_period`].
    pub fn set_log_sync_period(&self, period: Duration) {
        self.inner
            .log_sync_period
            .store(microseconds(period), Ordering::Relaxed);
        self.inner.log.wake();
    }

    /// Makes everything logged so far durable.
    ///
    /// # Errors
    /// Those of the log.
    pub fn flush_log(&self) -> EngineResult<()> {
        self.inner.log_counters()?;
        Ok(self.inner.log.sync(self.inner.log.end())?)
    }

    /// Flushes every memtable and checkpoints every index; waits until done.
    ///
    /// # Errors
    /// What flushing or syncing met.
    pub fn checkpoint(&self) -> EngineResult<()> {
        crate::checkpoint::checkpoint_all(&self.inner, false)
    }

    /// Does one piece of background work on this thread. `false` when there
    /// was none. For engines without threads.
    ///
    /// # Errors
    /// What the work met.
    pub fn step(&self) -> EngineResult<bool> {
        crate::background::step(&self.inner)
    }

    /// Does background work on this thread until there is none.
    ///
    /// # Errors
    /// What the work met.
    pub fn run_background_until_idle(&self) -> EngineResult<()> {
        while self.step()? {}
        Ok(())
    }

    /// Flushes and merges until every index has settled in its leaves, as far
    /// as live snapshots allow.
    ///
    /// # Errors
    /// What the work met.
    pub fn settle(&self) -> EngineResult<()> {
        crate::background::settle(&self.inner)
    }

    /// One round of the housekeeper: prune, checkpoint when due, close idle
    /// tables. For engines without threads.
    ///
    /// # Errors
    /// What a checkpoint met.
    pub fn keep_house(&self) -> EngineResult<()> {
        crate::checkpoint::keep_house(&self.inner, true)
    }

    /// The position behind the last record of the log.
    #[must_use]
    pub fn log_end(&self) -> Lsn {
        self.inner.log.end()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

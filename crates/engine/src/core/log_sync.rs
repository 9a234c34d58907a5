//! The policy by which log records become durable.

use crate::options::EngineOptions;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use teak_base::{Lsn, StorageResult};
use teak_write_ahead_log::{Record, WriteAheadLog};

/// Whether commits wait for the disk, and when the log is synced otherwise.
pub(crate) struct LogSyncPolicy {
    commit_sync: AtomicBool,
    /// The period of deferred syncs in microseconds; zero: no deferred syncs.
    period: AtomicU64,
    /// Whether a commit has deferred its sync since the last deferred sync began.
    is_deferred: AtomicBool,
    /// The log thread has ended, so no sync is deferred any more.
    has_ended: AtomicBool,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl LogSyncPolicy {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        Self {
            commit_sync: AtomicBool::new(options.commit_sync),
            period: AtomicU64::new(microseconds(options.log_sync_period)),
            is_deferred: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Whether commits are durable on return.
    pub(crate) fn commit_sync(&self) -> bool {
        self.commit_sync.load(Ordering::Acquire)
    }

    pub(crate) fn set_commit_sync(&self, sync: bool) {
        self.commit_sync.store(sync, Ordering::Release);
    }

    /// The period of deferred syncs; zero: none.
    pub(crate) fn period(&self) -> Duration {
        Duration::from_micros(self.period.load(Ordering::Relaxed))
    }

    pub(crate) fn set_period(&self, period: Duration) {
        self.period.store(microseconds(period), Ordering::Relaxed);
    }

    /// Makes the record at `lsn` durable if the caller `waits` for that, or after
    /// [`LogSyncPolicy::end`]. Otherwise defers the sync to the log thread, which syncs once per
    /// period.
    ///
    /// # Errors
    /// Errors of the log; after `NoSpace` the record is void.
    pub(crate) fn sync_or_defer(
        &self,
        log: &WriteAheadLog,
        lsn: Lsn,
        waits: bool,
    ) -> StorageResult<()> {
        // The flag is read after the record was appended. If it is false, the last sync of
        // the engine, which follows `end`, includes the record.
        if waits || self.has_ended.load(Ordering::Acquire) {
            return log.sync_or_revoke(lsn);
        }
        self.is_deferred.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether a commit has deferred its sync. The caller executes the sync.
    pub(crate) fn take_deferred(&self) -> bool {
        self.is_deferred.swap(false, Ordering::AcqRel)
    }

    /// Called after the log thread has ended. From now on, no sync is deferred.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Defers a sync to the log thread.
    pub(crate) fn defer(&self) {
        self.is_deferred.store(true, Ordering::Release);
    }
}

/// Appends a record and makes it durable. After `NoSpace` the record is void.
pub(crate) fn append_durable(log: &WriteAheadLog, record: &Record<'_>) -> StorageResult<()> {
    let lsn = log.append(record)?;
    log.sync_or_revoke(lsn)
}

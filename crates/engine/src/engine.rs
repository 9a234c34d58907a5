//! The open engine: opening, closing, settings and durability.

use crate::core::EngineCore;
use crate::core::budget::BUDGET_BYTES_MIN;
use crate::error::{EngineError, EngineResult};
use crate::key_changes;
use crate::maintenance::admission;
use crate::maintenance::catalogue_writer::CatalogueContext;
use crate::maintenance::checkpoint::CheckpointContext;
use crate::maintenance::flusher::FlushContext;
use crate::maintenance::space::Pace;
use crate::maintenance::threads::BackgroundThreads;
use crate::options::EngineOptions;
use crate::recovery;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{Disk, IoPacer, LimitedDisk, PacedDisk};

/// An open storage engine.
///
/// Dropping it without [`Engine::close`] ends its threads and makes the log
/// durable, and with it every commit. If that fails, a message reports it. Nothing
/// else is written: the next [`Engine::open`] recovers as after a crash.
pub struct Engine {
    pub(crate) core: Arc<EngineCore>,
    threads: BackgroundThreads,
    /// Whether dropping it syncs the log.
    syncs_log: bool,
}

fn check_budget(bytes: u64) -> EngineResult<()> {
    if bytes < BUDGET_BYTES_MIN {
        return Err(EngineError::InvalidArgument(
            "the memory budget is less than 1 MiB".into(),
        ));
    }
    Ok(())
}

/// # Opening and closing
impl Engine {
    /// Opens the engine of a data directory and recovers it after a crash. An
    /// empty directory becomes a new instance.
    ///
    /// # Errors
    /// `InUse` when another process has opened the directory; `Corrupt` when the
    /// catalogue or the durable log is damaged; `UnsupportedFormat`, `Io`,
    /// `NoSpace`.
    pub fn open(disk: Arc<dyn Disk>, options: EngineOptions) -> EngineResult<Self> {
        check_budget(options.cache_bytes)?;
        let disk: Arc<dyn Disk> = match options.open_files {
            0 => disk,
            limit => Arc::new(LimitedDisk::new(disk, limit)),
        };
        if let Some(directory) = &options.spill_directory {
            // Not an error of the first statement that needs it.
            disk.list(directory)?;
        }
        let pacer = IoPacer::new(options.io_bytes_per_second);
        if options.background_threads == 0 {
            pacer.disable();
        }
        let disk = Arc::new(PacedDisk::new(disk, Arc::clone(&pacer)));
        let core = Arc::new(recovery::open(disk, pacer, options)?);
        let threads = BackgroundThreads::default();
        threads.start(&core)?;
        if core.signals.has_threads() && core.files.log_encryption.cipher.is_some() {
            let of_thread = Arc::clone(&core);
            threads.add("teak-keys", move || key_changes::run(&of_thread))?;
        }
        Ok(Self {
            core,
            threads,
            syncs_log: true,
        })
    }

    /// Writes the files again whose blocks are encrypted with another key than new ones, or with an older version of it. The
    /// background threads do this, too.
    ///
    /// # Errors
    /// The first error, after all tables were tried.
    pub fn change_keys(&self) -> EngineResult<()> {
        key_changes::change_all(&self.core)
    }

    /// Flushes, checkpoints and closes. Afterwards, calls on remaining handles fail if they need
    /// background work. A remaining transaction can still commit. The data directory is in use
    /// until the last handle is dropped.
    ///
    /// # Errors
    /// Errors of flushing and syncing. The log still contains the changes that are not flushed.
    pub fn close(self) -> EngineResult<()> {
        self.core.pacer.disable();
        self.core
            .backup_job
            .stop(&self.core.files.backup, &self.core.log);
        let checkpoints = CheckpointContext::from(&*self.core);
        let outcome = checkpoints.checkpoint_all(false).and_then(|()| {
            // A file that could not be made smaller remains valid. A message reports the error.
            let _ = FlushContext::from(&*self.core).reclaim_all(&mut Pace::closing());
            checkpoints.checkpoint_all(true)
        });
        self.stop();
        outcome.and_then(|()| {
            if self.core.signals.has_threads() {
                // The threads may have changed files since the checkpoint. The catalogue must contain
                // their new sizes.
                CatalogueContext::from(&*self.core).write_closing()?;
            }
            Ok(self.core.log.remove_spare_files()?)
        })
    }

    /// Interrupts all transactions, ends the engine's threads and waits for them,
    /// without flushing.
    fn stop(&self) {
        self.core.pacer.disable();
        self.core
            .backup_job
            .stop(&self.core.files.backup, &self.core.log);
        self.core.transactions.interrupt_all();
        self.threads.stop(&self.core);
        self.core.log_sync.end();
    }
}

/// # Settings
impl Engine {
    /// Changes the memory budget.
    ///
    /// # Errors
    /// `InvalidArgument` below 1 MiB.
    pub fn set_cache_bytes(&self, bytes: u64) -> EngineResult<()> {
        check_budget(bytes)?;
        let core = &self.core;
        core.budget.resize(bytes);
        core.apply_budget();
        admission::freeze_large((&**core).into());
        Ok(())
    }

    /// Limits the memory of row and range locks, in bytes; zero for an eighth
    /// of the memory budget.
    pub fn set_lock_bytes_max(&self, bytes: u64) {
        let core = &self.core;
        core.budget.set_lock_bytes(bytes);
        let lock_bytes = core.budget.lock_bytes();
        core.transactions.set_lock_bytes_max(lock_bytes);
    }

    /// Limits the memory of the sorts of a statement; see [`EngineOptions::sort_bytes_max`].
    pub fn set_sort_bytes_max(&self, bytes: u64) {
        self.core.budget.set_sort_bytes_max(bytes);
    }

    /// Whether other sorts have left memory for those of a [load](crate::EngineTransaction::begin_load). A
    /// load that begins nevertheless gets 1 MiB.
    #[must_use]
    pub fn has_sort_memory(&self) -> bool {
        self.core.budget.has_sort_memory()
    }

    /// Takes memory for rows that the caller keeps, for example until it knows whether to load them, if
    /// all such memory is then at most a sixteenth of the memory budget.
    #[must_use]
    pub fn take_caller_bytes(&self, bytes: u64) -> bool {
        self.core.budget.take_caller_bytes(bytes)
    }

    /// Returns memory that [`Engine::take_caller_bytes`] took.
    pub fn return_caller_bytes(&self, bytes: u64) {
        self.core.budget.return_caller_bytes(bytes);
    }

    /// Notes that the caller uses `bytes` more for other things, such as its handles of tables, or less. The
    /// budget includes this memory.
    pub fn note_caller_bytes(&self, bytes: i64) {
        self.core.budget.note_handles(bytes);
    }

    /// Limits the bytes per second that background jobs read and write; zero: no limit.
    pub fn set_io_bytes_per_second(&self, bytes: u64) {
        self.core.pacer.set_limit(bytes);
    }

    /// Sets whether commits are durable on return.
    pub fn set_commit_sync(&self, sync: bool) {
        self.core.log_sync.set_commit_sync(sync);
    }

    /// Sets the time within which the log is synced after commits that did not
    /// wait for it; see [`EngineOptions::log_sync_period`].
    pub fn set_log_sync_period(&self, period: Duration) {
        self.core.log_sync.set_period(period);
        self.core.log.wake();
    }
}

/// # Durability
impl Engine {
    /// Makes everything logged so far durable.
    ///
    /// # Errors
    /// Errors of the log.
    pub fn flush_log(&self) -> EngineResult<()> {
        self.core.log_counters()?;
        Ok(self.core.log.sync(self.core.log.end())?)
    }

    /// Flushes every memtable and checkpoints every index; waits until done.
    ///
    /// # Errors
    /// Errors of flushing and syncing.
    pub fn checkpoint(&self) -> EngineResult<()> {
        let _hurry = self.core.pacer.hurry();
        CheckpointContext::from(&*self.core).checkpoint_all(false)
    }
}

/// # Background work on the caller's thread
///
/// For tests with engines that have no threads.
#[cfg(feature = "testing")]
impl Engine {
    /// Runs one background job. `false` if there was none.
    ///
    /// # Errors
    /// Errors of the job.
    pub fn step(&self) -> EngineResult<bool> {
        FlushContext::from(&*self.core).step()
    }

    /// Runs background jobs until there are none.
    ///
    /// # Errors
    /// Errors of the jobs.
    pub fn run_background_until_idle(&self) -> EngineResult<()> {
        while self.step()? {}
        Ok(())
    }

    /// Flushes and compacts until all data is in bottom runs, except what live snapshots prevent.
    ///
    /// # Errors
    /// Errors of the jobs.
    pub fn settle(&self) -> EngineResult<()> {
        FlushContext::from(&*self.core).settle()
    }

    /// Makes the files of all written indexes as small as after idle time.
    ///
    /// # Errors
    /// Those of checkpoints and of moving blocks.
    pub fn reclaim_space(&self) -> EngineResult<()> {
        FlushContext::from(&*self.core).reclaim_all(&mut Pace::unlimited())
    }

    /// Moves blocks to holes in the first `thousandths` of their files, without
    /// a checkpoint.
    ///
    /// # Errors
    /// Those of moving blocks.
    pub fn relocate(&self, thousandths: u64) -> EngineResult<()> {
        FlushContext::from(&*self.core).relocate_all(thousandths)
    }

    /// Runs one maintenance pass with a checkpoint, which also closes idle
    /// tables.
    ///
    /// # Errors
    /// Errors of the checkpoint.
    pub fn run_maintenance(&self) -> EngineResult<()> {
        CheckpointContext::from(&*self.core).run_maintenance(true)
    }

    /// Runs one maintenance pass, as the maintenance thread does: it checkpoints
    /// only what is due.
    ///
    /// # Errors
    /// Those of the log and the catalogue.
    pub fn run_due_maintenance(&self) -> EngineResult<()> {
        CheckpointContext::from(&*self.core).run_maintenance(false)
    }

    /// Drops the engine without making the log durable, as if the process was
    /// killed.
    pub fn abandon(mut self) {
        self.syncs_log = false;
    }

    /// The paths of a table's files.
    ///
    /// # Errors
    /// `NoSuchTable`, `InvalidArgument`.
    pub fn index_paths(&self, table: &str) -> EngineResult<Vec<std::path::PathBuf>> {
        let name = crate::name::TableName::parse(table)?;
        let tables = self.core.tables.lock();
        let indexes = tables.require(&name)?.entry.indexes.iter();
        let directory = &self.core.files.directory;
        Ok(indexes.map(|index| directory.join(&index.path)).collect())
    }

    /// The log's end: the position after its last record.
    #[must_use]
    pub fn log_end(&self) -> teak_base::Lsn {
        self.core.log.end()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
        if self.syncs_log
            && let Err(error) = self.core.log.sync(self.core.log.end())
        {
            let text = format!("the log was not synced when the engine was dropped: {error}");
            self.core.messages.error(&text);
        }
    }
}

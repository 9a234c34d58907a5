//! The state of a backup that a server requests: it is armed by one statement, cut by the server
//! when commits are blocked, and copied by a thread of the engine. The steps are in
//! `crate::backup::job`.

use super::backup_files::BackupFiles;
use super::messages::Messages;
use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use teak_base::Lsn;
use teak_write_ahead_log::WriteAheadLog;

/// Where a requested backup stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// It waits for the server to block commits.
    Armed,
    /// The cut is made, and its files are being copied.
    Copying,
    /// The copy is complete.
    Complete,
    /// It has failed, or was cancelled.
    Failed,
}

/// The counts of a copy in progress.
#[derive(Debug, Default)]
pub(crate) struct CopyCounts {
    pub files: AtomicU64,
    pub files_copied: AtomicU64,
    pub bytes_copied: AtomicU64,
}

/// The newest requested backup.
#[derive(Debug)]
pub(crate) struct RequestedBackup {
    pub state: BackupState,
    pub target: PathBuf,
    pub bytes_per_second: u64,
    /// When the request ends if there is no cut.
    pub armed_until: Instant,
    pub armed_at: SystemTime,
    /// How many times the server has begun to block commits since then.
    pub stages: u64,
    /// The position of the cut, and how long it took.
    pub cut: Option<(Lsn, Duration)>,
    pub ended_at: Option<SystemTime>,
    pub counts: Arc<CopyCounts>,
    pub failure: Option<String>,
}

impl RequestedBackup {
    /// Whether it has not ended.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.state, BackupState::Armed | BackupState::Copying)
    }
}

#[derive(Debug, Default)]
pub(crate) struct BackupJob {
    requested: Mutex<Option<RequestedBackup>>,
    /// The thread that copies.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl BackupJob {
    pub(crate) fn requested(&self) -> MutexGuard<'_, Option<RequestedBackup>> {
        self.requested.lock()
    }

    pub(crate) fn set_thread(&self, thread: JoinHandle<()>) {
        *self.thread.lock() = Some(thread);
    }

    /// Whether no thread copies.
    pub(crate) fn has_ended(&self) -> bool {
        let thread = self.thread.lock();
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the backup because the engine is closing, and waits for its thread.
    pub(crate) fn stop(&self, files: &BackupFiles, log: &WriteAheadLog) {
        files.cancel(log, &Messages::new(None), "the engine is closing");
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The thread has caught and reported a panic.
            let _ = thread.join();
        }
    }
}

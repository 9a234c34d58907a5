//! A backup that a server requests.
//!
//! 1. A statement arms it ([`Engine::arm_backup`]).
//! 2. The server begins to block commits ([`Engine::begin_backup_stage`]).
//! 3. While all commits are blocked, the server makes the cut ([`Engine::end_backup_stage`]).
//! 4. A thread of the engine copies the files. Reports show its progress.

use super::{Backup, BackupTarget};
use crate::core::EngineCore;
use crate::core::backup_files::BackupLimits;
use crate::core::backup_job::{BackupState, RequestedBackup};
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use std::panic::AssertUnwindSafe;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use teak_base::Lsn;
use teak_disk::{Disk, RealDisk};

/// What a server requests.
#[derive(Clone, Debug)]
pub struct BackupRequest {
    /// The directory to copy to, in the file system.
    pub target: PathBuf,
    /// Limit of the bytes that are copied per second; zero: no limit.
    pub bytes_per_second: u64,
    /// The time after which the request ends if there is no cut.
    pub armed_for: Duration,
}

/// A requested backup.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupReport {
    /// Where it stands.
    pub state: BackupState,
    /// The directory to copy to.
    pub target: PathBuf,
    /// When it was armed.
    pub armed_at: SystemTime,
    /// When it was complete, or has failed.
    pub ended_at: Option<SystemTime>,
    /// How many times the server has begun to block commits for a backup since it was armed.
    pub stages: u64,
    /// The position in the log of the cut, and how long the cut took.
    pub cut: Option<(Lsn, Duration)>,
    /// Number of files, the log included.
    pub files: u64,
    /// Number of files that are copied.
    pub files_copied: u64,
    /// Bytes that are copied.
    pub bytes_copied: u64,
    /// Bytes that are on the disk only because the backup needs them.
    pub pinned_bytes: u64,
    /// Why it has failed; empty if it has not.
    pub failure: String,
}

/// Whether a path is in a directory, or is the directory. Parts of both that exist may be symbolic links.
fn is_within(path: &Path, directory: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let directory = real(directory);
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    path.starts_with(&directory) || existing.is_some_and(|of| real(of).starts_with(&directory))
}

fn fail(backup: &mut RequestedBackup, reason: String) {
    if backup.is_active() {
        backup.state = BackupState::Failed;
        backup.ended_at = Some(SystemTime::now());
        backup.failure = Some(reason);
    }
}

/// Ends a request for which there was no cut in time.
fn expire(backup: &mut RequestedBackup) {
    if backup.state == BackupState::Armed && Instant::now() > backup.armed_until {
        let reason = "the server has not blocked commits in time";
        fail(backup, reason.to_owned());
    }
}

/// # Backups that a server requests
impl Engine {
    /// Requests a backup. The next [`Engine::end_backup_stage`] begins it. A request with the target of
    /// the armed backup extends the time for which it is armed.
    ///
    /// # Errors
    /// `InvalidArgument` when the path is not absolute, or in the data directory; `BackupFailed` when
    /// another backup is armed or in progress.
    pub fn arm_backup(&self, request: BackupRequest) -> EngineResult<()> {
        let refuse = |text: &str| Err(EngineError::InvalidArgument(text.into()));
        if !request.target.is_absolute() {
            return refuse("the directory of a backup must be an absolute path");
        }
        if request
            .target
            .components()
            .any(|part| part == Component::ParentDir)
        {
            return refuse("the directory of a backup must be a path without ..");
        }
        if is_within(&request.target, &self.core.files.directory) {
            return refuse("the directory of a backup must not be in the data directory");
        }
        // A base that is not accepted is refused before anything is copied.
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        self.core.base_of_increment(&disk, &request.target)?;
        let mut requested = self.core.backup_job.requested();
        if let Some(backup) = &mut *requested {
            expire(backup);
            if backup.target == request.target {
                match backup.state {
                    BackupState::Armed => {
                        backup.armed_until = Instant::now() + request.armed_for;
                        return Ok(());
                    }
                    // The cut was made just before the request was to be extended.
                    BackupState::Copying => return Ok(()),
                    BackupState::Complete => {
                        return refuse("there is a complete backup in the directory");
                    }
                    BackupState::Failed => {}
                }
            }
            if backup.is_active() {
                let text = format!("a backup to {} is in progress", backup.target.display());
                return Err(EngineError::BackupFailed(text));
            }
        }
        if !self.core.backup_job.has_ended() {
            let text = "the thread of an earlier backup has not ended yet";
            return Err(EngineError::BackupFailed(text.into()));
        }
        *requested = Some(RequestedBackup {
            state: BackupState::Armed,
            target: request.target,
            bytes_per_second: request.bytes_per_second,
            armed_until: Instant::now() + request.armed_for,
            armed_at: SystemTime::now(),
            stages: 0,
            cut: None,
            ended_at: None,
            counts: Arc::default(),
            failure: None,
        });
        Ok(())
    }

    /// Notes that the server begins to block commits for a backup. Returns whether a backup is armed.
    pub fn begin_backup_stage(&self) -> bool {
        let mut requested = self.core.backup_job.requested();
        let Some(backup) = &mut *requested else {
            return false;
        };
        expire(backup);
        backup.stages += 1;
        backup.state == BackupState::Armed
    }

    /// Called by the server when it ends a backup, before it permits commits again. Makes the cut of
    /// an armed backup if `commits_are_blocked`; otherwise the server has aborted the backup, and
    /// the armed one fails. A failure is reported by [`Engine::backup_report`].
    pub fn end_backup_stage(&self, commits_are_blocked: bool, limits: BackupLimits) {
        let core = &self.core;
        let mut requested = core.backup_job.requested();
        let Some(backup) = &mut *requested else {
            return;
        };
        expire(backup);
        if backup.state != BackupState::Armed || backup.stages == 0 {
            return;
        }
        if !commits_are_blocked {
            fail(
                backup,
                "the server has ended it before commits were blocked".into(),
            );
            return;
        }
        let cut = Backup::cut(core, limits, Arc::clone(&backup.counts));
        match cut.and_then(|cut| start_copy(core, cut, backup)) {
            Ok(()) => backup.state = BackupState::Copying,
            Err(error) => {
                core.messages.error(&error.to_string());
                fail(backup, error.to_string());
            }
        }
    }

    /// Ends the requested backup if it is armed or in progress. What is copied remains.
    pub fn cancel_backup(&self) {
        let core = &self.core;
        let mut requested = core.backup_job.requested();
        let Some(backup) = requested.as_mut().filter(|backup| backup.is_active()) else {
            return;
        };
        let reason = "it was cancelled";
        if backup.state == BackupState::Copying {
            core.files.backup.cancel(&core.log, &core.messages, reason);
        }
        fail(backup, reason.into());
    }

    /// The newest requested backup; `None` if there was none since the engine was opened.
    #[must_use]
    pub fn backup_report(&self) -> Option<BackupReport> {
        let core = &self.core;
        let mut requested = core.backup_job.requested();
        let backup = requested.as_mut()?;
        expire(backup);
        let counts = &backup.counts;
        let pinned_bytes = match backup.state {
            BackupState::Copying => core.files.backup.pinned_bytes() + core.log.held_bytes(),
            _ => 0,
        };
        Some(BackupReport {
            state: backup.state,
            target: backup.target.clone(),
            armed_at: backup.armed_at,
            ended_at: backup.ended_at,
            stages: backup.stages,
            cut: backup.cut,
            files: counts.files.load(Ordering::Relaxed),
            files_copied: counts.files_copied.load(Ordering::Relaxed),
            bytes_copied: counts.bytes_copied.load(Ordering::Relaxed),
            pinned_bytes,
            failure: backup.failure.clone().unwrap_or_default(),
        })
    }
}

/// Starts the thread that copies. If it cannot start, the cut is released.
fn start_copy(
    core: &Arc<EngineCore>,
    cut: Backup,
    backup: &mut RequestedBackup,
) -> EngineResult<()> {
    backup.cut = Some((cut.position(), cut.cut_duration()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let target = BackupTarget {
        disk,
        directory: backup.target.clone(),
        bytes_per_second: backup.bytes_per_second,
    };
    let core_of_thread = Arc::clone(core);
    let counts = Arc::clone(&backup.counts);
    let run = move || {
        let core = core_of_thread;
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| cut.copy(&target)));
        drop(cut);
        let outcome = outcome.unwrap_or_else(|_| {
            let text = "the thread that copies has panicked";
            Err(EngineError::BackupFailed(text.into()))
        });
        let mut requested = core.backup_job.requested();
        // The request may have been cancelled, and replaced by another one.
        let own = requested
            .as_mut()
            .filter(|backup| Arc::ptr_eq(&backup.counts, &counts));
        match (own, outcome) {
            (Some(backup), Ok(())) if backup.state == BackupState::Copying => {
                backup.state = BackupState::Complete;
                backup.ended_at = Some(SystemTime::now());
            }
            (Some(backup), Err(error)) => {
                core.messages.error(&error.to_string());
                fail(backup, error.to_string());
            }
            _ => {}
        }
    };
    let builder = std::thread::Builder::new().name("teak-backup".into());
    match builder.spawn(run) {
        Ok(thread) => {
            core.backup_job.set_thread(thread);
            Ok(())
        }
        Err(error) => {
            let text = format!("a thread could not be started: {error}");
            Err(EngineError::BackupFailed(text))
        }
    }
}

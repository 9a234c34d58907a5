//! The files that a backup needs, and the pins that retain their content.
//!
//! A backup needs each file in the state of the last checkpoint that was durable at the moment of
//! its cut. The file of an open tree is pinned by the cut. A file that is closed then does not
//! change until it is opened, so that the cut need not open it. A thread that opens such a file later,
//! or removes it, pins it first:
//! - `opened`: a tree was opened and has not been written yet;
//! - `removes`: the file of a dropped or replaced index will be removed;
//! - the backup itself, when it copies the file.
//!
//! A table with a needed file is not closed, because a file that is opened a second time would not
//! know the pins.
//!
//! Pins retain space, so a backup has limits: a number of bytes, a number of files that belong to no table any more, and a
//! time without progress. Maintenance cancels a backup that exceeds one of them, and one during which a disk is full.

use super::backup_history::BackupHistory;
use super::index::Index;
use super::messages::Messages;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::Disk;
use teak_tree::{CheckpointPin, Tree};
use teak_write_ahead_log::{LogHold, WriteAheadLog};

/// Maximum number of removed files that a backup retains: each is open.
const REMOVED_FILES_MAX: usize = 1000;

/// Limits of what a backup retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupLimits {
    /// Maximum number of bytes that are on the disk only because the backup needs them. Zero: no
    /// limit.
    pub pinned_bytes_max: u64,
    /// Maximum time without progress of the copy.
    pub lease: Duration,
}

impl Default for BackupLimits {
    fn default() -> Self {
        Self {
            pinned_bytes_max: 0,
            lease: Duration::from_secs(600),
        }
    }
}

/// A file that is not copied yet.
#[derive(Debug)]
enum WantedFile {
    /// It has been closed since the cut.
    Closed,
    /// The first pin is the one to copy; the others are of trees that were opened later.
    Pinned {
        pins: Vec<Arc<CheckpointPin>>,
        /// Whether the file belongs to no table any more.
        is_removed: bool,
    },
    /// It was closed, and could not be pinned before it was removed.
    Lost(StorageError),
}

/// What the backup can do with a file.
#[derive(Debug)]
pub(crate) enum FileToCopy {
    Pinned(Arc<CheckpointPin>),
    /// It must be pinned first.
    Closed,
}

#[derive(Debug)]
struct ActiveBackup {
    files: BTreeMap<FileId, WantedFile>,
    limits: BackupLimits,
    hold: LogHold,
    /// How often a disk was full before the backup began.
    full_disks: u64,
    /// When the lease ends.
    deadline: Instant,
    /// Why it has ended early.
    cancelled: Option<String>,
}

impl ActiveBackup {
    /// Why the backup must end, if it must.
    fn excess(&self, held: u64, full_disks: u64) -> Option<String> {
        let limits = self.limits;
        let (pinned, max) = (self.pinned_bytes() + held, limits.pinned_bytes_max);
        let is_removed = |file: &&WantedFile| matches!(file, WantedFile::Pinned { is_removed, .. } if *is_removed);
        let removed = self.files.values().filter(is_removed).count();
        if max > 0 && pinned > max {
            Some(format!("it retained {pinned} bytes, and may retain {max}"))
        } else if removed > REMOVED_FILES_MAX {
            Some(format!(
                "it retained {removed} files of dropped tables, and may retain {REMOVED_FILES_MAX}"
            ))
        } else if full_disks > self.full_disks {
            Some("a disk of the server is full".to_owned())
        } else if Instant::now() > self.deadline {
            let seconds = limits.lease.as_secs();
            Some(format!("it has made no progress for {seconds} seconds"))
        } else {
            None
        }
    }

    fn pinned_bytes(&self) -> u64 {
        let files = self.files.values().map(|file| match file {
            WantedFile::Pinned { pins, is_removed } => {
                let removed = pins.first().filter(|_| *is_removed).map(|pin| pin.end());
                removed.unwrap_or_else(|| pins.iter().map(|pin| pin.held_bytes()).sum())
            }
            WantedFile::Closed | WantedFile::Lost(_) => 0,
        });
        files.sum()
    }
}

/// The files that a backup needs; there is at most one backup at a time.
#[derive(Debug, Default)]
pub(crate) struct BackupFiles {
    /// The backups that can be bases of increments.
    pub history: BackupHistory,
    /// Whether a backup needs files, for callers that need not lock the state.
    is_active: AtomicBool,
    state: Mutex<Option<ActiveBackup>>,
}

impl BackupFiles {
    /// Begins a backup, for which the log is held. Returns false if there is one.
    pub(crate) fn begin(&self, limits: BackupLimits, hold: LogHold, full_disks: u64) -> bool {
        let mut state = self.state.lock();
        let begins = state.is_none();
        if begins {
            *state = Some(ActiveBackup {
                files: BTreeMap::new(),
                limits,
                hold,
                full_disks,
                deadline: Instant::now() + limits.lease,
                cancelled: None,
            });
            self.is_active.store(true, Ordering::SeqCst);
        }
        begins
    }

    /// Ends the backup and releases what it retains.
    pub(crate) fn end(&self) {
        let ended = self.state.lock().take();
        self.is_active.store(false, Ordering::SeqCst);
        // Releasing the last handle of a removed file frees its space: not under the mutex.
        drop(ended);
    }

    /// Ends the backup early: its next step fails with the reason.
    pub(crate) fn cancel(&self, log: &WriteAheadLog, messages: &Messages, reason: &str) {
        self.cancel_if(log, messages, |_| Some(reason.to_owned()));
    }

    /// Cancels a backup that exceeds its limits. `full_disks`: how often a disk was full.
    pub(crate) fn enforce_limits(&self, log: &WriteAheadLog, messages: &Messages, full_disks: u64) {
        if !self.is_active.load(Ordering::Acquire) {
            return;
        }
        let held = log.held_bytes();
        self.cancel_if(log, messages, |backup| backup.excess(held, full_disks));
    }

    /// Cancels the backup if there is one, for the reason that `reason` returns.
    fn cancel_if(
        &self,
        log: &WriteAheadLog,
        messages: &Messages,
        reason: impl FnOnce(&ActiveBackup) -> Option<String>,
    ) {
        let (released, hold, reason) = {
            let mut state = self.state.lock();
            let active = state.as_mut().filter(|backup| backup.cancelled.is_none());
            let Some(backup) = active else {
                return;
            };
            let Some(reason) = reason(backup) else {
                return;
            };
            backup.cancelled = Some(reason.clone());
            (std::mem::take(&mut backup.files), backup.hold, reason)
        };
        messages.warning(&format!("the backup was cancelled: {reason}"));
        // Releasing the last handle of a removed file frees its space: not under the mutex.
        drop(released);
        if let Err(error) = log.end_hold(hold) {
            messages.warning(&format!("a log segment was not removed: {error}"));
        }
    }

    /// Why the backup has ended early.
    pub(crate) fn cancelled(&self) -> Option<String> {
        let state = self.state.lock();
        match &*state {
            Some(backup) => backup.cancelled.clone(),
            None => Some("it has ended".to_owned()),
        }
    }

    /// Extends the lease.
    ///
    /// # Errors
    /// `Interrupted` if the backup has ended early.
    pub(crate) fn renew(&self) -> StorageResult<()> {
        match &mut *self.state.lock() {
            Some(backup) if backup.cancelled.is_none() => {
                backup.deadline = Instant::now() + backup.limits.lease;
                Ok(())
            }
            _ => Err(StorageError::Interrupted),
        }
    }

    /// Bytes of index files that are on the disk only because the backup needs them.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.as_ref().map_or(0, ActiveBackup::pinned_bytes)
    }

    /// Replaces the list of needed files by these, which count as closed until they are pinned.
    pub(crate) fn want(&self, files: impl Iterator<Item = FileId>) {
        let wanted = files.map(|file| (file, WantedFile::Closed)).collect();
        let replaced = {
            let mut state = self.state.lock();
            state
                .as_mut()
                .map(|backup| std::mem::replace(&mut backup.files, wanted))
        };
        drop(replaced);
    }

    /// The cut pins the file of an open tree.
    pub(crate) fn pin(&self, file: FileId, pin: CheckpointPin) {
        let mut state = self.state.lock();
        let files = state.as_mut().map(|backup| &mut backup.files);
        if let Some(wanted) = files.and_then(|files| files.get_mut(&file)) {
            // Drops the pin of a thread that has opened the file since it was wanted. The file is
            // in use, so no handle is closed.
            *wanted = WantedFile::Pinned {
                pins: vec![Arc::new(pin)],
                is_removed: false,
            };
        }
    }

    /// The backup has pinned a file that no tree has open.
    pub(crate) fn pin_closed(&self, file: FileId, pin: CheckpointPin) {
        self.add_pin(file, Ok(pin), false);
    }

    /// Called for a tree that was opened just now: pins its file if a backup needs it.
    pub(crate) fn opened(&self, file: FileId, tree: &Tree) {
        if self.wants(file) {
            self.add_pin(file, tree.pin_checkpoint(), false);
        }
    }

    /// Called before a file is removed or moved that belongs to no table any more: pins it if a
    /// backup needs it.
    pub(crate) fn removes(&self, file: FileId, disk: &Arc<dyn Disk>, path: &Path) {
        if !self.wants(file) {
            return;
        }
        let is_closed = {
            let mut state = self.state.lock();
            let files = state.as_mut().map(|backup| &mut backup.files);
            match files.and_then(|files| files.get_mut(&file)) {
                Some(WantedFile::Pinned { is_removed, .. }) => {
                    *is_removed = true;
                    false
                }
                Some(WantedFile::Closed) => true,
                Some(WantedFile::Lost(_)) | None => false,
            }
        };
        if is_closed {
            // No other thread opens it, because it belongs to no table.
            self.add_pin(file, Tree::pin_closed(disk, path, file, 0), true);
        }
    }

    fn add_pin(&self, file: FileId, pin: StorageResult<CheckpointPin>, removes: bool) {
        let mut state = self.state.lock();
        let files = state.as_mut().map(|backup| &mut backup.files);
        let Some(wanted) = files.and_then(|files| files.get_mut(&file)) else {
            return;
        };
        match (&mut *wanted, pin) {
            (WantedFile::Pinned { pins, is_removed }, Ok(pin)) => {
                pins.push(Arc::new(pin));
                *is_removed |= removes;
            }
            (WantedFile::Closed, Ok(pin)) => {
                *wanted = WantedFile::Pinned {
                    pins: vec![Arc::new(pin)],
                    is_removed: removes,
                };
            }
            (WantedFile::Closed, Err(error)) => *wanted = WantedFile::Lost(error),
            (WantedFile::Pinned { .. } | WantedFile::Lost(_), _) => {}
        }
    }

    fn wants(&self, file: FileId) -> bool {
        if !self.is_active.load(Ordering::SeqCst) {
            return false;
        }
        let state = self.state.lock();
        let files = state.as_ref().map(|backup| &backup.files);
        files.is_some_and(|files| files.contains_key(&file))
    }

    /// Whether a backup needs the file of one of these indexes.
    pub(crate) fn wants_any(&self, indexes: &[Arc<Index>]) -> bool {
        indexes.iter().any(|index| self.wants(index.entry.file))
    }

    /// What to do with a file that is to be copied.
    ///
    /// # Errors
    /// `Interrupted` if the backup has ended early; the error with which the file was lost.
    pub(crate) fn to_copy(&self, file: FileId) -> StorageResult<FileToCopy> {
        let state = self.state.lock();
        let files = state.as_ref().map(|backup| &backup.files);
        match files.and_then(|files| files.get(&file)) {
            None => Err(StorageError::Interrupted),
            Some(WantedFile::Lost(error)) => Err(error.clone()),
            Some(WantedFile::Closed) => Ok(FileToCopy::Closed),
            Some(WantedFile::Pinned { pins, .. }) => match pins.first() {
                Some(pin) => Ok(FileToCopy::Pinned(Arc::clone(pin))),
                None => Ok(FileToCopy::Closed),
            },
        }
    }

    /// A file was copied: it is not needed any more.
    pub(crate) fn copied(&self, file: FileId) {
        let released = {
            let mut state = self.state.lock();
            state.as_mut().and_then(|backup| backup.files.remove(&file))
        };
        drop(released);
    }
}

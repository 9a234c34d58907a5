//! Hot backups: cut, list, copy, finish, release.

use crate::boundary::{boundary, free};
use crate::handles::{teak_backup, teak_engine};
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{BackupLimits, BackupTarget};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// How far a backup is.
#[repr(C)]
pub struct teak_backup_progress {
    /// Number of files, the log included.
    pub files: u64,
    /// Number of files that are copied.
    pub files_copied: u64,
    /// Bytes that are copied.
    pub bytes_copied: u64,
    /// Bytes that are on the disk only because the backup needs them.
    pub pinned_bytes: u64,
}

/// Cuts a backup: pins the state of all transactions that are committed now, in a few milliseconds.
/// A transaction that commits during the call may or may not be part of it. The backup will be
/// copied to `directory`, at most `bytes_per_second` (0: no limit). It is cancelled when it retains
/// more than `pinned_bytes_max` bytes on the disk (0: no limit), or makes no progress for
/// `lease_milliseconds`. TEAK_BACKUP_FAILED when another backup is in progress, or a table is
/// damaged, unavailable or read-only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_begin(
    engine: *mut teak_engine,
    directory: teak_slice,
    bytes_per_second: u64,
    pinned_bytes_max: u64,
    lease_milliseconds: u64,
    backup: *mut *mut teak_backup,
) -> teak_status {
    boundary!([reference(engine), text(directory), out(backup)] {
        let limits = BackupLimits {
            pinned_bytes_max,
            lease: Duration::from_millis(lease_milliseconds),
        };
        let target = BackupTarget {
            disk: Arc::new(teak_disk::RealDisk),
            directory: directory.into(),
            bytes_per_second,
        };
        let cut = engine.engine.begin_backup(limits)?;
        backup.set_handle(teak_backup { backup: cut, target });
        Ok(())
    })
}

/// Calls `sink` with the path of each index file of the backup, relative to the data directory and
/// to the target. The slice is valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_list(
    backup: *const teak_backup,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, path: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(backup), callback(sink)] {
        for file in backup.backup.files() {
            let path = file.path.as_os_str().as_encoded_bytes();
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, teak_slice::of(path)) };
        }
        Ok(())
    })
}

/// Copies and verifies the next file. TEAK_NOT_FOUND when there is no other. Several threads may
/// copy concurrently. After another error the backup has ended, and the copy is incomplete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_copy_step(backup: *const teak_backup) -> teak_status {
    boundary!([reference(backup)] {
        match backup.backup.copy_step(&backup.target)? {
            true => Ok(teak_status::TEAK_OK),
            false => Ok(teak_status::TEAK_NOT_FOUND),
        }
    })
}

/// Makes the copy durable, and a data directory, after all files are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_finish(backup: *const teak_backup) -> teak_status {
    boundary!([reference(backup)] {
        backup.backup.finish(&backup.target)?;
        Ok(())
    })
}

/// Returns how far the backup is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_get_progress(
    backup: *const teak_backup,
    progress: *mut teak_backup_progress,
) -> teak_status {
    boundary!([reference(backup), out(progress)] {
        let found = backup.backup.progress();
        progress.set(teak_backup_progress {
            files: found.files,
            files_copied: found.files_copied,
            bytes_copied: found.bytes_copied,
            pinned_bytes: found.pinned_bytes,
        });
        Ok(())
    })
}

/// Releases what the backup retains, and frees the handle. No other call may use the backup now. NULL
/// is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_end(backup: *mut teak_backup) {
    free!(backup);
}

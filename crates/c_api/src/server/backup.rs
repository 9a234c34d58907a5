//! A backup that the server requests and cuts, and that a thread of the engine copies.

use crate::boundary::boundary;
use crate::handles::teak_engine;
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{BackupLimits, BackupReport, BackupRequest, BackupState};
use std::ffi::c_void;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where a requested backup stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_backup_state {
    /// It waits for the server to block commits.
    TEAK_BACKUP_ARMED = 0,
    /// The cut is made, and its files are being copied.
    TEAK_BACKUP_COPYING = 1,
    /// The copy is complete.
    TEAK_BACKUP_COMPLETE = 2,
    /// It has failed, or was cancelled.
    TEAK_BACKUP_ENDED = 3,
}

use teak_backup_state::*;

/// A requested backup.
#[repr(C)]
pub struct teak_backup_info {
    /// Where it stands.
    pub state: teak_backup_state,
    /// The directory to copy to.
    pub target: teak_slice,
    /// When it was armed, in microseconds since 1970.
    pub armed_microseconds: u64,
    /// When it was complete, or has failed; 0: not yet.
    pub ended_microseconds: u64,
    /// How many times the server has begun to block commits for a backup since it was armed.
    pub stages: u64,
    /// Whether the cut is made.
    pub is_cut: bool,
    /// The position in the log of the cut.
    pub position: u64,
    /// How long the cut took.
    pub cut_microseconds: u64,
    /// Number of files, the log included.
    pub files: u64,
    /// Number of files that are copied.
    pub files_copied: u64,
    /// Bytes that are copied.
    pub bytes_copied: u64,
    /// Bytes that are on the disk only because the backup needs them.
    pub pinned_bytes: u64,
    /// Why it has failed; empty if it has not.
    pub failure: teak_slice,
}

fn microseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn info(report: &BackupReport) -> teak_backup_info {
    let state = match report.state {
        BackupState::Armed => TEAK_BACKUP_ARMED,
        BackupState::Copying => TEAK_BACKUP_COPYING,
        BackupState::Complete => TEAK_BACKUP_COMPLETE,
        BackupState::Failed => TEAK_BACKUP_ENDED,
    };
    let duration = report.cut.map_or(0, |(_, time)| time.as_micros());
    teak_backup_info {
        state,
        target: teak_slice::of(report.target.as_os_str().as_encoded_bytes()),
        armed_microseconds: microseconds(report.armed_at),
        ended_microseconds: report.ended_at.map_or(0, microseconds),
        stages: report.stages,
        is_cut: report.cut.is_some(),
        position: report.cut.map_or(0, |(position, _)| position.0),
        cut_microseconds: u64::try_from(duration).unwrap_or(u64::MAX),
        files: report.files,
        files_copied: report.files_copied,
        bytes_copied: report.bytes_copied,
        pinned_bytes: report.pinned_bytes,
        failure: teak_slice::of(report.failure.as_bytes()),
    }
}

/// Requests a backup to `directory`, an absolute path, at most `bytes_per_second` (0: no limit). The
/// next call of teak_backup_end_stage() makes the cut. The request ends if there is none within
/// `armed_milliseconds`; a request with the same directory extends the time. TEAK_BACKUP_FAILED when
/// another backup is armed or in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_arm(
    engine: *mut teak_engine,
    directory: teak_slice,
    bytes_per_second: u64,
    armed_milliseconds: u64,
) -> teak_status {
    boundary!([reference(engine), text(directory)] {
        engine.engine.arm_backup(BackupRequest {
            target: directory.into(),
            bytes_per_second,
            armed_for: Duration::from_millis(armed_milliseconds),
        })?;
        Ok(())
    })
}

/// Notes that the server begins to block commits for a backup. Returns whether a backup is armed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_begin_stage(engine: *mut teak_engine) -> bool {
    boundary!(or false, [reference(engine)] {
        Ok(engine.engine.begin_backup_stage())
    })
}

/// Called when the server ends a backup, before it permits commits again. If `commits_are_blocked`,
/// makes the cut of an armed backup, in a few milliseconds, and starts the thread that copies.
/// Otherwise an armed backup fails. The backup is cancelled when it retains more than
/// `pinned_bytes_max` bytes on the disk (0: no limit), or makes no progress for
/// `lease_milliseconds`. teak_backup_describe() reports failures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_end_stage(
    engine: *mut teak_engine,
    commits_are_blocked: bool,
    pinned_bytes_max: u64,
    lease_milliseconds: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        let limits = BackupLimits {
            pinned_bytes_max,
            lease: Duration::from_millis(lease_milliseconds),
        };
        engine.engine.end_backup_stage(commits_are_blocked, limits);
        Ok(())
    })
}

/// Ends the requested backup if it is armed or in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_cancel(engine: *mut teak_engine) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.cancel_backup();
        Ok(())
    })
}

/// Calls `sink` for the newest requested backup, if there was one since the engine was opened.
/// Slices are valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_backup_describe(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, backup: *const teak_backup_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        if let Some(report) = engine.engine.backup_report() {
            let info = info(&report);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        }
        Ok(())
    })
}

//! The list of background jobs, through a callback.

use crate::boundary::boundary;
use crate::handles::teak_engine;
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{BackgroundJob, BackgroundKind};
use std::ffi::c_void;
use std::time::{Duration, UNIX_EPOCH};

/// What a background job does.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_job_kind {
    /// Writes a memtable as runs.
    TEAK_JOB_FLUSH = 0,
    /// Merges runs, or moves them down.
    TEAK_JOB_COMPACTION = 1,
    /// Moves blocks within a file.
    TEAK_JOB_RELOCATION = 2,
    /// Makes the file of an index durable.
    TEAK_JOB_CHECKPOINT = 3,
    /// A round of checkpoints, which trims the log.
    TEAK_JOB_CHECKPOINT_ROUND = 4,
    /// Builds indexes for an alteration.
    TEAK_JOB_INDEX_BUILD = 5,
    /// Writes the rows of a bulk load.
    TEAK_JOB_BULK_LOAD = 6,
}

use teak_job_kind::*;

/// A background job.
#[repr(C)]
pub struct teak_job_info {
    /// What it does.
    pub kind: teak_job_kind,
    /// Its form or purpose, as text.
    pub detail: teak_slice,
    /// The name of the table; data NULL: none, or unknown.
    pub table: teak_slice,
    /// The label of the index, or of the first of several; data NULL like `table`.
    pub index: teak_slice,
    /// The number of this index in the table; 0 contains the rows.
    pub index_number: u32,
    /// Whether it runs; otherwise it waits.
    pub is_running: bool,
    /// When it began, in microseconds since 1970, if it runs.
    pub started_microseconds: u64,
    /// Time since then.
    pub elapsed_milliseconds: u64,
    /// Whether its bytes are counted.
    pub has_io: bool,
    /// Bytes read so far.
    pub bytes_read: u64,
    /// Bytes written so far.
    pub bytes_written: u64,
    /// Whether it knows its progress.
    pub has_progress: bool,
    /// Number of entries, or of indexes of a round, that are done.
    pub done: u64,
    /// Their total.
    pub total: u64,
    /// Whether the number of waiting bytes is known, if it waits.
    pub has_waiting_bytes: bool,
    /// Bytes that wait to be flushed or merged, those of running jobs included.
    pub waiting_bytes: u64,
    /// Whether it has failed and is tried again later.
    pub has_failed: bool,
    /// Time until then.
    pub retry_milliseconds: u64,
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn info(job: &BackgroundJob) -> teak_job_info {
    let kind = match job.kind {
        BackgroundKind::Flush => TEAK_JOB_FLUSH,
        BackgroundKind::Compaction => TEAK_JOB_COMPACTION,
        BackgroundKind::Relocation => TEAK_JOB_RELOCATION,
        BackgroundKind::Checkpoint => TEAK_JOB_CHECKPOINT,
        BackgroundKind::CheckpointRound => TEAK_JOB_CHECKPOINT_ROUND,
        BackgroundKind::IndexBuild => TEAK_JOB_INDEX_BUILD,
        BackgroundKind::BulkLoad => TEAK_JOB_BULK_LOAD,
    };
    let name = job.index.as_ref();
    let (running, waiting) = (job.running, job.waiting);
    let started = running.and_then(|state| state.started.duration_since(UNIX_EPOCH).ok());
    let started = started.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(0));
    let io = running.and_then(|state| state.io_bytes);
    let progress = running.and_then(|state| state.progress);
    let bytes = waiting.and_then(|state| state.bytes);
    let retry_in = waiting.and_then(|state| state.retry_in);
    teak_job_info {
        kind,
        detail: teak_slice::of(job.detail.as_bytes()),
        table: teak_slice::of_optional(name.map(|name| name.table.as_bytes())),
        index: teak_slice::of_optional(name.map(|name| name.index.as_bytes())),
        index_number: name.map_or(0, |name| name.number),
        is_running: running.is_some(),
        started_microseconds: started,
        elapsed_milliseconds: running.map_or(0, |state| milliseconds(state.elapsed)),
        has_io: io.is_some(),
        bytes_read: io.map_or(0, |(read, _)| read),
        bytes_written: io.map_or(0, |(_, written)| written),
        has_progress: progress.is_some(),
        done: progress.map_or(0, |(done, _)| done),
        total: progress.map_or(0, |(_, total)| total),
        has_waiting_bytes: bytes.is_some(),
        waiting_bytes: bytes.unwrap_or(0),
        has_failed: retry_in.is_some(),
        retry_milliseconds: retry_in.map_or(0, milliseconds),
    }
}

/// Calls `sink` for each background job that runs, the oldest first, and then for those that wait.
/// Slices are valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_job_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, job: *const teak_job_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        for job in engine.engine.background_jobs() {
            let info = info(&job);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        }
        Ok(())
    })
}

//! The state of the log, through a callback.

use crate::boundary::boundary;
use crate::handles::teak_engine;
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{LogNeed, LogReport};
use std::ffi::c_void;

/// What needs the oldest record of the log.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_log_need {
    /// Nothing: the index files have all records.
    TEAK_LOG_NEED_NONE = 0,
    /// An index whose file does not have the record.
    TEAK_LOG_NEED_INDEX = 1,
    /// A commit in progress.
    TEAK_LOG_NEED_COMMIT = 2,
}

use teak_log_need::*;

/// The log. Positions are numbers of bytes since the data directory was created, sizes are in bytes.
#[repr(C)]
pub struct teak_log_info {
    /// The oldest record in the files of the log.
    pub start: u64,
    /// The position from which recovery would read now.
    pub replay_from: u64,
    /// The oldest record that is needed now; the end of the log if none is.
    pub needed_from: u64,
    /// What needs it.
    pub needed_by: teak_log_need,
    /// The name of the table, if an index needs it; data NULL: none, or unknown.
    pub table: teak_slice,
    /// The label of the index; data NULL like `table`.
    pub index: teak_slice,
    /// The number of this index in the table; 0 contains the rows.
    pub index_number: u32,
    /// The position before which all records are durable.
    pub durable: u64,
    /// The position of the next record.
    pub end: u64,
    /// Number of files.
    pub segments: u64,
    /// Size of these files.
    pub segments_bytes: u64,
    /// Size of files that are prepared, or trimmed and not yet reused or removed.
    pub spare_bytes: u64,
    /// The size that is compared with the limits.
    pub bytes: u64,
    /// Whether the size of the log is limited.
    pub has_limits: bool,
    /// The size above which writers are slowed.
    pub slow_bytes: u64,
    /// The size at which writers stop.
    pub stop_bytes: u64,
    /// The bound.
    pub bytes_max: u64,
}

fn info(report: &LogReport) -> teak_log_info {
    let (needed_by, name) = match &report.needed_by {
        LogNeed::Nothing => (TEAK_LOG_NEED_NONE, None),
        LogNeed::Index(name) => (TEAK_LOG_NEED_INDEX, name.as_ref()),
        LogNeed::Commit => (TEAK_LOG_NEED_COMMIT, None),
    };
    let limits = report.limits;
    teak_log_info {
        start: report.start.0,
        replay_from: report.replay_from.0,
        needed_from: report.needed_from.0,
        needed_by,
        table: teak_slice::of_optional(name.map(|name| name.table.as_bytes())),
        index: teak_slice::of_optional(name.map(|name| name.index.as_bytes())),
        index_number: name.map_or(0, |name| name.number),
        durable: report.durable.0,
        end: report.end.0,
        segments: report.segments,
        segments_bytes: report.segments_bytes,
        spare_bytes: report.spare_bytes,
        bytes: report.bytes,
        has_limits: limits.is_some(),
        slow_bytes: limits.map_or(0, |limits| limits.slow_bytes),
        stop_bytes: limits.map_or(0, |limits| limits.stop_bytes),
        bytes_max: limits.map_or(0, |limits| limits.bytes_max),
    }
}

/// Calls `sink` with the state of the log. Slices are valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_log_describe(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, log: *const teak_log_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        let info = info(&engine.engine.log_report());
        // SAFETY: the caller's callback, with the caller's context.
        unsafe { sink(context, &raw const info) };
        Ok(())
    })
}

//! The list of all indexes, through a callback.

use crate::boundary::boundary;
use crate::codec::{number_of, teak_codec_number};
use crate::handles::teak_engine;
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{IndexReport, KeyId};
use std::ffi::c_void;
use std::os::unix::ffi::OsStrExt;

/// An index of a table. If its file is closed, the sizes are those of the time when it was closed, or of
/// the last checkpoint before a crash, and `pages`, `cached_bytes` and all counts since the file was opened are 0.
#[repr(C)]
pub struct teak_index_info {
    /// The name of the table.
    pub table: teak_slice,
    /// The label, see teak_index_definition.
    pub label: teak_slice,
    /// The path of the file, relative to the data directory.
    pub path: teak_slice,
    /// The number of the index in the table; 0 contains the rows.
    pub index: u32,
    /// Compression of bottom runs; never TEAK_CODEC_DEFAULT.
    pub codec: teak_codec_number,
    /// Whether the file is open.
    pub is_open: bool,
    /// Estimated number of live entries.
    pub entries: u64,
    /// Number of tombstones on disk.
    pub tombstones: u64,
    /// Bytes of the entries on disk before compression, old versions included.
    pub raw_bytes: u64,
    /// Bytes of the file that contain data.
    pub live_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes in memory that have not been flushed.
    pub memtable_bytes: u64,
    /// Bytes of its decoded blocks in memory.
    pub cached_bytes: u64,
    /// Number of levels of nodes.
    pub height: u64,
    /// Number of sorted runs.
    pub runs: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of blocks read since the file was opened.
    pub blocks_read: u64,
    /// Bytes of these blocks in the file.
    pub bytes_read: u64,
    /// Bytes of the filters in memory, which are a part of cached_bytes.
    pub filter_bytes_in_memory: u64,
    /// Number of entries of the index blocks with these filters.
    pub filter_entries_in_memory: u64,
    /// Number of look-ups in filters since the file was opened.
    pub filter_checks: u64,
    /// Number of those that excluded the key.
    pub filter_negatives: u64,
    /// Bytes before compression that flushes of memtables have written since the file was opened.
    pub raw_bytes_flushed: u64,
    /// Bytes before compression that all flushes and merges have written since the file was opened.
    pub raw_bytes_written: u64,
    /// Bytes that were written to the file since it was opened.
    pub bytes_written: u64,
    /// The id of the key with which new blocks are encrypted; 0: they are not.
    pub encryption_key: u32,
    /// The id of the key with which all blocks are encrypted, in version `encrypted_with_version` or a newer one; 0: they
    /// are not. Differs from `encryption_key` while blocks are being written again with another key.
    pub encrypted_with_key: u32,
    /// The oldest version that a block may have.
    pub encrypted_with_version: u32,
    /// Whether blocks may be encrypted otherwise, because the key was changed before or is being changed.
    pub has_other_keys: bool,
}

fn info(report: &IndexReport) -> teak_index_info {
    teak_index_info {
        table: teak_slice::of(report.table.as_bytes()),
        label: teak_slice::of(report.label.as_bytes()),
        path: teak_slice::of(report.path.as_os_str().as_bytes()),
        index: report.number,
        codec: number_of(report.codec),
        is_open: report.is_open,
        entries: report.entries,
        tombstones: report.tombstones,
        raw_bytes: report.raw_bytes,
        live_bytes: report.live_bytes,
        file_bytes: report.file_bytes,
        memtable_bytes: report.memtable_bytes,
        cached_bytes: report.cached_bytes,
        height: report.height,
        runs: report.runs,
        pages: report.pages,
        blocks_read: report.blocks_read,
        bytes_read: report.bytes_read,
        filter_bytes_in_memory: report.filter_bytes_in_memory,
        filter_entries_in_memory: report.filter_entries_in_memory,
        filter_checks: report.filter_checks,
        filter_negatives: report.filter_negatives,
        raw_bytes_flushed: report.raw_bytes_flushed,
        raw_bytes_written: report.raw_bytes_written,
        bytes_written: report.bytes_written,
        encryption_key: KeyId::number(report.encryption_key),
        encrypted_with_key: KeyId::number(report.encryption.with.map(|with| with.key)),
        encrypted_with_version: report.encryption.with.map_or(0, |with| with.version),
        has_other_keys: report.encryption.is_mixed,
    }
}

/// Calls `sink` for each index of each table except temporary ones, in the order of the names of the
/// tables. Opens no files. Slices are valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, index: *const teak_index_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        engine.engine.list_indexes(&mut |report| {
            let info = info(report);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        });
        Ok(())
    })
}

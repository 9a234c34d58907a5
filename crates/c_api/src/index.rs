//! Sizes and estimates of one index of a table.

use crate::boundary::{Extensible, Versioned, boundary, first_version_bytes, write_versioned};
use crate::codec::{number_of, teak_codec_number};
use crate::handles::teak_table;
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::IndexNumber;

/// Sizes of one index. Fields are added at the end in later versions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct teak_index_statistics {
    /// sizeof(teak_index_statistics), set by the caller.
    pub struct_size: usize,
    /// Estimated number of live entries.
    pub entries: u64,
    /// Size of the file in bytes.
    pub disk_bytes: u64,
    /// Bytes of the entries on disk before compression.
    pub raw_bytes: u64,
    /// Bytes in memory that have not been flushed.
    pub memtable_bytes: u64,
    /// Number of levels of nodes.
    pub height: u32,
    /// Number of sorted runs.
    pub runs: u32,
    /// The codec of the index; never TEAK_CODEC_DEFAULT.
    pub codec: teak_codec_number,
    /// Number of tombstones on disk.
    pub tombstones: u64,
    /// Bytes of its decoded blocks in memory; 0 while the table's files are closed.
    pub cached_bytes: u64,
    /// Limit of the page cache, which all indexes share, in bytes.
    pub cache_bytes_limit: u64,
    /// Mean bytes of a page before compression; 0 while the table's files are closed.
    pub page_bytes: u64,
    /// Bytes of the entries in its pages in memory, before compression, including those of columns that were not decoded;
    /// 0 while the table's files are closed.
    pub cached_entry_bytes: u64,
}

// SAFETY: `repr(C)`; numbers.
unsafe impl Extensible for teak_index_statistics {
    const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, tombstones, 64);
}

// SAFETY: the first field is `struct_size`.
unsafe impl Versioned for teak_index_statistics {}

/// Sizes of one index. Reads no data, so it is cheap enough to call often. While the table's files
/// are closed, the sizes are those of the time when they were closed, or of the last checkpoint
/// before a crash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_get_statistics(
    table: *mut teak_table,
    index: u32,
    statistics: *mut teak_index_statistics,
) -> teak_status {
    boundary!([reference(table)] {
        let found = table.handle.index_statistics(IndexNumber(index))?;
        let translated = teak_index_statistics {
            struct_size: size_of::<teak_index_statistics>(),
            entries: found.entries,
            disk_bytes: found.disk_bytes,
            raw_bytes: found.raw_bytes,
            memtable_bytes: found.memtable_bytes,
            height: u32::try_from(found.height).unwrap_or(u32::MAX),
            runs: u32::try_from(found.runs).unwrap_or(u32::MAX),
            codec: number_of(found.codec),
            tombstones: found.tombstones,
            cached_bytes: found.cached_bytes,
            cache_bytes_limit: found.cache_bytes_limit,
            page_bytes: found.page_bytes,
            cached_entry_bytes: found.cached_entry_bytes,
        };
        // SAFETY: the contract of `boundary`.
        unsafe { write_versioned(statistics, &translated, "statistics") }
    })
}

/// Free bytes inside an index's file, which later writes reuse.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_get_free_bytes(
    table: *mut teak_table,
    index: u32,
    bytes: *mut u64,
) -> teak_status {
    boundary!([reference(table), out(bytes)] {
        bytes.set(table.handle.free_bytes(IndexNumber(index))?);
        Ok(())
    })
}

/// Estimates the number of entries with lower <= key < upper. A small number is usually exact.
/// Uncommitted writes count, too. A slice whose data is NULL means no limit on that side.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_estimate_entries(
    table: *mut teak_table,
    index: u32,
    lower: teak_slice,
    upper: teak_slice,
    entries: *mut u64,
) -> teak_status {
    boundary!([reference(table), optional(lower), optional(upper), out(entries)] {
        entries.set(table.handle.records_in_range(IndexNumber(index), lower, upper)?);
        Ok(())
    })
}

/// Estimates the number of entries that start with the prefix, like teak_index_estimate_entries.
/// The prefix must be as for teak_cursor_set_prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_estimate_prefix(
    table: *mut teak_table,
    index: u32,
    prefix: teak_slice,
    entries: *mut u64,
) -> teak_status {
    boundary!([reference(table), bytes(prefix), out(entries)] {
        entries.set(table.handle.records_with_prefix(IndexNumber(index), prefix)?);
        Ok(())
    })
}

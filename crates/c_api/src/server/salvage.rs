//! Repairing damaged tables.

use crate::boundary::{
    Extensible, Failure, Versioned, boundary, first_version_bytes, interruption, write_versioned,
};
use crate::handles::{teak_engine, teak_table};
use crate::row::teak_duplicate;
use crate::server::alteration::teak_alteration;
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{EngineError, SalvageReport, StorageError};
use std::ffi::{c_char, c_void};

/// What a salvage has read and lost.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_salvage_report {
    /// sizeof(teak_salvage_report).
    pub struct_size: usize,
    /// Rows read.
    pub rows: u64,
    /// Of these, rows of which a newer version, or the deletion, may have been lost.
    pub doubtful_rows: u64,
    /// Separate values, pages, runs and nodes that could not be read. Retained log records that
    /// could not be read count as one part.
    pub lost_parts: u64,
    /// Entries of lost pages and runs, old versions and deletes included. The entries below lost
    /// nodes are not included, because their number is unknown.
    pub lost_entries: u64,
}

// SAFETY: `repr(C)`; numbers.
unsafe impl Extensible for teak_salvage_report {
    const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, lost_entries, 40);
}

// SAFETY: the first field is `struct_size`.
unsafe impl Versioned for teak_salvage_report {}

/// Opens a table that may be damaged. If teak_table_open() fails because of its files, the handle can
/// only be used for teak_table_verify(), teak_table_salvage() and an alteration that replaces all
/// indexes. As long as this handle exists, teak_table_open() and other calls of this function fail
/// with TEAK_CORRUPT; teak_table_open_lazily() succeeds, but opening a cursor with its handle fails
/// with TEAK_CORRUPT, and writes fail.
///
/// TEAK_CORRUPT when nothing can be read: the file of the rows is missing or has no valid superblock.
/// `interrupt` may be NULL; it is called while retained log records are applied, and while the call
/// waits for threads that apply such records or open damaged tables. It ends the call with
/// TEAK_INTERRUPTED when it returns true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_open_damaged(
    engine: *mut teak_engine,
    name: teak_slice,
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    context: *mut c_void,
    table: *mut *mut teak_table,
) -> teak_status {
    boundary!([reference(engine), text(name), out(table)] {
        let interrupted = interruption(interrupt, context);
        let handle = engine.engine.open_damaged_table_unless(name, &interrupted)?;
        table.set_handle(teak_table { handle });
        Ok(())
    })
}

/// `unreadable` receives whether the table could be opened only to be repaired.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_is_unreadable(
    table: *mut teak_table,
    unreadable: *mut bool,
) -> teak_status {
    boundary!([reference(table), out(unreadable)] {
        unreadable.set(table.handle.is_unreadable());
        Ok(())
    })
}

/// Reads the committed rows of a table in the order of their keys, and skips what cannot be read.
/// Applies the log records that are retained for the table: TEAK_UNAVAILABLE when they cannot be
/// read now, TEAK_LOCK_TIMEOUT when a prepared transaction wrote one of them. Calls `row` for each
/// row; `doubtful`: a newer version of the row, or its deletion, may have been lost. `interrupt`
/// may be NULL; it is called while log records are read. The call ends with TEAK_INTERRUPTED when
/// `row` or `interrupt` returns true. At the end, `lost` is called with sentences about the parts
/// that could not be read. No transaction may write the table during the call. `report` is written
/// on TEAK_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_salvage(
    table: *mut teak_table,
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    row: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: teak_slice,
            value: teak_slice,
            doubtful: bool,
        ) -> bool,
    >,
    lost: Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, len: usize)>,
    context: *mut c_void,
    report: *mut teak_salvage_report,
) -> teak_status {
    boundary!([reference(table), callback(row), callback(lost)] {
        let interrupted = interruption(interrupt, context);
        let salvaged = table.handle.salvage(
            Box::new(interrupted),
            &mut |entry| {
                let (key, value) = (teak_slice::of(entry.key), teak_slice::of(entry.value));
                // SAFETY: the caller's callback, with the caller's context.
                let stop = unsafe { row(context, key, value, entry.is_doubtful) };
                match stop {
                    true => Err(EngineError::Storage(StorageError::Interrupted)),
                    false => Ok(()),
                }
            },
            // SAFETY: as above.
            &mut |text| unsafe { lost(context, text.as_ptr().cast(), text.len()) },
        )?;
        // SAFETY: the contract of `boundary`.
        unsafe { write_versioned(report, &report_of(&salvaged), "report") }?;
        Ok(())
    })
}

fn report_of(salvaged: &SalvageReport) -> teak_salvage_report {
    teak_salvage_report {
        struct_size: size_of::<teak_salvage_report>(),
        rows: salvaged.rows,
        doubtful_rows: salvaged.doubtful_rows,
        lost_parts: salvaged.lost_parts,
        lost_entries: salvaged.lost_entries,
    }
}

/// Makes an alteration the repair of a damaged table; it must replace all indexes. Its commit moves
/// the old files to the directory #teak_orphans instead of removing them. If a unique index has
/// duplicate keys, teak_alteration_build() leaves out up to `duplicates_max` entries and ends after
/// that index, see teak_alteration_get_duplicate(). With more duplicates it fails with
/// TEAK_DUPLICATE_KEY. An alteration that has left out entries cannot be committed: begin another
/// one, without their rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_repair(
    alteration: *mut teak_alteration,
    duplicates_max: usize,
) -> teak_status {
    boundary!([exclusive(alteration)] {
        let alteration = alteration.alteration.as_mut().ok_or_else(Failure::alteration_ended)?;
        alteration.repair(duplicates_max);
        Ok(())
    })
}

/// An entry that teak_alteration_build() of a repair has left out of a unique index. `number`
/// counts these entries from 0; TEAK_NOT_FOUND after the last one. `duplicate->index` is the number
/// of the added index. Valid until the next call on the alteration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_get_duplicate(
    alteration: *mut teak_alteration,
    number: usize,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([reference(alteration), out(duplicate)] {
        let alteration = alteration.alteration.as_ref().ok_or_else(Failure::alteration_ended)?;
        match alteration.duplicates().get(number) {
            Some(found) => {
                duplicate.set(teak_duplicate::of(found));
                Ok(teak_status::TEAK_OK)
            }
            None => Ok(teak_status::TEAK_NOT_FOUND),
        }
    })
}

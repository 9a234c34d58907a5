//! Cursor settings for statements of a server.

use crate::boundary::boundary;
use crate::cursor::change_policy;
use crate::handles::teak_cursor;
use crate::status::teak_status;
use ::teak_engine::{LockPolicy, RowRetention};

/// Sets whether a locking scan of index 0 is semi-consistent: instead of waiting for a row that
/// another transaction has locked or written, it returns the row's newest committed version,
/// unlocked. To lock such a row, turn this off and seek the row. Ignored if the cursor locks
/// ranges. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_semi_consistent(
    cursor: *mut teak_cursor,
    semi_consistent: bool,
) -> teak_status {
    boundary!([open(cursor)] {
        change_policy(cursor, LockPolicy::SemiConsistent, semi_consistent);
        Ok(())
    })
}

/// Whether the row last returned is unlocked because the scan is semi-consistent. false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_is_unlocked(cursor: *const teak_cursor) -> bool {
    boundary!(or false, [reference(cursor)] { Ok(cursor.is_unlocked()) })
}

/// Sets whether rows that the cursor has read remain protected from writes until the transaction
/// ends, even after teak_cursor_unlock(). Has an effect only if the cursor locks ranges of index 0.
/// Call this before the first read. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_retain_locks(
    cursor: *mut teak_cursor,
    retain: bool,
) -> teak_status {
    boundary!([open(cursor)] {
        cursor.set_row_retention(if retain {
            RowRetention::UntilTransactionEnd
        } else {
            RowRetention::UntilUnlocked
        });
        Ok(())
    })
}

/// Makes a cursor without a lock mode read the newest committed versions and those of its
/// transaction instead of a snapshot, under every isolation level. It may return versions of
/// different times, so use it for hints only. Call it before the first read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_read_newest(cursor: *mut teak_cursor) -> teak_status {
    boundary!([open(cursor)] {
        cursor.read_newest();
        Ok(())
    })
}

/// Sets whether scans without locks skip large values, which are stored in blocks of their own:
/// such a value is not read, and the data of teak_row.value is NULL. This is for a caller that
/// needs only keys. teak_cursor_get() always returns values. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_skip_large_values(
    cursor: *mut teak_cursor,
    skip: bool,
) -> teak_status {
    boundary!([open(cursor)] {
        cursor.skip_large_values(skip);
        Ok(())
    })
}

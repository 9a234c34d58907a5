//! Scans that pass over pages without rows that match a condition.

use super::aggregate_query::{columns_of, conditions_of, teak_condition, teak_read_column};
use crate::boundary::{Failure, boundary, free};
use crate::cursor::{parts, return_rows, teak_row};
use crate::handles::{teak_cursor, teak_table};
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::aggregate::TextRules;
use ::teak_engine::{IndexNumber, PageFilter};
use std::ffi::c_void;

/// A condition by which scans pass over pages, from teak_page_filter_open() to teak_page_filter_close(). Used by one
/// thread at a time.
pub struct teak_page_filter {
    filter: PageFilter,
    rules: Rules,
}

/// What a filter looks for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_page_filter_query {
    /// How values begin that have the form of the index's columns; pages with others are not passed over.
    pub beginning: teak_slice,
    /// The columns that are compared, each once.
    pub columns: *const teak_read_column,
    /// Their number.
    pub column_count: usize,
    /// The condition of the rows, as in teak_aggregate_query; at least one.
    pub conditions: *const teak_condition,
    /// The number of conditions.
    pub condition_count: usize,
    /// As in teak_aggregate_calls.
    pub accepts: Option<
        unsafe extern "C" fn(context: *mut c_void, condition: usize, text: teak_slice) -> bool,
    >,
    /// Passed to `accepts`.
    pub context: *mut c_void,
}

struct Rules {
    accepts: Option<
        unsafe extern "C" fn(context: *mut c_void, condition: usize, text: teak_slice) -> bool,
    >,
    context: *mut c_void,
}

impl TextRules for Rules {
    /// There are no keys.
    fn weigh(&mut self, _key: usize, _text: &[u8], _out: &mut Vec<u8>) {}

    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        match self.accepts {
            // SAFETY: the caller's function, with the caller's context.
            Some(accepts) => unsafe { accepts(self.context, condition, teak_slice::of(text)) },
            // Pages are not passed over.
            None => true,
        }
    }
}

/// Prepares a filter for cursors of an index. TEAK_INVALID_ARGUMENT as for teak_aggregate_open().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_page_filter_open(
    table: *mut teak_table,
    index: u32,
    query: *const teak_page_filter_query,
    filter: *mut *mut teak_page_filter,
) -> teak_status {
    boundary!([reference(table), reference(query), out(filter)] {
        // SAFETY: the contract of `boundary`.
        let (beginning, columns, condition) = unsafe {
            (
                query.beginning.bytes()?,
                columns_of(query.columns, query.column_count)?,
                conditions_of(query.conditions, query.condition_count)?,
            )
        };
        let condition = condition.ok_or_else(|| Failure::invalid("there is no condition"))?;
        let index = IndexNumber(index);
        filter.set_handle(teak_page_filter {
            filter: table.handle.page_filter(index, beginning, &columns, condition)?,
            rules: Rules {
                accepts: query.accepts,
                context: query.context,
            },
        });
        Ok(())
    })
}

/// Moves to the next row like teak_cursor_next_rows(), but may pass over pages of which no row matches the filter's condition.
/// It returns all other rows, also those that do not match.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_next_matching_rows(
    cursor: *mut teak_cursor,
    filter: *mut teak_page_filter,
    passed: usize,
    rows: *mut teak_row,
    capacity: usize,
    count: *mut usize,
) -> teak_status {
    boundary!([exclusive(filter), out_array(rows, capacity), out(count)] {
        // SAFETY: the contract of `boundary`.
        let (cursor, transaction) = unsafe { parts(cursor) }?;
        if rows.len() == 0 {
            return Err(Failure::invalid("capacity is 0"));
        }
        let teak_page_filter { filter, rules } = filter;
        let found = cursor.next_matching_rows(transaction, filter, rules, passed, rows.len())?;
        return_rows(found, rows, count)
    })
}

/// The number of pages that were passed over with the filter. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_page_filter_passed(filter: *const teak_page_filter) -> u64 {
    boundary!(or 0, [reference(filter)] { Ok(filter.filter.passed_pages()) })
}

/// The number of these pages that were not read, because the minima and maxima of their columns exclude the condition. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_page_filter_unread(filter: *const teak_page_filter) -> u64 {
    boundary!(or 0, [reference(filter)] { Ok(filter.filter.unread_pages()) })
}

/// Frees a filter; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_page_filter_close(filter: *mut teak_page_filter) {
    free!(filter);
}

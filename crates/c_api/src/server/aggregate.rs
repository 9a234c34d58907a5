//! Aggregates of the rows of tables.

use super::aggregate_query::{columns_of, query_of, teak_aggregate_query};
use crate::boundary::{Failure, array, boundary, free, reference};
use crate::handles::{teak_table, teak_transaction};
use crate::slice::teak_slice;
use crate::status::teak_status::{self, TEAK_NOT_FOUND, TEAK_OK};
use ::teak_engine::aggregate::TextRules;
use ::teak_engine::{GroupScan, GroupScanCaller, GroupedTable, IndexNumber};
use std::ffi::c_void;

/// Aggregates of the rows of tables, from teak_aggregate_open() to teak_aggregate_close(). Used by the thread that
/// uses the transaction.
pub struct teak_aggregate {
    scan: GroupScan,
    transaction: *mut teak_transaction,
    calls: teak_aggregate_calls,
    /// The group of the last call of teak_aggregate_next().
    group: Option<u32>,
    /// The bytes that the last call has returned.
    returned: Vec<u8>,
}

/// What the caller does for aggregates.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_aggregate_calls {
    /// Sets `weights` to the weights of a byte string of a key, counted from 0; strings with the same weights are
    /// equal. They remain valid until the next call. May be NULL if no key is weighed.
    pub weigh: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: usize,
            text: teak_slice,
            weights: *mut teak_slice,
        ),
    >,
    /// Whether a condition of the caller, of which `condition` is the number, is true for a byte string. May be NULL if
    /// there is none of kind TEAK_CONDITION_ACCEPTED.
    pub accepts: Option<
        unsafe extern "C" fn(context: *mut c_void, condition: usize, text: teak_slice) -> bool,
    >,
    /// Sets `converted` to a value with the form of the index's columns; it remains valid until the next call. `table`:
    /// the number of the value's table, counted from 0. Returns false if the value is malformed.
    pub convert: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            table: usize,
            key: teak_slice,
            value: teak_slice,
            converted: *mut teak_slice,
        ) -> bool,
    >,
    /// Passed to the calls.
    pub context: *mut c_void,
}

impl TextRules for teak_aggregate_calls {
    fn weigh(&mut self, key: usize, text: &[u8], out: &mut Vec<u8>) {
        let mut weights = teak_slice::NONE;
        if let Some(weigh) = self.weigh {
            // SAFETY: the caller's function, with the caller's context.
            unsafe { weigh(self.context, key, teak_slice::of(text), &raw mut weights) };
        }
        // SAFETY: the caller returned the slice.
        if let Ok(weights) = unsafe { weights.bytes() } {
            out.extend_from_slice(weights);
        }
    }

    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        let text = teak_slice::of(text);
        match self.accepts {
            // SAFETY: the caller's function, with the caller's context.
            Some(accepts) => unsafe { accepts(self.context, condition, text) },
            None => false,
        }
    }
}

impl GroupScanCaller for teak_aggregate_calls {
    fn convert(&mut self, table: usize, key: &[u8], value: &[u8]) -> Option<&[u8]> {
        let (key, value) = (teak_slice::of(key), teak_slice::of(value));
        let mut converted = teak_slice::NONE;
        // SAFETY: the caller's function, with the caller's context.
        let is_converted =
            unsafe { self.convert?(self.context, table, key, value, &raw mut converted) };
        // SAFETY: the caller returned the slice, and keeps it until the next call.
        let bytes = unsafe { converted.bytes() };
        bytes.ok().filter(|_| is_converted)
    }
}

/// A table whose rows teak_aggregate_open() reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_aggregate_table {
    /// The table.
    pub table: *mut teak_table,
    /// How values begin that have the form of the index's columns; others are converted first.
    pub beginning: teak_slice,
}

/// Prepares to compute aggregates of all rows that a consistent read of the transaction sees, of the same index of
/// tables with equal columns, such as partitions. They are read one after the other. Close it before the transaction ends and before a
/// table is closed. TEAK_TABLE_CHANGED as for teak_cursor_open().
/// TEAK_INVALID_ARGUMENT if there is no table, if columns differ, if a number is needed of a column of byte strings or floats, or if an expression calculates
/// with an unsigned integer of eight bytes; its sum is allowed.
///
/// The number of a value is, of an integer, the integer, less 2^63 if it is unsigned and has eight bytes; of a decimal,
/// all of its digits as an integer; of TEAK_COLUMN_UNSIGNED_BIG, its bytes as an integer. Conditions also compare floats: the
/// number of a float is its 64 bits as an integer, or, if it is negative, the same of the positive float with the other
/// sign; that of -0.0 is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_open(
    transaction: *mut teak_transaction,
    tables: *const teak_aggregate_table,
    table_count: usize,
    index: u32,
    query: *const teak_aggregate_query,
    calls: *const teak_aggregate_calls,
    aggregate: *mut *mut teak_aggregate,
) -> teak_status {
    let handle = transaction;
    boundary!([owned(transaction), reference(query), reference(calls), out(aggregate)] {
        // SAFETY: the contract of `boundary`.
        let (tables, columns) = unsafe {
            (tables_of(tables, table_count)?, columns_of(query.columns, query.column_count)?)
        };
        let index = IndexNumber(index);
        let (wanted, memory_max) = (query_of(query)?, query.memory_max);
        let scan = transaction.group_scan(&tables, index, &columns, wanted, memory_max)?;
        aggregate.set_handle(teak_aggregate {
            scan,
            transaction: handle,
            calls: *calls,
            group: None,
            returned: Vec::new(),
        });
        Ok(())
    })
}

/// # Safety
/// The contract of `boundary`.
unsafe fn tables_of<'a>(
    tables: *const teak_aggregate_table,
    count: usize,
) -> Result<Vec<GroupedTable<'a>>, Failure> {
    // SAFETY: the caller guarantees it.
    let tables: &'a [teak_aggregate_table] = unsafe { array(tables, count, "tables") }?;
    let tables = tables.iter().map(|of| {
        // SAFETY: the caller guarantees it.
        let (table, beginning) = unsafe { (reference(of.table, "table")?, of.beginning.bytes()?) };
        let table = &table.handle;
        Ok(GroupedTable { table, beginning })
    });
    tables.collect()
}

/// Moves to the next group, in no particular order. The first call reads the rows. TEAK_NOT_FOUND after the last group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_next(aggregate: *mut teak_aggregate) -> teak_status {
    boundary!([exclusive(aggregate)] {
        aggregate.group = None;
        // SAFETY: the contract of `boundary`; the transaction is not over.
        let transaction = unsafe { reference(aggregate.transaction, "the transaction")?.owned() };
        aggregate.group = aggregate.scan.next(transaction, &mut aggregate.calls)?;
        Ok(if aggregate.group.is_some() { TEAK_OK } else { TEAK_NOT_FOUND })
    })
}

/// Makes the next call of teak_aggregate_next() read the rows again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_rewind(aggregate: *mut teak_aggregate) -> teak_status {
    boundary!([exclusive(aggregate)] {
        aggregate.group = None;
        aggregate.scan.rewind();
        Ok(())
    })
}

fn no_group() -> Failure {
    Failure::invalid("there is no such group, key or item")
}

/// Sets `value` to the bytes of a column of the group's key, counted from 0; data NULL: the column is NULL. If strings of
/// the group differ, it is the one of the row that was found first. Valid until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_get_key(
    aggregate: *mut teak_aggregate,
    key: usize,
    value: *mut teak_slice,
) -> teak_status {
    boundary!([exclusive(aggregate), out(value)] {
        let group = aggregate.group.ok_or_else(no_group)?;
        let found = aggregate.scan.key(group, key);
        value.set(kept(&mut aggregate.returned, found));
        Ok(())
    })
}

/// Sets `count` to the number of rows that count for an item, counted from 0, and `value` to its result: of
/// TEAK_AGGREGATE_SUM the decimal digits, with a sign if it is negative; of TEAK_AGGREGATE_SUM_FLOATS the eight bytes of an
/// IEEE 754 number, little-endian, which is -0.0 if all are; of minima and maxima the bytes of the column; data NULL if no row counts, and for other items. Valid until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_get_item(
    aggregate: *mut teak_aggregate,
    item: usize,
    count: *mut u64,
    value: *mut teak_slice,
) -> teak_status {
    boundary!([exclusive(aggregate), out(count), out(value)] {
        let group = aggregate.group.ok_or_else(no_group)?;
        let scan = &aggregate.scan;
        count.set(scan.count(group, item).ok_or_else(no_group)?);
        let sum = scan.sum(group, item).map(|sum| sum.to_string().into_bytes());
        let floats = || scan.sum_of_floats(group, item).map(|sum| sum.to_le_bytes().to_vec());
        let found = sum.or_else(floats).or_else(|| scan.extreme(group, item));
        value.set(kept(&mut aggregate.returned, found));
        Ok(())
    })
}

/// Keeps the bytes for the caller.
fn kept(returned: &mut Vec<u8>, bytes: Option<Vec<u8>>) -> teak_slice {
    let is_there = bytes.is_some();
    *returned = bytes.unwrap_or_default();
    teak_slice::of_optional(is_there.then_some(returned.as_slice()))
}

/// The number of pages that were not read, because the minima and maxima of their columns exclude the condition. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_unread(aggregate: *const teak_aggregate) -> u64 {
    boundary!(or 0, [reference(aggregate)] { Ok(aggregate.scan.unread_pages()) })
}

/// Frees an aggregate; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_aggregate_close(aggregate: *mut teak_aggregate) {
    free!(aggregate);
}

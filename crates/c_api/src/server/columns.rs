//! The columns of indexes as pages store them, through a callback.

use crate::boundary::boundary;
use crate::handles::teak_engine;
use crate::server::visitor::{Visitor, teak_table_visitor};
use crate::slice::teak_slice;
use crate::status::teak_status;
use crate::table::teak_column_kind_number;
use ::teak_engine::{ColumnPlace, ColumnReport};
use std::ffi::c_void;

/// A part of the pages of an index.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_page_part {
    /// The heads of entries: types, write ids and lengths.
    TEAK_PAGE_PART_HEADS = 0,
    /// Whole keys.
    TEAK_PAGE_PART_KEYS = 1,
    /// A column of the keys.
    TEAK_PAGE_PART_KEY_COLUMN = 2,
    /// Whole values, or what is not stored by column of them.
    TEAK_PAGE_PART_VALUES = 3,
    /// A column of the values: value_columns of the index are numbered first, then optional_columns, then
    /// variable_columns.
    TEAK_PAGE_PART_VALUE_COLUMN = 4,
}

use teak_page_part::*;

/// A part of the pages of an index, in a sample of the pages.
#[repr(C)]
pub struct teak_column_info {
    /// The name of the table.
    pub table: teak_slice,
    /// The label of the index.
    pub label: teak_slice,
    /// The number of the index in the table; 0 contains the rows.
    pub index: u32,
    /// The part.
    pub part: teak_page_part,
    /// The number of the column, of a column.
    pub column: u32,
    /// Whether all values have the same number of bytes, and a kind.
    pub has_kind: bool,
    /// What the bytes mean, if `has_kind`.
    pub kind: teak_column_kind_number,
    /// Bytes of each value, if `has_kind`.
    pub width: u32,
    /// The encodings and their shares of the pages, as text.
    pub encodings: teak_slice,
    /// Number of values in the sample.
    pub values: u64,
    /// Bytes of these values.
    pub raw_bytes: u64,
    /// Their bytes in pages, before these are compressed.
    pub encoded_bytes: u64,
    /// Number of sampled pages that have the part.
    pub part_pages: u64,
    /// Number of sampled pages.
    pub sampled_pages: u64,
    /// Bytes of the sampled pages before compression.
    pub sampled_encoded_bytes: u64,
    /// Bytes of the sampled pages in the file.
    pub sampled_stored_bytes: u64,
    /// Number of pages of the index.
    pub pages: u64,
}

fn info(report: &ColumnReport<'_>) -> teak_column_info {
    let (part, column) = match report.place {
        ColumnPlace::Heads => (TEAK_PAGE_PART_HEADS, 0),
        ColumnPlace::Keys => (TEAK_PAGE_PART_KEYS, 0),
        ColumnPlace::KeyColumn(number) => (TEAK_PAGE_PART_KEY_COLUMN, number),
        ColumnPlace::Values => (TEAK_PAGE_PART_VALUES, 0),
        ColumnPlace::ValueColumn(number) => (TEAK_PAGE_PART_VALUE_COLUMN, number),
    };
    let kind = report.kind;
    teak_column_info {
        table: teak_slice::of(report.table.as_bytes()),
        label: teak_slice::of(report.label.as_bytes()),
        index: report.number,
        part,
        column,
        has_kind: kind.is_some(),
        kind: kind.map_or(0, |(kind, _)| kind.number().into()),
        width: kind.map_or(0, |(_, width)| width),
        encodings: teak_slice::of(report.encodings.as_bytes()),
        values: report.values,
        raw_bytes: report.raw_bytes,
        encoded_bytes: report.encoded_bytes,
        part_pages: report.part_pages,
        sampled_pages: report.sampled_pages,
        sampled_encoded_bytes: report.sampled_encoded_bytes,
        sampled_stored_bytes: report.sampled_stored_bytes,
        pages: report.pages,
    }
}

/// Calls `sink` for each part of the pages of each index of the tables that the visitor wants, except
/// temporary ones. Opens the files of these tables, one table at a time, and reads at most 32 pages of
/// each index. Blocks no writer. Slices are valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_column_list(
    engine: *mut teak_engine,
    visitor: *const teak_table_visitor,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, column: *const teak_column_info)>,
) -> teak_status {
    boundary!([reference(engine), reference(visitor), callback(sink)] {
        let mut visitor = Visitor::new(visitor)?;
        let context = visitor.context;
        engine.engine.list_columns(&mut visitor, &mut |report| {
            let info = info(report);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        })?;
        Ok(())
    })
}

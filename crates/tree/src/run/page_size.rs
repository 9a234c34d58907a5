//! The size of the pages of a run, and whether they store columns.
//!
//! A look-up that misses the cache reads and decodes a page, so small pages make it cheap. But they
//! compress less, because a codec finds repetitions within a page only. When the first page of a run
//! has the maximum size, its entries are compressed in pages of that size, of a quarter and of half
//! of it. The smallest size with which they need hardly more bytes in the file is that of the run.
//! If the columns of the entries are known, they are also compressed as byte planes. The pages store
//! columns only if that is smaller, because planes are decoded faster.

use super::index_block::PAGE_RECORD_BYTES;
use super::writer_options::{PageForm, RunWriterOptions};
use crate::page::{PageBuilder, PageColumns};
use std::convert::Infallible;
use teak_block_file::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES};

/// Pages are made smaller if that adds at most this fraction to their bytes in the file.
const GROWTH_FRACTION_MAX: u64 = 50;

/// Columns must make the first page smaller by this fraction.
const COLUMNS_FRACTION: u64 = 100;

/// The form of the pages of a run that starts with the entries of `first`, a page of the maximum size.
pub(super) fn choose(first: &PageBuilder, options: &RunWriterOptions) -> PageForm {
    let whole = options.form(options.page_bytes);
    let planes = PageForm {
        has_columns: false,
        ..whole
    };
    let mut form = planes;
    let mut bytes = None;
    if options.columns != PageColumns::default() {
        let (as_columns, as_planes) = (
            stored_bytes(first, whole, options),
            stored_bytes(first, planes, options),
        );
        let is_smaller = as_columns + as_columns / COLUMNS_FRACTION < as_planes;
        (form, bytes) = match is_smaller {
            true => (whole, Some(as_columns)),
            false => (planes, Some(as_planes)),
        };
    }
    choose_size(first, form, bytes, options)
}

/// `whole_bytes`: the bytes in the file in pages of the maximum size, if they are known.
fn choose_size(
    first: &PageBuilder,
    form: PageForm,
    whole_bytes: Option<u64>,
    options: &RunWriterOptions,
) -> PageForm {
    let page_bytes = form.bytes;
    let smaller = [page_bytes / 4, page_bytes / 2];
    let mut smaller = smaller
        .into_iter()
        .filter(|bytes| *bytes >= options.page_bytes_min.max(1) && *bytes < page_bytes)
        .map(|bytes| PageForm { bytes, ..form })
        .peekable();
    if smaller.peek().is_none() {
        return form;
    }
    let whole = whole_bytes.unwrap_or_else(|| stored_bytes(first, form, options));
    let limit = whole + whole / GROWTH_FRACTION_MAX;
    smaller
        .find(|form| stored_bytes(first, *form, options) <= limit)
        .unwrap_or(form)
}

/// The bytes in the file of the entries of a page of the maximum size, in pages of this form, with those in
/// the index block.
fn stored_bytes(first: &PageBuilder, form: PageForm, options: &RunWriterOptions) -> u64 {
    // So that the entries fill a whole number of pages.
    let entry_bytes = first.raw_bytes() / first.entries().max(1);
    let pages = options.page_bytes / form.bytes.max(1);
    let page_bytes = first.raw_bytes() / pages.max(1) + entry_bytes;
    let (mut raw, mut stored) = (Vec::new(), Vec::new());
    let mut total = 0;
    let mut add = |page: &mut PageBuilder| -> Result<(), Infallible> {
        let record_bytes = PAGE_RECORD_BYTES + page.last_key().len();
        page.finish(&mut raw);
        stored.clear();
        let _ = options.codec.compress(&raw, &mut stored);
        let block_bytes = (BLOCK_HEADER_BYTES + stored.len()) as u64;
        total += block_bytes.next_multiple_of(BLOCK_UNIT_BYTES) + record_bytes as u64;
        Ok(())
    };
    let mut page = options.page_builder(form);
    let Ok(()) = first.divide(page_bytes, &mut page, &mut add);
    if !page.is_empty() {
        let Ok(()) = add(&mut page);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, ColumnKind, FilterKeys};
    use teak_base::checksum::hash_key;
    use teak_base::{Codec, Operation, WriteId};

    fn chosen(page_bytes_min: usize, value: impl Fn(u64) -> Vec<u8>) -> usize {
        let options = RunWriterOptions {
            page_bytes: 1 << 16,
            page_bytes_min,
            codec: Codec::Zstd,
            expected_bytes: 0,
            filter_keys: FilterKeys::Whole,
            is_upper: false,
            value_planes: 0,
            columns: PageColumns::default(),
            separate: None,
        };
        let mut page = PageBuilder::new(0);
        for number in 0u64.. {
            let (key, value) = (number.to_be_bytes(), value(number));
            if page.raw_bytes() + key.len() + value.len() > options.page_bytes {
                break;
            }
            page.push(&key, WriteId(0), Operation::Put, &value);
        }
        choose(&page, &options).bytes
    }

    fn random(number: u64) -> Vec<u8> {
        let words =
            (0..25).map(|word| (number * 64 + word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        words
            .map(|bits| bits ^ bits >> 29)
            .map(|bits| bits.wrapping_mul(0xbf58_476d_1ce4_e5b9))
            .flat_map(u64::to_be_bytes)
            .collect()
    }

    #[test]
    fn rows_that_do_not_compress_get_small_pages() {
        assert_eq!(chosen(1 << 14, random), 1 << 14);
    }

    #[test]
    fn rows_that_repeat_each_other_get_large_pages() {
        assert_eq!(chosen(1 << 14, |number| random(number % 300)), 1 << 16);
    }

    #[test]
    fn pages_are_not_smaller_than_the_minimum() {
        assert_eq!(chosen(1 << 15, random), 1 << 15);
        assert_eq!(chosen(1 << 16, random), 1 << 16);
    }

    #[test]
    fn columns_are_stored_only_if_that_is_smaller() {
        let kinds = [ColumnKind::UnsignedBig, ColumnKind::Bytes];
        let [number, bytes] = kinds.map(|kind| Column::new(kind, 8).unwrap());
        let form = |step: u64| {
            let mut options = RunWriterOptions {
                page_bytes: 1 << 16,
                page_bytes_min: 1 << 16,
                codec: Codec::Zstd,
                expected_bytes: 0,
                filter_keys: FilterKeys::Whole,
                is_upper: false,
                value_planes: 8,
                columns: PageColumns::default(),
                separate: None,
            };
            let mut page = PageBuilder::new(8);
            for n in 0u64..3000 {
                let value = match step {
                    0 => hash_key(&n.to_be_bytes()).to_be_bytes().to_vec(),
                    step => (n * step + n % 7).to_be_bytes().to_vec(),
                };
                page.push(&(n * n).to_be_bytes(), WriteId(0), Operation::Put, &value);
            }
            options.columns = match step {
                0 => PageColumns::new(Vec::new(), vec![bytes]),
                _ => PageColumns::new(vec![number], vec![number]),
            };
            choose(&page, &options)
        };
        assert!(form(60_000).has_columns);
        assert!(!form(0).has_columns);
    }
}

//! The size of the pages of a run.
//!
//! A look-up that misses the cache reads and decodes a page, so small pages make it cheap. But they
//! compress less, because a codec finds repetitions within a page only. When the first page of a run
//! has the maximum size, its entries are compressed in pages of that size, of a quarter and of half
//! of it. The smallest size with which they need hardly more bytes in the file is that of the run.

use super::index_block::PAGE_RECORD_BYTES;
use super::writer_options::RunWriterOptions;
use crate::page::PageBuilder;
use std::convert::Infallible;
use teak_block_file::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES};

/// Pages are made smaller if that adds at most this fraction to their bytes in the file.
const GROWTH_FRACTION_MAX: u64 = 50;

/// The size for a run that starts with the entries of `first`, a page of the maximum size.
pub(super) fn choose(first: &PageBuilder, options: &RunWriterOptions) -> usize {
    let page_bytes = options.page_bytes;
    let smaller = [page_bytes / 4, page_bytes / 2];
    let mut smaller = smaller
        .into_iter()
        .filter(|bytes| *bytes >= options.page_bytes_min.max(1) && *bytes < page_bytes)
        .peekable();
    if smaller.peek().is_none() {
        return page_bytes;
    }
    // So that the entries fill a whole number of pages.
    let entry_bytes = first.raw_bytes() / first.entries().max(1);
    let stored = |bytes| {
        let pages = page_bytes / bytes;
        stored_bytes(first, first.raw_bytes() / pages + entry_bytes, options)
    };
    let whole = stored(page_bytes);
    let limit = whole + whole / GROWTH_FRACTION_MAX;
    smaller
        .find(|bytes| stored(*bytes) <= limit)
        .unwrap_or(page_bytes)
}

/// The bytes in the file of the entries in pages of this size, with those in the index block.
fn stored_bytes(entries: &PageBuilder, page_bytes: usize, options: &RunWriterOptions) -> u64 {
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
    let mut page = PageBuilder::new(options.value_planes);
    let Ok(()) = entries.divide(page_bytes, &mut page, &mut add);
    if !page.is_empty() {
        let Ok(()) = add(&mut page);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterKeys;
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
        choose(&page, &options)
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
}

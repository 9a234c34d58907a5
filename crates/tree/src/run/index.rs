//! The index block of a run: the address, counts, last key and filter of each
//! page.
//!
//! Raw bytes: pages u32; then for each page its address (12 bytes), entries u32, raw bytes u32,
//! length of the last key u32, length of the filter u32, end of the separate values u64; then all
//! last keys; then all filters. A key belongs to the first page whose last key is at or after it.
//! The versions of one key may continue over several pages.

use crate::block_memory::BlockCharge;
use crate::filter;
use crate::key_search::KeySearch;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::KEY_BYTES_MAX;
use teak_block_file::BlockAddress;

/// The layout number in an index block's header.
pub(crate) const RUN_INDEX_LAYOUT: u8 = 2;

const PAGE_RECORD_BYTES: usize = BlockAddress::ENCODED_BYTES + 24;

/// The record of one page in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRecord {
    pub(crate) address: BlockAddress,
    pub(crate) entries: u32,
    pub(crate) raw_bytes: u32,
    /// One past the last byte in the file of any separate value of the page; 0 without such values.
    pub(crate) values_end: u64,
    key_end: u32,
    filter_end: u32,
}

/// A decoded run index.
#[derive(Debug, Default)]
pub struct RunIndex {
    pages: Vec<PageRecord>,
    keys: Vec<u8>,
    filters: Vec<u8>,
    /// Finds pages by their last keys. Set by `decode`.
    search: KeySearch,
    /// Counts the memory of an index that was read.
    charge: Option<BlockCharge>,
}

impl RunIndex {
    /// Appends a page. `hashes` are those of its keys; if there are none, the page gets no filter.
    pub(crate) fn push(
        &mut self,
        address: BlockAddress,
        entries: usize,
        raw_bytes: usize,
        last_key: &[u8],
        hashes: &[u64],
        values_end: u64,
    ) {
        self.keys.extend_from_slice(last_key);
        if !hashes.is_empty() {
            filter::build(hashes, &mut self.filters);
        }
        self.pages.push(PageRecord {
            address,
            entries: to_u32(entries),
            raw_bytes: to_u32(raw_bytes),
            values_end,
            key_end: to_u32(self.keys.len()),
            filter_end: to_u32(self.filters.len()),
        });
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(to_u32(self.pages.len()));
        let (mut key_start, mut filter_start) = (0, 0);
        for page in &self.pages {
            page.address.encode(out);
            out.put_u32(page.entries);
            out.put_u32(page.raw_bytes);
            out.put_u32(page.key_end - key_start);
            out.put_u32(page.filter_end - filter_start);
            out.put_u64(page.values_end);
            (key_start, filter_start) = (page.key_end, page.filter_end);
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.filters);
    }

    /// Decodes and checks an index: at least one page, last keys ascending.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(crate) fn decode(raw: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(raw);
        let count = take.u32()? as usize;
        if count == 0 || count > take.rest().len() / PAGE_RECORD_BYTES {
            return Err(Malformed);
        }
        let mut pages = Vec::with_capacity(count);
        let (mut key_end, mut filter_end) = (0u32, 0u32);
        for _ in 0..count {
            let address = BlockAddress::decode(&mut take)?;
            let entries = take.u32()?;
            let raw_bytes = take.u32()?;
            let key_len = take.u32()?;
            if key_len as usize > KEY_BYTES_MAX || entries == 0 {
                return Err(Malformed);
            }
            key_end = key_end.checked_add(key_len).ok_or(Malformed)?;
            filter_end = filter_end.checked_add(take.u32()?).ok_or(Malformed)?;
            pages.push(PageRecord {
                address,
                entries,
                raw_bytes,
                values_end: take.u64()?,
                key_end,
                filter_end,
            });
        }
        let keys = take.take(key_end as usize)?.to_vec();
        let filters = take.take(filter_end as usize)?.to_vec();
        let mut index = Self {
            pages,
            keys,
            filters,
            search: KeySearch::default(),
            charge: None,
        };
        let ordered = (1..count).all(|page| index.last_key(page - 1) <= index.last_key(page));
        if !ordered || !take.is_empty() {
            return Err(Malformed);
        }
        index.search = KeySearch::new(count, 1, |page| index.last_key(page));
        Ok(index)
    }

    /// The same index with other places of its pages and values, only to be encoded.
    pub(crate) fn with_pages(&self, pages: Vec<PageRecord>) -> Self {
        Self {
            pages,
            keys: self.keys.clone(),
            filters: self.filters.clone(),
            search: KeySearch::default(),
            charge: None,
        }
    }

    /// Counts the memory of the index as long as it exists.
    pub(crate) fn charge(&mut self, charge: BlockCharge) {
        self.charge = Some(charge);
    }

    pub(crate) fn pages(&self) -> &[PageRecord] {
        &self.pages
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.pages.capacity() * size_of::<PageRecord>()
            + self.keys.capacity()
            + self.filters.capacity()
            + self.search.memory_bytes()
    }

    /// The last key of a page; empty when there is no such page.
    pub(crate) fn last_key(&self, page: usize) -> &[u8] {
        slice(&self.keys, &self.pages, page, |record| record.key_end)
    }

    /// Whether a key of this hash may be on a page.
    pub(crate) fn may_contain(&self, page: usize, hash: u64) -> bool {
        let filter = slice(&self.filters, &self.pages, page, |record| record.filter_end);
        filter::may_contain(filter, hash)
    }

    /// Whether a page has a filter.
    pub(crate) fn has_filter(&self, page: usize) -> bool {
        !slice(&self.filters, &self.pages, page, |record| record.filter_end).is_empty()
    }

    /// The first page whose last key is at or after `key`; the number of pages
    /// when there is none.
    #[inline]
    pub(crate) fn page_of(&self, key: &[u8]) -> usize {
        self.search.lower_bound(key, |page| self.last_key(page))
    }
}

fn slice<'a>(
    bytes: &'a [u8],
    pages: &[PageRecord],
    page: usize,
    end_of: impl Fn(&PageRecord) -> u32,
) -> &'a [u8] {
    let start = match page.checked_sub(1) {
        None => 0,
        Some(before) => pages.get(before).map_or(0, &end_of),
    };
    let end = pages.get(page).map_or(0, &end_of);
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

/// Converts a count or length. It is below 4 GiB, because the size of a run is limited by the tree's
/// options.
fn to_u32(len: usize) -> u32 {
    let Ok(len) = u32::try_from(len) else {
        unreachable!("a run's index is below 4 GiB");
    };
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> RunIndex {
        let mut index = RunIndex::default();
        for (number, key) in [b"b".as_slice(), b"dd", b"dd", b"f"].iter().enumerate() {
            let address = BlockAddress {
                offset: 8192 + 128 * number as u64,
                bytes: 100,
            };
            index.push(address, number + 1, 300, key, &[number as u64 + 1], 0);
        }
        index
    }

    #[test]
    fn an_index_round_trips_and_finds_pages() {
        let mut raw = Vec::new();
        sample().encode(&mut raw);
        let index = RunIndex::decode(&raw).unwrap();
        assert_eq!(index.pages(), sample().pages());
        assert_eq!(index.page_of(b"a"), 0);
        assert_eq!(index.page_of(b"c"), 1);
        assert_eq!(index.page_of(b"dd"), 1);
        assert_eq!(index.page_of(b"e"), 3);
        assert_eq!(index.page_of(b"g"), 4);
        assert!(index.may_contain(2, 3));
        assert_eq!(index.last_key(3), b"f");
    }

    #[test]
    fn the_documented_example_holds() {
        let mut index = RunIndex::default();
        for (offset, entries, key) in [(0x2000, 3, b"dd".as_slice()), (0x2080, 2, b"f")] {
            let address = BlockAddress { offset, bytes: 100 };
            let values_end = if entries == 2 { 0x6100 } else { 0 };
            index.push(address, entries, 90, key, &[], values_end);
        }
        let mut raw = Vec::new();
        index.encode(&mut raw);
        let documented = crate::test_support::documented_bytes("## Run");
        assert_eq!(raw, documented, "{raw:02x?}");
        let decoded = RunIndex::decode(&documented).unwrap();
        assert_eq!(decoded.pages(), index.pages());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>) {
            let _ = RunIndex::decode(&bytes);
        }

        #[test]
        fn a_changed_index_never_panics(place: prop::sample::Index, byte: u8) {
            let mut raw = Vec::new();
            sample().encode(&mut raw);
            let place = place.index(raw.len());
            raw[place] = byte;
            if let Ok(index) = RunIndex::decode(&raw) {
                for page in 0..=index.pages().len() {
                    let _ = (index.last_key(page), index.may_contain(page, 9));
                }
                let _ = index.page_of(b"dd");
            }
        }
    }
}

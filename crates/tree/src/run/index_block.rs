//! Index blocks. Each has, for some consecutive pages of a run, their addresses, counts and last
//! keys, and a filter of their keys. So a look-up reads one index block and one page.
//!
//! Raw bytes: pages u32; length of the filter u32; bits that each of its keys sets u8; then for
//! each page its address (12 bytes), entries u32, raw bytes u32, length of the last key u32, end of
//! the separate values u64; then all last keys; then the filter; then the zones of columns (`block_zones`). A key belongs to the first page
//! whose last key is at or after it. The versions of one key may continue over several pages, but
//! not over several index blocks.

use super::block_zones::{BlockZones, ZoneWriter};
use crate::block_memory::{BlockCharge, FileBlocks};
use crate::filter::{self, FilterSize};
use crate::filter_counts::FilterInMemory;
use crate::key_search::KeySearch;
use crate::page::{ColumnChoice, PageZones};
use teak_base::Codec;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::KEY_BYTES_MAX;
use teak_block_file::{BlockAddress, BlockDescription, BlockKind};

/// The layout number in an index block's header.
pub(crate) const INDEX_BLOCK_LAYOUT: u8 = 4;

/// The layout of index blocks without zones, which are otherwise the same.
const LAYOUT_WITHOUT_ZONES: u8 = 3;

/// Whether an index block of this layout can be decoded.
pub(crate) fn is_known_layout(layout: u8) -> bool {
    layout == INDEX_BLOCK_LAYOUT || layout == LAYOUT_WITHOUT_ZONES
}

/// An index block ends after the page with which it reaches this size, or the size of a page if that
/// is less.
pub(crate) const INDEX_BLOCK_BYTES: usize = 4096;

const HEADER_BYTES: usize = 9;
/// Bytes of the record of a page, without its last key.
pub(super) const PAGE_RECORD_BYTES: usize = BlockAddress::ENCODED_BYTES + 20;

/// The header of index blocks. Page records and keys are compressible, filters are not.
pub(crate) fn index_block_description() -> BlockDescription {
    BlockDescription {
        kind: BlockKind::RunIndex,
        layout: INDEX_BLOCK_LAYOUT,
        codec: Codec::Lz4,
    }
}

/// The record of one page in an index block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRecord {
    pub(crate) address: BlockAddress,
    pub(crate) entries: u32,
    pub(crate) raw_bytes: u32,
    /// One past the last byte in the file of any separate value of the page; 0 without such values.
    pub(crate) values_end: u64,
    key_end: u32,
}

/// A filter of keys, each of which sets this number of bits.
#[derive(Debug, Default)]
struct Filter {
    bytes: Vec<u8>,
    bits_set: u8,
}

/// A decoded index block.
#[derive(Debug)]
pub struct IndexBlock {
    /// At least one.
    pages: Vec<PageRecord>,
    keys: Vec<u8>,
    filter: Filter,
    /// What [`BlockZones`] decodes.
    zones: Box<[u8]>,
    /// Finds pages by their last keys.
    search: KeySearch,
    /// Counts the memory of a block that was read.
    charge: Option<BlockCharge>,
}

impl IndexBlock {
    /// Appends the raw bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_with(&self.pages, out);
    }

    /// Appends the raw bytes of the same block with other places of its pages and values.
    pub(crate) fn encode_with(&self, pages: &[PageRecord], out: &mut Vec<u8>) {
        encode(pages, &self.keys, &self.filter, out);
        out.extend_from_slice(&self.zones);
    }

    /// Decodes and checks an index block: at least one page, last keys ascending.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(crate) fn decode(raw: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(raw);
        let count = take.u32()? as usize;
        let filter_bytes = take.u32()? as usize;
        let bits_set = take.u8()?;
        if count == 0 || count > take.rest().len() / PAGE_RECORD_BYTES {
            return Err(Malformed);
        }
        let mut pages = Vec::with_capacity(count);
        let mut key_end = 0u32;
        for _ in 0..count {
            let address = BlockAddress::decode(&mut take)?;
            let entries = take.u32()?;
            let raw_bytes = take.u32()?;
            let key_len = take.u32()?;
            if key_len as usize > KEY_BYTES_MAX || entries == 0 {
                return Err(Malformed);
            }
            key_end = key_end.checked_add(key_len).ok_or(Malformed)?;
            pages.push(PageRecord {
                address,
                entries,
                raw_bytes,
                values_end: take.u64()?,
                key_end,
            });
        }
        let keys = take.take(key_end as usize)?.to_vec();
        let filter = Filter {
            bytes: take.take(filter_bytes)?.to_vec(),
            bits_set,
        };
        let ordered =
            (1..count).all(|page| key(&pages, &keys, page - 1) <= key(&pages, &keys, page));
        if !ordered || !filter::is_valid(filter_bytes, bits_set) {
            return Err(Malformed);
        }
        Ok(Self {
            search: KeySearch::new(count, 1, |page| key(&pages, &keys, page)),
            pages,
            keys,
            filter,
            zones: take.rest().into(),
            charge: None,
        })
    }

    /// Counts the memory of the block as long as it exists.
    pub(crate) fn charge(&mut self, file: &FileBlocks) {
        let filter = FilterInMemory {
            bytes: to_u32(self.filter.bytes.len()),
            entries: to_u32(self.pages.iter().map(|page| page.entries as usize).sum()),
        };
        let bytes = self.memory_bytes();
        self.charge = Some(BlockCharge::of_index_block(file, bytes, filter));
    }

    pub(crate) fn pages(&self) -> &[PageRecord] {
        &self.pages
    }

    /// Entries of the pages before `page`.
    pub(crate) fn entries_before(&self, page: usize) -> u64 {
        let pages = self.pages.iter().take(page);
        pages.map(|page| u64::from(page.entries)).sum()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.pages.capacity() * size_of::<PageRecord>()
            + self.keys.capacity()
            + self.filter.bytes.capacity()
            + self.zones.len()
            + self.search.memory_bytes()
    }

    /// The last key of a page; empty when there is no such page.
    #[inline]
    pub(crate) fn last_key(&self, page: usize) -> &[u8] {
        key(&self.pages, &self.keys, page)
    }

    /// The zones of the pages' columns; `None` if there are none of the chosen columns.
    pub(crate) fn zones(&self, choice: &ColumnChoice) -> Result<Option<BlockZones>, Malformed> {
        BlockZones::decode(&self.zones, self.pages.len(), choice)
    }

    /// Whether there are zones of columns.
    pub(crate) fn has_zones(&self) -> bool {
        !self.zones.is_empty()
    }

    /// Bytes of the filter.
    pub(crate) fn filter_bytes(&self) -> usize {
        self.filter.bytes.len()
    }

    /// Whether there is a filter.
    #[inline]
    pub(crate) fn has_filter(&self) -> bool {
        !self.filter.bytes.is_empty()
    }

    /// Whether a key of this hash may be on one of the pages.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        filter::may_contain(&self.filter.bytes, self.filter.bits_set, hash)
    }

    /// The first page whose last key is at or after `key`; the number of pages when there is none.
    #[inline]
    pub(crate) fn page_of(&self, key: &[u8]) -> usize {
        self.search.lower_bound(key, |page| self.last_key(page))
    }
}

#[inline]
fn key<'a>(pages: &[PageRecord], keys: &'a [u8], page: usize) -> &'a [u8] {
    let start = match page.checked_sub(1) {
        None => 0,
        Some(before) => pages.get(before).map_or(0, |page| page.key_end),
    };
    let end = pages.get(page).map_or(0, |page| page.key_end);
    keys.get(start as usize..end as usize).unwrap_or_default()
}

fn encode(pages: &[PageRecord], keys: &[u8], filter: &Filter, out: &mut Vec<u8>) {
    out.put_u32(to_u32(pages.len()));
    out.put_u32(to_u32(filter.bytes.len()));
    out.put_u8(filter.bits_set);
    let mut key_start = 0;
    for page in pages {
        page.address.encode(out);
        out.put_u32(page.entries);
        out.put_u32(page.raw_bytes);
        out.put_u32(page.key_end - key_start);
        out.put_u64(page.values_end);
        key_start = page.key_end;
    }
    out.extend_from_slice(keys);
    out.extend_from_slice(&filter.bytes);
}

/// Builds a sequence of index blocks. Reuses its buffers.
#[derive(Debug)]
pub(crate) struct IndexBlockBuilder {
    filter_size: FilterSize,
    pages: Vec<PageRecord>,
    keys: Vec<u8>,
    entries: u64,
    hashes: Vec<u64>,
    filter: Filter,
    zones: ZoneWriter,
}

impl IndexBlockBuilder {
    pub(crate) fn new(filter_size: FilterSize) -> Self {
        Self {
            filter_size,
            pages: Vec::new(),
            keys: Vec::new(),
            entries: 0,
            hashes: Vec::new(),
            filter: Filter::default(),
            zones: ZoneWriter::default(),
        }
    }

    /// Adds a hash to the filter, unless the last one was the same.
    #[inline]
    pub(crate) fn add_hash(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Appends a page.
    pub(crate) fn push(
        &mut self,
        address: BlockAddress,
        entries: usize,
        raw_bytes: usize,
        last_key: &[u8],
        values_end: u64,
    ) {
        self.keys.extend_from_slice(last_key);
        self.entries += entries as u64;
        self.pages.push(PageRecord {
            address,
            entries: to_u32(entries),
            raw_bytes: to_u32(raw_bytes),
            values_end,
            key_end: to_u32(self.keys.len()),
        });
    }

    /// Adds the zones of the page that was appended last. `is_new_key`: whether its first key is another one than that
    /// before it.
    pub(crate) fn add_zones(&mut self, zones: PageZones, is_new_key: bool) {
        self.zones.add(self.pages.len() - 1, zones, is_new_key);
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Entries of the pages.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Approximate raw bytes of the block without zones.
    pub(crate) fn bytes(&self) -> usize {
        let filter = self.filter_size.bytes(self.hashes.len());
        HEADER_BYTES + self.pages.len() * PAGE_RECORD_BYTES + self.keys.len() + filter
    }

    /// Appends the raw bytes of the block, which has at least one page, and starts the next block.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.filter.bytes.clear();
        self.filter.bits_set = 0;
        if !self.hashes.is_empty() {
            self.filter.bits_set = self.filter_size.bits_set();
            filter::build(&self.hashes, self.filter_size, &mut self.filter.bytes);
        }
        encode(&self.pages, &self.keys, &self.filter, out);
        self.zones.finish(self.pages.len(), out);
        self.pages.clear();
        self.keys.clear();
        self.hashes.clear();
        self.entries = 0;
    }
}

/// Converts a count or length. It is below 4 GiB, because the size of a run is limited by the
/// tree's options.
fn to_u32(len: usize) -> u32 {
    let Ok(len) = u32::try_from(len) else {
        unreachable!("an index block is below 4 GiB");
    };
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut block = IndexBlockBuilder::new(FilterSize::Bottom);
        for (number, key) in [b"b".as_slice(), b"dd", b"dd", b"f"].iter().enumerate() {
            let address = BlockAddress {
                offset: 8192 + 128 * number as u64,
                bytes: 100,
            };
            block.add_hash(number as u64 + 1);
            block.push(address, number + 1, 300, key, 0);
        }
        assert_eq!((block.pages(), block.entries()), (4, 10));
        let bytes = block.bytes();
        let mut raw = Vec::new();
        block.finish(&mut raw);
        assert_eq!(raw.len(), bytes);
        assert_eq!((block.pages(), block.entries()), (0, 0));
        raw
    }

    #[test]
    fn a_block_round_trips_and_finds_pages() {
        let block = IndexBlock::decode(&sample()).unwrap();
        assert_eq!(block.pages().len(), 4);
        assert_eq!(block.page_of(b"a"), 0);
        assert_eq!(block.page_of(b"c"), 1);
        assert_eq!(block.page_of(b"dd"), 1);
        assert_eq!(block.page_of(b"e"), 3);
        assert_eq!(block.page_of(b"g"), 4);
        assert!(block.has_filter());
        assert!((1..=4).all(|hash| block.may_contain(hash)));
        assert_eq!(block.last_key(3), b"f");
        assert_eq!(block.entries_before(3), 6);
        let mut again = Vec::new();
        block.encode(&mut again);
        assert_eq!(again, sample());
    }

    #[test]
    fn the_documented_example_holds() {
        let mut block = IndexBlockBuilder::new(FilterSize::Bottom);
        for (offset, entries, key) in [(0x2000, 3, b"dd".as_slice()), (0x2080, 2, b"f")] {
            let address = BlockAddress { offset, bytes: 100 };
            let values_end = if entries == 2 { 0x6100 } else { 0 };
            block.push(address, entries, 90, key, values_end);
        }
        let mut raw = Vec::new();
        block.finish(&mut raw);
        let documented = crate::test_support::documented_bytes("## Run");
        assert_eq!(raw, documented, "{raw:02x?}");
        let decoded = IndexBlock::decode(&documented).unwrap();
        assert!(!decoded.has_filter());
        assert_eq!(decoded.last_key(0), b"dd");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>) {
            let _ = IndexBlock::decode(&bytes);
        }

        #[test]
        fn a_changed_block_never_panics(place: prop::sample::Index, byte: u8) {
            let mut raw = sample();
            let place = place.index(raw.len());
            raw[place] = byte;
            if let Ok(block) = IndexBlock::decode(&raw) {
                for page in 0..=block.pages().len() {
                    let _ = (block.last_key(page), block.may_contain(9));
                }
                let _ = block.page_of(b"dd");
            }
        }
    }
}

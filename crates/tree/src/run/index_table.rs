//! The table of a run's index blocks, in the description of the run.
//!
//! A *bound* separates two adjacent blocks: it is the shortest prefix of the first key of the second
//! block that is greater than the last key of the first block. So the keys that start with a
//! given prefix begin in the block in which the prefix itself would be: a bound between the prefix
//! and the first of these keys would not be the shortest.

use crate::key_search::{KeySearch, common_bytes};
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::KEY_BYTES_MAX;
use teak_block_file::{BLOCK_UNIT_BYTES, BlockAddress};

/// The index blocks of a run, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexTable {
    blocks: Vec<BlockRecord>,
    /// All bounds.
    bounds: Vec<u8>,
    /// Finds bounds.
    search: KeySearch,
}

/// The record of an index block. Counts include the previous blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockRecord {
    address: BlockAddress,
    entries_end: u32,
    pages_end: u32,
    /// Where the bound after this block ends in `bounds`.
    bound_end: u32,
}

/// Bytes of the smallest encoded record.
const RECORD_BYTES_MIN: usize = 4;

/// The bound between blocks that end and begin with these keys.
pub(crate) fn bound_between<'a>(last: &[u8], first: &'a [u8]) -> &'a [u8] {
    first.get(..=common_bytes(last, first)).unwrap_or(first)
}

impl IndexTable {
    /// The table of a run with one index block.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_one(address: BlockAddress, pages: u64, entries: u64) -> Self {
        let mut table = IndexTableBuilder::default();
        let pushed = table.push(&[], address, pages, entries);
        assert!(pushed.is_ok(), "the counts are small");
        table.finish()
    }

    /// Number of index blocks. 0 if the run has no entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is no index block, because the run has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The address of the first index block, which identifies the run in its file.
    #[must_use]
    pub fn first(&self) -> Option<BlockAddress> {
        self.blocks.first().map(|block| block.address)
    }

    /// The addresses of the index blocks.
    pub fn addresses(&self) -> impl Iterator<Item = BlockAddress> {
        self.blocks.iter().map(|block| block.address)
    }

    pub(crate) fn address(&self, block: usize) -> Option<BlockAddress> {
        self.blocks.get(block).map(|block| block.address)
    }

    /// Entries of all blocks.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries_before(self.len())
    }

    /// Pages of all blocks.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages_before(self.len())
    }

    /// Entries of the blocks before `block`.
    pub(crate) fn entries_before(&self, block: usize) -> u64 {
        self.before(block)
            .map_or(0, |block| u64::from(block.entries_end))
    }

    /// Pages of the blocks before `block`.
    pub(crate) fn pages_before(&self, block: usize) -> u64 {
        self.before(block)
            .map_or(0, |block| u64::from(block.pages_end))
    }

    /// The block with a page, by the number of the page in the run.
    pub(crate) fn block_of_page(&self, page: u64) -> Option<usize> {
        let ends_before = |block: &BlockRecord| u64::from(block.pages_end) <= page;
        (page < self.pages()).then(|| self.blocks.partition_point(ends_before))
    }

    fn before(&self, block: usize) -> Option<&BlockRecord> {
        self.blocks.get(block.checked_sub(1)?)
    }

    /// The bound before a block; empty for the first one.
    pub(crate) fn bound_before(&self, block: usize) -> &[u8] {
        match block.checked_sub(1) {
            Some(before) => bound(&self.blocks, &self.bounds, before),
            None => &[],
        }
    }

    /// The bound after a block; `None` for the last one.
    pub(crate) fn bound_after(&self, block: usize) -> Option<&[u8]> {
        (block + 1 < self.len()).then(|| bound(&self.blocks, &self.bounds, block))
    }

    /// The block in which a key would be.
    #[inline]
    pub(crate) fn block_of(&self, key: &[u8]) -> usize {
        if self.len() == 1 {
            return 0;
        }
        let at = |block| bound(&self.blocks, &self.bounds, block);
        let block = self.search.lower_bound(key, at);
        // The bound itself belongs to the block after it.
        block + usize::from(self.bound_after(block) == Some(key))
    }

    /// Memory used in addition to the struct itself, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<BlockRecord>()
            + self.bounds.capacity()
            + self.search.memory_bytes()
    }

    /// The same table with other addresses of the blocks.
    pub(crate) fn with_addresses(&self, addresses: &[BlockAddress]) -> Self {
        let mut table = self.clone();
        for (block, address) in table.blocks.iter_mut().zip(addresses) {
            block.address = *address;
        }
        table
    }

    /// Appends the encoded form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.len() as u64);
        for (number, block) in self.blocks.iter().enumerate() {
            if number > 0 {
                out.put_bytes(self.bound_before(number));
            }
            out.put_varint(block.address.offset / BLOCK_UNIT_BYTES);
            out.put_varint(u64::from(block.address.bytes));
            out.put_varint(self.pages_before(number + 1) - self.pages_before(number));
            out.put_varint(self.entries_before(number + 1) - self.entries_before(number));
        }
    }

    /// Decodes and checks a table: at least one block, bounds ascending.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let count = take.length(take.rest().len() / RECORD_BYTES_MIN)?;
        if count == 0 {
            return Err(Malformed);
        }
        let mut table = IndexTableBuilder::default();
        let mut before: &[u8] = &[];
        for number in 0..count {
            let mut bound: &[u8] = &[];
            if number > 0 {
                bound = take.bytes()?;
                if bound <= before || bound.len() > KEY_BYTES_MAX {
                    return Err(Malformed);
                }
                before = bound;
            }
            let units = take.varint()?;
            let offset = units.checked_mul(BLOCK_UNIT_BYTES).ok_or(Malformed)?;
            let address = BlockAddress {
                offset,
                bytes: u32::try_from(take.varint()?).map_err(|_| Malformed)?,
            };
            let pages = take.varint()?;
            let entries = take.varint()?;
            if pages == 0 || entries < pages {
                return Err(Malformed);
            }
            table.push(bound, address, pages, entries)?;
        }
        Ok(table.finish())
    }
}

fn bound<'a>(blocks: &[BlockRecord], bounds: &'a [u8], block: usize) -> &'a [u8] {
    let start = match block.checked_sub(1) {
        None => 0,
        Some(before) => blocks.get(before).map_or(0, |block| block.bound_end),
    };
    let end = blocks.get(block).map_or(0, |block| block.bound_end);
    bounds.get(start as usize..end as usize).unwrap_or_default()
}

/// Builds the table of a run.
#[derive(Debug, Default)]
pub(crate) struct IndexTableBuilder {
    blocks: Vec<BlockRecord>,
    bounds: Vec<u8>,
}

impl IndexTableBuilder {
    /// Appends a block. `bound` is before it, and ignored before the first block.
    ///
    /// # Errors
    /// [`Malformed`] if the counts are larger than those of any run.
    pub(crate) fn push(
        &mut self,
        bound: &[u8],
        address: BlockAddress,
        pages: u64,
        entries: u64,
    ) -> Result<(), Malformed> {
        let (mut pages_end, mut entries_end) = (0, 0);
        if let Some(before) = self.blocks.last_mut() {
            self.bounds.extend_from_slice(bound);
            before.bound_end = u32::try_from(self.bounds.len()).map_err(|_| Malformed)?;
            (pages_end, entries_end) = (before.pages_end, before.entries_end);
        }
        let sum = |end: u32, count: u64| {
            let sum = u64::from(end).checked_add(count).ok_or(Malformed)?;
            u32::try_from(sum).map_err(|_| Malformed)
        };
        self.blocks.push(BlockRecord {
            address,
            pages_end: sum(pages_end, pages)?,
            entries_end: sum(entries_end, entries)?,
            bound_end: u32::try_from(self.bounds.len()).map_err(|_| Malformed)?,
        });
        Ok(())
    }

    /// Returns the table, and starts the next one.
    pub(crate) fn finish(&mut self) -> IndexTable {
        let mut blocks = std::mem::take(&mut self.blocks);
        let mut bounds = std::mem::take(&mut self.bounds);
        blocks.shrink_to_fit();
        bounds.shrink_to_fit();
        let count = blocks.len().saturating_sub(1);
        IndexTable {
            search: KeySearch::new(count, 1, |block| bound(&blocks, &bounds, block)),
            blocks,
            bounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u64) -> BlockAddress {
        BlockAddress {
            offset: 8192 + 128 * number,
            bytes: 77,
        }
    }

    /// A table of blocks with these keys. Each block is not empty.
    fn table(blocks: &[Vec<Vec<u8>>]) -> IndexTable {
        let mut table = IndexTableBuilder::default();
        let mut last: &[u8] = &[];
        for (number, keys) in blocks.iter().enumerate() {
            let bound = bound_between(last, &keys[0]);
            let entries = keys.len() as u64;
            table
                .push(bound, address(number as u64), 1, entries)
                .unwrap();
            last = &keys[keys.len() - 1];
        }
        table.finish()
    }

    #[test]
    fn bounds_are_the_shortest() {
        assert_eq!(bound_between(b"abc", b"abd"), b"abd");
        assert_eq!(bound_between(b"abc", b"b"), b"b");
        assert_eq!(bound_between(b"abc", b"bxyz"), b"b");
        assert_eq!(bound_between(b"ab", b"abcd"), b"abc");
        assert_eq!(bound_between(b"", b"a"), b"a");
    }

    fn blocks() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
        let key = proptest::collection::vec(0u8..3, 0..6);
        let keys = proptest::collection::btree_set(key, 1..40);
        (keys, 1usize..5).prop_map(|(keys, size)| {
            let keys: Vec<_> = keys.into_iter().collect();
            keys.chunks(size).map(<[_]>::to_vec).collect()
        })
    }

    proptest! {
        #[test]
        fn keys_and_prefixes_are_found(blocks in blocks()) {
            let table = table(&blocks);
            prop_assert_eq!(table.len(), blocks.len());
            for (number, keys) in blocks.iter().enumerate() {
                for key in keys {
                    prop_assert_eq!(table.block_of(key), number);
                    for length in 0..key.len() {
                        let prefix = &key[..length];
                        let has = |keys: &Vec<Vec<u8>>| keys.iter().any(|key| key.starts_with(prefix));
                        prop_assert_eq!(Some(table.block_of(prefix)), blocks.iter().position(has));
                    }
                }
            }
        }

        #[test]
        fn tables_round_trip(blocks in blocks()) {
            let table = table(&blocks);
            for page in 0..=table.pages() {
                let block = (0..table.len()).find(|block| page < table.pages_before(block + 1));
                prop_assert_eq!(table.block_of_page(page), block);
            }
            let mut bytes = Vec::new();
            table.encode(&mut bytes);
            let mut take = Take::new(&bytes);
            let decoded = IndexTable::decode(&mut take).unwrap();
            prop_assert!(take.is_empty());
            prop_assert_eq!(decoded.entries(), blocks.iter().flatten().count() as u64);
            prop_assert_eq!(decoded.pages(), blocks.len() as u64);
            prop_assert_eq!(decoded, table);
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>) {
            if let Ok(table) = IndexTable::decode(&mut Take::new(&bytes)) {
                prop_assert!(table.block_of(b"key") < table.len());
            }
        }
    }
}

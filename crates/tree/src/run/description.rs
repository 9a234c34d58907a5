//! The description of a run in a node.

use super::IndexTable;
use crate::{FilterKeys, RangeTombstone, ValueReference};
use teak_base::WriteId;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::KEY_BYTES_MAX;
use teak_block_file::BLOCK_UNIT_BYTES;

/// The location and a summary of the contents of a run, so that planning does not read the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDescription {
    /// The index blocks; none when the run has range tombstones only.
    pub index: IndexTable,
    /// The parts of the keys that are in the filters of the index blocks.
    pub filter_keys: FilterKeys,
    /// One past the last byte, in the file, of the run's blocks and of the separate values of its
    /// entries. A multiple of the allocation unit; 0 without blocks.
    pub blocks_end: u64,
    /// The key of the first entry; empty without entries.
    pub first_key: Vec<u8>,
    /// The key of the last entry; empty without entries.
    pub last_key: Vec<u8>,
    /// Puts.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Raw bytes of the pages, without separate values.
    pub raw_bytes: u64,
    /// Bytes of pages and index blocks in the file, headers and padding included.
    pub stored_bytes: u64,
    /// The separate values of the entries, whichever run they were written with.
    pub separate: SeparateTotals,
    /// The minimum and maximum id of unsettled writes, tombstones included.
    pub write_ids: Option<(WriteId, WriteId)>,
    /// Whether no entry was settled when the run was written, so that
    /// `write_ids` covers all its entries and tombstones.
    pub all_unsettled: bool,
    /// The range tombstones. They are older than all entries of the run. Of those that cover a key,
    /// the newest is first.
    pub range_tombstones: Vec<RangeTombstone>,
}

/// Totals of separate values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeparateTotals {
    /// Number of values.
    pub count: u64,
    /// Bytes uncompressed.
    pub raw_bytes: u64,
    /// Bytes in the file, headers and padding included.
    pub stored_bytes: u64,
}

impl SeparateTotals {
    pub(crate) fn add(&mut self, reference: &ValueReference) {
        self.count += 1;
        self.raw_bytes += u64::from(reference.raw_bytes);
        // A damaged page may refer to blocks of any size.
        self.stored_bytes = self.stored_bytes.saturating_add(reference.stored_bytes());
    }
}

/// In the sizes by which merges are planned, the bytes of separate values are divided by this
/// number. A merge does not rewrite them, so it may become due later, and leaves may be larger. But
/// only a merge frees values that were overwritten or deleted, so their bytes must count.
pub(crate) const SEPARATE_FRACTION: u64 = 16;

const HAS_INDEX: u8 = 1;
const HAS_WRITE_IDS: u8 = 2;
const ALL_UNSETTLED: u8 = 4;
const HAS_SEPARATE: u8 = 8;
const FLAGS_ALL: u8 = HAS_INDEX | HAS_WRITE_IDS | ALL_UNSETTLED | HAS_SEPARATE;

/// The maximum valid count, and the maximum valid size of pages. Real runs are far smaller, so the
/// limit does not affect them, and totals over a tree do not overflow.
const COUNT_MAX: u64 = 1 << 40;
/// The maximum valid size of separate values.
const SEPARATE_BYTES_MAX: u64 = 1 << 50;

impl RunDescription {
    /// Number of entries: puts and deletes.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.puts + self.deletes
    }

    /// The size by which merges are planned.
    #[must_use]
    pub fn merge_bytes(&self) -> u64 {
        self.raw_bytes + self.separate.raw_bytes / SEPARATE_FRACTION
    }

    /// The range of all write ids of the run; `None` when some entry is or may
    /// be settled.
    #[must_use]
    pub fn only_write_ids(&self) -> Option<(WriteId, WriteId)> {
        self.write_ids.filter(|_| self.all_unsettled)
    }

    /// Approximate bytes in memory, with a copy of the keys as bounds of a range.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let keys = self.first_key.len() + self.last_key.len();
        let tombstones = self.range_tombstones.iter();
        let tombstones = tombstones
            .map(|tombstone| size_of_val(tombstone) + tombstone.start.len() + tombstone.end.len());
        size_of::<Self>() + self.index.memory_bytes() + 2 * keys + tombstones.sum::<usize>()
    }

    /// Appends the encoded form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut flags = 0;
        if !self.index.is_empty() {
            flags |= HAS_INDEX;
        }
        if self.write_ids.is_some() {
            flags |= HAS_WRITE_IDS;
        }
        if self.all_unsettled {
            flags |= ALL_UNSETTLED;
        }
        if self.separate.count > 0 {
            flags |= HAS_SEPARATE;
        }
        out.put_u8(flags);
        if !self.index.is_empty() {
            self.filter_keys.encode(out);
            self.index.encode(out);
            out.put_varint(self.blocks_end / BLOCK_UNIT_BYTES);
        }
        out.put_bytes(&self.first_key);
        out.put_bytes(&self.last_key);
        for count in [
            self.puts,
            self.deletes,
            self.keys,
            self.raw_bytes,
            self.stored_bytes,
        ] {
            out.put_varint(count);
        }
        if self.separate.count > 0 {
            out.put_varint(self.separate.count);
            out.put_varint(self.separate.raw_bytes);
            out.put_varint(self.separate.stored_bytes);
        }
        if let Some((min, max)) = self.write_ids {
            out.put_varint(min.0);
            out.put_varint(max.0);
        }
        out.put_varint(self.range_tombstones.len() as u64);
        for tombstone in &self.range_tombstones {
            out.put_bytes(&tombstone.start);
            out.put_bytes(&tombstone.end);
            out.put_varint(tombstone.write_id.0);
        }
    }

    /// Decodes a description.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let flags = take.u8()?;
        let all_unsettled = flags & ALL_UNSETTLED != 0;
        if flags & !FLAGS_ALL != 0 || (all_unsettled && flags & HAS_WRITE_IDS == 0) {
            return Err(Malformed);
        }
        let mut filter_keys = FilterKeys::None;
        let mut index = IndexTable::default();
        let mut blocks_end = 0;
        if flags & HAS_INDEX != 0 {
            filter_keys = FilterKeys::decode(take)?;
            index = IndexTable::decode(take)?;
            let end = take.varint()?.checked_mul(BLOCK_UNIT_BYTES);
            blocks_end = end.ok_or(Malformed)?;
            if index.addresses().any(|block| block.end() > blocks_end) {
                return Err(Malformed);
            }
        }
        let first_key = key(take)?;
        let last_key = key(take)?;
        let puts = count(take)?;
        let deletes = count(take)?;
        let keys = count(take)?;
        let raw_bytes = count(take)?;
        let stored_bytes = count(take)?;
        let entries = puts + deletes;
        let last_block = index.len().saturating_sub(1);
        if entries != index.entries()
            || keys > entries
            || first_key > last_key
            || index.bound_before(last_block) > last_key.as_slice()
            || index
                .bound_after(0)
                .is_some_and(|bound| bound <= first_key.as_slice())
        {
            return Err(Malformed);
        }
        let separate = match flags & HAS_SEPARATE {
            0 => SeparateTotals::default(),
            _ => separate_totals(take, puts)?,
        };
        let write_ids = if flags & HAS_WRITE_IDS != 0 {
            let ids = (WriteId(take.varint()?), WriteId(take.varint()?));
            if ids.0.is_settled() || ids.0 > ids.1 {
                return Err(Malformed);
            }
            Some(ids)
        } else {
            None
        };
        // A tombstone takes at least three bytes.
        let count = take.length(take.rest().len() / 3)?;
        let mut range_tombstones = Vec::with_capacity(count);
        for _ in 0..count {
            let tombstone = RangeTombstone {
                start: key(take)?,
                end: key(take)?,
                write_id: WriteId(take.varint()?),
            };
            if !tombstone.end.is_empty() && tombstone.start >= tombstone.end {
                return Err(Malformed);
            }
            range_tombstones.push(tombstone);
        }
        Ok(Self {
            index,
            filter_keys,
            blocks_end,
            first_key,
            last_key,
            puts,
            deletes,
            keys,
            raw_bytes,
            stored_bytes,
            separate,
            write_ids,
            all_unsettled,
            range_tombstones,
        })
    }
}

fn count(take: &mut Take<'_>) -> Result<u64, Malformed> {
    let count = take.varint()?;
    if count > COUNT_MAX {
        return Err(Malformed);
    }
    Ok(count)
}

fn separate_totals(take: &mut Take<'_>, puts: u64) -> Result<SeparateTotals, Malformed> {
    let totals = SeparateTotals {
        count: count(take)?,
        raw_bytes: take.varint()?,
        stored_bytes: take.varint()?,
    };
    let bytes = totals.raw_bytes.max(totals.stored_bytes);
    if totals.count == 0 || totals.count > puts || bytes > SEPARATE_BYTES_MAX {
        return Err(Malformed);
    }
    Ok(totals)
}

fn key(take: &mut Take<'_>) -> Result<Vec<u8>, Malformed> {
    let key = take.bytes()?;
    if key.len() > KEY_BYTES_MAX {
        return Err(Malformed);
    }
    Ok(key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeySuffix;
    use crate::run::index_table::IndexTableBuilder;
    use proptest::prelude::*;
    use teak_block_file::BlockAddress;

    fn index() -> IndexTable {
        let mut table = IndexTableBuilder::default();
        for (offset, bound) in [(8192, ""), (8320, "k")] {
            let address = BlockAddress { offset, bytes: 77 };
            table.push(bound.as_bytes(), address, 2, 6).unwrap();
        }
        table.finish()
    }

    #[test]
    fn descriptions_round_trip() {
        let mut description = RunDescription {
            index: index(),
            filter_keys: FilterKeys::WithoutSuffix(KeySuffix::Fixed(8)),
            blocks_end: 8448,
            first_key: b"a".to_vec(),
            last_key: b"zz".to_vec(),
            puts: 10,
            deletes: 2,
            keys: 12,
            raw_bytes: 1000,
            stored_bytes: 300,
            separate: SeparateTotals {
                count: 3,
                raw_bytes: 70_000,
                stored_bytes: 60_000,
            },
            write_ids: Some((WriteId(4), WriteId(9))),
            all_unsettled: true,
            range_tombstones: vec![RangeTombstone {
                start: b"b".to_vec(),
                end: Vec::new(),
                write_id: WriteId(4),
            }],
        };
        for _ in 0..2 {
            let mut bytes = Vec::new();
            description.encode(&mut bytes);
            let mut take = Take::new(&bytes);
            assert_eq!(RunDescription::decode(&mut take), Ok(description.clone()));
            assert!(take.is_empty());
            description.filter_keys = FilterKeys::WithoutSuffix(KeySuffix::Counted);
            description.separate = SeparateTotals::default();
            description.write_ids = None;
            description.all_unsettled = false;
            description.range_tombstones.clear();
        }
    }

    #[test]
    fn counts_beyond_belief_are_malformed() {
        let with_raw_bytes = |raw_bytes: u64| {
            let mut bytes = vec![0];
            bytes.extend([0; 5]);
            bytes.put_varint(raw_bytes);
            bytes.extend([0; 2]);
            RunDescription::decode(&mut Take::new(&bytes))
        };
        assert!(with_raw_bytes(COUNT_MAX).is_ok());
        assert_eq!(with_raw_bytes(COUNT_MAX + 1), Err(Malformed));
    }

    #[test]
    fn index_blocks_that_do_not_match_are_malformed() {
        let decoded = |change: fn(&mut RunDescription)| {
            let mut description = RunDescription {
                index: index(),
                blocks_end: 8448,
                first_key: b"a".to_vec(),
                last_key: b"z".to_vec(),
                puts: 12,
                keys: 12,
                ..RunDescription::default()
            };
            change(&mut description);
            let mut bytes = Vec::new();
            description.encode(&mut bytes);
            RunDescription::decode(&mut Take::new(&bytes))
        };
        assert!(decoded(|_| {}).is_ok());
        for change in [
            (|description| description.blocks_end = 8320) as fn(&mut RunDescription),
            |description| description.puts = 11,
            |description| description.first_key = b"k".to_vec(),
            |description| description.last_key = b"j".to_vec(),
        ] {
            assert_eq!(decoded(change), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>) {
            let _ = RunDescription::decode(&mut Take::new(&bytes));
        }
    }
}

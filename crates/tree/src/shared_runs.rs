//! The numbers of references to runs to which several children refer.
//!
//! A run has one reference, unless a split or a flush has clipped it to the ranges of several
//! children. Most runs are not in the table. It is in memory while the tree is open, and a
//! checkpoint writes it if it has changed, so that opening a tree does not count references. See
//! "Shared runs" in `docs/design/format.md`.
//!
//! Its size is bounded by the number of clipped runs that have not been merged since: a few for
//! each inner child.

use std::collections::BTreeMap;
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{Codec, StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockDescription, BlockFile, BlockKind, BlockWriter};

/// The layout number of these blocks.
const SHARED_RUNS_LAYOUT: u8 = 1;
/// Maximum number of entries of a block.
const BLOCK_ENTRIES_MAX: usize = 1 << 16;
const PARTS: usize = 64;

/// The numbers of references, by the offset of the run's first index block, of runs that have at
/// least two. A clone shares its memory until one of the two is changed.
#[derive(Clone, Debug)]
pub(crate) struct SharedRuns {
    parts: Vec<Arc<BTreeMap<u64, u32>>>,
}

impl Default for SharedRuns {
    fn default() -> Self {
        Self {
            parts: vec![Arc::default(); PARTS],
        }
    }
}

fn part_of(offset: u64) -> usize {
    let number = (offset >> 7) % PARTS as u64;
    usize::try_from(number).unwrap_or(0)
}

impl SharedRuns {
    /// The number of references, if there are several.
    pub(crate) fn references(&self, offset: u64) -> Option<u32> {
        self.parts.get(part_of(offset))?.get(&offset).copied()
    }

    /// Sets the number of references. Returns whether the table has changed.
    pub(crate) fn set(&mut self, offset: u64, references: u32) -> bool {
        let before = self.references(offset);
        let now = Some(references).filter(|references| *references > 1);
        if before != now
            && let Some(part) = self.parts.get_mut(part_of(offset))
        {
            let part = Arc::make_mut(part);
            match now {
                Some(references) => part.insert(offset, references),
                None => part.remove(&offset),
            };
        }
        before != now
    }

    /// Number of runs.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    fn sorted(&self) -> Vec<(u64, u32)> {
        let entries = self.parts.iter().flat_map(|part| part.iter());
        let mut entries: Vec<(u64, u32)> =
            entries.map(|(offset, count)| (*offset, *count)).collect();
        entries.sort_unstable();
        entries
    }

    /// Writes the table. Returns the addresses of its blocks, in order; none if it is empty.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub(crate) fn write(&self, writer: &mut BlockWriter) -> StorageResult<Vec<BlockAddress>> {
        let description = BlockDescription {
            kind: BlockKind::SharedRuns,
            layout: SHARED_RUNS_LAYOUT,
            codec: Codec::Lz4,
        };
        let mut addresses = Vec::new();
        // Each block has the address of the next one.
        for entries in self.sorted().chunks(BLOCK_ENTRIES_MAX).rev() {
            let raw = encode(addresses.last().copied(), entries);
            addresses.push(writer.write(description, &raw)?);
        }
        addresses.reverse();
        Ok(addresses)
    }

    /// Reads the table whose first block is at `first`. Returns it with the addresses of its
    /// blocks.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`, `Io`.
    pub(crate) fn read(
        file: &BlockFile,
        first: Option<BlockAddress>,
    ) -> StorageResult<(Self, Vec<BlockAddress>)> {
        let mut shared = Self::default();
        let mut addresses = Vec::new();
        let mut next = first;
        let mut last = 0;
        while let Some(address) = next {
            let block = file.read_block(address, BlockKind::SharedRuns)?;
            let layout = block.description.layout;
            StorageError::check_version(file.path(), layout.into(), SHARED_RUNS_LAYOUT.into())?;
            let decoded = decode(&block.raw, last).map_err(|Malformed| {
                let reason = "the list of shared runs is malformed";
                StorageError::corrupt(file.path(), address.offset, reason)
            })?;
            for (offset, references) in decoded.entries {
                shared.set(offset, references);
                last = offset;
            }
            addresses.push(address);
            next = decoded.next;
        }
        Ok((shared, addresses))
    }
}

struct Decoded {
    next: Option<BlockAddress>,
    entries: Vec<(u64, u32)>,
}

fn encode(next: Option<BlockAddress>, entries: &[(u64, u32)]) -> Vec<u8> {
    let mut raw = Vec::new();
    let none = BlockAddress {
        offset: 0,
        bytes: 0,
    };
    next.unwrap_or(none).encode(&mut raw);
    raw.put_varint(entries.len() as u64);
    for (offset, references) in entries {
        raw.put_u64(*offset);
        raw.put_varint(u64::from(*references));
    }
    raw
}

/// Decodes a block. Its offsets ascend, and begin after `last`, so that a list ends.
fn decode(raw: &[u8], mut last: u64) -> Result<Decoded, Malformed> {
    let mut take = Take::new(raw);
    let next = BlockAddress::decode(&mut take)?;
    // An entry takes at least nine bytes.
    let count = take.length(take.rest().len() / 9)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = take.u64()?;
        let references = u32::try_from(take.varint()?).map_err(|_| Malformed)?;
        if offset <= last || references < 2 {
            return Err(Malformed);
        }
        entries.push((offset, references));
        last = offset;
    }
    if entries.is_empty() || !take.is_empty() {
        return Err(Malformed);
    }
    Ok(Decoded {
        next: (next.offset != 0).then_some(next),
        entries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::documented_bytes;
    use proptest::prelude::*;
    use std::path::Path;
    use teak_base::FileId;
    use teak_disk::{Disk, MemoryDisk};

    #[test]
    fn the_documented_example_holds() {
        let bytes = encode(None, &[(0x2800, 2), (0x4000, 300)]);
        assert_eq!(bytes, documented_bytes("## Shared runs"), "{bytes:02x?}");
        let decoded = decode(&bytes, 0).unwrap();
        assert_eq!(decoded.entries, [(0x2800, 2), (0x4000, 300)]);
        assert_eq!(decoded.next, None);
    }

    #[test]
    fn a_long_list_is_read_as_it_was_written() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let file = BlockFile::create(&disk, Path::new("/t"), FileId(1), &[]).unwrap();
        let mut shared = SharedRuns::default();
        for number in 1..=150_000_u64 {
            assert!(shared.set(number * 128, 2));
        }
        assert!(shared.set(128, 7) && !shared.set(128, 7));
        assert!(shared.set(256, 1) && !shared.set(256, 0));
        let before = shared.clone();
        let mut writer = file.writer(0);
        let addresses = shared.write(&mut writer).unwrap();
        assert_eq!(addresses.len(), 3);
        file.publish(vec![writer.finish().unwrap()], &[]);
        let (read, blocks) = SharedRuns::read(&file, addresses.first().copied()).unwrap();
        assert_eq!((read.sorted(), blocks), (shared.sorted(), addresses));
        shared.set(128, 0);
        assert_eq!((before.references(128), before.len()), (Some(7), 149_999));
        let (empty, blocks) = SharedRuns::read(&file, None).unwrap();
        assert!(empty.len() == 0 && blocks.is_empty());
    }

    proptest! {
        #![proptest_config(crate::test_support::proptest_config(1000))]
        #[test]
        fn damaged_bytes_never_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes, 0);
        }
    }
}

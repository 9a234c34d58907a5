//! The durable form of the free space: a chain of blocks of kind `SpaceMap`.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 12 | address of the next block of the chain; zeros at its end |
//! | 12 | 4 | number of extents in this block |
//! | 16 | - | per extent two varints, in units of 128 bytes: the gap since the end of the previous extent of the map (for the first, since byte 8192), and the length |
//! | - | - | zeros to the end |
//!
//! If backups were made, the last block of the chain has layout 1, and after the address of the next block the epochs of
//! ranges (see `epochs`): their number (4 bytes), and per range three varints: the gap and the length as above, and the epoch.
//!
//! The blocks are not compressed: their space is reserved before their contents
//! are known, and the contents exclude that space.

use crate::address::BlockAddress;
use crate::block::{BlockDescription, BlockKind, NewBlock};
use crate::epochs::EpochMap;
use crate::extents::{Extent, ExtentSet};
use crate::layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START, whole_units};
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{Codec, FileId};

/// Bytes of each block of a map that does not fit in one block, header included.
const BLOCK_BYTES: u64 = 1024 * 1024;
/// Address of the next block, and count.
const PREFIX_BYTES: usize = BlockAddress::ENCODED_BYTES + 4;
/// Maximum length of two varints.
const EXTENT_BYTES_MAX: usize = 20;
/// Layout of the blocks with holes.
pub(crate) const HOLES_LAYOUT: u8 = 0;
/// Layout of the block with epochs.
pub(crate) const EPOCHS_LAYOUT: u8 = 1;
const OVERHEAD_BYTES: u64 = (BLOCK_HEADER_BYTES + PREFIX_BYTES) as u64;

/// Sizes of blocks that are large enough for the map of these extents, even after the space of the
/// blocks is removed from the extents.
pub(crate) fn block_sizes(
    extents: impl Iterator<Item = Extent>,
    epochs: Option<&[u8]>,
) -> Vec<u64> {
    let mut sizes = hole_block_sizes(extents, u64::from(epochs.is_some()));
    if let Some(epochs) = epochs {
        let prefix = (BLOCK_HEADER_BYTES + BlockAddress::ENCODED_BYTES) as u64;
        sizes.push(whole_units(prefix + epochs.len() as u64));
    }
    sizes
}

/// `other_places`: the number of blocks of the map without holes.
fn hole_block_sizes(extents: impl Iterator<Item = Extent>, other_places: u64) -> Vec<u64> {
    // A place splits at most one extent in two, and adds at most one at the end of the file.
    let mut pairs = 2 * EXTENT_BYTES_MAX as u64 * other_places;
    let mut position = BLOCKS_START;
    for extent in extents {
        pairs += varint_bytes((extent.offset - position) / BLOCK_UNIT_BYTES);
        pairs += varint_bytes(extent.bytes / BLOCK_UNIT_BYTES);
        position = extent.end();
    }
    // Each block of the map splits at most one extent in two, adds at most one
    // at the end of the file, and leaves less than one pair unused at its end.
    let margin = 3 * EXTENT_BYTES_MAX as u64;
    let capacity = BLOCK_BYTES - OVERHEAD_BYTES - margin;
    if pairs <= capacity {
        return vec![whole_units(OVERHEAD_BYTES + margin + pairs)];
    }
    (0..pairs.div_ceil(capacity)).map(|_| BLOCK_BYTES).collect()
}

fn varint_bytes(value: u64) -> u64 {
    let bits = u64::from(u64::BITS - value.leading_zeros()).max(1);
    bits.div_ceil(7)
}

/// An encoded block of the map.
#[derive(Debug)]
pub(crate) struct MapBlock {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Encodes the extents into the reserved `places`, in the order of the chain.
/// Returns the address of the first block, and the blocks.
///
/// # Panics
/// When the places are smaller than the sizes that [`block_sizes`] returned.
pub(crate) fn encode(
    file: FileId,
    places: &[Extent],
    free: &[Extent],
    epochs: Option<&[u8]>,
) -> (BlockAddress, Vec<MapBlock>) {
    let mut free = free.iter().copied().peekable();
    let mut position = BLOCKS_START;
    let mut blocks = Vec::new();
    let mut following = places.iter().skip(1);
    let hole_places = places.len() - usize::from(epochs.is_some());
    let (hole_places, epoch_places) = places.split_at(hole_places);
    for place in hole_places {
        let raw_bytes = bytes_of(*place).saturating_sub(BLOCK_HEADER_BYTES);
        let mut pairs = Vec::new();
        let mut count = 0u32;
        let pairs_max = raw_bytes.saturating_sub(PREFIX_BYTES + EXTENT_BYTES_MAX);
        while pairs.len() <= pairs_max
            && let Some(extent) = free.next()
        {
            pairs.put_varint((extent.offset - position) / BLOCK_UNIT_BYTES);
            pairs.put_varint(extent.bytes / BLOCK_UNIT_BYTES);
            position = extent.end();
            count += 1;
        }
        let mut raw = Vec::with_capacity(raw_bytes);
        match following.next() {
            Some(next) => address_of(*next).encode(&mut raw),
            None => raw.resize(BlockAddress::ENCODED_BYTES, 0),
        }
        raw.put_u32(count);
        raw.append(&mut pairs);
        raw.resize(raw_bytes, 0);
        blocks.push(map_block(file, *place, HOLES_LAYOUT, &raw));
    }
    for (place, epochs) in epoch_places.iter().zip(epochs) {
        let mut raw = vec![0; BlockAddress::ENCODED_BYTES];
        raw.extend_from_slice(epochs);
        raw.resize(bytes_of(*place).saturating_sub(BLOCK_HEADER_BYTES), 0);
        blocks.push(map_block(file, *place, EPOCHS_LAYOUT, &raw));
    }
    assert!(free.peek().is_none(), "the space map fits its blocks");
    let first = places.first().map(|place| address_of(*place));
    (first.unwrap_or(BlockAddress::NONE), blocks)
}

fn map_block(file: FileId, place: Extent, layout: u8, raw: &[u8]) -> MapBlock {
    let description = BlockDescription {
        kind: BlockKind::SpaceMap,
        layout,
        codec: Codec::None,
    };
    let new = NewBlock {
        file,
        offset: place.offset,
        description,
        raw_bytes: u32::try_from(raw.len()).unwrap_or(u32::MAX),
        key: None,
    };
    let mut bytes = new.plain_header(raw).to_vec();
    bytes.extend_from_slice(raw);
    MapBlock {
        offset: place.offset,
        bytes,
    }
}

fn address_of(place: Extent) -> BlockAddress {
    BlockAddress {
        offset: place.offset,
        bytes: u32::try_from(place.bytes).unwrap_or(u32::MAX),
    }
}

fn bytes_of(place: Extent) -> usize {
    usize::try_from(place.bytes).unwrap_or(usize::MAX)
}

/// Decodes a chain, block by block.
#[derive(Debug)]
pub(crate) struct Decoder {
    end: u64,
    position: u64,
    free: ExtentSet,
    places: ExtentSet,
    epochs: EpochMap,
}

/// A decoded map.
#[derive(Debug, Default)]
pub(crate) struct SpaceMap {
    pub free: ExtentSet,
    /// The space of the map itself.
    pub places: Vec<Extent>,
    /// When blocks were published.
    pub epochs: EpochMap,
}

impl Decoder {
    /// `end` is one past the last live byte.
    pub fn new(end: u64) -> Self {
        Self {
            end,
            position: BLOCKS_START,
            free: ExtentSet::default(),
            places: ExtentSet::default(),
            epochs: EpochMap::default(),
        }
    }

    /// Records the address of a block before it is read. A chain that returns
    /// to one of its blocks is malformed.
    pub fn enter(&mut self, address: BlockAddress) -> Result<(), Malformed> {
        let place = address.extent().ok_or(Malformed)?;
        if place.end() > self.end {
            return Err(Malformed);
        }
        self.places.insert(place).map_err(|_| Malformed)?;
        Ok(())
    }

    /// Takes the raw bytes of the block; returns the address of the next.
    pub fn block(&mut self, raw: &[u8]) -> Result<Option<BlockAddress>, Malformed> {
        let mut take = Take::new(raw);
        let next = BlockAddress::decode(&mut take)?;
        for index in 0..take.u32()? {
            let gap = units(take.varint()?)?;
            let bytes = units(take.varint()?)?;
            // Only the first extent of the map may have a zero gap.
            let first = index == 0 && self.position == BLOCKS_START;
            if bytes == 0 || (gap == 0 && !first) {
                return Err(Malformed);
            }
            let offset = self.position.checked_add(gap).ok_or(Malformed)?;
            self.position = offset.checked_add(bytes).ok_or(Malformed)?;
            // The byte before `end` is live, so a hole cannot reach it.
            if self.position >= self.end {
                return Err(Malformed);
            }
            let extent = Extent { offset, bytes };
            self.free.insert(extent).map_err(|_| Malformed)?;
        }
        if take.rest().iter().any(|&byte| byte != 0) {
            return Err(Malformed);
        }
        Ok((next != BlockAddress::NONE).then_some(next))
    }

    /// Takes the raw bytes of the block with epochs; returns the address of the next.
    pub fn epochs(&mut self, raw: &[u8]) -> Result<Option<BlockAddress>, Malformed> {
        let mut take = Take::new(raw);
        let next = BlockAddress::decode(&mut take)?;
        self.epochs = EpochMap::decode(&mut take)?;
        if take.rest().iter().any(|&byte| byte != 0) {
            return Err(Malformed);
        }
        Ok((next != BlockAddress::NONE).then_some(next))
    }

    /// Returns the map, after the last block of the chain.
    pub fn finish(self) -> Result<SpaceMap, Malformed> {
        let places: Vec<Extent> = self.places.iter().collect();
        let mut probe = self.free.clone();
        for &place in &places {
            probe.insert(place).map_err(|_| Malformed)?;
        }
        Ok(SpaceMap {
            free: self.free,
            places,
            epochs: self.epochs,
        })
    }
}

fn units(count: u64) -> Result<u64, Malformed> {
    count.checked_mul(BLOCK_UNIT_BYTES).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block;
    use proptest::prelude::*;
    use std::path::Path;
    use teak_base::Encryption;

    const FILE: FileId = FileId(3);

    /// Extents with these gaps and lengths, in units, and the end of the last.
    fn extents(pairs: impl IntoIterator<Item = (u64, u64)>) -> (Vec<Extent>, u64) {
        let mut position = BLOCKS_START;
        let mut extents = Vec::new();
        for (gap, units) in pairs {
            let extent = Extent {
                offset: position + gap * BLOCK_UNIT_BYTES,
                bytes: units * BLOCK_UNIT_BYTES,
            };
            position = extent.end();
            extents.push(extent);
        }
        (extents, position)
    }

    /// Consecutive places at the end of the file.
    fn places(extents: &[Extent], mut end: u64) -> Vec<Extent> {
        block_sizes(extents.iter().copied(), None)
            .into_iter()
            .map(|bytes| {
                let place = Extent { offset: end, bytes };
                end = place.end();
                place
            })
            .collect()
    }

    fn decode(end: u64, first: BlockAddress, blocks: &[MapBlock]) -> Result<SpaceMap, Malformed> {
        let mut decoder = Decoder::new(end);
        let mut next = Some(first);
        while let Some(address) = next {
            decoder.enter(address)?;
            let stored = blocks.iter().find(|b| b.offset == address.offset).unwrap();
            let place = (address, BlockKind::SpaceMap);
            let plain = Encryption::default();
            let block = block::decode(Path::new("f"), &plain, FILE, place, &stored.bytes);
            next = decoder.block(&block.unwrap().raw)?;
        }
        decoder.finish()
    }

    proptest! {
        #[test]
        fn a_map_round_trips(
            pairs in proptest::collection::vec((1u64..1 << 40, 1u64..1 << 20), 0..200)
        ) {
            let (free, end) = extents(pairs);
            let places = places(&free, end);
            let (first, blocks) = encode(FILE, &places, &free, None);
            let map = decode(places.last().unwrap().end(), first, &blocks).unwrap();
            prop_assert!(map.free.iter().eq(free));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(raw: Vec<u8>, count in 0u32..20, end in 0u64..1 << 20) {
            let mut decoder = Decoder::new(BLOCKS_START + end);
            let _ = decoder.block(&raw);
            let mut shaped = vec![0; BlockAddress::ENCODED_BYTES];
            shaped.put_u32(count);
            shaped.extend_from_slice(&raw);
            let _ = decoder.block(&shaped);
            let _ = decoder.finish();
        }
    }

    #[test]
    fn a_long_map_is_a_chain() {
        let pairs = (0..600_000u64).map(|number| (1 + number % 300, 1 + number % 7));
        let (free, end) = extents(pairs);
        let places = places(&free, end);
        assert!(places.len() > 1);
        let (first, blocks) = encode(FILE, &places, &free, None);
        let map = decode(places.last().unwrap().end(), first, &blocks).unwrap();
        assert!(map.free.iter().eq(free));
        assert_eq!(
            map.places.iter().map(|p| p.bytes).sum::<u64>(),
            places.iter().map(|p| p.bytes).sum()
        );
    }

    #[test]
    fn cutting_out_its_own_places_leaves_a_map_that_fits() {
        // Each place splits an extent in two.
        for length in 0..400u64 {
            let pairs = (0..length).map(|number| (1 + number % 2 * 200, 300 + number * 50));
            let (mut free, end) = extents(pairs);
            let sizes = block_sizes(free.iter().copied(), None);
            let bytes = sizes[0];
            let index = free.iter().position(|hole| hole.bytes > bytes + 256);
            let place = match index {
                Some(index) => {
                    let hole = free[index];
                    let place = Extent {
                        offset: hole.offset + 128,
                        bytes,
                    };
                    free[index] = Extent::between(hole.offset, place.offset);
                    free.insert(index + 1, Extent::between(place.end(), hole.end()));
                    place
                }
                None => Extent { offset: end, bytes },
            };
            let (first, blocks) = encode(FILE, &[place], &free, None);
            let map = decode(end.max(place.end()) + 128, first, &blocks).unwrap();
            assert!(map.free.iter().eq(free));
        }
    }

    #[test]
    fn a_chain_that_returns_to_itself_is_malformed() {
        let mut decoder = Decoder::new(BLOCKS_START + 1024);
        let address = BlockAddress {
            offset: BLOCKS_START,
            bytes: 100,
        };
        decoder.enter(address).unwrap();
        let mut raw = Vec::new();
        address.encode(&mut raw);
        raw.put_u32(0);
        assert_eq!(decoder.block(&raw), Ok(Some(address)));
        assert_eq!(decoder.enter(address), Err(Malformed));
    }

    #[test]
    fn a_map_that_lists_itself_as_free_is_malformed() {
        let mut decoder = Decoder::new(BLOCKS_START + 1024);
        let address = BlockAddress {
            offset: BLOCKS_START + 128,
            bytes: 100,
        };
        decoder.enter(address).unwrap();
        let mut raw = vec![0; BlockAddress::ENCODED_BYTES];
        raw.put_u32(1);
        raw.put_varint(1);
        raw.put_varint(2);
        assert_eq!(decoder.block(&raw), Ok(None));
        assert!(decoder.finish().is_err());
    }
}

//! Fuzz targets of sets of extents and of the space map.

use crate::address::BlockAddress;
use crate::extents::{Extent, ExtentSet};
use crate::layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START};
use crate::space_map::{Decoder, MapBlock, SpaceMap, block_sizes, encode};
use std::collections::BTreeSet;
use teak_base::FileId;
use teak_base::bytes::{Malformed, Put};
use teak_base::fuzzing::Input;

const FILE: FileId = FileId(3);

/// Changes a set of extents and compares it with a set of bytes.
pub(super) fn extents(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut set = ExtentSet::default();
    let mut model = BTreeSet::new();
    let mut steps = 0;
    while !input.is_empty() && steps < 300 {
        steps += 1;
        let step = input.below(2);
        let range = Extent {
            offset: u64::from(input.u8()),
            bytes: u64::from(input.below(24)),
        };
        let all = || range.offset..range.end();
        let inside = all().filter(|byte| model.contains(byte)).count() as u64;
        match step {
            0 => {
                let done = set.insert(range).is_ok();
                assert_eq!(done, inside == 0 && range.bytes > 0);
                if done {
                    model.extend(all());
                }
            }
            _ => {
                let done = set.remove(range).is_some();
                assert_eq!(done, inside == range.bytes && range.bytes > 0);
                if done {
                    all().for_each(|byte| {
                        model.remove(&byte);
                    });
                }
            }
        }
        assert_eq!(set.bytes(), model.len() as u64);
    }
    let held = set.iter().flat_map(|extent| extent.offset..extent.end());
    assert!(held.eq(model));
}

pub(super) fn extents_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0, 10, 5, 0, 20, 5, 0, 15, 5, 1, 12, 3, 2, 0, 20],
        vec![0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 0, 3],
    ]
}

/// The input contains the end of the live bytes, the address of the first block, and the raw bytes
/// of each block, each after its length (a u16).
pub(super) fn space_map(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let end = u64::from(input.u32()).saturating_mul(BLOCK_UNIT_BYTES);
    let Ok(map) = decode(&mut input, end) else {
        return;
    };
    let free: Vec<Extent> = map.free.iter().collect();
    assert!(free.iter().all(|hole| hole.end() < end && hole.bytes > 0));
    for place in &map.places {
        assert!(place.end() <= end && map.free.clone().insert(*place).is_ok());
    }
    // Encoded again, with its blocks after the end, the map must decode to the same map.
    let mut place_end = end.max(BLOCKS_START);
    let places: Vec<Extent> = block_sizes(free.iter().copied(), None)
        .into_iter()
        .map(|bytes| {
            let place = Extent {
                offset: place_end,
                bytes,
            };
            place_end = place.end();
            place
        })
        .collect();
    let (first, blocks) = encode(FILE, &places, &free, None);
    let again = decode_blocks(place_end, first, &blocks).expect("an encoded map decodes");
    assert!(again.free.iter().eq(free));
}

fn decode(input: &mut Input<'_>, end: u64) -> Result<SpaceMap, Malformed> {
    let mut decoder = Decoder::new(end);
    let mut next = Some(BlockAddress {
        offset: u64::from(input.u16()) * BLOCK_UNIT_BYTES,
        bytes: input.u32(),
    });
    while let Some(address) = next {
        decoder.enter(address)?;
        let raw_bytes = usize::from(input.u16());
        next = decoder.block(input.bytes(raw_bytes))?;
    }
    decoder.finish()
}

fn decode_blocks(
    end: u64,
    first: BlockAddress,
    blocks: &[MapBlock],
) -> Result<SpaceMap, Malformed> {
    let mut decoder = Decoder::new(end);
    let mut next = Some(first);
    while let Some(address) = next {
        decoder.enter(address)?;
        let stored = blocks.iter().find(|block| block.offset == address.offset);
        let stored = stored.ok_or(Malformed)?;
        next = decoder.block(stored.bytes.get(BLOCK_HEADER_BYTES..).ok_or(Malformed)?)?;
    }
    decoder.finish()
}

pub(super) fn space_map_seeds() -> Vec<Vec<u8>> {
    let hole = |unit: u64, units: u64| Extent {
        offset: BLOCKS_START + unit * BLOCK_UNIT_BYTES,
        bytes: units * BLOCK_UNIT_BYTES,
    };
    let mut seeds = Vec::new();
    for free in [vec![], vec![hole(0, 2), hole(5, 300), hole(400, 1)]] {
        // Two blocks; the first has all the extents.
        let places = [hole(1000, 2), hole(1010, 1)];
        let (_, blocks) = encode(FILE, &places, &free, None);
        let mut seed = Vec::new();
        seed.put_u32(1100);
        seed.put_u16(1064);
        seed.put_u32(256);
        for block in &blocks {
            let raw = block.bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
            seed.put_u16(u16::try_from(raw.len()).unwrap_or(0));
            seed.extend_from_slice(raw);
        }
        seeds.push(seed);
    }
    seeds
}

//! Fuzz targets of single structures: pages, index blocks, descriptions, filters and the
//! superblock's payload.

use crate::filter::FilterSize;
use crate::payload::Payload;
use crate::run::{IndexBlock, IndexBlockBuilder, IndexTableBuilder};
use crate::{
    Column, ColumnChoice, ColumnKind, FilterKeys, KeySuffix, OptionalColumn, Page, PageBuilder,
    PageColumns, RangeTombstone, ReadColumn, RunDescription, SeparateTotals, TreeOptions,
    ValueReference, ValueTail, filter,
};
use std::path::Path;
use teak_base::bytes::{Put, Take};
use teak_base::checksum::hash_key;
use teak_base::fuzzing::Input;
use teak_base::{Lsn, Operation, WriteId};
use teak_block_file::BlockAddress;

/// Maximum memory per entry in addition to its bytes.
const ENTRY_MEMORY_BYTES_MAX: usize = 32;
/// Maximum fixed memory of a page.
const PAGE_MEMORY_BYTES_MAX: usize = 512;

/// Bytes of keys and values above which a page is not decoded: columns may have any number of equal
/// values.
const DECLARED_BYTES_MAX: usize = 1 << 20;

/// The bytes of keys and values that the header of a page declares.
fn declared_bytes(page: &[u8]) -> usize {
    let number = |offset: usize| {
        let bytes = page.get(offset..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
    };
    number(17) + number(25)
}

/// Whether a page declares too many bytes to be decoded by a fuzz target.
pub(super) fn declares_too_much(page: &[u8]) -> bool {
    declared_bytes(page) > DECLARED_BYTES_MAX
}

/// Decodes a page. If this succeeds, building a page from its entries must give the same entries.
pub(super) fn page(bytes: &[u8]) {
    if declares_too_much(bytes) {
        return;
    }
    let declared = declared_bytes(bytes);
    let Ok(page) = Page::decode(bytes.to_vec()) else {
        return;
    };
    assert!(page.entries() > 0);
    let memory = page.entries() * ENTRY_MEMORY_BYTES_MAX + PAGE_MEMORY_BYTES_MAX;
    assert!(page.memory_bytes() <= 2 * bytes.len().max(declared) + memory);
    // Each entry takes at least one byte, except that of a page with a single empty entry.
    assert!(page.entries() <= bytes.len().max(declared));
    for entry in 0..page.entries() {
        let bound = page.lower_bound(page.key(entry));
        assert!(page.key(bound) == page.key(entry), "every key is found");
        assert!(bound == 0 || page.key(bound - 1) < page.key(entry));
    }
    let planes = u32::try_from(page.value(0).len().min(3)).unwrap_or(0);
    build_again(&page, PageBuilder::new(planes));
    let columns = columns(page.key(0).len());
    build_again(&page, PageBuilder::with_columns(planes, columns));
}

/// Columns of values that begin with a byte of NULL bits, and of keys of this length.
pub(super) fn columns(key_bytes: usize) -> PageColumns {
    let list = |columns: &[(ColumnKind, u32)]| {
        let columns = columns.iter();
        columns
            .filter_map(|(kind, width)| Column::new(*kind, *width))
            .collect()
    };
    let kind = if key_bytes <= 8 {
        ColumnKind::UnsignedBig
    } else {
        ColumnKind::Bytes
    };
    let key = list(&[(kind, u32::try_from(key_bytes).unwrap_or(0))]);
    let value = list(&[(ColumnKind::Bytes, 1), (ColumnKind::SignedLittle, 2)]);
    let optional = [(ColumnKind::UnsignedBig, 3), (ColumnKind::Float, 4)];
    let optional = (0..)
        .zip(list(&optional))
        .map(|(null_bit, column)| OptionalColumn { column, null_bit });
    let tail = ValueTail {
        optional: optional.collect(),
        variable: vec![Some(2), None],
    };
    PageColumns::with_tail(key, value, tail)
}

/// Builds a page with the entries of another one; it must decode to the same entries.
fn build_again(page: &Page, mut builder: PageBuilder) {
    for entry in 0..page.entries() {
        let (operation, id) = page.write(entry);
        match page.reference(entry) {
            None => builder.push(page.key(entry), id, operation, page.value(entry)),
            Some(reference) => {
                let reference = ValueReference::decode(reference).encoded();
                builder.push_separate(page.key(entry), id, &reference);
            }
        }
    }
    let mut raw = Vec::new();
    builder.finish(&mut raw);
    let again = Page::decode(raw).expect("what was built decodes");
    assert_eq!(again.entries(), page.entries());
    for entry in 0..page.entries() {
        assert_eq!(again.write(entry), page.write(entry));
        assert_eq!(again.key(entry), page.key(entry));
        assert_eq!(again.value(entry), page.value(entry));
        assert_eq!(again.reference(entry), page.reference(entry));
    }
}

pub(super) fn page_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (planes, spread, settled) in [(0, 1, true), (2, 1, false), (0, 3, false), (3, 2, true)] {
        let mut builder = PageBuilder::new(planes);
        for number in 0..20u8 {
            let key = [&b"key"[..], &[number / 2]].concat();
            let key = key.repeat(1 + usize::from(number / 10) % spread);
            let value = vec![number; 3 + usize::from(number) % spread];
            let (id, operation) = match (settled, number % 4) {
                (true, _) => (0, Operation::Put),
                (false, 0) => (700, Operation::Put),
                (false, 2) => (3, Operation::Delete),
                (false, _) => (0, Operation::Put),
            };
            if !settled && number % 8 == 1 {
                let address = BlockAddress {
                    offset: 8192 + 128 * u64::from(number),
                    bytes: 100,
                };
                let reference = ValueReference::new(address, &value).encoded();
                builder.push_separate(&key, WriteId(id), &reference);
                continue;
            }
            builder.push(&key, WriteId(id), operation, &value);
        }
        let mut raw = Vec::new();
        builder.finish(&mut raw);
        seeds.push(raw);
    }
    seeds.push(page_of_columns());
    seeds
}

/// A page with the columns of [`columns`].
fn page_of_columns() -> Vec<u8> {
    let mut builder = PageBuilder::with_columns(0, columns(2));
    for number in 0..40u8 {
        let absent = number % 7;
        let mut value = vec![absent, number, 0];
        if absent & 1 == 0 {
            value.extend_from_slice(&[1, 2, number]);
        }
        if absent & 2 == 0 {
            value.extend_from_slice(&(f32::from(number) / 4.0).to_le_bytes());
        }
        let texts = [
            (absent & 4 == 0).then(|| vec![b't'; usize::from(number % 3)]),
            Some(format!("text {number}").into_bytes()),
        ];
        for text in texts.iter().flatten() {
            value.put_varint(text.len() as u64);
        }
        value.extend(texts.iter().flatten().flatten());
        builder.push(&[b'k', number], WriteId(0), Operation::Put, &value);
    }
    let mut raw = Vec::new();
    builder.finish(&mut raw);
    raw
}

/// Decodes an index block. If this succeeds, it must encode to the same bytes.
pub(super) fn index_block(bytes: &[u8]) {
    let Ok(block) = IndexBlock::decode(bytes) else {
        return;
    };
    let mut again = Vec::new();
    block.encode(&mut again);
    assert_eq!(again, bytes, "an index block encodes to itself");
    assert!(block.memory_bytes() <= 4 * bytes.len() + 512);
    let zones = block.zones(&zone_choice()).ok().flatten();
    for page in 0..block.pages().len() {
        if let Some(zones) = &zones {
            let _ = (zones.page(page), zones.zone(page, 0), zones.zone(page, 2));
        }
        let key = block.last_key(page);
        let found = block.page_of(key);
        assert!(found <= page && block.last_key(found) == key);
        let _ = (block.has_filter(), block.may_contain(hash_key(key)));
    }
    assert!(block.page_of(b"any key") <= block.pages().len());
}

/// Columns of which index blocks may have zones.
fn zone_columns() -> PageColumns {
    let column = |kind, width| Column::new(kind, width).into_iter();
    let optional = column(ColumnKind::Float, 8).map(|column| OptionalColumn {
        column,
        null_bit: 8,
    });
    let value = column(ColumnKind::Bytes, 2).chain(column(ColumnKind::SignedLittle, 4));
    let tail = ValueTail {
        optional: optional.collect(),
        variable: vec![],
    };
    PageColumns::with_tail(
        column(ColumnKind::UnsignedBig, 2).collect(),
        value.collect(),
        tail,
    )
}

fn zone_choice() -> ColumnChoice {
    let read = [1, 2].map(ReadColumn::Value);
    let key = Column::new(ColumnKind::SignedLittle, 2);
    let key = key.map(|value| ReadColumn::Key { number: 0, value });
    let read: Vec<ReadColumn> = read.into_iter().chain(key).collect();
    let Some(choice) = ColumnChoice::new(&zone_columns(), &[7], &read) else {
        unreachable!("these columns exist");
    };
    choice
}

/// A page with zones.
fn zone_page(number: u8) -> PageBuilder {
    let mut page = PageBuilder::with_columns(0, zone_columns());
    for row in 0..40u8 {
        let has_float = row % 3 == number;
        let mut value = vec![7, u8::from(!has_float)];
        value.extend((i32::from(number) * 100 - i32::from(row)).to_le_bytes());
        if has_float {
            value.extend(f64::from(row).to_le_bytes());
        }
        let write = WriteId(u64::from(number));
        page.push(&[number, row], write, Operation::Put, &value);
    }
    page.finish(&mut Vec::new());
    page
}

pub(super) fn index_block_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (filters, zones) in [(false, false), (true, false), (false, true)] {
        let mut block = IndexBlockBuilder::new(FilterSize::Upper);
        for number in 0..5u8 {
            let address = BlockAddress {
                offset: 8192 + 128 * u64::from(number),
                bytes: 100,
            };
            if filters {
                (0..u64::from(number)).for_each(|hash| block.add_hash(hash));
            }
            let key = [b'a' + number / 2, number];
            let values_end = 128 * u64::from(number / 3);
            block.push(address, 3, 90, &key, values_end);
            let page = (zones && number < 3).then(|| zone_page(number).take_zones());
            if let Some(zones) = page.flatten() {
                block.add_zones(zones, true);
            }
        }
        let mut raw = Vec::new();
        block.finish(&mut raw);
        seeds.push(raw);
    }
    seeds
}

/// Decodes a sequence of run descriptions.
pub(super) fn run_description(bytes: &[u8]) {
    let mut take = Take::new(bytes);
    while let Ok(description) = RunDescription::decode(&mut take) {
        let mut encoded = Vec::new();
        description.encode(&mut encoded);
        let again = RunDescription::decode(&mut Take::new(&encoded));
        assert_eq!(again.as_ref(), Ok(&description));
        assert!(description.keys <= description.entries());
        for tombstone in &description.range_tombstones {
            clipped(tombstone, &description.first_key, &description.last_key);
        }
    }
}

/// Asserts that the clipped tombstone covers exactly the keys that are in the
/// range and in the tombstone.
fn clipped(tombstone: &RangeTombstone, lower: &[u8], upper: &[u8]) {
    let part = tombstone.clip(Some(lower), Some(upper));
    for key in [&tombstone.start, &tombstone.end, lower, upper] {
        let inside = lower <= key && key < upper;
        let covered = part.as_ref().is_some_and(|part| part.covers(key));
        assert_eq!(covered, inside && tombstone.covers(key));
    }
}

pub(super) fn run_description_seeds() -> Vec<Vec<u8>> {
    let tombstone = |start: &[u8], end: &[u8]| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        write_id: WriteId(4),
    };
    let mut index = IndexTableBuilder::default();
    for (bound, offset) in [("", 8192), ("k", 8320)] {
        let address = BlockAddress { offset, bytes: 77 };
        let pushed = index.push(bound.as_bytes(), address, 2, 6);
        pushed.expect("the counts are small");
    }
    let full = RunDescription {
        index: index.finish(),
        filter_keys: FilterKeys::WithoutSuffix(KeySuffix::Fixed(1)),
        blocks_end: 8448,
        first_key: b"a".to_vec(),
        last_key: b"zz".to_vec(),
        puts: 10,
        deletes: 2,
        keys: 12,
        raw_bytes: 1000,
        stored_bytes: 300,
        separate: SeparateTotals {
            count: 2,
            raw_bytes: 50_000,
            stored_bytes: 40_000,
        },
        write_ids: Some((WriteId(4), WriteId(900))),
        all_unsettled: true,
        range_tombstones: vec![tombstone(b"b", b"c"), tombstone(b"", b"")],
    };
    let tombstones = RunDescription {
        raw_bytes: full.raw_bytes,
        stored_bytes: full.stored_bytes,
        write_ids: full.write_ids,
        range_tombstones: full.range_tombstones.clone(),
        ..RunDescription::default()
    };
    [full, tombstones]
        .into_iter()
        .map(|description| {
            let mut bytes = Vec::new();
            description.encode(&mut bytes);
            bytes
        })
        .collect()
}

/// Builds a filter that must contain all its keys, and reads arbitrary bytes as a filter.
pub(super) fn filter(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut hashes = Vec::new();
    for _ in 0..input.u8() {
        hashes.push(match input.below(2) {
            0 => hash_key(input.short_bytes()),
            _ => input.u64(),
        });
    }
    let size = input.one_of(&[FilterSize::Upper, FilterSize::Bottom]);
    let mut built = vec![9];
    filter::build(&hashes, size, &mut built);
    let (_, built) = built.split_at(1);
    let bits_set = size.bits_set();
    assert!(built.len() <= 64 * (1 + hashes.len()));
    let passes = |hash: &u64| filter::may_contain(built, bits_set, *hash);
    assert!(hashes.iter().all(passes));
    let any = input.rest();
    for hash in hashes {
        let _ = filter::may_contain(any, bits_set, hash);
    }
}

pub(super) fn filter_seeds() -> Vec<Vec<u8>> {
    let mut seed = vec![60];
    for number in 0..60u8 {
        seed.extend([0, 2, b'k', number]);
    }
    seed.extend([0xff; 40]);
    vec![seed]
}

/// Decodes the tree's part of the superblock.
pub(super) fn tree_payload(bytes: &[u8]) {
    let path = Path::new("fuzz");
    if let Ok(payload) = Payload::decode(path, bytes) {
        let again = Payload::decode(path, &payload.encode()).expect("it decodes again");
        assert_eq!(again, payload);
    }
}

pub(super) fn tree_payload_seeds() -> Vec<Vec<u8>> {
    let payload = Payload {
        shared_runs: None,
        root: Some(BlockAddress {
            offset: 8192,
            bytes: 77,
        }),
        flushed_lsn: Lsn(5),
        next_child_id: 9,
        options: TreeOptions::default(),
        rows: 3,
        raw_bytes: 4,
    };
    let empty = Payload {
        root: None,
        options: TreeOptions::tiny(),
        ..payload.clone()
    };
    let mut seed = Vec::new();
    seed.put_u8(0);
    vec![payload.encode(), empty.encode(), seed]
}

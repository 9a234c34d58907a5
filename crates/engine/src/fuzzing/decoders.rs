//! Fuzz targets of the catalogue file, and of catalogue entries in log records.

use crate::catalogue::{
    AlteredTable, Catalogue, IndexEntry, IndexSizes, PreparedEntry, RetainedIds, TableEntry,
    decode_catalogue, decode_indexes_changed, decode_paths, decode_tables_altered,
    encode_catalogue, encode_indexes_changed, encode_paths, encode_tables_altered,
};
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;
use teak_base::bytes::{Put, Take};
use teak_base::checksum::checksum_parts;
use teak_base::fuzzing::Input;
use teak_base::{Codec, FileId, Lsn, WriteId, WriteIdRanges};
use teak_tree::FilterKeys;

/// Offset of the payload's length in the header. The checksum follows the length.
const BEFORE_LENGTH: usize = 16;
const HEADER_BYTES: usize = BEFORE_LENGTH + 16;

/// Decodes a catalogue file, first as it is, then with its length and checksum corrected.
pub(super) fn catalogue(bytes: &[u8]) {
    let path = Path::new("fuzz");
    let _ = decode_catalogue(path, bytes);
    let Some((header, payload)) = bytes.split_at_checked(HEADER_BYTES) else {
        return;
    };
    let (front, _) = header.split_at(BEFORE_LENGTH);
    let mut sealed = front.to_vec();
    sealed.put_u64(payload.len() as u64);
    let sum = checksum_parts(&[&sealed, payload]);
    sealed.put_u64(sum);
    sealed.extend_from_slice(payload);
    if let Ok(catalogue) = decode_catalogue(path, &sealed) {
        let tables = catalogue.tables.values();
        tables.flat_map(|table| &table.indexes).for_each(inside);
        let encoded = encode_catalogue(&catalogue);
        let again = decode_catalogue(path, &encoded).expect("what was encoded decodes");
        assert_eq!(again, catalogue);
    }
}

/// Asserts that a path is within the data directory.
fn inside(index: &IndexEntry) {
    let mut parts = index.path.components();
    assert!(parts.all(|part| matches!(part, Component::Normal(_))));
    assert!(!index.path.as_os_str().is_empty());
}

fn index(file: u64) -> IndexEntry {
    IndexEntry {
        file: FileId(file),
        path: format!("db/t.PRIMARY-{file:08x}.teak").into(),
        label: "PRIMARY".into(),
        codec: Codec::Zstd,
        page_bytes: 65536,
        encryption_key: None,
        filter_keys: FilterKeys::Whole,
        value_fixed_bytes: 7,
        columns: Default::default(),
        oldest_write_id: WriteId(80),
        durable_generation: 12,
        encryption: Default::default(),
        sizes: IndexSizes::EMPTY,
    }
}

fn table() -> TableEntry {
    TableEntry {
        id: 7,
        name: "db/t".into(),
        metadata: b"metadata".to_vec(),
        indexes: vec![index(9), index(10)],
        retained: Some(RetainedIds {
            oldest: WriteId(70),
            next: WriteId(90),
        }),
        counters: BTreeMap::from([(0, 17), (3, 1 << 40)]),
        written_at: 1_700_000_000,
    }
}

pub(super) fn catalogue_seeds() -> Vec<Vec<u8>> {
    let mut full = Catalogue::new(42);
    full.replay_from = Lsn(1000);
    full.tables_lsn = Lsn(2000);
    full.next_table = 8;
    full.next_file = 11;
    full.next_write_id = WriteId(90);
    let ids = |ids: &[u64]| -> WriteIdRanges { ids.iter().copied().map(WriteId).collect() };
    full.active = ids(&[70, 88]);
    full.aborted = ids(&[3, 4, 80]);
    full.tables.insert(7, table());
    full.unowned = [FileId(3), FileId(8)].into();
    full.prepared = vec![PreparedEntry {
        xid: b"xid".to_vec(),
        write_ids: Arc::new(ids(&[70, 88])),
    }];
    vec![
        encode_catalogue(&full),
        encode_catalogue(&Catalogue::new(1)),
    ]
}

/// The decoders of catalogue entries in log records.
const RECORD_DECODERS: &[fn(&[u8])] = &[table_entry, indexes_changed, paths, tables_altered];

/// Decodes the input with the decoder that its first byte selects.
pub(super) fn catalogue_records(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let decode = input.one_of(RECORD_DECODERS);
    decode(input.rest());
}

fn table_entry(bytes: &[u8]) {
    if let Ok(table) = TableEntry::take(&mut Take::new(bytes)) {
        table.indexes.iter().for_each(inside);
        let mut encoded = Vec::new();
        table.put(&mut encoded);
        assert_eq!(TableEntry::take(&mut Take::new(&encoded)), Ok(table));
    }
}

fn indexes_changed(bytes: &[u8]) {
    if let Ok((table, indexes)) = decode_indexes_changed(bytes) {
        indexes.iter().for_each(inside);
        let encoded = encode_indexes_changed(table, &indexes);
        assert_eq!(decode_indexes_changed(&encoded), Ok((table, indexes)));
    }
}

fn paths(bytes: &[u8]) {
    if let Ok(paths) = decode_paths(bytes) {
        let encoded = encode_paths(&paths);
        assert_eq!(decode_paths(&encoded), Ok(paths));
    }
}

fn tables_altered(bytes: &[u8]) {
    if let Ok(tables) = decode_tables_altered(bytes) {
        let indexes = tables.iter().flat_map(|table| &table.indexes);
        indexes.for_each(inside);
        let encoded = encode_tables_altered(&tables);
        assert_eq!(decode_tables_altered(&encoded), Ok(tables));
    }
}

pub(super) fn catalogue_record_seeds() -> Vec<Vec<u8>> {
    let mut entry = vec![0];
    table().put(&mut entry);
    let indexes = encode_indexes_changed(7, &[index(9), index(12)]);
    let paths = encode_paths(&["db/a-00000009.teak".into(), "b-0000000a.teak".into()]);
    let altered = encode_tables_altered(&[7, 8].map(|id| AlteredTable {
        id,
        is_repair: id == 8,
        metadata: b"altered".to_vec(),
        indexes: vec![index(9), index(13)],
    }));
    vec![
        entry,
        [&[1][..], &indexes].concat(),
        [&[2][..], &paths].concat(),
        [&[3][..], &altered].concat(),
    ]
}

//! The catalogue file. A new version is written to a temporary file and synced, the file is renamed
//! over the old one, and the directory is synced. See `docs/design/format.md`.

use super::entries::Catalogue;
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::{Put, Take};
use teak_base::checksum::checksum_parts;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, replace_file};

/// The catalogue's file name.
pub(crate) const CATALOGUE_FILE: &str = "teak.catalogue";
const TEMPORARY_FILE: &str = "teak.catalogue.new";

/// The format version of the data directory. Recovery reads the catalogue first, so this version
/// also covers changes of the log and of index files.
pub(crate) const CATALOGUE_VERSION: u32 = 10;

const MAGIC: &[u8; 8] = b"TEAKCATA";
/// Magic, version, reserved, payload length, checksum.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8;
/// Limits the memory that is allocated for a damaged file.
const PAYLOAD_BYTES_MAX: u64 = 4 << 30;

pub(crate) fn encode_catalogue(catalogue: &Catalogue) -> Vec<u8> {
    let mut payload = Vec::new();
    catalogue.put(&mut payload);
    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
    out.extend_from_slice(MAGIC);
    out.put_u32(CATALOGUE_VERSION);
    out.put_u32(0);
    out.put_u64(payload.len() as u64);
    let sum = checksum_parts(&[&out, &payload]);
    out.put_u64(sum);
    out.extend_from_slice(&payload);
    out
}

/// Decodes the bytes of a catalogue file. Errors name `path`.
///
/// # Errors
/// `Corrupt`, `UnsupportedFormat`.
pub(crate) fn decode_catalogue(path: &Path, bytes: &[u8]) -> StorageResult<Catalogue> {
    let corrupt = |reason: &str| StorageError::corrupt(path, 0, reason);
    let (header, payload) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| corrupt("the catalogue's header is cut off"))?;
    let (summed, sum) = header
        .split_at_checked(HEADER_BYTES - 8)
        .ok_or_else(|| corrupt("the catalogue's header is cut off"))?;
    let malformed = |_| corrupt("the catalogue's header is malformed");
    let mut take = Take::new(summed);
    if take.take(MAGIC.len()).map_err(malformed)? != MAGIC {
        return Err(corrupt("not a catalogue file"));
    }
    StorageError::check_version(path, take.u32().map_err(malformed)?, CATALOGUE_VERSION)?;
    take.u32().map_err(malformed)?;
    let length = take.u64().map_err(malformed)?;
    if length != payload.len() as u64 {
        return Err(corrupt("the catalogue's length is wrong"));
    }
    if Take::new(sum).u64().map_err(malformed)? != checksum_parts(&[summed, payload]) {
        return Err(corrupt("the catalogue's checksum is wrong"));
    }
    let mut take = Take::new(payload);
    match Catalogue::take(&mut take) {
        Ok(catalogue) if take.is_empty() => Ok(catalogue),
        _ => Err(corrupt("the catalogue is malformed")),
    }
}

/// Reads the catalogue of a data directory; `None` when there is no catalogue file.
pub(crate) fn read_catalogue(
    disk: &Arc<dyn Disk>,
    directory: &Path,
) -> StorageResult<Option<Catalogue>> {
    let path = directory.join(CATALOGUE_FILE);
    if !disk.exists(&path)? {
        return Ok(None);
    }
    let file = disk.open(&path)?;
    let length = file.len()?;
    if length > PAYLOAD_BYTES_MAX {
        return Err(StorageError::corrupt(
            &path,
            0,
            "the catalogue is too large",
        ));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    decode_catalogue(&path, &bytes).map(Some)
}

/// Replaces the catalogue; durable on return. After an error, either the old or the new file is in
/// place. Recovery accepts both.
pub(crate) fn write_catalogue(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    catalogue: &Catalogue,
) -> StorageResult<()> {
    write_catalogue_as(CATALOGUE_FILE, disk, directory, catalogue)
}

/// As [`write_catalogue`], to a file with another name.
pub(crate) fn write_catalogue_as(
    name: &str,
    disk: &Arc<dyn Disk>,
    directory: &Path,
    catalogue: &Catalogue,
) -> StorageResult<()> {
    let temporary = directory.join(TEMPORARY_FILE);
    let bytes = encode_catalogue(catalogue);
    replace_file(disk, &temporary, &directory.join(name), &bytes)
}

#[cfg(test)]
mod tests {
    use super::super::entries::{IndexEntry, IndexSizes, PreparedEntry, RetainedIds, TableEntry};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use teak_base::{Codec, FileId, Lsn, WriteId, WriteIdRanges};
    use teak_disk::MemoryDisk;
    use teak_tree::FilterKeys;

    fn ids(ids: &[u64]) -> WriteIdRanges {
        ids.iter().copied().map(WriteId).collect()
    }

    fn example() -> Catalogue {
        let mut catalogue = Catalogue::new(42);
        catalogue.replay_from = Lsn(1000);
        catalogue.tables_lsn = Lsn(2000);
        catalogue.next_write_id = WriteId(90);
        catalogue.active = ids(&[70, 88]);
        catalogue.aborted = ids(&[3, 4, 80]);
        catalogue.prepared = vec![PreparedEntry {
            xid: b"x".to_vec(),
            write_ids: Arc::new(ids(&[70, 88])),
        }];
        let table = TableEntry {
            id: 7,
            name: "db/t".into(),
            metadata: b"meta".to_vec(),
            indexes: vec![IndexEntry {
                file: FileId(9),
                path: "db/t.PRIMARY-00000009.teak".into(),
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
                sizes: IndexSizes {
                    entries: 200,
                    tombstones: 3,
                    raw_bytes: 4000,
                    file_bytes: 12288,
                    unused_bytes: 512,
                    height: 1,
                    runs: 2,
                },
            }],
            retained: Some(RetainedIds {
                oldest: WriteId(70),
                next: WriteId(90),
            }),
            counters: BTreeMap::from([(0, 17)]),
            written_at: 1_700_000_000,
        };
        catalogue.tables.insert(7, table);
        catalogue.unowned = [FileId(3), FileId(8)].into();
        catalogue
    }

    #[test]
    fn catalogue_round_trips_and_is_replaced() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let directory = Path::new("/data");
        disk.create_directories(directory).unwrap();
        assert_eq!(read_catalogue(&disk, directory).unwrap(), None);
        write_catalogue(&disk, directory, &Catalogue::new(1)).unwrap();
        write_catalogue(&disk, directory, &example()).unwrap();
        assert_eq!(read_catalogue(&disk, directory).unwrap(), Some(example()));
    }

    #[test]
    fn other_versions_are_rejected_with_their_number() {
        for version in [1, 2, 3, 4, 5, 6, 7, 8, 99] {
            let mut bytes = encode_catalogue(&example());
            bytes[8] = version;
            let error = decode_catalogue(Path::new("c"), &bytes).unwrap_err();
            assert!(matches!(
                error,
                StorageError::UnsupportedFormat { found, .. } if found == u32::from(version)
            ));
        }
    }

    #[test]
    fn ids_that_were_never_given_are_malformed() {
        let refused = |change: fn(&mut Catalogue)| {
            let mut catalogue = example();
            change(&mut catalogue);
            decode_catalogue(Path::new("c"), &encode_catalogue(&catalogue)).is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|catalogue| catalogue.active = ids(&[90])));
        assert!(refused(|catalogue| catalogue.aborted = ids(&[1 << 40])));
        assert!(refused(|catalogue| catalogue.next_file = u64::MAX));
        assert!(refused(
            |catalogue| catalogue.next_write_id = WriteId(u64::MAX)
        ));
        assert!(refused(|catalogue| {
            let table = catalogue.tables.get_mut(&7).unwrap();
            table.indexes[0].oldest_write_id = WriteId(1 << 61);
        }));
        assert!(refused(|catalogue| {
            let table = catalogue.tables.get_mut(&7).unwrap();
            table.indexes[0].value_fixed_bytes = 1 << 20;
        }));
        assert!(refused(|catalogue| catalogue.replay_from = Lsn(1 << 63)));
        assert!(refused(|catalogue| catalogue.tables_lsn = Lsn(u64::MAX)));
    }

    #[test]
    fn sizes_that_are_only_reported_are_limited() {
        let mut catalogue = example();
        let table = catalogue.tables.get_mut(&7).unwrap();
        table.indexes[0].sizes.raw_bytes = u64::MAX;
        let decoded = decode_catalogue(Path::new("c"), &encode_catalogue(&catalogue)).unwrap();
        let found = decoded.tables[&7].indexes[0].sizes;
        assert!((1 << 40..1 << 50).contains(&found.raw_bytes), "{found:?}");
        assert_eq!(found.entries, 200);
    }

    #[test]
    fn paths_never_leave_the_data_directory() {
        let mut catalogue = example();
        for bad in ["../x.teak", "/x.teak", ""] {
            catalogue.tables.get_mut(&7).unwrap().indexes[0].path = bad.into();
            assert!(decode_catalogue(Path::new("c"), &encode_catalogue(&catalogue)).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_noticed(bit in 0usize..8, place in any::<prop::sample::Index>()) {
            let mut bytes = encode_catalogue(&example());
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            prop_assert!(decode_catalogue(Path::new("c"), &bytes).is_err());
        }

        #[test]
        fn decoder_never_panics_on_any_payload(payload: Vec<u8>) {
            let _ = Catalogue::take(&mut Take::new(&payload));
            let _ = TableEntry::take(&mut Take::new(&payload));
            let _ = super::super::codec::decode_paths(&payload);
            let _ = super::super::codec::decode_indexes_changed(&payload);
            let _ = super::super::codec::decode_tables_altered(&payload);
        }
    }
}

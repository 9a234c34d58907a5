//! Lists of blocks for a fuzz target.

use super::list::{BackupIdentity, BackupList, ListWriter, ListedFile, encode_index};
use crate::core::backup_history::BackupId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::bytes::{Put, Take};
use teak_base::{FileId, Lsn, StorageResult};
use teak_disk::Disk;
use teak_tree::{BlockRecord, EMPTY_FILE_BYTES};

/// Decodes any bytes as the index of a list, and as records. What is decoded is encoded as the same.
pub(crate) fn fuzz_list_parts(bytes: &[u8]) {
    if let Ok(files) = BackupList::decode_index(bytes) {
        let again = encode_index(&files);
        assert_eq!(BackupList::decode_index(&again), Ok(files));
    }
    let mut take = Take::new(bytes);
    let mut end = EMPTY_FILE_BYTES;
    let (mut records, mut encoded, mut position) = (Vec::new(), Vec::new(), end);
    while let Ok(record) = BlockRecord::decode(&mut end, &mut take) {
        record.encode(&mut position, &mut encoded);
        records.push(record);
    }
    let mut take = Take::new(&encoded);
    let mut end = EMPTY_FILE_BYTES;
    for record in records {
        assert_eq!(BlockRecord::decode(&mut end, &mut take), Ok(record));
    }
}

/// A list, its index and the records of a file.
pub(crate) fn fuzz_list_seed() -> StorageResult<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let disk: Arc<dyn Disk> = Arc::new(teak_disk::MemoryDisk::new());
    let identity = BackupIdentity {
        id: BackupId::new(&[1]),
        base: None,
        instance: 7,
        cut: 3,
        position: Lsn(400),
    };
    let list = ListWriter::create(&disk, Path::new("/seed"), identity)?;
    // Two blocks next to each other, and one after a hole, each with a word for the gap, a length and a checksum.
    let mut records = Vec::new();
    for (word, bytes) in [(1, 100), (0, 5000), (8, 300)] {
        records.put_varint(word);
        records.put_varint(bytes);
        records.put_u64(bytes);
    }
    for number in 1..3 {
        let path = PathBuf::from(format!("db/t{number}.teak"));
        let mut writer = list.begin(ListedFile::new(FileId(number), 5, &path));
        let mut take = Take::new(&records);
        let mut end = EMPTY_FILE_BYTES;
        while let Ok(record) = BlockRecord::decode(&mut end, &mut take) {
            writer.add(record)?;
        }
        writer.finish(9)?;
    }
    list.finish()?;
    let index = encode_index(&list.written.lock().files);
    let mut bytes = vec![0; usize::try_from(list.file.len()?).unwrap_or(0)];
    list.file.read_exact_at(&mut bytes, 0)?;
    Ok((bytes, index, records))
}

//! Fuzz target of files of retained log records.

use crate::name::retained_path;
use crate::retained::{RetainedPlace, RetainedWriter, decode_retained};
use std::path::Path;
use std::sync::Arc;
use teak_base::{Encryption, FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_write_ahead_log::{Record, WriteOperation};

const DIRECTORY: &str = "/data";

fn disk() -> Arc<dyn Disk> {
    let disk = MemoryDisk::new();
    disk.create_directories(DIRECTORY.as_ref())
        .expect("a memory disk has directories");
    Arc::new(disk)
}

/// Decodes a file of retained records. Checksums are not corrected, so most mutated files are
/// rejected because of a checksum.
pub(super) fn retained_records(bytes: &[u8]) {
    let disk = disk();
    let file = disk.create(Path::new("/data/fuzz")).expect("a new file");
    file.write_all_at(bytes, 0)
        .expect("a memory disk is not full");
    let mut last = None;
    let mut visit = |lsn, record: &Record<'_>| {
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        last = Some((lsn, encoded));
        Ok(())
    };
    let _ = decode_retained(file.as_ref(), &mut visit);
}

fn seed(values: &[&[u8]]) -> Vec<u8> {
    let disk = disk();
    let place = RetainedPlace {
        disk: &disk,
        directory: DIRECTORY.as_ref(),
        instance: 7,
        encryption: &Encryption::default(),
    };
    let mut writer = RetainedWriter::create(place, 12).expect("a new file");
    for (number, value) in (0u64..).zip(values) {
        let operations = [WriteOperation {
            file: FileId(2),
            operation: Operation::Put,
            key: b"key",
            value,
        }];
        let record = Record::Write {
            write_id: WriteId(5 + number),
            operations: (&operations).into(),
        };
        writer.push(Lsn(100 + number), &record);
    }
    let range = Record::DeleteRange {
        file: FileId(2),
        write_id: WriteId(90),
        start: b"a",
        end: b"z",
    };
    writer.push(Lsn(500), &range);
    writer.finish(Lsn(600)).expect("a memory disk is not full");
    let file = disk.open(&retained_path(DIRECTORY.as_ref(), 12));
    let file = file.expect("the file");
    let mut bytes = vec![0; usize::try_from(file.len().expect("its length")).expect("short")];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    bytes
}

pub(super) fn retained_record_seeds() -> Vec<Vec<u8>> {
    vec![seed(&[]), seed(&[b"red", b"blue"]), seed(&[&[b'x'; 3000]])]
}

//! Tests of files of retained records.

use super::*;
use std::path::PathBuf;
use teak_base::{Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_testing::GateDisk;
use teak_write_ahead_log::WriteOperation;

const DIRECTORY: &str = "/data";

fn disk() -> Arc<dyn Disk> {
    let disk = MemoryDisk::new();
    disk.create_directories(DIRECTORY.as_ref()).unwrap();
    Arc::new(disk)
}

fn place(disk: &Arc<dyn Disk>) -> RetainedPlace<'_> {
    const PLAIN: &Encryption = &Encryption {
        cipher: None,
        key: None,
    };
    RetainedPlace {
        disk,
        directory: DIRECTORY.as_ref(),
        instance: 7,
        encryption: PLAIN,
    }
}

fn read(disk: &Arc<dyn Disk>) -> EngineResult<(Lsn, Vec<String>)> {
    let mut found = Vec::new();
    let end = read_retained(place(disk), 12, &mut |lsn, record| {
        found.push(format!("{lsn} {record}"));
        Ok(())
    });
    assert!(end.is_ok() || found.is_empty(), "{found:?}");
    Ok((end?, found))
}

/// The file of the example in `docs/design/format.md`.
fn write(disk: &Arc<dyn Disk>, values: &[&[u8]]) -> PathBuf {
    let mut writer = RetainedWriter::create(place(disk), 12).unwrap();
    for (number, value) in (0u64..).zip(values) {
        let operation = WriteOperation {
            file: FileId(2),
            operation: Operation::Put,
            key: b"k1",
            value,
        };
        let operations = [operation];
        let record = Record::Write {
            write_id: WriteId(5 + number),
            operations: (&operations).into(),
        };
        writer.push(Lsn(100 + number), &record);
        if writer.is_batch_full() {
            writer.write_batch().unwrap();
        }
    }
    writer.finish(Lsn(200)).unwrap();
    retained_path(DIRECTORY.as_ref(), 12)
}

#[test]
fn records_are_read_back_in_order() {
    let disk = disk();
    let long = vec![b'x'; 3 * BATCH_BYTES];
    write(&disk, &[b"red", &long, b"blue"]);
    let (end, found) = read(&disk).unwrap();
    assert_eq!(end, Lsn(200));
    assert_eq!(found.len(), 3);
    assert!(found[2].starts_with("102 Write write_id=7"), "{}", found[2]);
    assert!(
        found[2].ends_with("key=\"k1\" value=\"blue\"]"),
        "{}",
        found[2]
    );
}

#[test]
fn any_damaged_byte_is_found() {
    let disk = disk();
    let path = write(&disk, &[b"red", b"blue"]);
    let file = disk.open(&path).unwrap();
    for offset in 0..file.len().unwrap() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
        read(&disk).unwrap_err();
        file.write_all_at(&byte, offset).unwrap();
    }
    read(&disk).unwrap();
    file.set_len(file.len().unwrap() - 1).unwrap();
    read(&disk).unwrap_err();
}

#[test]
fn positions_that_were_never_given_are_damage() {
    for end in [Lsn(100), Lsn(u64::MAX)] {
        let disk = disk();
        let mut writer = RetainedWriter::create(place(&disk), 12).unwrap();
        let record = Record::DeleteRange {
            file: FileId(2),
            write_id: WriteId(5),
            start: b"a",
            end: b"b",
        };
        writer.push(Lsn(100), &record);
        writer.finish(end).unwrap();
        assert!(read(&disk).unwrap_err().is_corrupt());
    }
}

/// None of the records is visited, even if the damage is after them.
#[test]
fn damage_is_found_before_a_record_is_visited() {
    let disk = disk();
    let long = vec![b'x'; 3 * BATCH_BYTES];
    let path = write(&disk, &[&long, b"red"]);
    let file = disk.open(&path).unwrap();
    let last = file.len().unwrap() - 1;
    let mut byte = [0];
    file.read_exact_at(&mut byte, last).unwrap();
    file.write_all_at(&[byte[0] ^ 4], last).unwrap();
    read(&disk).unwrap_err();
}

/// The operating system may report a failed write only to handles that were open when it
/// failed.
#[test]
fn no_handle_is_closed_before_its_writes_are_synced() {
    let gates = GateDisk::new(disk());
    let disk: Arc<dyn Disk> = Arc::new(gates.clone());
    let long = vec![b'x'; 3 * BATCH_BYTES];
    write(&disk, &[&long, b"red", &long]);
    assert!(gates.closed_unsynced().is_empty());
}

#[test]
fn the_file_of_another_table_is_refused() {
    let disk = disk();
    let path = write(&disk, &[b"red"]);
    disk.rename(&path, &retained_path(DIRECTORY.as_ref(), 13))
        .unwrap();
    let error = read_retained(place(&disk), 13, &mut |_, _| Ok(()));
    assert!(error.unwrap_err().is_corrupt());
}

#[test]
fn the_documented_example_is_what_is_written() {
    let page = include_str!("../../../../../docs/design/format.md");
    let section = page.split("\n## Retained records").nth(1).unwrap();
    let example = section.split("```hex\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let fields = example.lines().filter_map(|line| line.split('|').next());
    let bytes = fields.flat_map(str::split_whitespace);
    let bytes: Vec<u8> = bytes.map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    let disk = disk();
    let path = write(&disk, &[b"red"]);
    let file = disk.open(&path).unwrap();
    let mut found = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(bytes, found, "{found:02x?}");
}

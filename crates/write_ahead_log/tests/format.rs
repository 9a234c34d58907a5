//! Checks that this build reads and writes the example in `docs/design/format.md`.

use crate::common::*;
use teak_base::{FileId, Operation, WriteId, WriteIdRange};
use teak_write_ahead_log::{IdParts, Record, WriteOperation};

/// The bytes of the first code block after the log's heading.
fn example() -> Vec<u8> {
    let page = include_str!("../../../docs/design/format.md");
    let (_, log) = page.split_once("\n## Write-ahead log\n").unwrap();
    let (_, block) = log.split_once("```hex\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block
        .lines()
        .filter_map(|line| line.split('|').next())
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

const PRINTED: [&str; 2] = [
    "0 Write write_id=5 operations=[Put file=2 key=\"k1\" value=\"red\", Delete file=3 key=\"blue\" value=\"\"]",
    "24 Commit transaction=0 parts=0 write_ids=[5]",
];

#[test]
fn the_documented_segment_decodes() {
    let disk = memory();
    disk.create(&segment(1)).unwrap();
    overwrite(&disk, &segment(1), &example());
    assert_eq!(list(&disk).unwrap(), PRINTED);
}

#[test]
fn the_documented_segment_is_what_is_written() {
    let disk = memory();
    let log = open(&disk, options());
    let operations = [
        WriteOperation {
            file: FileId(2),
            operation: Operation::Put,
            key: b"k1",
            value: b"red",
        },
        WriteOperation {
            file: FileId(3),
            operation: Operation::Delete,
            key: b"blue",
            value: b"",
        },
    ];
    log.append(&Record::Write {
        write_id: WriteId(5),
        operations: (&operations).into(),
    })
    .unwrap();
    log.append(&Record::Commit {
        transaction: 0,
        parts: IdParts::default(),
        write_ids: [WriteIdRange::one(WriteId(5))].as_slice().into(),
    })
    .unwrap();
    log.sync(log.end()).unwrap();
    let (documented, written) = (example(), contents(&disk, &segment(1)));
    let (segment, rest) = written.split_at(documented.len());
    assert_eq!(segment, documented);
    assert!(rest.iter().all(|byte| *byte == 0), "zeros ahead");
}

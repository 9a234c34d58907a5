//! `teak recover` on damaged files: every row that is left is written, and the others are in a range that is reported.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod common;

use common::engine::{TITLES, file, insert, line, with_table};
use common::{Directory, errors, text};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;

const ROWS: i32 = 3000;

/// The bytes of the file of a table with rows.
fn sample(directory: &Directory) -> (PathBuf, Vec<u8>) {
    let (engine, table) = with_table(directory);
    insert(&engine, &table, 0..ROWS);
    engine.checkpoint().unwrap();
    engine.settle().unwrap();
    drop(table);
    engine.close().unwrap();
    let path = file(directory);
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

fn recover(directory: &Directory, path: &PathBuf, bytes: &[u8]) -> Output {
    std::fs::write(path, bytes).unwrap();
    let arguments = ["recover", path.to_str().unwrap(), "--report", "report.json"];
    let recovered = directory.teak(&arguments);
    assert_eq!(std::fs::read(path).unwrap(), bytes, "the file was changed");
    recovered
}

fn report(directory: &Directory) -> Value {
    let text = std::fs::read(directory.0.join("report.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Checks the rows of the output, and that the missing ones are in ranges of the report. Returns the number of rows.
fn check(directory: &Directory, output: &Output) -> usize {
    let lines = text(output);
    let report = report(directory);
    let lost = report["lost"].as_array().unwrap();
    let is_lost = |key: &str| {
        lost.iter().any(|part| {
            let from = part["from_key"].as_str().unwrap();
            from <= key && part["to_key"].as_str().is_none_or(|to| key < to)
        })
    };
    let mut found = lines.lines();
    assert_eq!(found.next(), Some(TITLES));
    let mut found = found.peekable();
    let mut rows = 0;
    for number in 0..ROWS {
        if found.next_if_eq(&line(number).as_str()).is_some() {
            rows += 1;
            continue;
        }
        let key = format!("{number:08x}");
        assert!(is_lost(&key), "row {number} is missing: {}", errors(output));
    }
    assert_eq!(found.next(), None, "rows that were never written");
    assert_eq!(report["rows"], rows);
    let code = if lost.is_empty() { 0 } else { 2 };
    assert_eq!(output.status.code(), Some(code));
    rows
}

#[test]
fn an_intact_file_is_read_wholly() {
    let directory = Directory::new("intact");
    let (path, bytes) = sample(&directory);
    let recovered = recover(&directory, &path, &bytes);
    assert_eq!(check(&directory, &recovered), ROWS as usize);
    assert!(errors(&recovered).contains("3,000 rows read, 0 of them doubtful"));
}

#[test]
fn rows_outside_of_flipped_sectors_are_recovered() {
    let directory = Directory::new("flipped");
    let (path, bytes) = sample(&directory);
    let sectors = bytes.len() / 512;
    let mut losses = 0;
    for sector in (16..sectors).step_by(sectors / 24) {
        let mut damaged = bytes.clone();
        damaged[sector * 512 + 17] ^= 0x04;
        damaged[sector * 512 + 300] ^= 0x80;
        let recovered = recover(&directory, &path, &damaged);
        let rows = check(&directory, &recovered);
        losses += usize::from(rows < ROWS as usize);
    }
    assert!(losses > 5, "{losses}");
}

#[test]
fn rows_of_a_truncated_file_are_recovered() {
    let directory = Directory::new("truncated");
    let (path, bytes) = sample(&directory);
    let mut partial = 0;
    for part in 1..16 {
        let recovered = recover(&directory, &path, &bytes[..bytes.len() * part / 16]);
        let rows = check(&directory, &recovered);
        partial += usize::from(rows > 0 && rows < ROWS as usize);
    }
    assert!(partial > 0);
}

#[test]
fn without_superblocks_the_pages_are_found() {
    let directory = Directory::new("superblocks");
    let (path, mut bytes) = sample(&directory);
    bytes[100] ^= 1;
    let recovered = recover(&directory, &path, &bytes);
    assert_eq!(check(&directory, &recovered), ROWS as usize);
    bytes[4096 + 100] ^= 1;
    let recovered = recover(&directory, &path, &bytes);
    assert_eq!(check(&directory, &recovered), ROWS as usize);
    assert_eq!(recovered.status.code(), Some(2));
    let message = errors(&recovered);
    assert!(message.contains("only intact pages are read"), "{message}");
    assert!(message.contains("3,000 of them doubtful"), "{message}");
    // Its name must contain its id then.
    std::fs::copy(&path, directory.0.join("file.teak")).unwrap();
    let failed = directory.teak(&["recover", "file.teak"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(errors(&failed).contains("superblock"), "{failed:?}");
}

#[test]
fn damaged_rows_become_sql_with_a_column_of_doubts() {
    let directory = Directory::new("sql");
    let (path, mut bytes) = sample(&directory);
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 600] {
        *byte = 0;
    }
    std::fs::write(&path, &bytes).unwrap();
    let file = path.to_str().unwrap();
    let recovered = directory.teak(&[
        "recover",
        file,
        "--format",
        "sql",
        "--doubtful",
        "--into",
        "t2",
    ]);
    let sql = text(&recovered);
    assert!(sql.contains("INSERT INTO `t2` (`key0`, `column0`, `column1`, `column2`, `other`, `doubtful`) VALUES\n(0,"));
    assert!(sql.ends_with(",0);\n"));
    assert!(
        errors(&recovered).contains("teak: lost: a page with "),
        "{}",
        errors(&recovered)
    );

    // Without the catalogue, the columns are those of the pages, if these are large enough to have any.
    let alone = directory.0.join("alone.teak");
    std::fs::copy(&path, &alone).unwrap();
    let recovered = directory.teak(&["recover", "alone.teak"]);
    assert_eq!(recovered.status.code(), Some(2));
    assert!(text(&recovered).lines().count() > 2000);
}

#[test]
fn columns_are_found_in_pages_without_a_catalogue() {
    let directory = Directory::new("pages");
    let path = directory.0.join("db/one.teak");
    common::create(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let recovered = directory.teak(&["recover", "db/one.teak"]);
    assert_eq!(recovered.status.code(), Some(2), "{recovered:?}");
    let lines = text(&recovered);
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some(TITLES));
    assert_eq!(lines.next(), Some("0,0x00,0,row 0,NULL"));
    let rest = lines.count();
    assert!(rest > 1000 && rest < common::ROWS as usize, "{rest}");
}

//! `teak dump` of tables of the server: with the names and types of columns.
//!
//! The fixtures were written by MariaDB 10.11 with Teak (`tests/fixtures/README.md`): for each table its .frm file, the
//! bytes of its metadata before it, keys and values of rows, and the expected lines.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod common;

use common::engine::{create_table, open, put};
use common::{Directory, errors, text};
use std::path::PathBuf;
use teak_engine::{Engine, Isolation};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::read(path.join(name)).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let pairs = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16));
    pairs.map(Result::unwrap).collect()
}

/// Metadata with a .frm file. `history`: the description of earlier rows.
fn metadata(version: u32, history: &[u8], frm: &[u8]) -> Vec<u8> {
    let mut bytes = vec![4, 0, 0, 0];
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(&(history.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(frm.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(history);
    bytes.extend_from_slice(frm);
    bytes
}

/// Creates a table with the rows of a fixture: the schema version, the history, then a key and a value in each line.
fn fill(engine: &Engine, name: &str, frm: &[u8]) {
    let rows = String::from_utf8(fixture(&format!("{name}.rows"))).unwrap();
    let mut lines = rows.lines();
    let version = lines.next().unwrap().parse().unwrap();
    let history = bytes(lines.next().unwrap());
    let path = format!("./shop/{name}");
    create_table(
        engine,
        &path,
        Default::default(),
        metadata(version, &history, frm),
    );
    let table = engine.open_table(&path).unwrap();
    let mut transaction = engine.begin(Isolation::RepeatableRead);
    for line in lines {
        let (key, value) = line.split_once(' ').unwrap();
        put(&mut transaction, &table, &bytes(key), &bytes(value));
    }
    transaction.commit().unwrap();
}

const TABLES: [&str; 8] = [
    "evolved", "keys1", "keys2", "keys3", "nopk", "people", "types", "uniq",
];

#[test]
fn rows_have_the_names_and_values_of_the_server() {
    let directory = Directory::new("typed");
    let engine = open(&directory);
    for name in TABLES {
        fill(&engine, name, &fixture(&format!("{name}.frm")));
    }
    engine.close().unwrap();
    for name in TABLES {
        let table = format!("shop.{name}");
        let dumped = directory.teak(&["dump", "data", "--table", &table, "--format", "json"]);
        assert!(dumped.status.success(), "{name}: {dumped:?}");
        assert_eq!(errors(&dumped), "", "{name}");
        let expected = String::from_utf8(fixture(&format!("{name}.json"))).unwrap();
        assert_eq!(text(&dumped), expected, "{name}");
    }
}

#[test]
fn a_definition_of_another_table_is_not_used() {
    let directory = Directory::new("other");
    let engine = open(&directory);
    fill(&engine, "people", &fixture("nopk.frm"));
    engine.close().unwrap();
    let dumped = directory.teak(&["dump", "data", "--table", "shop.people"]);
    assert_eq!(dumped.status.code(), Some(1), "{dumped:?}");
    assert!(errors(&dumped).contains("cannot be decoded"), "{dumped:?}");
}

#[test]
fn damaged_definitions_are_reported() {
    let directory = Directory::new("frm");
    let frm = fixture("types.frm");
    let engine = open(&directory);
    let mut broken = frm.clone();
    broken.truncate(frm.len() - 200);
    create_table(
        &engine,
        "./shop/t",
        Default::default(),
        metadata(1, &[], &broken),
    );
    engine.close().unwrap();
    let dumped = directory.teak(&["dump", "data", "--table", "shop.t"]);
    assert!(dumped.status.success(), "{dumped:?}");
    assert!(
        errors(&dumped).contains("the .frm file is malformed"),
        "{dumped:?}"
    );
    assert_eq!(text(&dumped), "key,value\n");
}

#[test]
fn sql_inserts_what_the_server_accepts() {
    let directory = Directory::new("inserts");
    let engine = open(&directory);
    fill(&engine, "types", &fixture("types.frm"));
    engine.close().unwrap();
    let dumped = directory.teak(&["dump", "data", "--table", "shop.types", "--format", "sql"]);
    let sql = text(&dumped);
    // Generated columns are left out, invisible ones are not.
    assert!(
        sql.contains("INSERT INTO `types` (`id`, `t1`,") && sql.contains("`inv`)"),
        "{sql}"
    );
    assert!(!sql.contains("`st`") && !sql.contains("`vi`"));
    assert!(
        sql.contains("'it''s','a,i'") && sql.contains("x'00ff00'"),
        "{sql}"
    );
}

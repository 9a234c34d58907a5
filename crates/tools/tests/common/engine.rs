//! Data directories that the engine writes.

use super::Directory;
use std::path::PathBuf;
use std::sync::Arc;
use teak_disk::RealDisk;
use teak_engine::{
    Codec, Engine, EngineOptions, EngineTransaction, FilterKeys, IndexDefinition, IndexNumber,
    Isolation, RowEntry, TableDefinition, TableHandle,
};
use teak_tree::{Column, ColumnKind, PageColumns, TreeOptions, ValueTail};

pub const TABLE: &str = "./shop/t";

/// An engine without threads, whose trees have small pages.
pub fn open(directory: &Directory) -> Engine {
    let mut options = EngineOptions::new(directory.0.join("data"));
    options.background_threads = 0;
    options.cache_bytes = 8 << 20;
    options.tree = TreeOptions::tiny();
    Engine::open(Arc::new(RealDisk), options).unwrap()
}

fn columns() -> PageColumns {
    let column = |kind, width| Column::new(kind, width).unwrap();
    let tail = ValueTail {
        optional: vec![],
        variable: vec![None],
    };
    PageColumns::with_tail(
        vec![column(ColumnKind::UnsignedBig, 4)],
        vec![
            column(ColumnKind::Bytes, 1),
            column(ColumnKind::SignedLittle, 4),
        ],
        tail,
    )
}

/// Creates a table whose index of rows has these columns.
pub fn create_table(engine: &Engine, name: &str, columns: PageColumns, metadata: Vec<u8>) {
    let index = IndexDefinition {
        label: "main".into(),
        codec: Codec::Zstd,
        page_bytes: 0,
        encryption_key: None,
        filter_keys: FilterKeys::Whole,
        value_fixed_bytes: 0,
        columns,
    };
    let definition = TableDefinition {
        name: name.into(),
        indexes: vec![index],
        metadata,
    };
    engine.create_table(&definition).unwrap();
}

/// An engine with a table of a number and a text for each number.
pub fn with_table(directory: &Directory) -> (Engine, TableHandle) {
    let engine = open(directory);
    create_table(&engine, TABLE, columns(), Vec::new());
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

pub fn value(number: i32) -> Vec<u8> {
    let text = format!("row {number}");
    let mut value = vec![0];
    value.extend_from_slice(&(-number).to_le_bytes());
    value.push(text.len() as u8);
    value.extend_from_slice(text.as_bytes());
    value
}

pub fn put(transaction: &mut EngineTransaction, table: &TableHandle, key: &[u8], value: &[u8]) {
    let row = RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key,
        value,
    };
    transaction.insert(table, &[row]).unwrap();
}

/// Inserts rows in one transaction.
pub fn insert(engine: &Engine, table: &TableHandle, numbers: std::ops::Range<i32>) {
    let mut transaction = engine.begin(Isolation::RepeatableRead);
    for number in numbers {
        put(
            &mut transaction,
            table,
            &number.to_be_bytes(),
            &value(number),
        );
    }
    transaction.commit().unwrap();
}

/// The line of CSV of a row.
pub fn line(number: i32) -> String {
    format!("{number},0x00,{},row {number},NULL", -number)
}

pub const TITLES: &str = "key0,column0,column1,column2,other";

/// The file of the rows of the table.
pub fn file(directory: &Directory) -> PathBuf {
    let files = std::fs::read_dir(directory.0.join("data/shop")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    files
        .find(|path| path.extension().is_some_and(|end| end == "teak"))
        .unwrap()
}

//! A table with keys of four bytes, whose values have a number and a string as columns.

use super::{definition, options};
use std::sync::Arc;
use teak_disk::Disk;
use teak_engine::{
    Column, ColumnKind, Engine, EngineOptions, EngineTransaction, IndexNumber, PageColumns,
    RowChange, RowEntry, TableHandle, ValueTail,
};
use teak_testing::FaultDisk;

/// How values begin; earlier ones begin with another byte, and lack the number.
pub const FORM: u8 = 2;

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
            column(ColumnKind::UnsignedLittle, 8),
        ],
        tail,
    )
}

pub fn current(number: u64, text: &str) -> Vec<u8> {
    let mut value = vec![FORM];
    value.extend_from_slice(&number.to_le_bytes());
    value.push(u8::try_from(text.len()).unwrap());
    value.extend_from_slice(text.as_bytes());
    value
}

pub fn table() -> (Engine, TableHandle) {
    table_with(options())
}

pub fn table_with(options: EngineOptions) -> (Engine, TableHandle) {
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new(1));
    let engine = Engine::open(disk, options).unwrap();
    let table = create_table(&engine, "./db/t");
    (engine, table)
}

/// Another table with the same columns.
pub fn other_table(engine: &Engine) -> TableHandle {
    create_table(engine, "./db/other")
}

fn create_table(engine: &Engine, name: &str) -> TableHandle {
    let mut definition = definition(name);
    definition.indexes.truncate(1);
    definition.indexes[0].columns = columns();
    engine.create_table(&definition).unwrap();
    engine.open_table(name).unwrap()
}

/// A table whose leaves have many pages.
pub fn paged_table() -> (Engine, TableHandle) {
    let mut options = options();
    options.tree.leaf_bytes = 256 << 10;
    options.tree.child_buffer_bytes = 1 << 20;
    options.tree.run_bytes_max = 1 << 20;
    options.tree.page_bytes = 2048;
    table_with(options)
}

pub fn put(t: &mut EngineTransaction, table: &TableHandle, key: u32, value: &[u8]) {
    let key = key.to_be_bytes();
    let entry = RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key: &key,
        value,
    };
    t.insert(table, &[entry]).unwrap();
}

pub fn update_row(t: &mut EngineTransaction, table: &TableHandle, key: u32, value: &[u8]) {
    let key = key.to_be_bytes();
    let change = RowChange {
        index: IndexNumber::ROWS,
        unique: true,
        old_key: Some(&key),
        new_key: Some(&key),
        new_value: value,
    };
    t.update(table, &[change]).unwrap();
}

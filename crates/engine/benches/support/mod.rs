//! Set-up shared by the benchmarks.

#![allow(dead_code, clippy::unwrap_used)] // Each benchmark uses a part.

use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::{
    Codec, Engine, EngineOptions, FilterKeys, IndexDefinition, TableDefinition, TableHandle,
};

/// The number of rows from the command line.
pub fn rows_wanted(otherwise: u32) -> u32 {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    arguments
        .next()
        .map_or(otherwise, |text| text.parse().unwrap())
}

/// A table with a primary key and `indexes - 1` secondary indexes.
pub fn definition(table: &str, codec: Codec, indexes: u32) -> TableDefinition {
    let index = |number: u32| IndexDefinition {
        label: match number {
            0 => "PRIMARY".into(),
            _ => format!("k{number}"),
        },
        codec,
        page_bytes: 0,
        encryption_key: None,
        filter_keys: match number {
            0 => FilterKeys::Whole,
            _ => FilterKeys::None,
        },
        value_fixed_bytes: 0,
        columns: Default::default(),
    };
    TableDefinition {
        name: table.into(),
        indexes: (0..indexes).map(index).collect(),
        metadata: Vec::new(),
    }
}

/// An engine on the memory disk whose commits do not wait, with an empty table
/// of one index.
pub fn in_memory(table: &str, codec: Codec) -> (Engine, TableHandle) {
    let mut options = EngineOptions::new("/data");
    options.commit_sync = false;
    options.cache_bytes = 256 << 20;
    options.background_threads = 2;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    engine.create_table(&definition(table, codec, 1)).unwrap();
    let table = engine.open_table(table).unwrap();
    (engine, table)
}

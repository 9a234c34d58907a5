//! Metadata of tables, and lists of their names.

use crate::common::*;
use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::{Engine, EngineError, METADATA_BYTES_MAX};

fn metadata(engine: &Engine, name: &str) -> Vec<u8> {
    let table = engine.open_table_lazily(name).unwrap();
    table.metadata().to_vec()
}

#[test]
fn replaced_metadata_survives_a_crash() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "k", "v").unwrap());
    engine.set_table_metadata(TABLE, b"second").unwrap();
    assert_eq!(table.metadata(), b"metadata");
    assert_eq!(metadata(&engine, TABLE), b"second");
    drop((table, engine));

    // The log contains the change.
    let engine = open(&disk);
    assert_eq!(metadata(&engine, TABLE), b"second");
    engine.checkpoint().unwrap();
    engine.set_table_metadata(TABLE, b"").unwrap();
    engine.checkpoint().unwrap();
    drop(engine);

    // The catalogue contains the change.
    let engine = open(&disk);
    assert_eq!(metadata(&engine, TABLE), b"");
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("k", "v")]));
}

#[test]
fn long_metadata_is_stored_and_too_long_metadata_is_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open(&disk);
    let mut long = definition("./db/long");
    long.metadata = vec![7; METADATA_BYTES_MAX];
    engine.create_table(&long).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    engine.set_table_metadata(TABLE, &long.metadata).unwrap();
    drop(engine);
    let engine = open(&disk);
    assert!(metadata(&engine, TABLE) == long.metadata);
    assert!(metadata(&engine, "./db/long") == long.metadata);
    long.metadata.push(7);
    let refused = engine.set_table_metadata(TABLE, &long.metadata);
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    let missing = engine.set_table_metadata("./db/none", b"");
    assert!(matches!(missing, Err(EngineError::NoSuchTable { .. })));
    let temporary = engine.set_table_metadata("#temporary-1", b"");
    assert!(matches!(temporary, Err(EngineError::InvalidArgument(_))));
}

#[test]
fn names_are_listed_by_directory() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    for name in ["top", "./db/b", "./db/a", "./db/a#P#p0", "./db2/c", "./d/x"] {
        engine.create_table(&definition(name)).unwrap();
    }
    let names = |directory| engine.table_names_in(directory).unwrap();
    assert_eq!(names("./db"), ["a", "a#P#p0", "b"]);
    assert_eq!(names("db2/"), ["c"]);
    assert_eq!(names("none"), [""; 0]);
    engine.rename_table("./db/b", "./db2/b").unwrap();
    engine.drop_table("./db/a").unwrap();
    assert_eq!(names("./db"), ["a#P#p0"]);
    assert_eq!(names("./db2"), ["b", "c"]);
    assert!(engine.table_names_in("..").is_err());
}

//! The limit of open files.

use crate::common::*;
use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::Engine;

#[test]
fn a_limit_of_open_files_leaves_every_table_readable() {
    let mut options = options();
    options.open_files = 2;
    let logged = capture_messages(&mut options);
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("./db/t{number}")).collect();
    for name in &names {
        engine.create_table(&definition(name)).unwrap();
        let table = engine.open_table(name).unwrap();
        commit(&engine, |writer| {
            insert(writer, &table, "key", name).unwrap();
        });
    }
    engine.checkpoint().unwrap();
    for name in &names {
        let table = engine.open_table(name).unwrap();
        assert_eq!(rows(&engine, &table), pairs(&[("key", name)]));
    }
    assert_eq!(*logged.lock().unwrap(), Vec::<String>::new());
}

//! Deleted rows are dropped without idle time: those that a snapshot needs when it has ended, and
//! those that it does not see while it is open.

use crate::common::*;
use teak_engine::IndexNumber;

#[test]
fn deleted_rows_are_dropped_after_the_snapshot_that_needs_them_has_ended() {
    let (engine, table) = fresh();
    let keys: Vec<String> = (0..600).map(|number| format!("{number:05}")).collect();
    commit(&engine, |transaction| {
        for key in &keys {
            insert(transaction, &table, key, "1").unwrap();
        }
    });
    engine.settle().unwrap();
    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    commit(&engine, |transaction| {
        for key in keys.iter().step_by(2) {
            delete(transaction, &table, key, "1").unwrap();
        }
    });
    let tombstones = || {
        engine.run_due_maintenance().unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(rows(&engine, &table).len(), 300);
        engine.run_background_until_idle().unwrap();
        [0, 1].map(|index| {
            let index = table.index_statistics(IndexNumber(index)).unwrap();
            index.tombstones
        })
    };
    let before = tombstones();
    assert!(before.iter().all(|count| *count > 250), "{before:?}");
    assert_eq!(see(&mut reader, &table).len(), 600);
    reader.rollback();
    let after = tombstones();
    assert!(after.iter().all(|count| *count < 60), "{after:?}");
}

#[test]
fn rows_inserted_and_deleted_after_a_snapshot_are_dropped_while_it_is_open() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "seen", "1").unwrap());
    engine.settle().unwrap();
    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    let statistics = || table.index_statistics(IndexNumber::ROWS).unwrap();
    for batch in 0..20 {
        let keys: Vec<String> = (0..200)
            .map(|number| format!("{batch:03}{number:05}"))
            .collect();
        commit(&engine, |t| {
            for key in &keys {
                insert(t, &table, key, "1").unwrap();
            }
        });
        engine.checkpoint().unwrap();
        commit(&engine, |t| {
            for key in &keys {
                delete(t, &table, key, "1").unwrap();
            }
        });
        engine.checkpoint().unwrap();
        engine.run_background_until_idle().unwrap();
        let tombstones = statistics().tombstones;
        assert!(tombstones < 200, "{tombstones} in batch {batch}");
    }
    assert_eq!(see(&mut reader, &table).len(), 1);
    assert_eq!(rows(&engine, &table).len(), 1);
}

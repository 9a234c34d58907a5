//! Idle flushers take parts of large flushes.

use crate::common::*;
use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::{Engine, Isolation};
use teak_testing::Random;

fn load_with(threads: usize) -> (u64, u64) {
    let mut options = options();
    options.background_threads = threads;
    options.cache_bytes = 8 << 20;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let mut random = Random::new(5);
    let mut expected = std::collections::BTreeMap::new();
    for _ in 0..20 {
        let mut transaction = engine.begin(Isolation::ReadCommitted);
        for _ in 0..500 {
            let key = format!("{:016x}", random.next_u64());
            insert(&mut transaction, &table, &key, "value").unwrap();
            expected.insert(key, "value".to_owned());
        }
        transaction.commit().unwrap();
        engine.checkpoint().unwrap();
    }
    let found: Vec<(String, String)> = rows(&engine, &table);
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    let statistics = engine.statistics();
    (statistics.flushes, statistics.flush_helpers)
}

#[test]
fn idle_flushers_help_with_a_flush() {
    let (flushes, helpers) = load_with(4);
    assert!(helpers > 0, "{flushes} jobs");
}

#[test]
fn a_single_flusher_has_no_help() {
    let (_, helpers) = load_with(1);
    assert_eq!(helpers, 0);
}

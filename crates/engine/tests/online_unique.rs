//! Unique indexes that are built while rows are written.

use crate::common::*;
use std::collections::{BTreeMap, BTreeSet};
use teak_engine::{
    AddedIndex, Alteration, AlterationPlan, Engine, EngineError, EngineResult, EngineTransaction,
    EntryOrder, IndexNumber, PlannedIndex, ReadMode, RowChange, RowEntry, TableHandle,
};
use teak_testing::Random;

const UNIQUE: u32 = 2;

/// A unique index of the values of rows is being built.
struct Build<'a> {
    engine: &'a Engine,
    table: &'a TableHandle,
    alteration: Alteration,
    reader: EngineTransaction,
}

impl<'a> Build<'a> {
    fn begin(engine: &'a Engine, table: &'a TableHandle) -> Self {
        let added = AddedIndex {
            definition: index("unique"),
            unique: true,
            entry_order: EntryOrder::Any,
        };
        let alteration = engine.begin_alteration(table, &[added], Box::new(|| false));
        let mut reader = begin(engine);
        reader.take_snapshot().unwrap();
        Self {
            engine,
            table,
            alteration: alteration.unwrap(),
            reader,
        }
    }

    fn fill(&mut self) -> EngineResult<()> {
        for (key, value) in see(&mut self.reader, self.table) {
            self.alteration.add(0, value.as_bytes(), key.as_bytes())?;
        }
        Ok(())
    }

    fn build(&mut self) -> EngineResult<()> {
        self.alteration.build(&mut |_, _| {})
    }

    fn verify(&mut self) -> EngineResult<()> {
        self.alteration.verify(Some(&mut self.reader))
    }

    fn commit(mut self) -> EngineResult<()> {
        self.alteration.verify(None)?;
        let kept = |number, label| PlannedIndex::Kept(IndexNumber(number), index(label));
        let plan = AlterationPlan {
            indexes: vec![
                kept(0, "PRIMARY"),
                kept(1, "by_value"),
                PlannedIndex::Added(0),
            ],
            metadata: Vec::new(),
        };
        Alteration::commit(vec![(self.alteration, plan)])
    }

    fn duplicate(&self) -> (String, String) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let found = self.alteration.duplicate();
        assert_eq!(found.index, IndexNumber(0));
        (text(&found.key), text(&found.value))
    }

    fn write(&self, work: impl FnOnce(&mut EngineTransaction)) {
        commit(self.engine, work);
    }
}

/// The entries of a row: of the table's own indexes, and of the unique one.
fn with_entries<T>(key: &str, value: &str, call: impl FnOnce(&[RowEntry<'_>]) -> T) -> T {
    let second = format!("{value}\0{key}");
    let entry = |index, unique, key, value| RowEntry {
        index: IndexNumber(index),
        unique,
        key,
        value,
    };
    call(&[
        entry(0, true, key.as_bytes(), value.as_bytes()),
        entry(1, false, second.as_bytes(), &[]),
        entry(UNIQUE, true, value.as_bytes(), key.as_bytes()),
    ])
}

fn put(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    value: &str,
) -> EngineResult<()> {
    with_entries(key, value, |entries| transaction.insert(table, entries))
}

fn remove(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    value: &str,
) -> EngineResult<()> {
    with_entries(key, value, |entries| transaction.delete(table, entries))
}

/// Changes the key and the value of a row.
fn change(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    old: (&str, &str),
    new: (&str, &str),
) -> EngineResult<()> {
    let seconds = (
        format!("{}\0{}", old.1, old.0),
        format!("{}\0{}", new.1, new.0),
    );
    let one = |index, unique, old_key, new_key, new_value| RowChange {
        index: IndexNumber(index),
        unique,
        old_key: Some(old_key),
        new_key: Some(new_key),
        new_value,
    };
    transaction.update(
        table,
        &[
            one(
                0,
                true,
                old.0.as_bytes(),
                new.0.as_bytes(),
                new.1.as_bytes(),
            ),
            one(1, false, seconds.0.as_bytes(), seconds.1.as_bytes(), &[]),
            one(
                UNIQUE,
                true,
                old.1.as_bytes(),
                new.1.as_bytes(),
                new.0.as_bytes(),
            ),
        ],
    )
}

fn is_duplicate<T>(result: &EngineResult<T>) -> bool {
    matches!(result, Err(EngineError::DuplicateKey))
}

fn entries(engine: &Engine, table: &TableHandle) -> Rows {
    let mut transaction = begin(engine);
    try_scan(&mut transaction, table, UNIQUE, ReadMode::Snapshot).unwrap()
}

fn check(engine: &Engine, table: &TableHandle) {
    let swapped = |(key, value): (String, String)| (value, key);
    let mut expected: Rows = rows(engine, table).into_iter().map(swapped).collect();
    expected.sort();
    assert_eq!(entries(engine, table), expected);
    table.verify(&mut || true, &mut |_| {}).unwrap();
}

fn with_rows(count: u32) -> (Engine, TableHandle) {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for n in 0..count {
            insert(t, &table, &format!("{n:04}"), &format!("v{n:04}")).unwrap();
        }
    });
    (engine, table)
}

#[test]
fn rows_written_at_any_time_are_in_the_index_and_later_duplicates_are_errors() {
    let (engine, table) = with_rows(2000);
    let mut build = Build::begin(&engine, &table);
    build.write(|t| put(t, &table, "a", "before").unwrap());
    build.fill().unwrap();
    build.write(|t| {
        put(t, &table, "b", "after").unwrap();
        // A value moves from one row to another.
        remove(t, &table, "0001", "v0001").unwrap();
        put(t, &table, "c", "v0001").unwrap();
        // The row of a value gets another key.
        change(t, &table, ("0002", "v0002"), ("d", "v0002")).unwrap();
        change(t, &table, ("0003", "v0003"), ("0003", "other")).unwrap();
    });
    build.build().unwrap();
    build.write(|t| put(t, &table, "e", "late").unwrap());
    build.verify().unwrap();
    build.write(|t| put(t, &table, "f", "later").unwrap());
    build.commit().unwrap();
    check(&engine, &table);
    engine.settle().unwrap();
    check(&engine, &table);
    let mut transaction = begin(&engine);
    assert!(is_duplicate(&put(&mut transaction, &table, "x", "v0005")));
    assert!(is_duplicate(&put(&mut transaction, &table, "x", "late")));
    put(&mut transaction, &table, "x", "free").unwrap();
}

#[test]
fn the_writer_of_a_duplicate_succeeds_and_the_build_fails() {
    // When the duplicate is written: before the rows are read, before they are sorted, and later.
    for time in 0..4 {
        let (engine, table) = with_rows(2000);
        let mut build = Build::begin(&engine, &table);
        let write = |build: &Build<'_>, now| {
            if now == time {
                build.write(|t| put(t, &table, "x", "v0777").unwrap());
            }
        };
        write(&build, 0);
        let mut result = build.fill();
        write(&build, 1);
        result = result.and_then(|()| build.build());
        write(&build, 2);
        result = result.and_then(|()| build.verify());
        write(&build, 3);
        result = result.and_then(|()| build.alteration.verify(None));
        assert!(is_duplicate(&result), "{time}: {result:?}");
        assert_eq!(build.duplicate().0, "v0777", "{time}");
        // Writers skip the index, also if they would have another duplicate.
        build.write(|t| put(t, &table, "y", "v0778").unwrap());
        drop(build);
        assert_eq!(table.index_count(), 2);
        assert_eq!(rows(&engine, &table).len(), 2002);
    }
}

#[test]
fn two_writers_of_the_same_value_end_the_build() {
    let (engine, table) = with_rows(10);
    let mut build = Build::begin(&engine, &table);
    build.fill().unwrap();
    build.write(|t| put(t, &table, "x", "twice").unwrap());
    build.write(|t| put(t, &table, "y", "twice").unwrap());
    assert!(is_duplicate(&build.build()));
    assert_eq!(build.duplicate(), ("twice".into(), "x".into()));
    drop(build);
    assert_eq!(rows(&engine, &table).len(), 12);
}

#[test]
fn rolled_back_rows_are_no_duplicates() {
    let (engine, table) = with_rows(100);
    let mut build = Build::begin(&engine, &table);
    let mut early = begin(&engine);
    put(&mut early, &table, "x", "v0001").unwrap();
    build.fill().unwrap();
    let mut late = begin(&engine);
    put(&mut late, &table, "y", "v0002").unwrap();
    let mark = late.savepoint().unwrap();
    put(&mut late, &table, "z", "fine").unwrap();
    late.rollback_to_savepoint(mark).unwrap();
    put(&mut late, &table, "z", "good").unwrap();
    early.rollback();
    late.rollback();
    build.write(|t| put(t, &table, "z", "fine").unwrap());
    build.build().unwrap();
    build.verify().unwrap();
    build.commit().unwrap();
    check(&engine, &table);
}

/// A writer that finds another one's uncommitted entry waits for it, as in a unique index.
#[test]
fn writers_wait_for_each_other() {
    let (engine, table) = with_rows(10);
    let mut build = Build::begin(&engine, &table);
    build.fill().unwrap();
    let mut first = begin(&engine);
    put(&mut first, &table, "x", "value").unwrap();
    let mut second = begin(&engine);
    assert!(is_timeout(put(&mut second, &table, "y", "value")));
    second.rollback();
    first.rollback();
    build.build().unwrap();
    build.verify().unwrap();
    build.commit().unwrap();
    check(&engine, &table);
}

#[test]
fn keys_of_writers_must_be_verified() {
    let (engine, table) = with_rows(10);
    let mut build = Build::begin(&engine, &table);
    build.fill().unwrap();
    build.write(|t| put(t, &table, "x", "value").unwrap());
    build.build().unwrap();
    let refused = build.commit();
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    assert_eq!(table.index_count(), 2);
}

/// Random writes of one transaction after the other.
struct Writes {
    random: Random,
    committed: BTreeMap<String, String>,
    /// At some time two rows had the same value.
    had_duplicate: bool,
}

impl Writes {
    fn note(&mut self, state: &BTreeMap<String, String>) {
        let values: BTreeSet<&String> = state.values().collect();
        self.had_duplicate |= values.len() < state.len();
    }

    fn run(&mut self, engine: &Engine, table: &TableHandle, count: u64) {
        for _ in 0..count {
            let mut transaction = begin(engine);
            let mut state = self.committed.clone();
            for _ in 0..=self.random.below(2) {
                self.step(&mut transaction, table, &mut state);
            }
            if self.random.below(4) == 0 {
                transaction.rollback();
            } else {
                transaction.commit().unwrap();
                self.committed = state;
            }
            if self.random.below(6) == 0 {
                engine.checkpoint().unwrap();
            }
        }
    }

    fn step(
        &mut self,
        transaction: &mut EngineTransaction,
        table: &TableHandle,
        state: &mut BTreeMap<String, String>,
    ) {
        let key = format!("k{}", self.random.below(40));
        let value = format!("v{}", self.random.below(200));
        match state.get(&key).cloned() {
            None => {
                put(transaction, table, &key, &value).unwrap();
                state.insert(key, value);
            }
            Some(old) if self.random.below(2) == 0 => {
                remove(transaction, table, &key, &old).unwrap();
                state.remove(&key);
            }
            Some(old) => {
                change(transaction, table, (&key, &old), (&key, &value)).unwrap();
                state.insert(key, value);
            }
        }
        self.note(state);
    }
}

#[test]
fn random_writes_are_in_the_index_or_end_the_build() {
    let (mut built, mut failed) = (0, 0);
    for seed in 0..400 {
        let (engine, table) = fresh();
        let mut writes = Writes {
            random: Random::new(seed),
            committed: BTreeMap::new(),
            had_duplicate: false,
        };
        commit(&engine, |t| {
            for n in 0..10 {
                let (key, value) = (format!("k{n}"), format!("v{n}"));
                insert(t, &table, &key, &value).unwrap();
                writes.committed.insert(key, value);
            }
        });
        let mut build = Build::begin(&engine, &table);
        let count = writes.random.below(4);
        writes.run(&engine, &table, count);
        let mut result = build.fill();
        writes.run(&engine, &table, count);
        result = result.and_then(|()| build.build());
        writes.run(&engine, &table, count);
        result = result.and_then(|()| build.verify());
        writes.run(&engine, &table, count);
        result = result.and_then(|()| build.commit());
        let values: BTreeSet<&String> = writes.committed.values().collect();
        let has_duplicate = values.len() < writes.committed.len();
        match result {
            Ok(()) => {
                assert!(!has_duplicate, "{seed}");
                check(&engine, &table);
                built += 1;
            }
            Err(EngineError::DuplicateKey) => {
                assert!(writes.had_duplicate, "{seed}");
                assert_eq!(rows(&engine, &table).len(), writes.committed.len());
                failed += 1;
            }
            Err(error) => panic!("{seed}: {error}"),
        }
    }
    assert!(built > 50 && failed > 50, "{built} {failed}");
}

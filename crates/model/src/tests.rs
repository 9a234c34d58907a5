//! The behaviour of the model itself.

use crate::{AccessOutcome, EntryKey, LockMode, Model, RowCheck, Scope, TableId, TooOld, Value};

fn entry(table: TableId, key: &str) -> EntryKey {
    EntryKey {
        table,
        index: 0,
        key: key.as_bytes().to_vec(),
    }
}

fn value(text: &str) -> Value {
    text.as_bytes().to_vec()
}

fn with_table() -> (Model, TableId) {
    let mut model = Model::new();
    let table = model.create_table("t", 1).unwrap();
    (model, table)
}

fn commit_put(model: &mut Model, table: TableId, key: &str, text: &str) {
    let writer = model.begin(Scope::Transaction);
    model.put(writer, entry(table, key), value(text));
    model.commit(writer);
}

#[test]
fn a_snapshot_does_not_see_later_commits() {
    let (mut model, table) = with_table();
    commit_put(&mut model, table, "a", "1");
    let reader = model.begin(Scope::Transaction);
    assert_eq!(model.get(reader, &entry(table, "a")), Some(value("1")));
    commit_put(&mut model, table, "a", "2");
    commit_put(&mut model, table, "b", "3");
    assert_eq!(model.get(reader, &entry(table, "a")), Some(value("1")));
    assert_eq!(model.scan(reader, table, 0).len(), 1);
    let statement = model.begin(Scope::Statement);
    assert_eq!(model.scan(statement, table, 0).len(), 2);
    commit_put(&mut model, table, "c", "4");
    assert_eq!(model.scan(statement, table, 0).len(), 2);
    model.statement(statement);
    assert_eq!(model.scan(statement, table, 0).len(), 3);
}

#[test]
fn a_rollback_to_a_savepoint_undoes_the_writes_after_it() {
    let (mut model, table) = with_table();
    let writer = model.begin(Scope::Transaction);
    model.put(writer, entry(table, "a"), value("1"));
    let savepoint = model.savepoint(writer);
    model.put(writer, entry(table, "a"), value("2"));
    model.delete_range(writer, table, 0, b"a", b"z");
    assert_eq!(model.get(writer, &entry(table, "a")), None);
    model.rollback_to(writer, savepoint);
    assert_eq!(model.get(writer, &entry(table, "a")), Some(value("1")));
    model.put(writer, entry(table, "a"), value("1!"));
    model.commit(writer);
    let reader = model.begin(Scope::Transaction);
    assert_eq!(model.get(reader, &entry(table, "a")), Some(value("1!")));
}

#[test]
fn checks_are_refused_for_their_reasons() {
    let (mut model, table) = with_table();
    commit_put(&mut model, table, "a", "1");
    let (one, two) = (
        model.begin(Scope::Transaction),
        model.begin(Scope::Transaction),
    );
    let a = entry(table, "a");
    let b = entry(table, "b");
    let put = [(a.clone(), Some(value("2")))];
    model.snapshot(two);
    let free = [(RowCheck::Free, a.clone())];
    let writable = [(RowCheck::Writable, a.clone())];
    assert_eq!(model.write(one, &free, &put), AccessOutcome::Duplicate);
    assert_eq!(
        model.write(one, &[(RowCheck::Writable, b)], &put),
        AccessOutcome::NotFound
    );
    assert_eq!(model.write(one, &writable, &put), AccessOutcome::Done);
    assert_eq!(model.write(two, &writable, &put), AccessOutcome::MustWait);
    model.commit(one);
    assert_eq!(model.write(two, &writable, &put), AccessOutcome::Conflict);
    let locked = model.get_locked(two, &a, LockMode::Exclusive);
    assert_eq!(locked, Ok(Some(value("2"))));
    let three = model.begin(Scope::Transaction);
    assert_eq!(model.write(three, &writable, &put), AccessOutcome::MustWait);
    assert_eq!(model.write(two, &writable, &put), AccessOutcome::Done);
}

#[test]
fn a_crash_leaves_a_prefix_of_the_journal() {
    let (mut model, table) = with_table();
    commit_put(&mut model, table, "a", "1");
    model.acknowledge();
    let before = model.contents();
    commit_put(&mut model, table, "a", "2");
    model.rename_table(table, "u");
    let open = model.begin(Scope::Transaction);
    model.put(open, entry(table, "x"), value("lost"));
    assert_eq!(model.acknowledged(), 2);
    assert_eq!(model.events(), 4);
    assert_eq!(model.contents_after(2), before);
    model.recover(3);
    assert_eq!(model.acknowledged(), 3);
    assert_eq!(model.name(table), "t");
    let reader = model.begin(Scope::Transaction);
    assert_eq!(model.scan(reader, table, 0).len(), 1);
    assert_eq!(model.get(reader, &entry(table, "a")), Some(value("2")));
}

#[test]
fn a_table_change_that_did_not_happen_leaves_the_creation_times() {
    let (mut model, table) = with_table();
    let reader = model.begin(Scope::Transaction);
    model.snapshot(reader);
    commit_put(&mut model, table, "a", "1");
    let events = model.events();
    model.truncate_table(table);
    assert_eq!(model.is_too_old(reader, table, 0), TooOld::Yes);
    model.revoke_events(events);
    assert_eq!(model.is_too_old(reader, table, 0), TooOld::No);
}

#[test]
#[should_panic(expected = "a crash cannot leave")]
fn an_acknowledged_event_cannot_be_lost() {
    let (mut model, _) = with_table();
    model.acknowledge();
    model.recover(0);
}

proptest::proptest! {
    /// The versioned state and the contents are computed independently and must agree.
    #[test]
    fn versions_and_contents_agree(steps: Vec<(u8, u8, u8)>) {
        let (mut model, table) = with_table();
        let mut writer = model.begin(Scope::Transaction);
        for (what, key, number) in steps {
            let key = [key % 8];
            let at = EntryKey { table, index: 0, key: key.to_vec() };
            match what % 8 {
                0..=3 => model.put(writer, at, vec![number]),
                4 => model.delete(writer, at),
                5 => model.delete_range(writer, table, 0, &key, &[key[0] + number % 4]),
                6 => {
                    model.rollback(writer);
                    writer = model.begin(Scope::Transaction);
                }
                _ => {
                    model.commit(writer);
                    writer = model.begin(Scope::Transaction);
                    let seen = model.scan(writer, table, 0);
                    let contents = model.contents();
                    assert_eq!(contents.by_name()["t"].indexes[0], seen);
                }
            }
        }
    }
}

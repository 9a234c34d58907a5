//! `teak dump` on data directories that the engine has written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod common;

use common::engine::{TITLES, file, insert, line, open, put, value, with_table};
use common::{Directory, contents, copy_all, errors, text};
use teak_engine::{IndexNumber, Isolation, RowEntry};

#[test]
fn a_closed_data_directory_is_dumped_and_not_changed() {
    let directory = Directory::new("closed");
    let (engine, table) = with_table(&directory);
    insert(&engine, &table, 0..3000);
    drop(table);
    engine.close().unwrap();
    let before = contents(&directory.0.join("data"));
    let dumped = directory.teak(&["dump", "data", "--table", "shop.t"]);
    assert!(dumped.status.success(), "{dumped:?}");
    let lines = text(&dumped);
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some(TITLES));
    for number in 0..3000 {
        assert_eq!(lines.next(), Some(line(number).as_str()));
    }
    assert_eq!(lines.next(), None);
    assert!(errors(&dumped).contains("no names and types of columns"));

    let path = file(&directory);
    let path = path.to_str().unwrap();
    let of_file = directory.teak(&["dump", path, "--format", "json", "--output", "rows.json"]);
    assert!(
        of_file.status.success() && of_file.stdout.is_empty(),
        "{of_file:?}"
    );
    let json = std::fs::read_to_string(directory.0.join("rows.json")).unwrap();
    assert_eq!(json.lines().count(), 3000);
    let first: serde_json::Value = serde_json::from_str(json.lines().nth(7).unwrap()).unwrap();
    assert_eq!(
        (&first["key0"], &first["column1"]),
        (&7.into(), &(-7).into())
    );
    assert_eq!(first["column0"]["hex"], "00");

    let few = directory.teak(&[
        "dump", "data", "-t", "shop.t", "--limit", "2", "-f", "sql", "--into", "x",
    ]);
    let sql = text(&few);
    let statement = "INSERT INTO `x` (`key0`, `column0`, `column1`, `column2`, `other`) VALUES\n\
        (0,x'00',0,'row 0',NULL),\n(1,x'00',-1,'row 1',NULL);\n";
    assert!(sql.ends_with(statement), "{sql}");
    let tables = directory.teak(&["dump", "data", "--tables"]);
    assert_eq!(text(&tables), "shop.t\n");
    assert_eq!(contents(&directory.0.join("data")), before);
}

#[test]
fn a_copy_of_a_running_server_has_the_committed_rows_of_the_log() {
    let directory = Directory::new("running");
    let (engine, table) = with_table(&directory);
    insert(&engine, &table, 0..500);
    engine.checkpoint().unwrap();
    insert(&engine, &table, 500..700);
    let mut delete = engine.begin(Isolation::RepeatableRead);
    let row = RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key: &3i32.to_be_bytes(),
        value: &[],
    };
    delete.delete(&table, &[row]).unwrap();
    delete.commit().unwrap();
    let mut uncommitted = engine.begin(Isolation::RepeatableRead);
    put(
        &mut uncommitted,
        &table,
        &9000i32.to_be_bytes(),
        &value(9000),
    );
    let mut prepared = engine.begin(Isolation::RepeatableRead);
    put(&mut prepared, &table, &9001i32.to_be_bytes(), &value(9001));
    prepared.prepare(b"xid").unwrap();
    engine.flush_log().unwrap();

    let in_use = directory.teak(&["dump", "data", "--table", "shop.t"]);
    assert_eq!(in_use.status.code(), Some(1));
    assert!(errors(&in_use).contains("a server is using"), "{in_use:?}");
    copy_all(&directory.0.join("data"), &directory.0.join("copy"));
    let before = contents(&directory.0.join("copy"));
    let dumped = directory.teak(&["dump", "copy", "--table", "shop/t"]);
    let expected: Vec<String> = (0..700).filter(|n| *n != 3).map(line).collect();
    let lines = text(&dumped);
    assert!(lines.lines().skip(1).eq(&expected), "{}", errors(&dumped));
    assert!(errors(&dumped).contains("1 prepared transaction is left out"));
    assert_eq!(contents(&directory.0.join("copy")), before);
    uncommitted.rollback();
    drop(prepared);
}

#[test]
fn writes_that_were_rolled_back_are_not_in_the_dump_of_a_file() {
    let directory = Directory::new("aborted");
    let (engine, table) = with_table(&directory);
    insert(&engine, &table, 0..100);
    let mut aborted = engine.begin(Isolation::RepeatableRead);
    put(&mut aborted, &table, &500i32.to_be_bytes(), &value(500));
    // A snapshot keeps the entries.
    let mut reader = engine.begin(Isolation::RepeatableRead);
    reader.take_snapshot().unwrap();
    engine.checkpoint().unwrap();
    aborted.rollback();
    engine.checkpoint().unwrap();
    let path = file(&directory);
    let dumped = directory.teak(&["dump", path.to_str().unwrap()]);
    let expected: Vec<String> = (0..100).map(line).collect();
    assert!(text(&dumped).lines().skip(1).eq(&expected), "{dumped:?}");

    // Without the catalogue it is not known.
    std::fs::copy(&path, directory.0.join("alone.teak")).unwrap();
    let dumped = directory.teak(&["dump", "alone.teak"]);
    let lines = text(&dumped);
    assert!(lines.starts_with("key"), "{lines}");
    assert!(lines.lines().count() >= 101);
    let with_data = directory.teak(&["dump", "alone.teak", "--data", "data"]);
    assert!(text(&with_data).lines().skip(1).eq(&expected));
    drop(reader);
}

#[test]
fn wrong_arguments_are_explained() {
    let directory = Directory::new("wrong");
    let (engine, table) = with_table(&directory);
    drop(table);
    engine.close().unwrap();
    for (arguments, expected) in [
        (&["dump", "data"][..], "--table"),
        (
            &["dump", "data", "--table", "shop.none"],
            "there is no table shop.none",
        ),
        (&["dump", ".", "--table", "shop.t"], "not a data directory"),
        (&["dump", "none.teak"], "none.teak"),
        (
            &["dump", "data", "--log", "--format", "sql"],
            "no form as SQL",
        ),
    ] {
        let refused = directory.teak(arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        assert!(errors(&refused).contains(expected), "{refused:?}");
    }
    let help = text(&directory.teak(&["help", "dump"]));
    assert!(
        help.contains("--table shop.orders --output orders.csv"),
        "{help}"
    );
}

#[test]
fn a_damaged_file_ends_the_dump_with_an_error() {
    let directory = Directory::new("damaged");
    let (engine, table) = with_table(&directory);
    insert(&engine, &table, 0..3000);
    drop(table);
    engine.close().unwrap();
    let path = file(&directory);
    let mut bytes = std::fs::read(&path).unwrap();
    for byte in &mut bytes[8192..12_000] {
        *byte ^= 0x20;
    }
    std::fs::write(&path, bytes).unwrap();
    for arguments in [
        &["dump", "data", "--table", "shop.t"][..],
        &["dump", path.to_str().unwrap()],
    ] {
        let failed = directory.teak(arguments);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(errors(&failed).contains("teak recover"), "{failed:?}");
    }
}

#[test]
fn the_log_is_dumped_with_its_torn_tail_and_damage() {
    let directory = Directory::new("log");
    let (engine, table) = with_table(&directory);
    for number in 0..50 {
        insert(&engine, &table, number..number + 1);
    }
    drop(table);
    // The catalogue must contain the table.
    engine.checkpoint().unwrap();
    copy_all(&directory.0.join("data"), &directory.0.join("copy"));
    drop(engine);
    let log = |arguments: &[&str]| {
        let mut all = vec!["dump", "copy", "--log"];
        all.extend_from_slice(arguments);
        directory.teak(&all)
    };
    let csv = log(&[]);
    assert!(csv.status.success(), "{csv:?}");
    let lines = text(&csv);
    let writes = lines.lines().filter(|line| line.contains(",Write,"));
    let key_and_value = format!("4,{},0000000", value(0).len());
    let writes: Vec<&str> = writes.collect();
    assert_eq!(writes.len(), 50);
    assert!(writes[0].contains("shop/t main,put,") && writes[0].contains(&key_and_value));
    assert_eq!(lines.matches(",Commit,").count(), 50);
    assert!(lines.contains(",TableCreated,"));
    assert!(errors(&csv).contains("the log ends at position"), "{csv:?}");

    let json = text(&log(&["--format", "json", "--limit", "3"]));
    assert_eq!(json.lines().count(), 3);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["segment"], &first["lsn"]), (&1.into(), &0.into()));

    // A torn tail is the end of the log.
    let segment = directory.0.join("copy/teak.log.0000000001");
    let bytes = std::fs::read(&segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    std::fs::write(&segment, &bytes[..used - 5]).unwrap();
    let torn = log(&[]);
    assert!(torn.status.success(), "{torn:?}");
    let left = text(&torn).lines().count();
    assert!(left < lines.lines().count() && left > 50);

    // A flipped byte in the middle is damage.
    let mut damaged = bytes.clone();
    damaged[used / 2] ^= 0x10;
    std::fs::write(&segment, &damaged).unwrap();
    let damaged = log(&[]);
    assert_eq!(damaged.status.code(), Some(2), "{damaged:?}");
    let message = errors(&damaged);
    assert!(message.contains("damaged: ") && message.contains("the next batch is at byte"));
    let found = text(&damaged);
    assert!(
        found.lines().count() + 4 >= lines.lines().count(),
        "{message}"
    );
    assert!(found.lines().all(|line| lines.contains(line)));
    let reopened = open(&directory);
    assert_eq!(reopened.table_names(), ["shop/t"]);
}

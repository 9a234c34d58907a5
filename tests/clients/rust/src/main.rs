//! The `mysql` crate: every type by the text and the binary protocol, rows written by batches of a prepared statement,
//! streaming, transactions.

use mysql::prelude::Queryable;
use mysql::{params, Conn, Error, IsolationLevel, OptsBuilder, Params, Row, TxOpts, Value};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const ENGINES: [(&str, &str); 2] = [("TEAK", "clients_teak"), ("InnoDB", "clients_innodb")];
const TYPE_TABLES: [&str; 5] = ["numbers", "moments", "texts", "addresses", "odd name`s"];
const DUPLICATE: u16 = 1062;
const LOCK_TIMEOUT: u16 = 1205;

#[derive(Default)]
struct Checks {
    failed: u32,
}

impl Checks {
    fn check(&mut self, name: &str, holds: bool, detail: &str) {
        if holds {
            println!("PASS rust: {name}");
        } else {
            self.failed += 1;
            println!("FAIL rust: {name}: {detail}");
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, name: &str, left: &T, right: &T) {
        let shortened = |value: &T| format!("{value:?}").chars().take(400).collect::<String>();
        self.check(
            name,
            left == right,
            &format!("{} / {}", shortened(left), shortened(right)),
        );
    }

    fn rows(&mut self, name: &str, left: &[String], right: &[String]) {
        let differing = left.iter().zip(right).find(|(one, other)| one != other);
        let detail = format!(
            "{} and {} rows, {:.400}",
            left.len(),
            right.len(),
            format!("{differing:?}")
        );
        self.check(name, !left.is_empty() && left == right, &detail);
    }

    fn raises<T>(&mut self, name: &str, number: u16, outcome: Result<T, Error>) {
        match outcome {
            Err(Error::MySqlError(error)) if error.code == number => self.check(name, true, ""),
            Err(error) => self.check(
                name,
                false,
                &format!("expected error {number}, got {error}"),
            ),
            Ok(_) => self.check(name, false, &format!("expected error {number}, got none")),
        }
    }

    /// Runs one part of the checks. An error is a failure of this part.
    fn part(&mut self, name: &str, action: impl FnOnce(&mut Self) -> Outcome) {
        if let Err(error) = action(self) {
            self.check(name, false, &error.to_string());
        }
    }
}

fn connect(database: &str) -> Result<Conn, Error> {
    let options = OptsBuilder::new()
        .socket(std::env::var("CLIENTS_SOCKET").ok())
        .user(Some("root"))
        .db_name(Some(database))
        .init(vec!["SET time_zone = '+00:00', NAMES utf8mb4"]);
    Conn::new(options)
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Returns every row as the protocol's values, sorted; then the server's description of every column.
fn read(
    connection: &mut Conn,
    statement: &str,
    binary: bool,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let rows: Vec<Row> = if binary {
        connection.exec(statement, ())?
    } else {
        connection.query(statement)?
    };
    let columns = rows.first().map_or_else(Vec::new, |row| {
        row.columns_ref().iter().map(described).collect()
    });
    let mut values: Vec<String> = rows
        .into_iter()
        .map(|row| format!("{:?}", exact(row)))
        .collect();
    values.sort();
    Ok((values, columns))
}

fn described(column: &mysql::Column) -> String {
    format!(
        "{} {} {} {:?} {} {} {} {:?}",
        column.name_str(),
        column.org_name_str(),
        column.org_table_str(),
        column.column_type(),
        column.character_set(),
        column.column_length(),
        column.decimals(),
        column.flags()
    )
}

/// Prints values completely, because Debug of a Value truncates long byte strings.
fn exact(row: Row) -> Vec<String> {
    row.unwrap()
        .iter()
        .map(|value| value.as_sql(true))
        .collect()
}

fn types(checks: &mut Checks) -> Outcome {
    for binary in [false, true] {
        for table in TYPE_TABLES {
            let statement = format!("SELECT * FROM {}", quoted(table));
            let (teak, teak_columns) = read(&mut connect(ENGINES[0].1)?, &statement, binary)?;
            let (innodb, innodb_columns) = read(&mut connect(ENGINES[1].1)?, &statement, binary)?;
            let protocol = if binary { "binary" } else { "text" };
            checks.rows(&format!("{table}: rows, {protocol}"), &teak, &innodb);
            checks.rows(
                &format!("{table}: metadata, {protocol}"),
                &teak_columns,
                &innodb_columns,
            );
        }
    }
    let greatest: Option<(u64, i64, f32, f64, u16)> = connect(ENGINES[0].1)?.query_first(
        "SELECT big_u, big_s, single_f, double_f, a_year FROM numbers WHERE tiny_u = 255",
    )?;
    let expected = Some((u64::MAX, i64::MAX, 3.40282e38, f64::MAX, 2155));
    checks.same("types of Rust", &greatest, &expected);
    Ok(())
}

/// Writes the rows of InnoDB's tables into both engines by a batch of a prepared statement, and compares the results.
fn round_trip(checks: &mut Checks) -> Outcome {
    for table in TYPE_TABLES {
        let mut from = connect(ENGINES[1].1)?;
        let names: Vec<String> = from.exec(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? \
             AND generation_expression IS NULL ORDER BY ordinal_position",
            (table,),
        )?;
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let listed = names.join(", ");
        let rows: Vec<Row> = from.exec(format!("SELECT {listed} FROM {}", quoted(table)), ())?;
        let rows: Vec<Vec<Value>> = rows.into_iter().map(Row::unwrap).collect();
        let mut found = Vec::new();
        for (engine, database) in ENGINES {
            let mut to = connect(database)?;
            to.query_drop(format!("CREATE TABLE written LIKE {}", quoted(table)))?;
            let marks = vec!["?"; names.len()].join(", ");
            let statement = format!("INSERT INTO written ({listed}) VALUES ({marks})");
            let mut transaction = to.start_transaction(TxOpts::default())?;
            transaction.exec_batch(statement, rows.iter().cloned().map(Params::Positional))?;
            transaction.commit()?;
            let (written, _) = read(&mut to, "SELECT * FROM written", true)?;
            to.query_drop("DROP TABLE written")?;
            checks.same(
                &format!("{table}: rows of the batch into {engine}"),
                &written.len(),
                &rows.len(),
            );
            found.push(written);
        }
        checks.rows(&format!("{table}: rows written"), &found[0], &found[1]);
    }
    Ok(())
}

fn streaming(checks: &mut Checks) -> Outcome {
    let mut found = Vec::new();
    for (_, database) in ENGINES {
        let mut connection = connect(database)?;
        let mut rows = Vec::new();
        for row in connection.exec_iter(
            "SELECT * FROM many WHERE grp <> ? ORDER BY grp, id DESC",
            (5,),
        )? {
            rows.push(format!("{:?}", exact(row?)));
        }
        found.push(rows);
    }
    checks.same("streaming: all rows", &found[0].len(), &19793);
    checks.rows("streaming: rows", &found[0], &found[1]);
    Ok(())
}

fn amount(connection: &mut impl Queryable, owner: &str) -> Result<Option<String>, Error> {
    connection.exec_first(
        "SELECT amount FROM account WHERE owner = :owner",
        params! { "owner" => owner },
    )
}

fn transactions(checks: &mut Checks, engine: &str, database: &str) -> Outcome {
    let (mut first, mut second) = (connect(database)?, connect(database)?);
    let one = |text: &str| Some(text.to_owned());

    let mut transaction = first.start_transaction(TxOpts::default())?;
    transaction.query_drop("INSERT INTO account (owner, amount) VALUES ('dora', 1), ('eve', 2)")?;
    checks.same(
        &format!("{engine}: key given"),
        &transaction.last_insert_id(),
        &Some(103),
    );
    checks.same(
        &format!("{engine}: rows inserted"),
        &transaction.affected_rows(),
        &2,
    );
    checks.same(
        &format!("{engine}: nobody else sees them"),
        &amount(&mut second, "eve")?,
        &None,
    );
    // Dropped without commit: rolled back.
    drop(transaction);
    checks.same(
        &format!("{engine}: rolled back"),
        &amount(&mut first, "eve")?,
        &None,
    );

    let mut reader = second.start_transaction(
        TxOpts::default()
            .set_isolation_level(Some(IsolationLevel::RepeatableRead))
            .set_with_consistent_snapshot(true),
    )?;
    let mut transaction = first.start_transaction(TxOpts::default())?;
    transaction.query_drop("UPDATE account SET amount = amount - 10.5 WHERE owner = 'ann'")?;
    transaction.query_drop("SAVEPOINT half")?;
    transaction.query_drop("DELETE FROM account")?;
    transaction.query_drop("ROLLBACK TO SAVEPOINT half")?;
    reader.query_drop("SET innodb_lock_wait_timeout = 1, teak_lock_timeout = 1000")?;
    let outcome = reader.query_drop("UPDATE account SET amount = 0 WHERE owner = 'ann'");
    checks.raises(
        &format!("{engine}: a written row is locked"),
        LOCK_TIMEOUT,
        outcome,
    );
    transaction.commit()?;
    checks.same(
        &format!("{engine}: consistent snapshot"),
        &amount(&mut reader, "ann")?,
        &one("1000.00"),
    );
    reader.commit()?;
    checks.same(
        &format!("{engine}: committed"),
        &amount(&mut second, "ann")?,
        &one("989.50"),
    );
    checks.same(
        &format!("{engine}: rolled back to a savepoint"),
        &amount(&mut second, "bob")?,
        &one("1000.00"),
    );

    let outcome = first.query_drop("INSERT INTO account (owner, amount) VALUES ('ann', 1)");
    checks.raises(&format!("{engine}: duplicate"), DUPLICATE, outcome);
    Ok(())
}

fn main() {
    println!("-- the crate mysql 28.0.4");
    let mut checks = Checks::default();
    checks.part("types", types);
    checks.part("round trip", round_trip);
    checks.part("streaming", streaming);
    for (engine, database) in ENGINES {
        checks.part(&format!("{engine}: transactions"), |checks| {
            transactions(checks, engine, database)
        });
    }
    std::process::exit(i32::from(checks.failed != 0));
}

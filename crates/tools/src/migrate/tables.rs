//! The tables of the server.

use super::arguments::Arguments;
use super::patterns::any_matches;
use crate::names::quoted_table;
use crate::sql_client::{Row, Session, quoted};
use std::io;

/// The database of the samples.
pub(super) const SAMPLE_DATABASE: &str = "teak_migrate_sample";

/// The databases of the system. The sample's one is dropped at the end of each run.
const EXCLUDED: [&str; 5] = [
    "mysql",
    "information_schema",
    "performance_schema",
    "sys",
    SAMPLE_DATABASE,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// With system versioning.
    Versioned,
    Sequence,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub database: String,
    pub name: String,
    pub engine: String,
    pub kind: Kind,
    /// An estimate of the engine.
    pub rows: u64,
    pub bytes: u64,
    /// The answer of SHOW CREATE TABLE.
    pub definition: String,
}

impl Table {
    /// As statements write it.
    pub(super) fn quoted(&self) -> String {
        quoted_table(&self.database, &self.name)
    }

    pub(super) fn shown(&self) -> String {
        shown(&self.database, &self.name)
    }

    /// A condition of statements about the tables of INFORMATION_SCHEMA.
    pub(super) fn condition(&self) -> String {
        let (database, name) = (quoted(&self.database), quoted(&self.name));
        // The first two find the table, but not only this one: they ignore the case.
        format!(
            "TABLE_SCHEMA = {database} AND TABLE_NAME = {name} \
             AND BINARY TABLE_SCHEMA = {database} AND BINARY TABLE_NAME = {name}"
        )
    }

    pub(super) fn is(&self, database: &str, name: &str) -> bool {
        self.database == database && self.name == name
    }
}

/// The name of a table for people; control characters are replaced, because a terminal would execute them.
pub(super) fn shown(database: &str, name: &str) -> String {
    let text = format!("{database}.{name}");
    let shown = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    text.chars().map(shown).collect()
}

fn table_of(row: &Row) -> Option<Table> {
    let [database, name, engine, kind, rows, bytes] = row.as_slice() else {
        return None;
    };
    Some(Table {
        database: database.clone(),
        name: name.clone(),
        engine: engine.clone(),
        kind: match kind.as_str() {
            "SEQUENCE" => Kind::Sequence,
            "SYSTEM VERSIONED" => Kind::Versioned,
            _ => Kind::Plain,
        },
        rows: rows.parse().ok()?,
        bytes: bytes.parse().ok()?,
        definition: String::new(),
    })
}

/// The tables that are to be converted.
pub(super) fn list(session: &mut Session, arguments: &Arguments) -> io::Result<Vec<Table>> {
    let strings = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        names.join(", ")
    };
    let excluded = strings(&EXCLUDED.map(str::to_owned));
    let engines = strings(&arguments.engines());
    let rows = session.execute(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_TYPE, IFNULL(TABLE_ROWS, 0), \
         IFNULL(DATA_LENGTH, 0) + IFNULL(INDEX_LENGTH, 0) FROM INFORMATION_SCHEMA.TABLES \
         WHERE TABLE_SCHEMA NOT IN ({excluded}) AND ENGINE IN ({engines}) \
         AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') ORDER BY 1, 2"
    ))?;
    let mut tables = Vec::new();
    for row in &rows {
        let table = table_of(row)
            .ok_or_else(|| io::Error::other("INFORMATION_SCHEMA.TABLES has an unknown form"))?;
        if any_matches(&arguments.database, &table.database)
            && any_matches(&arguments.table, &table.name)
        {
            tables.push(table);
        }
    }
    for table in &mut tables {
        table.definition = definition(session, &table.quoted())?;
    }
    Ok(tables)
}

/// The statement that creates a table.
pub(super) fn definition(session: &mut Session, quoted: &str) -> io::Result<String> {
    let rows = session.execute(&format!("SHOW CREATE TABLE {quoted}"))?;
    let definition = rows
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().nth(1));
    definition.ok_or_else(|| io::Error::other(format!("no definition of {quoted}")))
}

/// A number in the first column of the first row.
pub(super) fn number(session: &mut Session, statement: &str) -> io::Result<u64> {
    let value = session.value(statement)?;
    value
        .parse()
        .map_err(|_| io::Error::other(format!("{value} is not a number: {statement}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_reach_a_terminal_as_commands() {
        assert_eq!(shown("a", "b\u{1b}[2J\n"), "a.b\\u{1b}[2J\\n");
    }

    #[test]
    fn rows_of_the_list_are_read() {
        let row = |text: &str| table_of(&text.split(',').map(str::to_owned).collect());
        let table = row("d,t,InnoDB,SYSTEM VERSIONED,10,16384").unwrap();
        assert!(table.kind == Kind::Versioned && table.rows == 10 && table.is("d", "t"));
        assert_eq!(table.quoted(), "`d`.`t`");
        assert_eq!(row("d,t,InnoDB,BASE TABLE,x,1"), None);
        assert_eq!(row("d,t"), None);
    }
}

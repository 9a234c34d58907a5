//! The log of the progress: a JSON object for each event, on a line of its own.
//!
//! It is not needed to continue, because the engine of a table says whether it was converted. It contains what the
//! server does not know any more: former sizes, dropped foreign keys, and whether a converted table was compared.

use super::server::engine_of;
use super::tables::{Kind, Table};
use crate::paths::named;
use crate::sql_client::Session;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    Begun,
    ForeignKeyDropped,
    Converted,
    Failed,
}

/// A line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Seconds since 1970.
    pub time: u64,
    pub event: Event,
    pub database: String,
    pub table: String,
    pub engine: String,
    #[serde(default)]
    pub rows: u64,
    #[serde(default)]
    pub bytes_before: u64,
    #[serde(default)]
    pub bytes_after: u64,
    #[serde(default)]
    pub seconds: f64,
    /// Whether the rows were compared.
    #[serde(default)]
    pub verified: bool,
    /// The error, or the statement that adds a dropped foreign key.
    #[serde(default)]
    pub text: String,
}

impl Entry {
    pub(super) fn new(event: Event, table: &Table) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            time: time.map_or(0, |time| time.as_secs()),
            event,
            database: table.database.clone(),
            table: table.name.clone(),
            engine: table.engine.clone(),
            rows: 0,
            bytes_before: table.bytes,
            bytes_after: 0,
            seconds: 0.0,
            verified: false,
            text: String::new(),
        }
    }

    fn table(&self) -> Table {
        Table {
            database: self.database.clone(),
            name: self.table.clone(),
            engine: self.engine.clone(),
            kind: Kind::Plain,
            rows: self.rows,
            bytes: self.bytes_before,
            definition: String::new(),
        }
    }
}

/// The result of a table.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Converted(Entry),
    /// It was converted or dropped by another session.
    Skipped(Table),
    Failed(Table, String),
}

pub(super) struct Journal {
    path: PathBuf,
    file: File,
    earlier: Vec<Entry>,
}

/// The entries of a file, and the length of their lines. A line that was not written completely is left out.
fn read(path: &Path) -> io::Result<(Vec<Entry>, u64)> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|error| named(path, &error))?,
    };
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    let mut entries = Vec::new();
    for (number, line) in text.get(..end).unwrap_or_default().lines().enumerate() {
        let entry = serde_json::from_str(line).map_err(|error| {
            let line = number + 1;
            let text = format!(
                "{}, line {line}: {error}; --log names another file",
                path.display()
            );
            io::Error::other(text)
        })?;
        entries.push(entry);
    }
    Ok((entries, end as u64))
}

impl Journal {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (earlier, length) = read(path)?;
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .and_then(|file| file.set_len(length).map(|()| file))
            .map_err(|error| named(path, &error))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            earlier,
        })
    }

    /// Appends a line, durably.
    pub(super) fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let line = serde_json::to_string(entry)? + "\n";
        let written = self
            .file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data());
        written.map_err(|error| named(&self.path, &error))
    }

    /// The tables that earlier runs have converted, and those that interrupted runs have converted without an entry.
    pub(super) fn converted_before(
        &self,
        session: &mut Session,
        outcomes: &[Outcome],
    ) -> io::Result<Vec<Entry>> {
        let is_of = |entry: &Entry, outcome: &Outcome| match outcome {
            Outcome::Converted(own) => own.database == entry.database && own.table == entry.table,
            Outcome::Failed(table, _) => table.is(&entry.database, &entry.table),
            Outcome::Skipped(_) => false,
        };
        let mut converted = Vec::new();
        for entry in last_of_each(&self.earlier) {
            let is_candidate = matches!(entry.event, Event::Converted | Event::Begun)
                && !outcomes.iter().any(|outcome| is_of(entry, outcome));
            if is_candidate && engine_of(session, &entry.table())?.as_deref() == Some("TEAK") {
                converted.push(entry.clone());
            }
        }
        Ok(converted)
    }
}

/// The last entry of each table, except those about its foreign keys.
fn last_of_each(entries: &[Entry]) -> Vec<&Entry> {
    let mut last: Vec<&Entry> = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| entry.event != Event::ForeignKeyDropped)
    {
        last.retain(|other| other.database != entry.database || other.table != entry.table);
        last.push(entry);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: Event, name: &str) -> Entry {
        Entry {
            database: "d".to_owned(),
            table: name.to_owned(),
            ..Entry::new(
                event,
                &Table {
                    database: String::new(),
                    name: String::new(),
                    engine: "InnoDB".to_owned(),
                    kind: Kind::Plain,
                    rows: 0,
                    bytes: 5,
                    definition: String::new(),
                },
            )
        }
    }

    #[test]
    fn entries_are_read_again() {
        let path = std::env::temp_dir().join(format!("teak-journal-{}", std::process::id()));
        let mut journal = Journal::open(&path).unwrap();
        for (event, name) in [
            (Event::Begun, "a\n`"),
            (Event::Converted, "a\n`"),
            (Event::Begun, "b"),
            (Event::ForeignKeyDropped, "b"),
        ] {
            journal.write(&entry(event, name)).unwrap();
        }
        // As after a crash.
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"time\":")
            .unwrap();
        let mut journal = Journal::open(&path).unwrap();
        journal.write(&entry(Event::Failed, "c")).unwrap();
        let journal = Journal::open(&path).unwrap();
        let last = last_of_each(&journal.earlier);
        let last: Vec<(&str, Event)> = last
            .iter()
            .map(|entry| (entry.table.as_str(), entry.event))
            .collect();
        let expected = [
            ("a\n`", Event::Converted),
            ("b", Event::Begun),
            ("c", Event::Failed),
        ];
        assert_eq!(last, expected);
        assert_eq!(journal.earlier[0].bytes_before, 5);
        std::fs::write(&path, "no log\n").unwrap();
        let error = Journal::open(&path).err().unwrap().to_string();
        assert!(error.contains("line 1"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

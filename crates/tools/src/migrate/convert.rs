//! The conversion of tables, one after another.
//!
//! 1. Lock the table, so that its rows remain the same (`LOCK TABLES ... WRITE`), and compute its checksum.
//! 2. Convert it with `ALTER TABLE`. Until this statement commits, the table is unchanged.
//! 3. Compute the checksum again.
//!
//! Without a comparison, only step 2 is done, during which other sessions can read the table.

use super::arguments::Arguments;
use super::contents::{self, Contents};
use super::features::{self, ForeignKey};
use super::journal::{Entry, Event, Journal, Outcome};
use super::plan::Plan;
use super::planned::Planned;
use super::report;
use super::server::{Server, engine_of, free_bytes, size_of};
use super::tables::{self, Table};
use crate::names::quoted_name;
use crate::progress::{Progress, Unit};
use crate::sql_client::Session;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use teak_base::ByteSize;

/// How often the progress of a statement is read.
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// How often the end of a statement is noticed.
const WAIT: Duration = Duration::from_millis(20);

/// Free space that remains for other uses.
const SPARE_BYTES: u64 = 64 << 20;

pub(super) fn convert_all(
    server: &Server<'_>,
    plan: &Plan,
    arguments: &Arguments,
    journal: &mut Journal,
) -> io::Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let mut failed: Vec<Table> = Vec::new();
    for planned in plan.convertible() {
        let mut conversion = Conversion {
            server,
            planned,
            arguments,
            journal,
            failed: &failed,
            dropped: Vec::new(),
        };
        let outcome = match conversion.run() {
            Ok(Some(entry)) => Outcome::Converted(entry),
            Ok(None) => Outcome::Skipped(planned.table.clone()),
            Err(error) => {
                let mut text = error.to_string();
                text += &conversion.add_foreign_keys_again()?;
                let mut entry = Entry::new(Event::Failed, &planned.table);
                entry.text.clone_from(&text);
                journal.write(&entry)?;
                failed.push(planned.table.clone());
                Outcome::Failed(planned.table.clone(), text)
            }
        };
        report::print_outcome(&outcome);
        let differs = matches!(&outcome, Outcome::Failed(_, text) if text.starts_with(DIFFERS));
        outcomes.push(outcome);
        if differs {
            // The next table might lose rows, too.
            eprintln!("teak: no further table is converted");
            break;
        }
    }
    Ok(outcomes)
}

/// The begin of the message that the rows of a converted table are not those that it had.
const DIFFERS: &str = "THE ROWS DIFFER";

struct Conversion<'a> {
    server: &'a Server<'a>,
    planned: &'a Planned,
    arguments: &'a Arguments,
    journal: &'a mut Journal,
    /// The tables whose conversion has failed.
    failed: &'a [Table],
    /// Foreign keys that were dropped, with the statements that add them.
    dropped: Vec<(ForeignKey, String)>,
}

impl Conversion<'_> {
    /// Converts the table; `None` if it is no table of the other engine any more.
    fn run(&mut self) -> io::Result<Option<Entry>> {
        let table = &self.planned.table;
        let mut session = self.server.converting_session()?;
        self.check_space(&mut session)?;
        if !self.is_unchanged(&mut session)? {
            return Ok(None);
        }
        self.drop_foreign_keys(&mut session)?;
        let begun = Instant::now();
        let quoted = table.quoted();
        if !self.arguments.no_verify {
            session.execute(&format!("LOCK TABLES {quoted} WRITE"))?;
            // The last statement of an interrupted run may have converted it.
            if !self.is_unchanged(&mut session)? {
                return Ok(None);
            }
        }
        self.journal.write(&Entry::new(Event::Begun, table))?;
        let before = self.contents(&mut session)?;
        self.alter(&mut session, before.as_ref().map(|before| before.rows))?;
        if let Some(before) = &before {
            let after = contents::read(&mut session, table)?;
            if after != *before {
                return Err(io::Error::other(format!(
                    "{DIFFERS}: it was converted, but had {before}, and has {after}. Restore it from a backup, and report this",
                )));
            }
            session.execute("UNLOCK TABLES")?;
        }
        let mut entry = Entry::new(Event::Converted, table);
        entry.rows = match &before {
            Some(before) => before.rows,
            None => tables::number(&mut session, &format!("SELECT COUNT(*) FROM {quoted}"))?,
        };
        entry.bytes_before = table.bytes;
        entry.bytes_after = size_of(&mut session, table)?;
        entry.seconds = begun.elapsed().as_secs_f64();
        entry.verified = before.is_some();
        self.journal.write(&entry)?;
        Ok(Some(entry))
    }

    fn contents(&self, session: &mut Session) -> io::Result<Option<Contents>> {
        match self.arguments.no_verify {
            true => Ok(None),
            false => contents::read(session, &self.planned.table).map(Some),
        }
    }

    fn is_unchanged(&self, session: &mut Session) -> io::Result<bool> {
        let engine = engine_of(session, &self.planned.table)?;
        Ok(engine.as_ref() == Some(&self.planned.table.engine))
    }

    /// The new files are written, perhaps with spill files, before the old ones are removed.
    fn check_space(&self, session: &mut Session) -> io::Result<()> {
        if self.arguments.no_space_check {
            return Ok(());
        }
        let bytes = self
            .planned
            .estimate
            .map_or(self.planned.table.bytes, |estimate| estimate.bytes);
        let needed = bytes.saturating_mul(2).saturating_add(SPARE_BYTES);
        match free_bytes(session)? {
            Some(free) if free < needed => Err(io::Error::other(format!(
                "it needs about {} of free space, and {} are free (--no-space-check converts it)",
                ByteSize(needed),
                ByteSize(free)
            ))),
            _ => Ok(()),
        }
    }

    /// Drops the foreign keys that prevent the conversion. Their definitions are logged before.
    fn drop_foreign_keys(&mut self, session: &mut Session) -> io::Result<()> {
        for key in &self.planned.foreign_keys {
            let quoted = key.quoted_table();
            let definition = tables::definition(session, &quoted)?;
            // That of another table was dropped with its conversion.
            let Some(constraint) = features::constraint(&definition, &key.name) else {
                continue;
            };
            if self
                .failed
                .iter()
                .any(|table| table.is(&key.database, &key.table))
            {
                return Err(io::Error::other(format!(
                    "FOREIGN KEY {} of {} refers to it, which was not converted",
                    key.name,
                    key.shown_table()
                )));
            }
            let statement = format!("ALTER TABLE {quoted} ADD {constraint}");
            let mut entry = Entry::new(Event::ForeignKeyDropped, &self.planned.table);
            entry.text.clone_from(&statement);
            self.journal.write(&entry)?;
            session.execute(&format!(
                "ALTER TABLE {quoted} DROP FOREIGN KEY {}",
                quoted_name(&key.name)
            ))?;
            self.dropped.push((key.clone(), statement));
        }
        Ok(())
    }

    /// Adds the foreign keys again if the table was not converted. Returns what is to be said about it.
    fn add_foreign_keys_again(&mut self) -> io::Result<String> {
        if self.dropped.is_empty() {
            return Ok(String::new());
        }
        let mut session = self.server.converting_session()?;
        if !self.is_unchanged(&mut session)? {
            return Ok(String::new());
        }
        // The rows were checked when they were written; those since then are not.
        session.execute("SET SESSION foreign_key_checks = OFF")?;
        let mut text = String::new();
        for (_, statement) in self.dropped.drain(..) {
            if let Err(error) = session.execute(&statement) {
                text = format!(
                    "; a foreign key was dropped and cannot be added again ({error}): {statement}"
                );
                break;
            }
        }
        Ok(text)
    }

    /// Executes the conversion, and shows its progress.
    fn alter(&self, session: &mut Session, rows: Option<u64>) -> io::Result<()> {
        let table = &self.planned.table;
        let statement = self.planned.statement(&table.quoted(), self.arguments);
        let id = tables::number(session, "SELECT CONNECTION_ID()")?;
        let mut watcher = self.server.session()?;
        let rows = rows.unwrap_or(table.rows).max(1);
        let mut progress = Progress::new(table.shown(), Unit::Rows, rows);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let outcome = session.execute(&statement);
                ended.store(true, Ordering::Release);
                outcome
            });
            let mut polled = Instant::now();
            while !ended.load(Ordering::Acquire) {
                std::thread::sleep(WAIT);
                if polled.elapsed() >= POLL_PERIOD {
                    polled = Instant::now();
                    // Without an answer only the bar stops.
                    progress.at(copied_rows(&mut watcher, id, rows).unwrap_or(0));
                }
            }
            let outcome = work
                .join()
                .map_err(|_| io::Error::other("a thread has failed"))?;
            outcome.map(|_| ())
        })
    }
}

/// How many of the rows a statement has copied.
fn copied_rows(session: &mut Session, id: u64, rows: u64) -> Option<u64> {
    let statement = format!(
        "SELECT STAGE, ROUND(PROGRESS * 1000) FROM INFORMATION_SCHEMA.PROCESSLIST WHERE ID = {id}"
    );
    let answer = session.execute(&statement).ok()?;
    let numbers: Vec<u64> = answer
        .first()?
        .iter()
        .map(|value| value.parse().unwrap_or(0))
        .collect();
    let [stage, progress] = numbers.as_slice() else {
        return None;
    };
    Some(copied(*stage, *progress, rows))
}

/// `progress`: of the stage, in thousandths of a percent. In the stages after the first one, all rows are copied.
fn copied(stage: u64, progress: u64, rows: u64) -> u64 {
    const ALL: u64 = 100_000;
    let part = if stage > 1 { ALL } else { progress.min(ALL) };
    u64::try_from(u128::from(rows) * u128::from(part) / u128::from(ALL)).unwrap_or(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_that_of_the_rows() {
        assert_eq!(copied(0, 0, 1000), 0);
        assert_eq!(copied(1, 50_000, 1000), 500);
        assert_eq!(copied(2, 1_000, 1000), 1000);
        assert_eq!(copied(1, 200_000, u64::MAX), u64::MAX);
    }
}

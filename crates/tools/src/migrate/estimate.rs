//! Estimates of a table of Teak, from a sample of the rows of a table of another engine.
//!
//! The sample is a copy of the definition with some rows, in a database of its own. The rows are those at the beginning
//! of evenly spaced ranges of the primary key, if it begins with an integer: neighbours compress as they will in the whole
//! table. Otherwise they are the first ones.

use super::arguments::Arguments;
use super::planned::{Estimate, Planned};
use super::server::Server;
use super::tables::{self, Kind, SAMPLE_DATABASE as DATABASE, Table};
use crate::names::quoted_name;
use crate::sql_client::{Session, quoted};
use std::io;
use std::time::Instant;

/// The comment of the database of the samples says that it can be dropped.
const COMMENT: &str = "samples of teak migrate";

/// Ranges of keys from which the rows are taken.
const RANGES: u64 = 8;

/// What was measured of a sample.
#[derive(Clone, Copy, Debug)]
struct Measured {
    rows: u64,
    live_bytes: u64,
    file_bytes: u64,
    row_bytes: u64,
    insert_seconds: f64,
    scan_seconds: f64,
}

pub(super) struct Samples<'a> {
    server: &'a Server<'a>,
    arguments: &'a Arguments,
    session: Session,
}

fn connect(server: &Server<'_>) -> io::Result<Session> {
    let mut session = server.session()?;
    // The samples do not belong to the replicas.
    session.execute("SET SESSION sql_log_bin = OFF, teak_bulk_load_threshold = 0")?;
    Ok(session)
}

fn drop_database(session: &mut Session) -> io::Result<()> {
    session.execute(&format!(
        "DROP DATABASE IF EXISTS {}",
        quoted_name(DATABASE)
    ))?;
    Ok(())
}

fn sample_name() -> String {
    format!("{}.`sample`", quoted_name(DATABASE))
}

impl<'a> Samples<'a> {
    pub(super) fn begin(server: &'a Server<'a>, arguments: &'a Arguments) -> io::Result<Self> {
        let mut session = connect(server)?;
        let comment = session.execute(&format!(
            "SELECT SCHEMA_COMMENT FROM INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = {}",
            quoted(DATABASE)
        ))?;
        let comment = comment.first().and_then(|row| row.first());
        if comment.is_some_and(|comment| comment != COMMENT) {
            return Err(io::Error::other(format!(
                "the database {DATABASE} exists and is not one of this command; --sample-rows=0 needs none"
            )));
        }
        // That of a run that was killed.
        drop_database(&mut session)?;
        let mut samples = Self {
            server,
            arguments,
            session,
        };
        samples.create_database()?;
        Ok(samples)
    }

    fn create_database(&mut self) -> io::Result<()> {
        self.session.execute(&format!(
            "CREATE DATABASE {} COMMENT {}",
            quoted_name(DATABASE),
            quoted(COMMENT)
        ))?;
        Ok(())
    }

    /// Estimates a table. `Err` is the reason for which the server does not convert it.
    ///
    /// # Errors
    /// Errors of the connection.
    pub(super) fn estimate(&mut self, planned: &Planned) -> io::Result<Result<Estimate, String>> {
        if planned.table.kind == Kind::Sequence {
            // One row, which CREATE TABLE ... LIKE does not copy.
            let estimate = Estimate {
                rows: 1,
                bytes: planned.table.bytes,
                seconds: 0.1,
                is_complete: false,
            };
            return Ok(Ok(estimate));
        }
        let measured = self.measure(planned);
        // The client has ended after an error, and otherwise has other settings.
        self.session = connect(self.server)?;
        drop_database(&mut self.session)?;
        self.create_database()?;
        let scaled = |measured| scaled(&planned.table, measured, self.arguments);
        Ok(measured.map(scaled).map_err(|error| error.to_string()))
    }

    fn measure(&mut self, planned: &Planned) -> io::Result<Measured> {
        let table = &planned.table;
        let sample = sample_name();
        let session = &mut self.session;
        session.execute(&format!("CREATE TABLE {sample} LIKE {}", table.quoted()))?;
        session.execute(&planned.statement(&sample, self.arguments))?;
        // A sample may contain values that the server would not accept any more.
        session.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', check_constraint_checks = OFF")?;
        let columns = columns(session, table)?;
        let begun = Instant::now();
        for source in sources(session, table, self.arguments.sample_rows)? {
            session.execute(&format!(
                "INSERT INTO {sample} ({columns}) SELECT {columns} FROM {source}"
            ))?;
        }
        let insert_seconds = begun.elapsed().as_secs_f64();
        let rows = tables::number(session, &format!("SELECT COUNT(*) FROM {sample}"))?;
        let sizes = "SELECT IFNULL(SUM(LIVE_BYTES), 0), IFNULL(SUM(FILE_BYTES), 0), IFNULL(SUM(RAW_BYTES), 0), \
             IFNULL(SUM(MEMTABLE_BYTES), 0) FROM INFORMATION_SCHEMA.TEAK_INDEXES WHERE TABLE_SCHEMA = ";
        let sizes = format!("{sizes}{}", quoted(DATABASE));
        let mut found = numbers(session, &sizes)?;
        if found.get(3).is_some_and(|memtable| *memtable > 0) {
            // Rows that no bulk load has inserted, as those of a table with system versioning.
            session.execute(&format!("OPTIMIZE TABLE {sample}"))?;
            found = numbers(session, &sizes)?;
        }
        let begun = Instant::now();
        session.execute(&format!("CHECKSUM TABLE {sample} EXTENDED"))?;
        let size = |at: usize| found.get(at).copied().unwrap_or(0);
        Ok(Measured {
            rows,
            live_bytes: size(0),
            file_bytes: size(1),
            row_bytes: size(2),
            insert_seconds,
            scan_seconds: begun.elapsed().as_secs_f64(),
        })
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        drop_database(&mut self.session)
    }
}

fn numbers(session: &mut Session, statement: &str) -> io::Result<Vec<u64>> {
    let rows = session.execute(statement)?;
    let row = rows.into_iter().next().unwrap_or_default();
    Ok(row.iter().map(|value| value.parse().unwrap_or(0)).collect())
}

/// The columns of a table that can be inserted.
fn columns(session: &mut Session, table: &Table) -> io::Result<String> {
    let rows = session.execute(&format!(
        "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE {} AND IS_GENERATED = 'NEVER' ORDER BY ORDINAL_POSITION",
        table.condition()
    ))?;
    let names: Vec<String> = rows
        .iter()
        .flatten()
        .map(|name| quoted_name(name))
        .collect();
    match names.is_empty() {
        true => Err(io::Error::other("it has no columns that can be inserted")),
        false => Ok(names.join(", ")),
    }
}

/// What follows FROM in the statements that select the rows of the sample.
fn sources(session: &mut Session, table: &Table, sample_rows: u64) -> io::Result<Vec<String>> {
    let quoted = table.quoted();
    let beginning = || vec![format!("{quoted} LIMIT {sample_rows}")];
    if table.rows <= sample_rows {
        return Ok(beginning());
    }
    let rows = session.execute(&format!(
        "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.STATISTICS JOIN INFORMATION_SCHEMA.COLUMNS \
         USING (TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME) WHERE {} AND INDEX_NAME = 'PRIMARY' AND SEQ_IN_INDEX = 1 \
         AND DATA_TYPE IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint')",
        table.condition()
    ))?;
    let Some(column) = rows.first().and_then(|row| row.first()) else {
        return Ok(beginning());
    };
    let column = quoted_name(column);
    let rows = session.execute(&format!(
        "SELECT MIN({column}), MAX({column}) FROM {quoted}"
    ))?;
    let limits: Vec<i128> = rows
        .iter()
        .flatten()
        .filter_map(|value| value.parse().ok())
        .collect();
    let [min, max] = limits.as_slice() else {
        return Ok(beginning());
    };
    let limit = sample_rows.div_ceil(RANGES);
    let source = |(from, to): (i128, i128)| {
        format!(
            "{quoted} WHERE {column} >= {from} AND {column} < {to} ORDER BY {column} LIMIT {limit}"
        )
    };
    Ok(ranges(*min, *max).into_iter().map(source).collect())
}

/// Evenly spaced ranges from `min` to `max`, the latter included.
fn ranges(min: i128, max: i128) -> Vec<(i128, i128)> {
    let width = max - min + 1;
    let count = i128::from(RANGES).min(width);
    let begin = |number: i128| min + width * number / count;
    (0..count)
        .map(|number| (begin(number), begin(number + 1)))
        .collect()
}

fn scaled(table: &Table, measured: Measured, arguments: &Arguments) -> Estimate {
    // All rows were copied if there are fewer than were asked for.
    let is_complete = measured.rows < arguments.sample_rows && table.rows <= arguments.sample_rows;
    let rows = if is_complete {
        measured.rows
    } else {
        table.rows.max(measured.rows)
    };
    let factor = rows as f64 / measured.rows.max(1) as f64;
    let scans = if arguments.no_verify { 0.0 } else { 2.0 };
    let mut seconds = (measured.insert_seconds + scans * measured.scan_seconds) * factor;
    if let Some(throttle) = arguments.throttle {
        seconds = seconds.max(throttle.seconds(rows, times(measured.row_bytes, factor)));
    }
    Estimate {
        rows,
        bytes: times(measured.live_bytes, factor).max(measured.file_bytes),
        seconds,
        is_complete,
    }
}

/// A number of bytes multiplied by a factor.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the factor is at least 1, and `as` saturates
fn times(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_even_and_contain_all_keys() {
        assert_eq!(ranges(5, 5), [(5, 6)]);
        let few = ranges(-1, 1);
        assert_eq!(few, [(-1, 0), (0, 1), (1, 2)]);
        let all = ranges(i128::from(i64::MIN), i128::from(u64::MAX));
        assert_eq!(all.len() as u64, RANGES);
        assert_eq!(all[0].0, i128::from(i64::MIN));
        assert_eq!(all[7].1, i128::from(u64::MAX) + 1);
        assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}

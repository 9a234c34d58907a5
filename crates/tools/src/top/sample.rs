//! What the server reports at one moment.

use crate::names::table_of;
use crate::sql_client::{Row, Session};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Instant;

/// The index files of a table, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableUse {
    /// Since the files were opened.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub memtable_bytes: u64,
    pub file_bytes: u64,
    /// Of the index of the rows.
    pub entries: u64,
}

/// A row of INFORMATION_SCHEMA.TEAK_BACKGROUND_JOBS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Job {
    pub is_running: bool,
    pub kind: String,
    pub detail: String,
    /// Empty for a job without a table.
    pub table: String,
    pub index: String,
    pub elapsed_milliseconds: u64,
    pub done: u64,
    /// Zero if it is not known.
    pub total: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    /// The time of the server.
    pub time: String,
    pub uptime_seconds: u64,
    /// The status variables, without `Teak_` and in lower case.
    pub status: HashMap<String, u64>,
    pub tables: BTreeMap<String, TableUse>,
    pub jobs: Vec<Job>,
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// The server's prefix of names that are those of files, as partitions have them.
const FILE_NAME_PREFIX: &str = "#mysql50#";

/// The name of a table, without that of a partition. A table of the engine itself has no database.
fn table_name(database: &str, table: &str) -> String {
    let table = match table.strip_prefix(FILE_NAME_PREFIX) {
        Some(file_name) => table_of(file_name),
        None => table.to_owned(),
    };
    match database.is_empty() {
        true => table,
        false => format!("{database}.{table}"),
    }
}

fn add_index(tables: &mut BTreeMap<String, TableUse>, row: &Row) {
    let [
        database,
        table,
        index,
        read,
        written,
        memtable,
        file,
        entries,
    ] = row.as_slice()
    else {
        return;
    };
    let sum = tables.entry(table_name(database, table)).or_default();
    sum.bytes_read += number(read);
    sum.bytes_written += number(written);
    sum.memtable_bytes += number(memtable);
    sum.file_bytes += number(file);
    if index == "PRIMARY" {
        sum.entries += number(entries);
    }
}

fn job_of(row: &Row) -> Option<Job> {
    let [
        state,
        kind,
        detail,
        database,
        table,
        index,
        elapsed,
        done,
        total,
    ] = row.as_slice()
    else {
        return None;
    };
    Some(Job {
        is_running: state == "RUNNING",
        kind: kind.clone(),
        detail: detail.clone(),
        table: match table.is_empty() {
            true => String::new(),
            false => table_name(database, table),
        },
        index: index.clone(),
        elapsed_milliseconds: number(elapsed),
        done: number(done),
        total: number(total),
    })
}

impl Sample {
    pub(super) fn read(session: &mut Session) -> io::Result<Self> {
        let rows = session.execute(
            "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Teak\\_%' OR Variable_name = 'Uptime'",
        )?;
        let at = Instant::now();
        let mut status = HashMap::new();
        let mut uptime_seconds = 0;
        for row in &rows {
            if let [name, value] = row.as_slice() {
                match name.strip_prefix("Teak_") {
                    Some(name) => drop(status.insert(name.to_lowercase(), number(value))),
                    None => uptime_seconds = number(value),
                }
            }
        }
        if status.is_empty() {
            return Err(io::Error::other("the server has no engine TEAK"));
        }
        let mut tables = BTreeMap::new();
        let rows = session.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, BYTES_READ, BYTES_WRITTEN, MEMTABLE_BYTES, FILE_BYTES, \
             ENTRIES FROM INFORMATION_SCHEMA.TEAK_INDEXES",
        )?;
        rows.iter().for_each(|row| add_index(&mut tables, row));
        let rows = session.execute(
            "SELECT JOB_STATE, JOB_KIND, DETAIL, IFNULL(TABLE_SCHEMA, ''), IFNULL(TABLE_NAME, ''), \
             IFNULL(INDEX_NAME, ''), IFNULL(ELAPSED_MS, 0), IFNULL(PROGRESS_DONE, 0), IFNULL(PROGRESS_TOTAL, 0) \
             FROM INFORMATION_SCHEMA.TEAK_BACKGROUND_JOBS",
        )?;
        Ok(Self {
            at,
            time: session.value("SELECT DATE_FORMAT(NOW(), '%Y-%m-%dT%H:%i:%s')")?,
            uptime_seconds,
            status,
            tables,
            jobs: rows.iter().filter_map(job_of).collect(),
        })
    }

    /// A status variable; zero in a server that does not have it.
    pub(super) fn status(&self, name: &str) -> u64 {
        self.status.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn indexes_and_partitions_are_added_to_their_table() {
        let mut tables = BTreeMap::new();
        for text in [
            "d,#mysql50#t@002d#P#p0,PRIMARY,1,2,3,4,5",
            "d,#mysql50#t@002d#P#p1,PRIMARY,10,20,30,40,50",
            "d,#mysql50#t@002d#P#p1,k,100,0,0,0,500",
        ] {
            add_index(&mut tables, &row(text));
        }
        let expected = TableUse {
            bytes_read: 111,
            bytes_written: 22,
            memtable_bytes: 33,
            file_bytes: 44,
            entries: 55,
        };
        assert_eq!(table_name("d", "t#P#p0"), "d.t#P#p0");
        assert_eq!(
            table_name("", "#mysql50#teak.statistics"),
            "teak.statistics"
        );
        assert_eq!(
            tables.into_iter().collect::<Vec<_>>(),
            [("d.t-".to_owned(), expected)]
        );
    }

    #[test]
    fn jobs_without_a_table_are_read() {
        let job = job_of(&row("RUNNING,CHECKPOINT ROUND,,,,,12,1,4")).unwrap();
        assert!(job.is_running && job.table.is_empty() && job.total == 4);
        let job = job_of(&row("WAITING,COMPACTION,leaf,d,t,k,0,0,0")).unwrap();
        assert!(!job.is_running && job.table == "d.t" && job.index == "k");
        assert_eq!(job_of(&row("RUNNING")), None);
    }
}

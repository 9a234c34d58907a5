//! What to dump.

use crate::cell::hex;
use crate::output::Format;
use clap::Args;
use std::io;
use std::path::PathBuf;

/// Writes the rows of a table, or the records of the log, as CSV, JSON lines or SQL.
///
/// Nothing is changed, and the server must not run, or the files must be a copy.
///
/// teak dump DIRECTORY --table DATABASE.TABLE reads a data directory as the server would see it after a start: the rows that
/// are committed, those in the log included. What recovery would write to files goes to temporary files instead
/// (--scratch), of about the size of the log. Prepared XA transactions are left out.
///
/// teak dump FILE.teak reads one index file as of its last checkpoint, without the log. If the file is in its data directory,
/// or with --data, the catalogue says what the columns are and which writes were rolled back.
///
/// teak dump DIRECTORY --log shows each record of the log: its segment and position, its kind, the write, and for each
/// operation the index, the key and the value in hexadecimal digits. It also reads logs that are damaged. Damage is
/// reported on standard error.
///
/// Names and types of columns are those of the .frm file that the catalogue contains. TIMESTAMP columns are in UTC. Virtual
/// columns are left out; BLOB and BINARY values are hexadecimal (CSV: 0x00ff, JSON: {"hex":"00ff"}, SQL: x'00ff'). If the definition
/// is not known, columns have the numbers of `teak inspect`, integers of keys are unsigned with an inverted sign bit, and
/// dates and ENUM values are the integers that MariaDB stores.
///
/// The exit code is 0 if everything was read, 1 after an error, and 2 if parts of the log are damaged.
///
/// Examples:
///
///   teak dump /var/lib/mysql --tables
///
///   teak dump /var/lib/mysql --table shop.orders --output orders.csv
///
///   teak dump /backup/mysql --table shop.orders --format json | jq 'select(.total > 100)'
///
///   teak dump /backup/mysql --table shop.orders --format sql --into orders_old | mariadb shop
///
///   teak dump /var/lib/mysql --log --format json | jq -c 'select(.kind == "Commit")'
///
/// CSV is read by:
///
///   LOAD DATA INFILE 'orders.csv' INTO TABLE orders CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','
///   OPTIONALLY ENCLOSED BY '"' ESCAPED BY '' IGNORE 1 LINES
#[derive(Args)]
#[command(name = "dump", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// A data directory, or an index file
    pub(super) path: PathBuf,
    /// The table, as DATABASE.TABLE; with all of its partitions
    #[arg(long, short, value_name = "NAME")]
    pub(super) table: Option<String>,
    /// List the tables of the data directory
    #[arg(long, conflicts_with_all = ["table", "log"])]
    pub(super) tables: bool,
    /// Write the records of the log
    #[arg(long, conflicts_with = "table")]
    pub(super) log: bool,
    /// The form of the output
    #[arg(long, short, value_enum, default_value = "csv")]
    pub(super) format: Format,
    /// Where to write; standard output when not given
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write at most so many rows or records
    #[arg(long, value_name = "NUMBER")]
    pub(super) limit: Option<u64>,
    /// The table in INSERT statements; the name of the dumped table when not given
    #[arg(long, value_name = "NAME")]
    pub(super) into: Option<String>,
    /// The data directory whose catalogue describes an index file
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) data: Option<PathBuf>,
    /// The directory of temporary files; that of the system when not given
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) scratch: Option<PathBuf>,
}

impl Arguments {
    /// Whether another row is wanted after so many.
    pub(super) fn wants_after(&self, rows: u64) -> bool {
        self.limit.is_none_or(|limit| rows < limit)
    }
}

/// The error of a row that does not match the definition.
pub(super) fn undecodable(key: &[u8], reason: &str) -> io::Error {
    let key = hex(key);
    io::Error::other(format!(
        "the row with the key 0x{key} cannot be decoded: {reason}"
    ))
}

//! The command line of `teak migrate`.

use super::throttle::Throttle;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// An engine whose tables can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    #[value(name = "InnoDB")]
    InnoDb,
    #[value(name = "TokuDB")]
    TokuDb,
    #[value(name = "MyISAM")]
    MyIsam,
    #[value(name = "Aria")]
    Aria,
}

/// Converts tables of other engines of a running server to Teak.
///
/// Without --execute, only shows the plan: the tables, what Teak does not support of them, and estimates of their sizes
/// and of the time. For the estimates, a sample of each table is copied to a table of Teak in the database
/// teak_migrate_sample, which is dropped at the end.
///
/// With --execute, each table is converted by ALTER TABLE ... ENGINE=TEAK, and compared with its former rows by CHECKSUM
/// TABLE. A table is converted completely or not at all: after an interruption, run the command again. The databases of
/// the system are left out.
///
/// The exit code is 0 if all tables can be converted or were converted, and 1 otherwise.
///
/// Examples:
///
///   teak migrate --database=shop -- --socket=/run/mysqld/mysqld.sock
///
///   teak migrate --database='shop*' --from=InnoDB --throttle=20MiB --execute -- --defaults-extra-file=/root/admin.cnf
#[derive(Args)]
#[command(name = "migrate", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Databases, with * and ? for any characters; may be repeated. Default: all
    #[arg(long, value_name = "PATTERN")]
    pub(super) database: Vec<String>,

    /// Tables, with * and ?; may be repeated. Default: all
    #[arg(long, value_name = "PATTERN")]
    pub(super) table: Vec<String>,

    /// Engines whose tables are converted; may be repeated. Default: all of these
    #[arg(long, value_name = "ENGINE", ignore_case = true)]
    pub(super) from: Vec<Engine>,

    /// Convert the tables
    #[arg(long)]
    pub(super) execute: bool,

    /// Only show the plan, which is the default
    #[arg(long, conflicts_with = "execute")]
    pub(super) dry_run: bool,

    /// The most rows or bytes of rows per second that are converted, for example 50000rows or 20MiB
    #[arg(long)]
    pub(super) throttle: Option<Throttle>,

    /// Do not compare checksums. Then other sessions can read a table while it is converted
    #[arg(long)]
    pub(super) no_verify: bool,

    /// Rows of each table that are copied for the estimates; 0: no estimates
    #[arg(long, default_value_t = 100_000)]
    pub(super) sample_rows: u64,

    /// Drop the foreign keys of the tables, and those that refer to them
    #[arg(long)]
    pub(super) drop_foreign_keys: bool,

    /// Drop the FULLTEXT and SPATIAL keys of the tables
    #[arg(long)]
    pub(super) drop_fulltext_and_spatial_keys: bool,

    /// Convert tables that innodb_encrypt_tables encrypts, although teak_encrypt_tables is OFF: their rows are not encrypted any more
    #[arg(long)]
    pub(super) decrypt: bool,

    /// COMPRESSION of the new tables. Default: that of the server
    #[arg(long, value_name = "NAME", value_parser = ["none", "lz4", "snappy", "zstd", "zlib", "lzma"])]
    pub(super) compression: Option<String>,

    /// Do not check that the disk has enough free space
    #[arg(long)]
    pub(super) no_space_check: bool,

    /// Do not write the statements to the binary log
    #[arg(long)]
    pub(super) no_binlog: bool,

    /// Seconds to wait for other users of a table
    #[arg(long, default_value_t = 60)]
    pub(super) lock_wait: u32,

    /// The file to which the progress is appended, and from which it is read
    #[arg(long, default_value = "teak-migrate.log")]
    pub(super) log: PathBuf,

    /// The client with which this command connects
    #[arg(long, default_value = "mariadb")]
    pub(super) client: PathBuf,

    /// Options of the client that say how to connect
    #[arg(last = true)]
    pub(super) options: Vec<String>,
}

impl Arguments {
    /// The names of the engines.
    pub(super) fn engines(&self) -> Vec<String> {
        let engines = match self.from.is_empty() {
            true => Engine::value_variants(),
            false => &self.from,
        };
        let names = engines.iter().filter_map(ValueEnum::to_possible_value);
        names.map(|value| value.get_name().to_owned()).collect()
    }
}

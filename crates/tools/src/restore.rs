//! `teak restore`: makes a data directory of a backup, and rolls it forward.
//!
//! 1. Find what leads from the backup to the target in the binary log, and verify the backup.
//! 2. Copy the backup into the data directory, to a place that no server uses. `mariadb-backup --prepare` changes the
//!    copy, never the backup.
//!    Increments are applied to the copy in their order; Teak's files are merged at step 4 instead.
//! 3. `mariadb-backup --move-back` puts the files in the order of a data directory.
//! 4. With increments: merge Teak's files of all backups into the data directory.
//! 5. With `--to`: start a private server, apply the transactions, and stop it.
//! 6. Move the files to the data directory.

mod chain;
mod copy;
mod destination;
mod events;
mod plan;
mod programs;
mod replay;
mod server;
mod source;
mod target;

use self::chain::Chain;
use self::copy::Copy;
use self::destination::{Destination, check_empty};
use self::plan::{Plan, plan};
use self::server::{Launch, PrivateServer};
use self::source::Source;
use self::target::Target;
use crate::backup_info::INFO as BACKUP_INFO;
use crate::increments::is_teaks;
use crate::index_files::find;
use crate::server_options::{is_defaults, name_of};
use crate::sizes::grouped;
use clap::Args;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use teak_base::ByteSize;
use teak_engine::BACKUP_LIST_FILE;

/// Options of mariadb-backup that this command gives itself, or that would leave the restore incomplete.
const REFUSED: [&str; 9] = [
    "backup",
    "prepare",
    "copy-back",
    "move-back",
    "target-dir",
    "datadir",
    "apply-log-only",
    "incremental-dir",
    "force-non-empty-directories",
];

/// Where the restored server stands, in the data directory.
const INFO: &str = "teak_restore_info";

/// Restores a backup of `teak backup` to an empty data directory, and with --to rolls it forward to a transaction, a
/// position of the binary log, or a time.
///
/// The backup is verified first, as by `teak verify`, and it is never changed: a copy of it is prepared with
/// `mariadb-backup --prepare`. The data directory must not exist, or be empty. Until the restore is complete,
/// everything is below DATADIR/teak-restore.incomplete, and no server can start on DATADIR. After a failure this
/// directory remains, with the output of the programs. Remove it before the next attempt.
///
/// Incremental backups are given with --incremental, in their order: the first one has the full backup as its base, and each
/// other the one before it. The result is the state of the last one.
///
/// --to names the last state that is wanted:
///
///   0-1-4711                 after the transaction with this GTID
///   binlog.000003:90210      at this position, which must be the end of a transaction
///   '2026-05-31 17:45:00'    before the first transaction of this second, in the local time zone; with UTC at its
///                            end, in UTC
///
/// The binary log is read from files in --binlog-dir: that of the backup's position and those after it. Files that are
/// missing, damaged, encrypted, or of another server are refused before anything is copied, and so is a target that is
/// before the backup or not in the files. To look for a target: `mariadb-binlog -v FILE`.
///
/// The transactions are applied by a private server, which has no port. It is started with the plugin of Teak in the
/// directory of the server's plugins, or in --plugin-dir. It takes the settings of InnoDB that the backup has
/// recorded; others can be given with --server-option, for example lower-case-table-names, or plugins of other engines.
///
/// The files get the owner of DATADIR, if the command runs as root.
///
/// A backup with --teak-only is copied. It has no system tables: add them with mariadb-install-db before a server starts.
///
/// The exit code is 0 if the restore is complete, and 1 otherwise. DATADIR/teak_restore_info contains the reached position.
///
/// Examples:
///
///   teak restore /backup/monday --datadir=/var/lib/mysql
///
///   teak restore /backup/monday --incremental=/backup/tuesday --incremental=/backup/wednesday --datadir=/var/lib/mysql
///
///   teak restore /backup/monday --datadir=/var/lib/mysql --to=0-1-4711 --binlog-dir=/var/log/mysql
///
///   teak restore /backup/monday --datadir=/var/lib/mysql --to='2026-05-31 17:45:00' --binlog-dir=/var/log/mysql
///     --server-option=--innodb-buffer-pool-size=8G -- --use-memory=8G
#[derive(Args)]
#[command(name = "restore", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The directory of the full backup.
    backup: PathBuf,

    /// An incremental backup; may be repeated.
    #[arg(long, value_name = "DIR")]
    incremental: Vec<PathBuf>,

    /// The data directory to create. It must not exist, or be empty.
    #[arg(long)]
    datadir: PathBuf,

    /// Roll forward to a GTID, FILE:POSITION, or time.
    #[arg(long, value_name = "TARGET", requires = "binlog_dir")]
    to: Option<String>,

    /// The directory with the files of the binary log.
    #[arg(long, value_name = "DIR", requires = "to")]
    binlog_dir: Option<PathBuf>,

    /// MiB per second that are copied; 0: no limit.
    #[arg(long, default_value_t = 0)]
    throttle: u32,

    /// The program mariadb-backup.
    #[arg(long, value_name = "FILE", default_value = "mariadb-backup")]
    mariadb_backup: PathBuf,

    /// The program mariadb-binlog.
    #[arg(long, value_name = "FILE", default_value = "mariadb-binlog")]
    mariadb_binlog: PathBuf,

    /// The client mariadb.
    #[arg(long, value_name = "FILE", default_value = "mariadb")]
    client: PathBuf,

    /// The server's program; by default mariadbd in PATH or in the directories of system programs.
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,

    /// The directory of the server's plugins, with ha_teak.so; by default that of the server.
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,

    /// An option of the private server, as --name=value; may be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    server_option: Vec<String>,

    /// Options of mariadb-backup, as --name=value. Without --defaults-file it reads no option files.
    #[arg(last = true)]
    options: Vec<String>,
}

/// What the private server needs.
struct RollForward {
    plan: Plan,
    server: PathBuf,
    plugins: PathBuf,
}

fn refused<T>(text: impl Into<String>) -> io::Result<T> {
    Err(io::Error::other(text.into()))
}

fn check_options(options: &[String]) -> io::Result<()> {
    for option in options {
        if !option.starts_with("--") {
            return refused(format!(
                "{option} is not permitted: write options as --name=value"
            ));
        }
        let name = name_of(option).replace('_', "-");
        if REFUSED.contains(&name.as_str()) {
            return refused(format!(
                "--{name} is not permitted: teak restore decides about it itself"
            ));
        }
    }
    Ok(())
}

/// The data directory must not be in the backup.
fn check_outside(directory: &Path, backup: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(directory)?;
    let existing = absolute.ancestors().find(|path| path.exists());
    let existing = existing.unwrap_or(&absolute).canonicalize()?;
    match existing.starts_with(backup) {
        true => refused("the data directory must not be in the backup"),
        false => Ok(()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    check_options(&arguments.options)?;
    let chain = Chain::open(&arguments.backup, &arguments.incremental)?;
    for directory in chain.directories() {
        check_outside(&arguments.datadir, &directory)?;
    }
    let source = chain.newest();
    check_empty(&arguments.datadir)?;
    let forward = roll_forward(arguments, source)?;
    if source.is_whole {
        programs::version(&arguments.mariadb_backup)?;
    }
    let files = chain.verify()?;
    println!("verified: {files} files of Teak");
    let place = Destination::create(&arguments.datadir)?;
    let restored = restore(arguments, &chain, &place, forward.as_ref());
    restored.map_err(|error| place.failed(&error))?;
    let shown = place.directory.display();
    match forward.map(|forward| forward.plan) {
        Some(plan) => println!(
            "complete: {shown} at {}, GTID {}, {} after the backup",
            plan.reached,
            joined(&plan.gtids),
            counted(plan.transactions)
        ),
        None => println!("complete: {shown}{}", position(source)),
    }
    if !source.is_whole {
        println!(
            "the backup has only Teak's tables: add system tables with mariadb-install-db --datadir={shown}"
        );
    }
    if let Some(hint) = place.hint() {
        println!("{hint}");
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(transactions: u64) -> String {
    match transactions {
        1 => "1 transaction".to_owned(),
        more => format!("{} transactions", grouped(more)),
    }
}

fn joined(gtids: &[target::Gtid]) -> String {
    let texts: Vec<String> = gtids.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// The position of the backup, as the end of a message.
fn position(source: &Source) -> String {
    source.recorded().map_or_else(String::new, |recorded| {
        let gtids = joined(&recorded.gtids);
        format!(" at {}, GTID {gtids}", recorded.position)
    })
}

/// Finds the transactions to apply, and the programs for it.
fn roll_forward(arguments: &Arguments, source: &Source) -> io::Result<Option<RollForward>> {
    let (Some(to), Some(directory)) = (&arguments.to, &arguments.binlog_dir) else {
        return Ok(None);
    };
    let target = Target::parse(to)?;
    let Some(recorded) = source.recorded() else {
        return refused(
            "--to needs the position of the backup in the binary log, which it has not recorded: the server had \
             no binary log, or only Teak's tables were copied",
        );
    };
    let plan = plan(directory, recorded, &target)?;
    if plan.ends_early {
        eprintln!(
            "teak: the binary log ends at {}, before {target}: later transactions are unknown",
            plan.reached
        );
    }
    let server = programs::server(arguments.server.as_deref())?;
    let version = programs::version(&server)?;
    let of_backup = source.server_version.as_deref().and_then(programs::series);
    let of_server = programs::series(&version);
    if of_backup.is_some() && of_server != of_backup {
        return refused(format!(
            "{} is not of the backup's release {}: {}",
            server.display(),
            of_backup.unwrap_or_default(),
            version.trim()
        ));
    }
    let plugins = programs::plugin_directory(arguments.plugin_dir.as_deref(), &server)?;
    programs::version(&arguments.mariadb_binlog)?;
    programs::version(&arguments.client)?;
    Ok(Some(RollForward {
        plan,
        server,
        plugins,
    }))
}

fn restore(
    arguments: &Arguments,
    chain: &Chain,
    place: &Destination,
    forward: Option<&RollForward>,
) -> io::Result<()> {
    let source = chain.newest();
    let (full, increments) = (chain.full(), chain.increments());
    let copy = |from: &Path, to: &Path| {
        let copy = Copy::new(from, arguments.throttle);
        match increments.is_empty() {
            true => copy.run(from, to),
            false => copy.without(is_teaks).run(from, to),
        }
    };
    let mut bytes = match source.is_whole {
        true => copy(&full.directory, &place.copy)?,
        false if increments.is_empty() => copy(&full.directory, &place.data)?,
        false => 0,
    };
    if source.is_whole {
        let program = Preparation::new(arguments, place);
        program.prepare(None)?;
        for increment in increments {
            bytes += copy(&increment.directory, &place.increment)?;
            program.prepare(Some(&place.increment))?;
            fs::remove_dir_all(&place.increment)?;
        }
        program.move_back()?;
        if increments.is_empty() {
            check_moved(source, place)?;
        }
        fs::remove_dir_all(&place.copy)?;
    }
    if !increments.is_empty() {
        bytes += chain.merge(&place.data, arguments.throttle)?;
    }
    println!("copied: {}", ByteSize(bytes));
    if source.is_whole {
        println!("prepared with {}", arguments.mariadb_backup.display());
    }
    // The data directory is no backup.
    for name in [BACKUP_INFO, BACKUP_LIST_FILE] {
        // Backups of earlier versions have no list.
        let _ = fs::remove_file(place.data.join(name));
    }
    for name in source::INNODB_POSITION {
        // It would be wrong after the roll forward, and it lacks other engines' transactions.
        let _ = fs::remove_file(place.data.join(name));
    }
    let plan = forward.map(|forward| &forward.plan);
    if let Some(forward) = forward
        && forward.plan.transactions > 0
    {
        let launch = Launch {
            program: &forward.server,
            plugins: &forward.plugins,
            client: &arguments.client,
            settings: &source.settings,
            options: &arguments.server_option,
        };
        let server = PrivateServer::start(&launch, place)?;
        replay::replay(&arguments.mariadb_binlog, &forward.plan, &server, place)?;
        server.stop()?;
        println!("applied: {}", counted(forward.plan.transactions));
    }
    fs::write(place.data.join(INFO), info(source, plan))?;
    place.complete()
}

/// Runs mariadb-backup on the copy of a backup.
struct Preparation<'a> {
    arguments: &'a Arguments,
    place: &'a Destination,
    first: Vec<&'a str>,
    rest: Vec<&'a str>,
}

impl<'a> Preparation<'a> {
    fn new(arguments: &'a Arguments, place: &'a Destination) -> Self {
        let options = arguments.options.iter().map(String::as_str);
        let (mut first, rest): (Vec<_>, Vec<_>) = options.partition(|option| is_defaults(option));
        if first.is_empty() {
            // The options of a server on this machine are not those of the backup.
            first.push("--no-defaults");
        }
        Self {
            arguments,
            place,
            first,
            rest,
        }
    }

    fn command(&self, step: &str) -> Command {
        let mut command = Command::new(&self.arguments.mariadb_backup);
        command.args(&self.first).arg(step);
        command.arg(format!("--target-dir={}", self.place.copy.display()));
        command
    }

    /// Prepares the copy, or applies the copy of an increment to it.
    fn prepare(&self, increment: Option<&Path>) -> io::Result<()> {
        let mut command = self.command("--prepare");
        if let Some(increment) = increment {
            command.arg(format!("--incremental-dir={}", increment.display()));
        }
        programs::run(command.args(&self.rest), self.place, "prepare.log")
    }

    /// Moves the files of the copy to the new data directory.
    fn move_back(&self) -> io::Result<()> {
        let mut moved = self.command("--move-back");
        moved.arg(format!("--datadir={}", self.place.data.display()));
        programs::run(moved.args(&self.rest), self.place, "move-back.log")
    }
}

/// Checks that the data directory has all of Teak's files.
fn check_moved(source: &Source, place: &Destination) -> io::Result<()> {
    let count = |directory: &Path| {
        let found = find(&[directory.to_path_buf()]).map_err(io::Error::other);
        found.map(|paths| paths.len())
    };
    let catalogue = place.data.join(source::CATALOGUE);
    if count(&place.data)? != count(&source.directory)? || !catalogue.exists() {
        return refused("mariadb-backup has not moved all of Teak's files");
    }
    Ok(())
}

/// The text about the restored position.
fn info(source: &Source, plan: Option<&Plan>) -> String {
    let mut text = format!("backup = {}\n", source.directory.display());
    let recorded = source.recorded();
    let position = plan.map(|plan| &plan.reached);
    let position = position.or(recorded.map(|recorded| &recorded.position));
    if let Some(position) = position {
        let gtids = plan.map(|plan| &plan.gtids);
        let gtids = gtids.or(recorded.map(|recorded| &recorded.gtids));
        text += &format!(
            "binlog = {position}\ngtid = {}\n",
            gtids.map_or_else(String::new, |gtids| joined(gtids))
        );
    }
    if let Some(plan) = plan {
        text += &format!("transactions = {}\n", plan.transactions);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_would_change_the_restore_are_refused() {
        for option in [
            "--datadir=/x",
            "--target_dir=/x",
            "--apply-log-only",
            "--copy-back",
            "-x",
            "x",
        ] {
            assert!(check_options(&[option.to_owned()]).is_err(), "{option}");
        }
        for option in ["--use-memory=1G", "--parallel=4", "--defaults-file=/x"] {
            assert!(check_options(&[option.to_owned()]).is_ok(), "{option}");
        }
    }

    #[test]
    fn a_data_directory_in_the_backup_is_refused() {
        let backup = std::env::temp_dir().join(format!("teak-outside-{}", std::process::id()));
        fs::create_dir_all(&backup).unwrap();
        let backup = backup.canonicalize().unwrap();
        assert!(check_outside(&backup, &backup).is_err());
        assert!(check_outside(&backup.join("a/b"), &backup).is_err());
        assert!(check_outside(&backup.with_extension("data"), &backup).is_ok());
        fs::remove_dir_all(backup).unwrap();
    }
}

//! `teak backup`: a hot backup of a server, with mariadb-backup.
//!
//! An increment has the list of the base's blocks in the server's directory: the server copies only what it lacks.
//!
//! 1. Arm the backup: the server will begin it when mariadb-backup ends the blocking of commits.
//! 2. Run mariadb-backup. The server copies Teak's files to the directory `#teak` in the target.
//! 3. Wait for the server's copy.
//! 4. Move Teak's files next to the others, so that the target has the form of a data directory.

mod base;
mod client;
mod target;

use self::base::Base;
use self::client::{Client, State};
use self::target::Target;
use crate::backup_info::{CHECKPOINTS, first_of, value_of};
use crate::sizes::grouped;
use crate::sql_client::{SqlClient, needs_value};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use teak_base::ByteSize;

/// Time between two looks at the server's progress.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// Time between two extensions of the time for which the backup is armed.
const RENEWAL_PERIOD: Duration = Duration::from_secs(5);

/// How long the server's progress may be unknown, because it has too many connections for example.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of mariadb-backup that this command gives itself.
const OWN: [&str; 5] = ["backup", "prepare", "copy-back", "move-back", "target-dir"];

/// Copies the tables of a running server: those of Teak, and with mariadb-backup those of InnoDB and other engines.
///
/// Transactions continue. All engines and the position of the binary log are copied as of one moment, at which the
/// server blocks commits for a short time. The target then has the form of a data directory, which
/// `mariadb-backup --prepare` and `mariadb-backup --copy-back` restore.
///
/// The server itself copies Teak's files, so its user must be able to write the target. If this command runs as
/// root, it makes a directory for the server.
///
/// With --incremental-base, only those blocks are copied that another backup lacks, and of InnoDB those that
/// `mariadb-backup --incremental-basedir` copies. The base is a full backup or another increment. An increment needs its base, and
/// `teak restore` restores them together.
///
/// The exit code is 0 if the backup is complete, and 1 otherwise.
///
/// Examples:
///
///   teak backup --target-dir=/backup/monday
///
///   teak backup --target-dir=/backup/monday --throttle=100 -- --user=backup --password=secret --parallel=4
///
///   teak backup --target-dir=/backup/tuesday --incremental-base=/backup/monday
///
///   teak backup --target-dir=/backup/monday --teak-only -- --socket=/run/mysqld/mysqld.sock
#[derive(Args)]
#[command(name = "backup", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The directory to copy to, on the machine of the server. It must not exist, or be empty.
    #[arg(long)]
    target_dir: PathBuf,

    /// A backup of the same server; only what it lacks is copied.
    #[arg(long, value_name = "DIR")]
    incremental_base: Option<PathBuf>,

    /// MiB per second that the server copies of Teak's files; 0: no limit.
    #[arg(long, default_value_t = 0)]
    throttle: u32,

    /// Copy only the tables of Teak, without mariadb-backup.
    #[arg(long)]
    teak_only: bool,

    /// The program mariadb-backup.
    #[arg(long, default_value = "mariadb-backup")]
    mariadb_backup: PathBuf,

    /// The client with which this command connects.
    #[arg(long, default_value = "mariadb")]
    client: PathBuf,

    /// Options of mariadb-backup. Those that say how to connect are also used for the client.
    #[arg(last = true)]
    options: Vec<String>,
}

/// Refuses options of mariadb-backup that this command does not permit.
fn check_options(options: &[String]) -> io::Result<()> {
    for option in options {
        let Some(long) = option.strip_prefix("--") else {
            let text = format!("{option} is not permitted: write options as --name=value");
            return Err(io::Error::other(text));
        };
        let name = long.split('=').next().unwrap_or(long).replace('_', "-");
        let reason = match name.as_str() {
            "no-lock" => {
                "commits must be blocked for a moment, or the engines would be copied as of different moments"
            }
            name if name.starts_with("stream") => "the server copies Teak's files to a directory",
            name if name.starts_with("incremental") => {
                "give the base with --incremental-base of teak backup"
            }
            name if OWN.contains(&name) => "teak backup gives it itself",
            name if needs_value(name) && !long.contains('=') => "write it as --name=value",
            _ => continue,
        };
        return Err(io::Error::other(format!(
            "--{name} is not permitted: {reason}"
        )));
    }
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    check_options(&arguments.options)?;
    let base = arguments.incremental_base.as_deref();
    let base = base
        .map(|base| Base::open(base, arguments.teak_only))
        .transpose()?;
    let client = Client(SqlClient::new(&arguments.client, &arguments.options));
    let owner = client.data_directory()?;
    let target = Target::create(&arguments.target_dir, &owner)?;
    if let Some(base) = &base {
        target.add_base(base)?;
    }
    client.arm(&target.staging, arguments.throttle)?;
    let copied = match arguments.teak_only {
        true => client.block_commits(),
        false => run_mariadb_backup(arguments, base.as_ref(), &client, &target),
    };
    let outcome = copied.and_then(|()| wait_for_copy(&client));
    let state = match outcome {
        Ok(state) => state,
        Err(error) => {
            // The server reports the failure of the copy already.
            let _ = client.cancel();
            return Err(error);
        }
    };
    let written = target.complete(&state, base.as_ref())?;
    if let Some(base) = &base {
        println!(
            "increment of {}: {} of {} that the blocks of {} index files occupy",
            base.directory.display(),
            ByteSize(written.changed_bytes),
            ByteSize(written.block_bytes),
            grouped(written.files)
        );
    }
    println!(
        "complete: {} files of Teak, {}, as of position {} of its log; the cut took {} ms",
        state.files,
        ByteSize(state.bytes_copied),
        state.position,
        state.cut_microseconds.div_ceil(1000)
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs mariadb-backup, and extends the time for which the backup is armed.
fn run_mariadb_backup(
    arguments: &Arguments,
    base: Option<&Base>,
    client: &Client,
    target: &Target,
) -> io::Result<()> {
    let program = &arguments.mariadb_backup;
    let (first, rest) = client.0.split_defaults();
    let mut child = Command::new(program)
        .args(first)
        .arg("--backup")
        .arg(format!("--target-dir={}", target.directory.display()))
        .args(base.map(|base| format!("--incremental-basedir={}", base.directory.display())))
        .args(rest)
        .spawn()
        .map_err(|error| {
            let hint = "install the package mariadb-backup, or use --teak-only";
            io::Error::other(format!(
                "{} cannot be started: {error}; {hint}",
                program.display()
            ))
        })?;
    let status = wait_for(&mut child, client, target, arguments.throttle);
    if status.is_err() {
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = status?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "mariadb-backup has failed: {status}"
        )));
    }
    let summary = first_of(&target.directory, &CHECKPOINTS).unwrap_or_default();
    let (wanted, kind) = match base {
        None => ("full-backuped", "a full copy"),
        Some(_) => ("incremental", "an increment"),
    };
    if value_of(&summary, "backup_type") != Some(wanted) {
        return Err(io::Error::other(format!(
            "mariadb-backup has not made {kind} in the target: see its option files"
        )));
    }
    let state = client.state()?;
    if state.stages > 1 {
        return Err(io::Error::other(
            "another backup of the server began at the same time, so it is not certain which of them the copy belongs to",
        ));
    }
    Ok(())
}

fn wait_for(
    child: &mut Child,
    client: &Client,
    target: &Target,
    throttle: u32,
) -> io::Result<ExitStatus> {
    let mut renewed = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(POLL_PERIOD);
        if renewed.elapsed() >= RENEWAL_PERIOD {
            renewed = Instant::now();
            // If this fails, the state after mariadb-backup shows whether the server has begun the backup.
            if client.state().is_ok_and(|state| state.word == "ARMED") {
                let _ = client.arm(&target.staging, throttle);
            }
        }
    }
}

/// Waits until the server has copied Teak's files.
fn wait_for_copy(client: &Client) -> io::Result<State> {
    let mut known = Instant::now();
    loop {
        let state = match client.state() {
            Ok(state) => state,
            Err(error) if known.elapsed() > PATIENCE => return Err(error),
            Err(_) => {
                std::thread::sleep(POLL_PERIOD);
                continue;
            }
        };
        known = Instant::now();
        match state.word.as_str() {
            "COMPLETE" => return Ok(state),
            "COPYING" => std::thread::sleep(POLL_PERIOD),
            "ARMED" => return Err(io::Error::other("the server has not blocked commits")),
            _ => return Err(io::Error::other(state.error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check_options;

    fn check(option: &str) -> Result<(), String> {
        check_options(&[option.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn options_that_prevent_a_consistent_copy_are_refused() {
        for option in [
            "--no-lock",
            "--no_lock=1",
            "--stream=xbstream",
            "--target-dir=/x",
            "--incremental-history-name=x",
            "-uroot",
            "--user",
            "root",
        ] {
            assert!(check(option).is_err(), "{option}");
        }
        for option in ["--parallel=4", "--user=root", "--no-version-check", "--ssl"] {
            assert_eq!(check(option), Ok(()));
        }
    }
}

//! `teak verify`: checks index files without a server.

use crate::increments::{Increments, find_increments};
use crate::index_files::{find, open, verify_checksums};
use crate::sizes::grouped;
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use teak_base::{ByteSize, StorageError, StorageResult};

/// Checks index files: reads every block, and checks checksums, the order of keys, counts, filters, and that no two
/// blocks share space.
///
/// The server must not run, or the files must be a copy: a file that is written at the same time may seem
/// damaged. The check covers the last checkpoint of each file; what was written after it is in the log, from which the
/// server restores it at its start. CHECK TABLE ... EXTENDED in the server also compares the keys of a table with its rows.
///
/// The checksums of encrypted files are verified without their keys; for the other checks, pass --keys.
///
/// Prints a line for each file. The exit code is 0 if no file is damaged, and 1 otherwise. `teak recover` writes the rows that are
/// left in a damaged file.
///
/// A directory with an incremental backup is verified together with its bases: all blocks of each file must be in one
/// of the backups. The bases are searched where they were when the backups were made, or given with
/// --incremental-base.
///
/// Examples:
///
///   teak verify /var/lib/mysql
///
///   teak verify --quiet /backup/mysql/shop
///
///   teak verify /backup/tuesday --incremental-base=/archive/monday
#[derive(Args)]
#[command(name = "verify", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Index files, or directories that are searched for them, for example the server's data directory.
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// The base of an incremental backup; if given again, the base of that one and so on.
    #[arg(long, value_name = "DIR")]
    incremental_base: Vec<PathBuf>,

    /// Print only damaged files.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let paths = find(&arguments.paths).map_err(io::Error::other)?;
    let increments = find_increments(&arguments.paths)?;
    if !arguments.incremental_base.is_empty() && increments.len() != 1 {
        return Err(io::Error::other(
            "--incremental-base needs the directory of one incremental backup",
        ));
    }
    let (mut files, mut damaged) = (paths.len(), 0);
    for path in &paths {
        match check(path) {
            Ok(line) if arguments.quiet => drop(line),
            Ok(line) => println!("ok       {}: {line}", path.display()),
            Err(error) => {
                damaged += 1;
                println!("damaged  {}: {error}", path.display());
            }
        }
    }
    for directory in &increments {
        let mut faults = 0;
        let verified = Increments::before(directory, &arguments.incremental_base);
        let verified = verified.and_then(|increments| {
            increments.verify(&mut |path, outcome| {
                files += 1;
                match outcome {
                    Ok(_) if arguments.quiet => {}
                    Ok(line) => println!("ok       {}: {line}", path.display()),
                    Err(error) => {
                        faults += 1;
                        println!("damaged  {}: {error}", path.display());
                    }
                }
            })
        });
        if let Err(error) = verified {
            faults = faults.max(1);
            println!("damaged  {}: {error}", directory.display());
        }
        damaged += faults;
    }
    if !arguments.quiet {
        println!("{files} files, {damaged} damaged");
    }
    Ok(match damaged {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks a file; returns what it contains.
pub(crate) fn check(path: &Path) -> StorageResult<String> {
    match check_tree(path) {
        // Blocks may have different keys, so the root does not show this.
        Err(StorageError::Key { .. }) => {
            let (blocks, bytes) = verify_checksums(path)?;
            let (blocks, bytes) = (grouped(blocks), ByteSize(bytes));
            let text = "encrypted, so only checksums were verified (--keys)";
            Ok(format!("{blocks} blocks of {bytes}; {text}"))
        }
        outcome => outcome,
    }
}

fn check_tree(path: &Path) -> StorageResult<String> {
    let (tree, mut progress) = open(path)?;
    let report = tree.verify(&mut |report| {
        progress.at(report.block_bytes);
        true
    })?;
    Ok(format!(
        "{} entries, {} runs, {} blocks of {}",
        grouped(report.entries),
        grouped(report.runs),
        grouped(report.blocks),
        ByteSize(report.block_bytes)
    ))
}

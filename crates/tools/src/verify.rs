//! `teak verify`: checks index files without a server.

use crate::index_files::{find, open};
use crate::sizes::grouped;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use teak_base::{ByteSize, StorageResult};

/// Checks index files: reads every block, and checks checksums, the order of keys, counts, filters, and that no two
/// blocks share space.
///
/// The server must not run, or the files must be a copy: a file that is written at the same time may seem
/// damaged. The check covers the last checkpoint of each file; what was written after it is in the log, from which the
/// server restores it at its start. CHECK TABLE ... EXTENDED in the server also compares the keys of a table with its rows.
///
/// Prints a line for each file. The exit code is 0 if no file is damaged, and 1 otherwise. `teak recover` writes the rows that are
/// left in a damaged file.
///
/// Examples:
///
///   teak verify /var/lib/mysql
///
///   teak verify --quiet /backup/mysql/shop
#[derive(Args)]
#[command(name = "verify", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Index files, or directories that are searched for them, for example the server's data directory.
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// Print only damaged files.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let paths = match find(&arguments.paths) {
        Ok(paths) => paths,
        Err(error) => {
            eprintln!("teak: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut damaged = 0;
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
    if !arguments.quiet {
        println!("{} files, {damaged} damaged", paths.len());
    }
    match damaged {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Checks a file; returns what it contains.
pub(crate) fn check(path: &Path) -> StorageResult<String> {
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

//! `teak inspect`: what an index file consists of.

mod report;
mod table;

use crate::index_files::{find, open};
use clap::Args;
use report::Report;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use teak_base::StorageResult;

/// Shows what index files consist of: the levels of the tree with their runs, the sizes of pages and filters, and for each column
/// its encodings and bytes.
///
/// Reads each file wholly. The server must not run, or the files must be a copy. Shows the last checkpoint of each file: what was
/// written after it is in the log.
///
/// The columns of a value are numbered in the order in which rows store them: first the columns of fixed width that are NOT NULL,
/// with the row header and NULL bits as number 0, then those of fixed width that may be NULL, then those of variable width; within
/// each group in the order of the table.
#[derive(Args)]
#[command(name = "inspect")]
pub(crate) struct Arguments {
    /// Index files, or directories that are searched for them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// Print JSON: a list with an object for each file. Sizes are in bytes.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let mut reports = Vec::new();
    let mut failed = false;
    for path in find(&arguments.paths).map_err(io::Error::other)? {
        match inspect(&path) {
            Ok(report) if arguments.json => reports.push(report),
            Ok(report) => print!("{}", report.text()),
            Err(error) => {
                failed = true;
                eprintln!("teak: {error}");
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    }
    Ok(match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn inspect(path: &Path) -> StorageResult<Report> {
    let (tree, mut progress) = open(path)?;
    let found = tree.inspect(&mut |found| {
        progress.at(found.page_bytes);
        true
    })?;
    Ok(Report::new(&tree, &found))
}

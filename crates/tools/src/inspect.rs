//! `teak inspect`: what an index file consists of.

mod html;
mod report;
mod table;

use crate::index_files::{find, open};
use crate::output::open as open_output;
use crate::stored_file::StoredFile;
use clap::Args;
use report::Report;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use teak_base::StorageResult;

/// Shows what index files consist of: the levels of the tree with their runs, the sizes of pages and filters, and for each column
/// its encodings and bytes. --html shows the same in pictures, and a map of the used and free parts of the file.
///
/// Reads each file wholly. The server must not run, or the files must be a copy. Shows the last checkpoint of each file: what was
/// written after it is in the log.
///
/// The columns of a value are numbered in the order in which rows store them: first the columns of fixed width that are NOT NULL,
/// with the row header and NULL bits as number 0, then those of fixed width that may be NULL, then those of variable width; within
/// each group in the order of the table. A file in its data directory is shown with the names of the columns of the table's
/// definition.
///
/// Examples:
///
///   teak inspect /var/lib/mysql/shop/orders.main-0000000c.teak
///
///   teak inspect --html /var/lib/mysql/shop --output shop.html
///
///   teak inspect --json /var/lib/mysql | jq '.[] | [.path, .live_bytes]'
#[derive(Args)]
#[command(name = "inspect", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Index files, or directories that are searched for them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// Print JSON: a list with an object for each file. Sizes are in bytes.
    #[arg(long)]
    json: bool,

    /// Print a page of HTML with pictures, which needs no other files.
    #[arg(long, conflicts_with = "json")]
    html: bool,

    /// Where to write; standard output when not given.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let mut output = open_output(arguments.output.as_ref())?;
    let mut reports = Vec::new();
    let mut failed = false;
    for path in find(&arguments.paths).map_err(io::Error::other)? {
        match inspect(&path) {
            Ok(report) if arguments.json || arguments.html => reports.push(report),
            Ok(report) => output.write_all(report.text().as_bytes())?,
            Err(error) => {
                failed = true;
                eprintln!("teak: {error}");
            }
        }
    }
    if arguments.json {
        writeln!(output, "{}", serde_json::to_string_pretty(&reports)?)?;
    }
    if arguments.html {
        output.write_all(html::page(&reports).as_bytes())?;
    }
    output.flush()?;
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
    let file = StoredFile::find(path, None, true).ok();
    let names = file.and_then(|file| file.column_names());
    Ok(Report::new(&tree, &found, &names.unwrap_or_default()))
}

//! `teak recover`: what is left of a damaged index file.

mod report;
mod scanned;

use self::report::Report;
use self::scanned::ScannedRows;
use crate::cell::{Cell, Column, hex};
use crate::definition::Frm;
use crate::index_files::open_damaged;
use crate::names::table_of;
use crate::output::{Format, RowWriter, open};
use crate::progress::{Progress, Unit};
use crate::rows::RowReader;
use crate::stored_file::StoredFile;
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status when something is lost.
const LOST: u8 = 2;

/// Writes the rows that are readable in a damaged index file, and reports what is lost.
///
/// Reads what the superblocks, the nodes, the index blocks and the pages of the file still give, as REPAIR TABLE does, and skips
/// blocks whose checksums are wrong or that are missing, for example at the end of a file that was cut off. Nothing is
/// changed. The server must not have the file open, or it must be a copy.
///
/// For each lost part, standard error shows its range of keys and the number of its entries, as far as they are known.
/// A lost part that is not at the bottom of the tree may have contained newer versions of rows, or their deletes: the older
/// versions are written, and counted as doubtful. --doubtful adds a column that says which they are.
///
/// If a node cannot be read, for example because the end of the file is missing, the pages below it are searched in the
/// whole file and sorted, with spill files in --scratch. Of several versions of a row the one that seems to be the newest is
/// written. All of these rows count as doubtful.
///
/// The state is that of the last checkpoint of the file. What was written later is in the log: see `teak dump --log`.
/// In its data directory, or with --data, the catalogue says what the columns are and which writes were
/// rolled back. If the catalogue is lost, --frm names the .frm file of the table. `teak help dump` describes the output.
///
/// The same is done for the whole file if no superblock is valid; then its name must still end with its id, as the engine
/// names files.
///
/// The exit code is 0 if nothing is lost, 2 if something is, and 1 if the file cannot be opened.
///
/// Examples:
///
///   teak recover /var/lib/mysql/shop/orders.main-0000000c.teak --output orders.csv
///
///   teak recover orders.main-0000000c.teak --frm orders.frm --format sql --into orders_new --output orders.sql
///
///   teak recover orders.main-0000000c.teak --data /backup/mysql --format json --report lost.json --output rows.json
#[derive(Args)]
#[command(name = "recover", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The index file with the rows of a table; its label is `main`, or PRIMARY
    file: PathBuf,
    /// Where to write the rows; standard output when not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The form of the output
    #[arg(long, short, value_enum, default_value = "csv")]
    format: Format,
    /// The table in INSERT statements; the name of the table when not given
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
    /// Add a column that is 1 for rows of which a newer version or the delete may be lost
    #[arg(long)]
    doubtful: bool,
    /// Where to write the lost parts as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The data directory whose catalogue describes the file
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// The directory of spill files; that of the system when not given
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
    /// The .frm file of the table, if the catalogue does not contain it
    #[arg(long, value_name = "FILE")]
    frm: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let frm = match &arguments.frm {
        Some(path) => Some(Frm::decode(&std::fs::read(path)?).map_err(io::Error::other)?),
        None => None,
    };
    let file = StoredFile::find(&arguments.file, arguments.data.as_ref(), true)?;
    let generation = file.entry().map_or(0, |(_, index)| index.generation);
    let tree = open_damaged(&file.path, file.id, generation).map_err(io::Error::other)?;
    let name = file.name();
    let reader = file.reader(&tree, frm);
    let writes = file.writes();
    let mut file_output = open(arguments.output.as_ref())?;
    let mut columns = reader.columns().to_vec();
    if arguments.doubtful {
        columns.push(Column {
            name: "doubtful".to_owned(),
            is_insertable: true,
        });
    }
    let into = arguments.into.clone().unwrap_or_else(|| table_of(&name));
    let lost = tree.lost_subtrees().map_err(io::Error::other)?;
    let mut scanned = match lost.is_empty() {
        true => None,
        false => {
            let scratch = arguments.scratch.clone();
            let scratch = scratch.unwrap_or_else(std::env::temp_dir);
            Some(ScannedRows::read(&tree, &lost, &writes, scratch)?)
        }
    };
    let mut output = Output {
        writer: RowWriter::new(&mut *file_output, arguments.format, &columns, &into)?,
        reader: &reader,
        report: Report::new(&file.path),
        progress: Progress::new(&name, Unit::Rows, tree.statistics().rows),
        shows_doubtful: arguments.doubtful,
    };
    let mut cursor = tree.salvage(&writes);
    while let Some(entry) = cursor.next().map_err(io::Error::other)? {
        if let Some(scanned) = &mut scanned {
            scanned.pass(Some(entry.key), &mut |key, value| {
                output.scanned(key, value)
            })?;
        }
        output.row(entry.key, entry.value, entry.is_doubtful)?;
    }
    if let Some(scanned) = &mut scanned {
        scanned.pass(None, &mut |key, value| output.scanned(key, value))?;
    }
    let mut report = output.finish()?;
    for part in cursor.lost() {
        report.lost(part, &|key| key_text(&reader, key));
    }
    writes.report();
    report.print();
    if let Some(path) = &arguments.report {
        let mut text = serde_json::to_string_pretty(&report)?;
        text.push('\n');
        std::fs::write(path, text)?;
    }
    Ok(match report.has_losses() {
        true => ExitCode::from(LOST),
        false => ExitCode::SUCCESS,
    })
}

/// Where rows are written, decoded and counted.
struct Output<'a> {
    writer: RowWriter<'a>,
    reader: &'a RowReader,
    report: Report,
    progress: Progress,
    /// Whether a column says if a row is doubtful.
    shows_doubtful: bool,
}

impl Output<'_> {
    fn row(&mut self, key: &[u8], value: &[u8], is_doubtful: bool) -> io::Result<()> {
        match self.reader.read(key, value) {
            Ok(mut cells) => {
                if self.shows_doubtful {
                    let digit = if is_doubtful { "1" } else { "0" };
                    cells.push(Cell::Number(digit.to_owned()));
                }
                self.writer.row(&cells)?;
                self.report.rows += 1;
                self.report.doubtful_rows += u64::from(is_doubtful);
            }
            Err(reason) => self.report.undecodable(key, &reason),
        }
        self.progress.at(self.report.rows);
        Ok(())
    }

    /// Writes a row of a page whose node is lost.
    fn scanned(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.report.rows_of_lost_nodes += 1;
        self.row(key, value, true)
    }

    fn finish(self) -> io::Result<Report> {
        drop(self.progress);
        self.writer.finish()?;
        Ok(self.report)
    }
}

/// A key as values of columns, if it can be decoded.
fn key_text(reader: &RowReader, key: &[u8]) -> String {
    let values = reader.read_key(key);
    // The bounds of ranges may be successors of keys.
    let values = values.or_else(|| reader.read_key(key.strip_suffix(&[0])?));
    match values {
        Some(values) => values.join(", "),
        None => format!("0x{}", hex(key)),
    }
}

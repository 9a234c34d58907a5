//! The records of the log.

use super::arguments::Arguments;
use crate::cell::{Cell, Column, hex};
use crate::keys;
use crate::output::{Format, open};
use crate::progress::{Progress, Unit};
use crate::sizes::grouped;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use teak_base::{FileId, Operation, WriteId};
use teak_disk::{Disk, ReadOnlyDisk};
use teak_engine::StoredTables;
use teak_write_ahead_log::{LogPart, Record, survey_log};

/// Exit status when parts of the log are damaged.
const DAMAGED: u8 = 2;

const COLUMNS: [&str; 13] = [
    "segment",
    "offset",
    "lsn",
    "kind",
    "bytes",
    "write_id",
    "file",
    "index",
    "operation",
    "key_bytes",
    "value_bytes",
    "key",
    "value",
];

/// One line of the output.
#[derive(Default)]
struct Line<'a> {
    write_id: Option<WriteId>,
    file: Option<FileId>,
    operation: Option<&'a str>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    /// The fields of a record without keys.
    detail: Option<String>,
}

/// Ends the survey when enough records were written, or writing fails.
enum Stop {
    Enough,
    Failed(io::Error),
}

impl From<teak_base::StorageError> for Stop {
    fn from(error: teak_base::StorageError) -> Self {
        Self::Failed(io::Error::other(error))
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

pub(super) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    if arguments.format == Format::Sql {
        return Err(io::Error::other(
            "the records of the log have no form as SQL",
        ));
    }
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    let directory = &arguments.path;
    let names = index_names(&disk, directory);
    let mut output = open(arguments.output.as_ref())?;
    let columns = COLUMNS.iter().chain(&["detail"]).map(|name| Column {
        name: (*name).to_owned(),
        is_insertable: true,
    });
    let columns: Vec<Column> = columns.collect();
    let mut writer =
        crate::output::RowWriter::new(&mut *output, arguments.format, &columns, "log")?;
    let mut damaged = 0u64;
    let mut encrypted = None;
    let mut records = 0u64;
    let mut end = None;
    let (total, mut before, mut segment_bytes) = (log_bytes(&disk, directory)?, 0, 0);
    let mut progress = Progress::new(directory.display().to_string(), Unit::Bytes, total);
    let survey = survey_log::<Stop>(disk.as_ref(), directory, &keys::encryption(), &mut |part| {
        match part {
            LogPart::Segment { bytes, .. } => {
                before += segment_bytes;
                segment_bytes = bytes;
            }
            LogPart::Record {
                segment,
                offset,
                lsn,
                bytes,
                record,
            } => {
                if !arguments.wants_after(records) {
                    return Err(Stop::Enough);
                }
                records += 1;
                progress.at(before + offset);
                let first = [segment, offset, lsn.0].map(|number| Cell::Number(number.to_string()));
                visit_lines(&record, &mut |line| {
                    let mut cells = first.to_vec();
                    cells.push(Cell::Text(record.name().to_owned()));
                    cells.push(Cell::Number(bytes.to_string()));
                    line.put(&names, &mut cells);
                    writer.row(&cells)
                })?;
            }
            LogPart::Damage(error) => {
                damaged += 1;
                eprintln!("teak: damaged: {error}");
            }
            LogPart::Encrypted(error) => {
                encrypted.get_or_insert(error);
            }
            LogPart::Unused { path, reason } => {
                eprintln!("teak: {} is not read: {reason}", path.display());
            }
            LogPart::End { lsn, path, offset } => {
                end = Some(format!(
                    "the log ends at position {lsn}, at byte {offset} of {}",
                    path.display()
                ));
            }
            _ => {}
        }
        Ok(())
    });
    drop(progress);
    writer.finish()?;
    match survey {
        Ok(()) | Err(Stop::Enough) => {}
        Err(Stop::Failed(error)) => return Err(error),
    }
    eprintln!("teak: {} records", grouped(records));
    if let Some(end) = end {
        eprintln!("teak: {end}");
    }
    if let Some(error) = encrypted {
        return Err(io::Error::other(format!(
            "some records are encrypted: {error} (--keys)"
        )));
    }
    Ok(match damaged {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(DAMAGED),
    })
}

/// Bytes of the files of the log.
fn log_bytes(disk: &Arc<dyn Disk>, directory: &Path) -> io::Result<u64> {
    let paths = disk.list(directory).map_err(io::Error::other)?;
    let is_log = |path: &&std::path::PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("teak.log."))
    };
    let lengths = paths.iter().filter(is_log).map(std::fs::metadata);
    Ok(lengths.flatten().map(|metadata| metadata.len()).sum())
}

/// The tables and labels of files, as far as the catalogue is readable.
fn index_names(disk: &Arc<dyn Disk>, directory: &Path) -> HashMap<FileId, String> {
    let tables = match StoredTables::read(disk, directory) {
        Ok(Some(tables)) => tables,
        Ok(None) => {
            eprintln!("teak: there is no catalogue: indexes have no names");
            return HashMap::new();
        }
        Err(error) => {
            eprintln!("teak: indexes have no names: {error}");
            return HashMap::new();
        }
    };
    let mut names = HashMap::new();
    for table in tables.tables() {
        for index in &table.indexes {
            names.insert(index.file, format!("{} {}", table.name, index.label));
        }
    }
    names
}

/// Passes the lines of a record: one for each operation of a write.
fn visit_lines(
    record: &Record<'_>,
    visit: &mut dyn FnMut(Line<'_>) -> io::Result<()>,
) -> io::Result<()> {
    match *record {
        Record::Write {
            write_id,
            operations,
        } => {
            for operation in operations {
                visit(Line {
                    write_id: Some(write_id),
                    file: Some(operation.file),
                    operation: Some(match operation.operation {
                        Operation::Put => "put",
                        Operation::Delete => "delete",
                    }),
                    key: Some(operation.key),
                    value: Some(operation.value),
                    detail: None,
                })?;
            }
            Ok(())
        }
        Record::DeleteRange {
            file,
            write_id,
            start,
            end,
        } => visit(Line {
            write_id: Some(write_id),
            file: Some(file),
            operation: Some("delete from key to value"),
            key: Some(start),
            value: Some(end),
            detail: None,
        }),
        Record::Load { file, write_id } => visit(Line {
            write_id: Some(write_id),
            file: Some(file),
            ..Line::default()
        }),
        _ => {
            let text = record.to_string();
            let detail = text.strip_prefix(record.name()).unwrap_or(&text);
            visit(Line {
                detail: Some(detail.trim_start().to_owned()),
                ..Line::default()
            })
        }
    }
}

impl Line<'_> {
    fn put(&self, names: &HashMap<FileId, String>, cells: &mut Vec<Cell>) {
        let number =
            |value: Option<u64>| value.map_or(Cell::Null, |value| Cell::Number(value.to_string()));
        let text = |value: Option<String>| value.map_or(Cell::Null, Cell::Text);
        let length = |bytes: Option<&[u8]>| number(bytes.map(|bytes| bytes.len() as u64));
        let name = self.file.and_then(|file| names.get(&file).cloned());
        cells.extend([
            number(self.write_id.map(|id| id.0)),
            number(self.file.map(|file| file.0)),
            text(name),
            text(self.operation.map(str::to_owned)),
            length(self.key),
            length(self.value),
            text(self.key.map(hex)),
            text(self.value.map(hex)),
            text(self.detail.clone()),
        ]);
    }
}

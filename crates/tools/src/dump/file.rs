//! The rows of an index file as of its last checkpoint.

use super::arguments::{Arguments, undecodable};
use crate::index_files::open_tree;
use crate::names::table_of;
use crate::output::{RowWriter, open};
use crate::progress::{Progress, Unit};
use crate::stored_file::StoredFile;
use std::io;
use teak_base::StorageError;

pub(super) fn run(arguments: &Arguments) -> io::Result<()> {
    if arguments.table.is_some() || arguments.tables {
        let message = "--table and --tables are for data directories; this is a file";
        return Err(io::Error::other(message));
    }
    let failed = |error: StorageError| match error {
        StorageError::Corrupt { .. } => io::Error::other(format!(
            "{error}\n`teak recover` reads what is left of a damaged file"
        )),
        error => io::Error::other(error),
    };
    let file = StoredFile::find(&arguments.path, arguments.data.as_ref(), false)?;
    let tree = open_tree(&arguments.path).map_err(failed)?;
    let name = file.name();
    let reader = file.reader(&tree, None);
    let writes = file.writes();
    let into = arguments.into.clone().unwrap_or_else(|| table_of(&name));
    let mut output = open(arguments.output.as_ref())?;
    let mut writer = RowWriter::new(&mut *output, arguments.format, reader.columns(), &into)?;
    let mut progress = Progress::new(&name, Unit::Rows, tree.statistics().rows);
    let mut cursor = tree.cursor(&writes);
    let mut written = 0;
    let mut is_valid = cursor.seek_first().map_err(failed)?;
    while is_valid && arguments.wants_after(written) {
        let (key, value) = cursor.entry().map_err(failed)?;
        let cells = reader.read(key, value);
        writer.row(&cells.map_err(|reason| undecodable(key, &reason))?)?;
        written += 1;
        progress.at(written);
        is_valid = cursor.next().map_err(failed)?;
    }
    drop(progress);
    writes.report();
    writer.finish()
}

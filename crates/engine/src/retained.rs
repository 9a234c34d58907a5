//! Log records of tables, in files of their own. They are retained for
//! - *unavailable* tables: those with a file that recovery needed and could not
//!   read, because it was missing or damaged, and
//! - read-only tables: those with a file that cannot be written, see `read_only`.
//!
//! For unavailable tables:
//! 1. Recovery replays the log for all other tables. Then it reads the log
//!    again and writes the records of each unavailable table to a file of its
//!    own, see `collect`. The files are synced.
//! 2. The next catalogue contains for each such table that its records are
//!    retained, and their write ids. From then on the log is not needed for it.
//! 3. When the engine is opened next, and whenever the table is to be opened,
//!    its files are tried again. If they can be read, the retained records are
//!    inserted, flushed and checkpointed, see `restore`. If they are damaged, a
//!    repair builds new files from what they contain and from the records.
//! 4. A catalogue without the note is written, and the file is removed. Only
//!    then can the table be used. So the log never contains records of an
//!    unavailable table that its retained file lacks.
//!
//! A retained file without a note in the catalogue is not needed if its records
//! are of files that the table still has: then the log contains the records, or
//! the index files do. Otherwise a repair has replaced the files.
//!
//! The index files and the records may contain aborted write ids. These are not
//! forgotten while the table is unavailable, see [`crate::catalogue::RetainedIds`].

mod collect;
mod file;
mod read_only;
mod restore;

pub(crate) use self::collect::retain;
#[cfg(feature = "fuzzing")]
pub(crate) use self::file::{RetainedWriter, decode_retained};
pub(crate) use self::file::{UnreadRecords, read_undamaged};
pub(crate) use self::read_only::RetainContext;
pub(crate) use self::restore::{restore_all, restore_table};

use self::file::contains_others;
use crate::core::EngineCore;
use crate::core::opening::entry_of;
use crate::core::retained_files::RetainedFor;
use crate::name::{retained_path, retained_table_of};
use std::collections::BTreeSet;
use teak_base::StorageResult;

/// Removes the retained files that the catalogue does not need. Moves those aside
/// whose records may be in no file of their table: after a repair that could not
/// use them, or could not move them itself. Called when the engine is opened,
/// before records are retained. The records of `repaired` tables are needed no
/// more, but are moved aside, too; those of `replaced` ones are removed.
pub(crate) fn remove_unneeded(
    core: &EngineCore,
    repaired: &BTreeSet<u64>,
    replaced: &BTreeSet<u64>,
) -> StorageResult<()> {
    let files = &core.files;
    for path in files.disk.list(&files.directory)? {
        let Some(table) = retained_table_of(&path) else {
            continue;
        };
        let Some(entry) = entry_of(&core.tables, table) else {
            // The table was dropped.
            files.disk.remove(&path)?;
            continue;
        };
        if entry.retained.is_some() {
            continue;
        }
        let is_own = |file| entry.indexes.iter().any(|index| index.file == file);
        let is_kept = repaired.contains(&table)
            || !replaced.contains(&table) && contains_others(&files.disk, &path, &is_own);
        if !is_kept {
            files.disk.remove(&path)?;
            continue;
        }
        let (name, path_text) = (&entry.name, path.display());
        let text = match files.move_aside(&path) {
            Ok(target) => {
                let target = target.display();
                format!("log records of earlier files of table {name} were moved to {target}")
            }
            Err(error) => format!(
                "log records of earlier files of table {name} remain in {path_text}: {error}"
            ),
        };
        files.messages.warning(&text);
    }
    Ok(())
}

/// Counts the unavailable tables and their records. Called when the engine is
/// opened, after records were retained.
pub(crate) fn count_retained(core: &EngineCore) {
    let files = &core.files;
    let tables = core.tables.lock();
    for (table, state) in tables.durable() {
        if state.entry.retained.is_some() {
            let path = retained_path(&files.directory, *table);
            // The file may be missing.
            let length = files.disk.open(&path).and_then(|file| file.len());
            let purpose = RetainedFor::UnavailableTable;
            core.retained.add(*table, length.unwrap_or(0), purpose);
        }
    }
}

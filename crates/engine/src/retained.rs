//! Log records of tables, in files of their own. They are retained for
//! - *unavailable* tables: those with a file that recovery needed and could not
//!   use, because it was missing, damaged or could not be written, and
//! - read-only tables: those with a file that cannot be written while the engine
//!   is open, see `read_only`.
//!
//! A table is *whole* when its index files contain all its retained records, and
//! the catalogue says so. For unavailable tables:
//! 1. Recovery replays the log for all other tables. Then it reads the log
//!    again and writes the records of each unavailable table to a file of its
//!    own, see `collect`. The files are synced.
//! 2. The next catalogue contains for each such table that its records are
//!    retained, and their write ids. From then on the log is not needed for it.
//! 3. When the engine is opened next, and whenever the table is to be opened,
//!    its files are tried again. If they can be read, the retained records are
//!    inserted, flushed and checkpointed, see `restore`. If they are damaged, a
//!    repair builds new files from what they contain and from the records.
//! 4. A catalogue without this note is written. Only then can the table be used.
//!    So the log never contains records of an unavailable table that its retained
//!    file lacks. The retained file is removed.
//!
//! A retained file without a note in the catalogue is not needed if the table still
//! has all index files that its records are for: then the log or the index files
//! contain the records. Otherwise a repair may have replaced the index files.
//!
//! The index files and the records may contain aborted write ids. These are not
//! forgotten while the records are retained, see [`crate::catalogue::RetainedIds`].

mod collect;
mod file;
mod read_only;
mod restore;

pub(crate) use self::collect::retain;
pub(crate) use self::file::{RetainedPlace, UnreadRecords, read_undamaged};
#[cfg(feature = "fuzzing")]
pub(crate) use self::file::{RetainedWriter, decode_retained};
pub(crate) use self::read_only::RetainContext;
pub(crate) use self::restore::{restore_all, restore_table};

use self::file::contains_others;
use crate::core::EngineCore;
use crate::core::opening::entry_of;
use crate::core::retained_files::RetainedFor;
use crate::name::{retained_path, retained_table_of};
use std::collections::BTreeSet;
use teak_base::StorageResult;

/// Removes the retained files that the catalogue does not need. Instead moves to the directory of
/// orphans those of `repaired` tables and, unless the table is in `replaced`, those with records of
/// index files that the table no longer has: a repair may not have been able to use the records, or
/// to move them. Called when the engine is opened, before records are retained.
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
        let is_needed = repaired.contains(&table)
            || !replaced.contains(&table)
                && contains_others((&files.disk, &files.log_encryption), &path, &is_own);
        if !is_needed {
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

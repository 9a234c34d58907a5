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
//! A retained file without a note in the catalogue is not needed: either the
//! log still contains its records, or the index files do.
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

use crate::core::EngineCore;
use crate::core::retained_files::RetainedFor;
use crate::name::retained_table_of;
use std::collections::BTreeSet;
use teak_base::StorageResult;

/// Removes retained files that the catalogue does not need, and counts the
/// unavailable tables. Those of `repaired` tables are moved aside. Called when the
/// engine is opened.
pub(crate) fn remove_unneeded(core: &EngineCore, repaired: &BTreeSet<u64>) -> StorageResult<()> {
    let disk = &core.files.disk;
    let tables: BTreeSet<u64> = {
        let tables = core.tables.lock();
        let retained = tables
            .durable()
            .filter(|(_, state)| state.entry.retained.is_some());
        retained.map(|(id, _)| *id).collect()
    };
    for table in &tables {
        // The file may be missing.
        core.retained.add(*table, 0, RetainedFor::UnavailableTable);
    }
    for path in disk.list(&core.files.directory)? {
        let Some(table) = retained_table_of(&path) else {
            continue;
        };
        if tables.contains(&table) {
            let length = disk.open(&path).and_then(|file| file.len());
            core.retained
                .add(table, length.unwrap_or(0), RetainedFor::UnavailableTable);
        } else if repaired.contains(&table) {
            let path = core.files.move_aside(&path)?;
            let path = path.display();
            let text = format!("log records of a repaired table were moved to {path}");
            core.messages.note(&text);
        } else {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

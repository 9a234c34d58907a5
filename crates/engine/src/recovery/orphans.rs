//! Index files that belong to no table when the engine is opened.
//!
//! A file is removed only if no table can lose it:
//! - it has the name of a new file, because an interrupted table change created it; or
//! - it was dropped: the log or the list of the catalogue says so.
//!
//! Any other file may be all that is left of a table, for example if an older
//! catalogue was restored. It is moved to the directory `#teak_orphans`, into a
//! directory with the name of the one that it was in. A file that cannot be moved,
//! for example because it is in another file system, remains where it is.

use crate::core::EngineCore;
use crate::core::file_search::{index_directories, index_files};
use crate::core::files::IndexFiles;
use crate::error::EngineResult;
use crate::name::{ORPHANS_DIRECTORY, file_id_of, is_leftover, owned_file_path};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use teak_base::FileId;

/// Removes or moves the index files that belong to no table. Removes spill files,
/// and files of temporary tables. File ids that are found are not allocated
/// again: they must be unique, and another crash may undo a removal.
pub(super) fn settle_orphans(core: &EngineCore) -> EngineResult<()> {
    let (files, tables) = (&core.files, &core.tables);
    let (disk, root) = (&files.disk, &files.directory);
    let (known, ids) = {
        let tables = tables.lock();
        let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
        let known: BTreeSet<PathBuf> = indexes.clone().map(|i| root.join(&i.path)).collect();
        let ids: BTreeSet<FileId> = indexes.map(|index| index.file).collect();
        (known, ids)
    };
    for path in disk.list(root)? {
        if is_leftover(&path) {
            disk.remove(&path)?;
        }
    }
    let unowned = files.unowned();
    let mut changed = BTreeSet::new();
    for path in index_files(disk, root, known.iter())? {
        let Some(file) = file_id_of(&path) else {
            continue;
        };
        {
            let mut tables = tables.lock();
            tables.next_file = tables.next_file.max(file.0.saturating_add(1));
        }
        if known.contains(&path) || ids.contains(&file) {
            continue;
        }
        if unowned.contains(&file) || owned_file_path(&path).is_some() {
            let path_text = path.display();
            let text = format!("removing {path_text}, left by an interrupted table change");
            files.messages.note(&text);
            disk.remove(&path)?;
        } else if !move_aside(files, &path) {
            continue;
        }
        changed.extend(path.parent().map(Path::to_path_buf));
    }
    if !unowned.is_empty() {
        // Listed files that were not found may have been removed before, and not durably.
        let directories = index_directories(disk, root, known.iter())?;
        changed.extend(
            directories
                .into_iter()
                .filter(|path| disk.list(path).is_ok()),
        );
    }
    for directory in changed {
        disk.sync_directory(&directory)?;
    }
    files.set_unowned(BTreeSet::new());
    count_orphans(core)
}

/// Moves a file to `#teak_orphans`. False if that is not possible.
fn move_aside(files: &IndexFiles, path: &Path) -> bool {
    let path_text = path.display();
    match files.move_aside(path) {
        Ok(target) => {
            let target = target.display();
            let text = format!("{path_text} belongs to no table, and was moved to {target}");
            files.messages.warning(&text);
            true
        }
        Err(error) => {
            let text = format!("{path_text} belongs to no table, and cannot be moved: {error}");
            files.messages.warning(&text);
            false
        }
    }
}

/// Counts what is in `#teak_orphans`, and reports it.
fn count_orphans(core: &EngineCore) -> EngineResult<()> {
    let disk = &core.files.disk;
    let orphans = core.files.directory.join(ORPHANS_DIRECTORY);
    if !disk.exists(&orphans)? {
        return Ok(());
    }
    let (mut count, mut bytes) = (0, 0);
    let mut directories = vec![orphans.clone()];
    directories.extend(disk.list(&orphans)?);
    for directory in directories {
        // An entry may be a plain file.
        for path in disk.list(&directory).unwrap_or_default() {
            if file_id_of(&path).is_some() {
                count += 1;
                bytes += disk.open(&path).and_then(|file| file.len()).unwrap_or(0);
            }
        }
    }
    core.retained.orphan_files.store(count, Ordering::Relaxed);
    core.retained.orphan_bytes.store(bytes, Ordering::Relaxed);
    if count > 0 {
        let text = format!(
            "{ORPHANS_DIRECTORY} contains {count} files of {bytes} bytes that belong to no table"
        );
        core.messages.warning(&text);
    }
    Ok(())
}

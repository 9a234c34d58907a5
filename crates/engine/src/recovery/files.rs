//! Finding index files that have moved.

use crate::core::file_search::index_files;
use crate::core::files::IndexFiles;
use crate::core::tables::Tables;
use crate::error::EngineResult;
use crate::name::{file_id_of, owned_file_path};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use teak_base::FileId;

/// Finds files that are not at the path in the catalogue: after a crash, a rename may be durable in
/// the catalogue and not in the directory. Repeats it for those that have the names of new files.
pub(super) fn find_moved(files: &IndexFiles, tables: &mut Tables) -> EngineResult<()> {
    let root = &files.directory;
    let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
    let known: Vec<PathBuf> = indexes.map(|index| root.join(&index.path)).collect();
    let found = index_files(&files.disk, root, known.iter())?;
    let by_id: HashMap<FileId, &PathBuf> = found
        .iter()
        .filter_map(|path| Some((file_id_of(path)?, path)))
        .collect();
    let existing: BTreeSet<&PathBuf> = found.iter().collect();
    for state in tables.by_id.values_mut() {
        for index in &mut state.entry.indexes {
            let path = root.join(&index.path);
            let found = match existing.get(&path) {
                Some(found) => found,
                None => by_id.get(&index.file).copied().unwrap_or(&path),
            };
            // If an earlier renaming has failed, the catalogue has the name of the new file.
            let wanted = owned_file_path(&path).unwrap_or_else(|| path.clone());
            let is_renamed = owned_file_path(found).is_some() && files.rename_new(found, &wanted);
            let path = if is_renamed { &wanted } else { found };
            if let Ok(path) = path.strip_prefix(root) {
                index.path = path.to_path_buf();
            }
        }
    }
    Ok(())
}

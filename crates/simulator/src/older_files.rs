//! Older states of index files. After a power loss, some files are put into a state
//! that is older than the checkpoint in the catalogue (see `hidden`): an older copy of
//! the file replaces it, or the newest superblock is damaged while the other one is older.

use crate::faults;
use crate::outcome::{Bug, Checked, Flow};
use crate::sessions::FileChange;
use crate::simulation::Simulation;
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_block_file::{SuperblockInfo, read_superblocks};
use teak_disk::Disk;
use teak_testing::FaultDisk;

/// The offset of the second superblock.
const SECOND_SLOT: u64 = 4096;

/// Moves a file durably. Returns false if the disk fails.
pub(crate) fn move_file(disk: &FaultDisk, from: &Path, to: &Path) -> bool {
    let renamed = disk.rename(from, to).is_ok();
    let mut directories = [from, to].into_iter().filter_map(Path::parent);
    renamed && directories.all(|directory| disk.sync_directory(directory).is_ok())
}

/// Inverts a bit of a durable byte; a second call corrects it again.
pub(crate) fn flip(disk: &FaultDisk, path: &Path, offset: u64) -> StorageResult<()> {
    disk.flip_bit(path, offset, 1)
}

fn read(disk: &FaultDisk, path: &Path) -> StorageResult<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn write(disk: &FaultDisk, path: &Path, bytes: &[u8]) -> StorageResult<()> {
    let file = disk.create(path)?;
    file.write_all_at(bytes, 0)?;
    file.sync()?;
    path.parent()
        .map_or(Ok(()), |directory| disk.sync_directory(directory))
}

fn superblocks(disk: &FaultDisk, path: &Path) -> Option<[Option<SuperblockInfo>; 2]> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let both = read_superblocks(&disk, path).ok()?;
    Some(both.map(Result::ok))
}

fn newest(both: &[Option<SuperblockInfo>; 2]) -> Option<&SuperblockInfo> {
    let valid = both.iter().flatten();
    valid.max_by_key(|superblock| superblock.generation)
}

impl Simulation {
    /// Makes a checkpoint of all tables. Then the catalogue contains the newest checkpoint of each
    /// file of a table with an open handle: records the numbers of these checkpoints, and copies
    /// some of the files.
    pub(crate) fn checkpoint_and_note(&mut self) -> Checked {
        self.note(|| "  checkpoint".into());
        if let Err(error) = self.engine()?.checkpoint() {
            return self.fault("checkpoint", &error);
        }
        // The catalogue is up to date for tables that were opened in this incarnation.
        let tables: Vec<_> = self.handles.keys().copied().collect();
        for table in tables {
            let paths = self.engine()?.index_paths(self.model.name(table));
            for path in paths.map_err(|error| Bug(error.to_string()))? {
                let both = superblocks(&self.disk, &path);
                let Some(found) = both.as_ref().and_then(newest) else {
                    continue;
                };
                let (file, generation) = (found.file, found.generation);
                self.known.noted.insert(file, generation);
                let is_wanted = match self.known.copies.contains_key(&file) {
                    true => self.random.one_in(8),
                    false => self.random.one_in(2),
                };
                if is_wanted && let Ok(bytes) = read(&self.disk, &path) {
                    self.known.copies.insert(file, (generation, bytes));
                }
            }
        }
        self.flush_after(Flow::On)
    }

    /// Puts a file into a state before the checkpoint that the catalogue contains, if possible.
    /// `away`: where the file is moved if a copy replaces it. All contents of the disk must be
    /// durable.
    pub(crate) fn make_older(&mut self, path: &Path, away: &Path) -> Checked<Option<FileChange>> {
        let both = superblocks(&self.disk, path);
        let Some(found) = both.as_ref().and_then(newest) else {
            return Ok(None);
        };
        let noted = self.known.noted.get(&found.file).copied().unwrap_or(0);
        if let Some([Some(first), Some(second)]) = &both
            && first.generation.min(second.generation) < noted
        {
            let slot = match first.generation > second.generation {
                true => 0,
                false => SECOND_SLOT,
            };
            let offset = slot + self.random.below(SECOND_SLOT);
            let damaged = flip(&self.disk, path, offset);
            damaged.map_err(|error| Bug(error.to_string()))?;
            return Ok(Some(FileChange::Damaged(offset)));
        }
        let Some((generation, bytes)) = self.known.copies.get(&found.file) else {
            return Ok(None);
        };
        if *generation >= noted {
            return Ok(None);
        }
        if !move_file(&self.disk, path, away) {
            return Err(Bug("a file cannot be moved away".into()));
        }
        // A full disk remains full after a power loss, but this write must succeed, because it is
        // not a write of the engine.
        faults::clear(&self.disk);
        let written = write(&self.disk, path, bytes);
        written.map_err(|error| Bug(error.to_string()))?;
        Ok(Some(FileChange::Replaced(away.to_path_buf())))
    }
}

//! Index files that are opened without the engine, for reading only.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{ByteSize, StorageResult};
use teak_disk::{Disk, ReadOnlyDisk};
use teak_tree::{PageCache, Tree};

/// The end of the names of index files.
const EXTENSION: &str = "teak";

/// Memory for blocks.
const CACHE_BYTES: u64 = 16 << 20;

/// How often the progress is shown.
const PERIOD: Duration = Duration::from_millis(200);

/// The index files among the paths, and in the directories among them and below, sorted within each directory.
pub(crate) fn find(paths: &[PathBuf]) -> StorageResult<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            add_directory(path, &mut found)?;
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn add_directory(directory: &Path, found: &mut Vec<PathBuf>) -> StorageResult<()> {
    let mut paths = ReadOnlyDisk.list(directory)?;
    paths.sort();
    for path in paths {
        let is_index = path.extension().is_some_and(|end| end == EXTENSION);
        if path.is_dir() && !path.is_symlink() {
            add_directory(&path, found)?;
        } else if is_index {
            found.push(path);
        }
    }
    Ok(())
}

/// Opens an index file as of its last checkpoint, to be read wholly.
pub(crate) fn open(path: &Path) -> StorageResult<(Arc<Tree>, Progress)> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    let tree = Tree::open(&disk, path, None, &Arc::new(PageCache::new(CACHE_BYTES)))?;
    let progress = Progress::new(path, tree.statistics().stored_bytes);
    Ok((tree, progress))
}

/// Shows the progress on a terminal.
pub(crate) struct Progress {
    name: String,
    total: u64,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// `total`: the bytes to be read.
    fn new(path: &Path, total: u64) -> Self {
        Self {
            name: path.display().to_string(),
            total,
            shown: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// `bytes` have been read.
    pub(crate) fn at(&mut self, bytes: u64) {
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() > PERIOD) {
            let percent = (bytes.min(self.total) * 100)
                .checked_div(self.total)
                .unwrap_or(100);
            eprint!("\r{percent:3} % of {}  {}", ByteSize(self.total), self.name);
            self.shown = Some(Instant::now());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            // Clears the line.
            eprint!("\r\x1b[K");
        }
    }
}

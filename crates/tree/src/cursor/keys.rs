//! Searching keys, whatever their versions are.

use crate::node::{KeyRange, LeafPath};
use crate::source::Source;
use crate::tree::Tree;
use crate::version::TreeVersion;
use crate::{ReadPattern, VersionCursor};
use std::fmt;
use std::sync::Arc;
use teak_base::StorageResult;

/// Finds keys that have any entry in the tree: also one that was deleted, was rolled back or is not
/// committed. It reads the version of the tree in which it was created, and writes to the active
/// memtable since then. It retains this version.
pub struct KeyCursor {
    tree: Arc<Tree>,
    version: Arc<TreeVersion>,
    /// The memtables and the runs of one leaf.
    sources: Vec<Source>,
    /// The range of the leaf.
    range: KeyRange,
}

impl fmt::Debug for KeyCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyCursor").finish_non_exhaustive()
    }
}

/// What follows a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextKey {
    /// No key is between the position and this one, which has an entry.
    At(Vec<u8>),
    /// No key is between the position and this one, where the next search is to begin.
    NotBefore(Arc<[u8]>),
    /// No key follows.
    None,
}

impl Tree {
    /// A cursor without a position.
    pub fn key_cursor(self: &Arc<Self>) -> KeyCursor {
        KeyCursor {
            tree: Arc::clone(self),
            version: Arc::clone(&self.load_version()),
            sources: Vec::new(),
            range: KeyRange::all(),
        }
    }
}

impl KeyCursor {
    /// Searches the first key that is not less, in one leaf.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn search(&mut self, from: &[u8]) -> StorageResult<NextKey> {
        if self.sources.is_empty() || !self.range.contains(from) {
            self.open(from)?;
        }
        let mut next: Option<&[u8]> = None;
        for source in &mut self.sources {
            source.seek(from)?;
            if source.valid() {
                let key = source.key();
                if next.is_none_or(|next| key < next) {
                    next = Some(key);
                }
            }
        }
        let next = next.filter(|key| !self.range.ends_at_or_before(key));
        Ok(match (next, &self.range.upper) {
            (Some(key), _) => NextKey::At(key.to_vec()),
            (None, Some(upper)) => NextKey::NotBefore(Arc::clone(upper)),
            (None, None) => NextKey::None,
        })
    }

    fn open(&mut self, key: &[u8]) -> StorageResult<()> {
        self.sources.clear();
        let path = LeafPath::to_key(&self.version.root, key, &self.tree.nodes)?;
        let memtables = self.version.memtables().map(|slot| Source::memtable(slot));
        let runs = path.runs.iter();
        let runs = runs.map(|run| Source::run(run, ReadPattern::Random));
        self.sources = memtables.chain(runs).collect();
        self.range = path.range;
        Ok(())
    }
}

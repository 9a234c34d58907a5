//! The cursor over the readable entries of a tree, leaf by leaf.

use super::run::{SalvageRun, lost_value};
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{Key, KeyRange, LeafPath};
use crate::source::run_tombstones;
use crate::tree::Tree;
use crate::version::TreeVersion;
use crate::{MemtableCursor, RangeTombstone, StoredValue, VersionCursor};
use std::collections::HashSet;
use std::sync::Arc;
use teak_base::visibility::Visibility;
use teak_base::{Operation, StorageError, StorageResult, WriteId};

/// An entry that a salvage has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SalvagedEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The newest readable value.
    pub value: &'a [u8],
    /// Whether a newer version, or a delete of the key, may have been lost.
    pub is_doubtful: bool,
}

enum Reader {
    Memtable(MemtableCursor),
    Run(Box<SalvageRun>),
}

impl Reader {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        match self {
            Self::Memtable(cursor) => cursor.seek(key),
            Self::Run(run) => run.seek(key),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.valid().then(|| cursor.key()),
            Self::Run(run) => run.key(),
        }
    }

    fn version(&self) -> Option<(Operation, WriteId, StoredValue<'_>)> {
        match self {
            Self::Memtable(cursor) => cursor
                .valid()
                .then(|| (cursor.operation(), cursor.write_id(), cursor.value())),
            Self::Run(run) => run.version(),
        }
    }

    fn next_version(&mut self) -> StorageResult<()> {
        match self {
            Self::Memtable(cursor) => cursor.next_version(),
            Self::Run(run) => run.next_version(),
        }
    }

    fn may_have_lost(&self, key: &[u8]) -> bool {
        match self {
            Self::Memtable(_) => false,
            Self::Run(run) => run.may_have_lost(key),
        }
    }
}

/// A memtable or run on the path to the current leaf.
struct Layer {
    reader: Reader,
    /// Applied to older layers. In a run they are older than the entries; a memtable cursor applies
    /// them to its own entries.
    tombstones: Vec<RangeTombstone>,
}

/// Reads the visible entries of a tree in the order of their keys, except those
/// that cannot be read.
pub struct SalvageCursor<V> {
    tree: Arc<Tree>,
    version: Arc<TreeVersion>,
    visibility: V,
    /// The layers of the current leaf, newest first.
    layers: Vec<Layer>,
    /// The end of the current leaf.
    upper: Option<Key>,
    /// Where the next leaf begins; `None` after the last one.
    next_leaf: Option<Key>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whether the tree may be in an older state, so that every version may be an older one.
    is_older: bool,
    lost: Vec<LostPart>,
    /// The parts in `lost`: their kinds and blocks.
    known: HashSet<(LostKind, u64)>,
}

/// The newest visible version of a key.
enum Newest {
    None,
    Deleted,
    Value { is_doubtful: bool },
}

impl Tree {
    /// Creates a cursor over the entries that can be read. It sees the tree as
    /// it is now; no thread may write to it.
    #[must_use]
    pub fn salvage<V: Visibility>(self: &Arc<Self>, visibility: V) -> SalvageCursor<V> {
        let mut cursor = SalvageCursor {
            tree: Arc::clone(self),
            version: self.version.load_full(),
            visibility,
            layers: Vec::new(),
            upper: None,
            next_leaf: Some(Key::default()),
            key: Vec::new(),
            value: Vec::new(),
            is_older: self.lost.iter().any(is_newer_checkpoint),
            lost: Vec::new(),
            known: HashSet::new(),
        };
        for lost in &cursor.tree.lost {
            note_lost(&mut cursor.lost, &mut cursor.known, lost);
        }
        cursor
    }
}

fn is_newer_checkpoint(lost: &LostPart) -> bool {
    lost.kind == LostKind::Checkpoint && lost.hides_older
}

fn note_lost(list: &mut Vec<LostPart>, known: &mut HashSet<(LostKind, u64)>, lost: &LostPart) {
    let offset = match &lost.cause {
        StorageError::Corrupt { offset, .. } => *offset,
        // Errors of the disk do not name an offset, so each of them is listed.
        _ => u64::MAX - list.len() as u64,
    };
    if known.insert((lost.kind, offset)) {
        list.push(lost.clone());
    }
}

impl<V: Visibility> SalvageCursor<V> {
    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// Errors other than those of single blocks; `Interrupted` when the
    /// visibility reports it.
    #[allow(clippy::should_implement_trait)] // The entry borrows from the cursor.
    pub fn next(&mut self) -> StorageResult<Option<SalvagedEntry<'_>>> {
        loop {
            if !self.find_key() {
                if !self.open_next_leaf()? {
                    return Ok(None);
                }
                continue;
            }
            if let Newest::Value { is_doubtful } = self.read_key()? {
                return Ok(Some(SalvagedEntry {
                    key: &self.key,
                    value: &self.value,
                    is_doubtful,
                }));
            }
        }
    }

    /// What could not be read so far.
    #[must_use]
    pub fn lost(&self) -> &[LostPart] {
        &self.lost
    }

    /// Copies the first key of all layers to `key`. Returns false if there is none in the leaf.
    fn find_key(&mut self) -> bool {
        let keys = self.layers.iter().filter_map(|layer| layer.reader.key());
        let Some(first) = keys.min() else {
            return false;
        };
        if self.upper.as_deref().is_some_and(|upper| first >= upper) {
            return false;
        }
        self.key.clear();
        self.key.extend_from_slice(first);
        true
    }

    /// Moves all layers past the current key and copies its newest visible value.
    fn read_key(&mut self) -> StorageResult<Newest> {
        let Self {
            layers,
            key,
            value,
            visibility,
            is_older,
            lost,
            known,
            ..
        } = self;
        let mut newest = Newest::None;
        let mut is_doubtful = *is_older;
        let sees = |id: WriteId| id.is_settled() || visibility.is_visible(id);
        for layer in layers.iter_mut() {
            // Newer versions may have been on a lost page before this position.
            is_doubtful |= layer.reader.may_have_lost(key);
            while layer.reader.key() == Some(key.as_slice()) {
                if let (Newest::None, Some((operation, id, stored))) =
                    (&newest, layer.reader.version())
                    && sees(id)
                {
                    value.clear();
                    match stored.append_to(value) {
                        Ok(()) if operation == Operation::Delete => newest = Newest::Deleted,
                        Ok(()) => newest = Newest::Value { is_doubtful },
                        Err(error) if is_loss(&error) => {
                            // An older version replaces it, if there is one.
                            is_doubtful = true;
                            note_lost(lost, known, &lost_value(key, error));
                        }
                        Err(error) => return Err(error),
                    }
                }
                layer.reader.next_version()?;
            }
            if let Reader::Run(run) = &layer.reader {
                for part in run.lost() {
                    note_lost(lost, known, part);
                }
            }
            if !matches!(newest, Newest::None) {
                continue;
            }
            let mut tombstones = layer.tombstones.iter();
            if tombstones.any(|tombstone| tombstone.covers(key) && sees(tombstone.write_id)) {
                newest = Newest::Deleted;
            }
            is_doubtful |= layer.reader.may_have_lost(key);
        }
        Ok(newest)
    }

    /// Opens the next leaf. Returns false if there is none.
    fn open_next_leaf(&mut self) -> StorageResult<bool> {
        self.note_layers();
        let Some(from) = self.next_leaf.take() else {
            return Ok(false);
        };
        if self.visibility.is_interrupted() {
            return Err(StorageError::Interrupted);
        }
        let Self {
            tree, lost, known, ..
        } = self;
        let mut load = |link: &_, range: &KeyRange| match tree.nodes.load(link, range) {
            Err(error) if is_loss(&error) => {
                let upper = range.upper.as_deref();
                let part = LostPart::new(LostKind::Subtree, &range.lower, upper, error);
                note_lost(lost, known, &part);
                Ok(None)
            }
            read => read.map(Some),
        };
        let path = LeafPath::to_key_with(&self.version.root, &from, &mut load)?;
        self.layers.clear();
        for slot in self.version.memtables() {
            self.layers.push(Layer {
                reader: Reader::Memtable(slot.memtable.cursor()),
                tombstones: slot.memtable.range_tombstones(),
            });
        }
        for run in &path.runs {
            self.layers.push(Layer {
                reader: Reader::Run(Box::new(SalvageRun::new(run))),
                tombstones: run_tombstones(run),
            });
        }
        for layer in &mut self.layers {
            layer.reader.seek(&from)?;
        }
        self.next_leaf.clone_from(&path.range.upper);
        self.upper = path.range.upper;
        Ok(true)
    }

    /// Records what the layers of the current leaf could not read.
    fn note_layers(&mut self) {
        for layer in &self.layers {
            if let Reader::Run(run) = &layer.reader {
                for part in run.lost() {
                    note_lost(&mut self.lost, &mut self.known, part);
                }
            }
        }
    }
}

//! The map of a tree's file: what each range contains.
//!
//! 1. A version of the tree and the map of the file are taken together, while no job frees blocks. The version pins its
//!    blocks.
//! 2. Without locks, the nodes of the version are walked, and the index blocks of each run are read. The blocks of a run are
//!    sorted, adjacent ones of the same kind are joined, and reported. So the memory is that of the blocks of one run, and that of
//!    the map, which is bounded by the number of holes and runs.
//! 3. Live ranges that remain are separate values, to which only pages refer; and nodes that were replaced since the last
//!    checkpoint, which the next one frees.

use crate::cache::Priority;
use crate::node::{KeyRange, Node, RunForm, RunHandle, RunId, RunRef};
use crate::run::ReadPattern;
use crate::tree::Tree;
use std::collections::HashSet;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, FileMap, FileRange, RangeUse};

/// What a range of the file of a tree contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeKind {
    /// Anything but live blocks.
    Other(RangeUse),
    /// A node.
    Node {
        /// Its height: 1 above the leaves.
        height: u8,
    },
    /// The list of runs to which several children refer.
    SharedRuns,
    /// Index blocks of a run.
    Index(RunPlace),
    /// Pages of a run.
    Pages(RunPlace),
    /// Separate values, or replaced nodes.
    Unlisted,
}

/// A run, and where it is in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// The offset of its first index block, which identifies it.
    pub run: u64,
    /// The height of the node with its child, or with the first one of its children.
    pub height: u8,
    /// Whether it is a bottom run.
    pub is_bottom: bool,
}

/// A range of the file with blocks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its number of bytes.
    pub bytes: u64,
    /// Its contents.
    pub kind: RangeKind,
    /// The number of blocks, if it is known.
    pub blocks: Option<u64>,
}

impl MappedRange {
    fn of_block(kind: RangeKind, block: BlockAddress) -> Self {
        Self {
            offset: block.offset,
            bytes: block.end() - block.offset,
            kind,
            blocks: Some(1),
        }
    }

    fn of_range(kind: RangeKind, range: FileRange) -> Self {
        Self {
            offset: range.offset,
            bytes: range.bytes,
            kind,
            blocks: None,
        }
    }
}

impl Tree {
    /// Calls `visit` for each range of the file, in no order. If it returns `false`, the call ends with `Interrupted`. Reads
    /// all nodes that are not in memory, and all index blocks.
    ///
    /// # Errors
    /// Errors of reading blocks; `Interrupted`.
    pub fn map_blocks(&self, visit: &mut dyn FnMut(&MappedRange) -> bool) -> StorageResult<()> {
        let (version, map, shared_blocks) = {
            let _no_frees = self.freeing.write();
            let install = self.install.lock();
            let shared = install.shared_blocks.clone();
            (self.version.load_full(), self.file.map(), shared)
        };
        let mut walk = Walk {
            tree: self,
            map,
            clipped: HashSet::new(),
            visit,
        };
        for block in shared_blocks {
            walk.block(RangeKind::SharedRuns, block)?;
        }
        walk.node(&version.root, &KeyRange::all())?;
        let Walk { map, visit, .. } = walk;
        let mut outcome = Ok(());
        let mut report = |kind, range| {
            if outcome.is_ok() && !visit(&MappedRange::of_range(kind, range)) {
                outcome = Err(StorageError::Interrupted);
            }
        };
        map.live()
            .for_each(|range| report(RangeKind::Unlisted, range));
        map.visit_others(&mut |of, range| report(RangeKind::Other(of), range));
        outcome
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    map: FileMap,
    /// The runs to which several children refer.
    clipped: HashSet<RunId>,
    visit: &'a mut dyn FnMut(&MappedRange) -> bool,
}

impl Walk<'_> {
    fn report(&mut self, range: &MappedRange) -> StorageResult<()> {
        match (self.visit)(range) {
            true => Ok(()),
            false => Err(StorageError::Interrupted),
        }
    }

    fn block(&mut self, kind: RangeKind, block: BlockAddress) -> StorageResult<()> {
        match self.map.take(block) {
            true => self.report(&MappedRange::of_block(kind, block)),
            false => Ok(()),
        }
    }

    fn node(&mut self, node: &Node, range: &KeyRange) -> StorageResult<()> {
        let height = node.height;
        if let Some(place) = node.block.published_place() {
            self.block(RangeKind::Node { height }, place.address)?;
        }
        for (child, child_range) in node.children_with_ranges(range) {
            for run in &child.runs {
                if run.clip.is_none() || self.clipped.insert(run.handle.id()) {
                    self.run(run, height)?;
                }
            }
            if let Some(link) = &child.below {
                let below = self.tree.nodes.load(link, &child_range)?.to_arc();
                self.node(&below, &child_range)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &RunRef, height: u8) -> StorageResult<()> {
        let handle = &run.handle;
        let RunId::Block(first) = handle.id() else {
            return Ok(());
        };
        let place = RunPlace {
            run: first,
            height,
            is_bottom: handle.form == RunForm::Bottom,
        };
        for range in ranges_of(handle, place, &mut self.map)? {
            self.report(&range)?;
        }
        Ok(())
    }
}

/// The ranges of the blocks of a run, which are taken out of the map.
fn ranges_of(
    handle: &RunHandle,
    place: RunPlace,
    map: &mut FileMap,
) -> StorageResult<Vec<MappedRange>> {
    let (run, index) = (&handle.run, &handle.run.description().index);
    let mut ranges = Vec::new();
    let mut add = |kind, block: BlockAddress| {
        if map.take(block) {
            ranges.push(MappedRange::of_block(kind, block));
        }
    };
    for (number, address) in index.addresses().enumerate() {
        add(RangeKind::Index(place), address);
        let block = run.index_block(number, ReadPattern::Sequential, Priority::Normal)?;
        for page in block.pages() {
            add(RangeKind::Pages(place), page.address);
        }
    }
    ranges.sort_unstable_by_key(|range| range.offset);
    ranges.dedup_by(|next, range| {
        let is_adjacent = range.kind == next.kind && range.offset + range.bytes == next.offset;
        if is_adjacent {
            range.bytes += next.bytes;
            range.blocks = range.blocks.map(|blocks| blocks + 1);
        }
        is_adjacent
    });
    Ok(ranges)
}

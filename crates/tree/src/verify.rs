//! Checks a whole tree: all blocks and the invariants between them.

use crate::node::{Child, ChildId, KeyRange, Node, NodeLink, RunForm, RunHandle, RunId, RunRef};
use crate::shared_runs::SharedRuns;
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockKind};

/// Counts of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Nodes checked.
    pub nodes: u64,
    /// Runs read.
    pub runs: u64,
    /// Entries read.
    pub entries: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Space of these blocks, in bytes.
    pub block_bytes: u64,
}

type Progress<'a> = &'a mut dyn FnMut(&VerifyReport) -> bool;

impl Tree {
    /// Reads every block of the current version from the disk and checks
    /// checksums, order, last keys, filters, counts and the tree's invariants:
    /// runs are inside their children's ranges, bottom runs do not overlap, and
    /// no two blocks share space. `progress` is called for every page; when it
    /// returns false, the check ends with `Interrupted`. Other threads may use
    /// the tree at the same time. Nodes that are not in memory do not remain
    /// there.
    ///
    /// # Errors
    /// `Corrupt` with the first violation; `Interrupted`, `Io`.
    pub fn verify(&self, progress: Progress<'_>) -> StorageResult<VerifyReport> {
        let (version, shared, shared_blocks) = self.with_shared_blocks()?;
        let mut check = Check {
            tree: self,
            report: VerifyReport::default(),
            blocks: Vec::new(),
            clipped: HashMap::new(),
            child_ids: HashSet::new(),
        };
        if let Some(place) = version.root.block.published_place() {
            self.file.read_block(place.address, BlockKind::Node)?;
            check.blocks.push(place.address);
        }
        check.node(&version.root, &KeyRange::all(), progress)?;
        check.clipped_runs(&shared, progress)?;
        // If a checkpoint has replaced the list since, other blocks may have reused its space.
        if self.install.lock().shared_blocks == shared_blocks {
            check.blocks.extend(shared_blocks);
        }
        check.space()?;
        let mut report = check.report;
        report.blocks = check.blocks.len() as u64;
        let padded = check.blocks.iter().map(|block| block.end() - block.offset);
        report.block_bytes = padded.sum();
        Ok(report)
    }

    /// The current version with its shared runs, and the blocks of their list, after these have
    /// been read. If a checkpoint replaces the list at the same time, no pin retains the old
    /// blocks, so the new ones are read.
    fn with_shared_blocks(
        &self,
    ) -> StorageResult<(Arc<TreeVersion>, SharedRuns, Vec<BlockAddress>)> {
        loop {
            let (version, shared, blocks) = {
                let install = self.install.lock();
                let (shared, blocks) = (install.shared.clone(), install.shared_blocks.clone());
                (self.version.load_full(), shared, blocks)
            };
            let read = blocks.iter().try_for_each(|address| {
                self.file.read_block(*address, BlockKind::SharedRuns)?;
                Ok(())
            });
            if self.install.lock().shared_blocks == blocks {
                return read.map(|()| (version, shared, blocks));
            }
        }
    }
}

/// A check in progress.
struct Check<'a> {
    tree: &'a Tree,
    report: VerifyReport,
    blocks: Vec<BlockAddress>,
    clipped: HashMap<RunId, Clipped>,
    child_ids: HashSet<ChildId>,
}

/// A run to parts of which children refer.
struct Clipped {
    handle: Arc<RunHandle>,
    ranges: Vec<KeyRange>,
}

impl Check<'_> {
    fn damage(&self, offset: u64, reason: &str) -> StorageError {
        StorageError::corrupt(self.tree.path(), offset, reason)
    }

    fn node(
        &mut self,
        node: &Node,
        range: &KeyRange,
        progress: &mut dyn FnMut(&VerifyReport) -> bool,
    ) -> StorageResult<()> {
        self.report.nodes += 1;
        let offset = node.block.place().map_or(0, |place| place.address.offset);
        for (child, child_range) in node.children_with_ranges(range) {
            if child_range.is_empty() || !range.covers(&child_range) {
                return Err(self.damage(offset, "a child's range is outside its node's"));
            }
            if !self.child_ids.insert(child.id) {
                return Err(self.damage(offset, "two children have the same number"));
            }
            for run in &child.runs {
                self.run(run, &child_range, offset, progress)?;
            }
            match &child.below {
                Some(link) if link.totals().height + 1 == node.height => {
                    let below = self.read_below(link, &child_range)?;
                    self.node(&below, &child_range, progress)?;
                }
                Some(_) => return Err(self.damage(offset, "a node has the wrong height")),
                None if node.height == 1 => self.leaf(child, offset)?,
                None => return Err(self.damage(offset, "a leaf is above the bottom")),
            }
        }
        Ok(())
    }

    fn read_below(&mut self, link: &Arc<NodeLink>, range: &KeyRange) -> StorageResult<Arc<Node>> {
        if let Some(place) = link.block().published_place() {
            self.blocks.push(place.address);
        }
        self.tree.nodes.read_again(link, range)
    }

    /// Checks an unclipped run. A clipped run is checked after all nodes.
    fn run(
        &mut self,
        run: &RunRef,
        child_range: &KeyRange,
        offset: u64,
        progress: &mut dyn FnMut(&VerifyReport) -> bool,
    ) -> StorageResult<()> {
        let handle = &run.handle;
        if handle.is_settled() && !handle.can_be_marked() {
            return Err(self.damage(offset, "a run is marked as settled that must not be"));
        }
        if run.clip.is_none() {
            if !child_range.covers(handle.extent()) {
                return Err(self.damage(offset, "a run is outside its child's range"));
            }
            return self.run_blocks(handle, &[handle.extent().clone()], progress);
        }
        let clipped = self.clipped.entry(handle.id()).or_insert_with(|| Clipped {
            handle: Arc::clone(handle),
            ranges: Vec::new(),
        });
        clipped.ranges.push(run.range());
        match clipped.handle.description() == handle.description() {
            true => Ok(()),
            false => Err(self.damage(offset, "two references to one run describe it differently")),
        }
    }

    /// `ranges` are those of the references to the run.
    fn run_blocks(
        &mut self,
        handle: &RunHandle,
        ranges: &[KeyRange],
        progress: &mut dyn FnMut(&VerifyReport) -> bool,
    ) -> StorageResult<()> {
        self.report.runs += 1;
        // The separate values of other entries may have been freed.
        let is_live = |key: &[u8]| ranges.iter().any(|range| range.contains(key));
        let report = &mut self.report;
        handle
            .run
            .verify(&mut self.blocks, &is_live, &mut |entries| {
                report.entries += entries;
                progress(report)
            })
    }

    /// Checks the runs to which several children may refer, and the numbers of references.
    fn clipped_runs(
        &mut self,
        shared: &SharedRuns,
        progress: &mut dyn FnMut(&VerifyReport) -> bool,
    ) -> StorageResult<()> {
        let clipped = std::mem::take(&mut self.clipped);
        // In the order of keys, so that two checks report the same.
        let mut clipped: Vec<(RunId, Clipped)> = clipped.into_iter().collect();
        clipped.sort_by(|(id_a, a), (id_b, b)| {
            let by_key = a.handle.extent().lower.cmp(&b.handle.extent().lower);
            by_key.then(id_a.cmp(id_b))
        });
        let mut counted = 0;
        for (id, Clipped { handle, ranges }) in &clipped {
            if let RunId::Block(offset) = id {
                let listed = shared.references(*offset);
                counted += usize::from(listed.is_some());
                if listed.unwrap_or(1) as usize != ranges.len() {
                    return Err(self.damage(*offset, "a run's references are miscounted"));
                }
            }
            self.run_blocks(handle, ranges, progress)?;
        }
        match counted == shared.len() {
            true => Ok(()),
            false => Err(self.damage(0, "the list of shared runs has a run that is not shared")),
        }
    }

    /// Bottom runs are installed only where no older data exists, so they must not overlap.
    fn leaf(&self, leaf: &Child, offset: u64) -> StorageResult<()> {
        let data = leaf
            .runs
            .iter()
            .filter(|r| r.handle.form == RunForm::Bottom);
        let mut ranges: Vec<KeyRange> = data.map(|run| run.range()).collect();
        ranges.sort_by(|a, b| a.lower.cmp(&b.lower));
        let disjoint = ranges.windows(2).all(|pair| match pair {
            [a, b] => !a.overlaps(b),
            _ => true,
        });
        if disjoint {
            return Ok(());
        }
        Err(self.damage(offset, "bottom runs overlap"))
    }

    fn space(&mut self) -> StorageResult<()> {
        self.blocks.sort_by_key(|block| block.offset);
        for pair in self.blocks.windows(2) {
            if let [a, b] = pair
                && a.end() > b.offset
            {
                return Err(self.damage(b.offset, "two blocks share space"));
            }
        }
        Ok(())
    }
}

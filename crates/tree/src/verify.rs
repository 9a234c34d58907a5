//! Checks a whole tree: all blocks and the invariants between them.

use crate::node::{Child, KeyRange, Node, RunForm, RunHandle};
use crate::tree::Tree;
use std::collections::HashMap;
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

/// The runs of a version with the ranges of their references, by the address of the handle.
type Handles = HashMap<*const RunHandle, (Arc<RunHandle>, Vec<KeyRange>)>;

impl Tree {
    /// Reads every block of the current version from the disk (of separate values those that
    /// entries of the version refer to) and checks checksums, order, last keys, filters, counts and
    /// the tree's invariants: runs are inside their children's ranges, bottom runs do not overlap,
    /// and no two blocks share space. `progress` is called for every page and separate value; when
    /// it returns false, the check ends with `Interrupted`. Other threads may use the tree at the
    /// same time.
    ///
    /// # Errors
    /// `Corrupt` with the first violation; `Interrupted`, `Io`.
    pub fn verify(&self, progress: Progress<'_>) -> StorageResult<VerifyReport> {
        let mut report = VerifyReport::default();
        let mut handles = Handles::new();
        let version = {
            // Reference counts change under the lock, so it is held during the check of the nodes,
            // which does no I/O.
            let _install = self.install.lock();
            let version = self.version.load_full();
            self.verify_node(&version.root, &KeyRange::all(), &mut handles, &mut report)?;
            for (handle, references) in handles.values() {
                if handle.references() as usize != references.len() {
                    return Err(self.damage(0, "a run's references are miscounted"));
                }
            }
            version
        };
        let mut blocks = Vec::new();
        {
            // A checkpoint assigns the addresses of nodes before their blocks are completely
            // written.
            let _no_checkpoint = self.file.begin_checkpoint();
            self.verify_node_blocks(&version.root, &mut blocks)?;
        }
        // In the order of keys, so that two checks report the same violation.
        let mut ordered: Vec<_> = handles.values().collect();
        ordered.sort_by_key(|(handle, _)| {
            let offset = handle.description().index.map(|index| index.offset);
            (&handle.extent().lower, offset)
        });
        for (handle, references) in ordered {
            report.runs += 1;
            // The separate values of entries outside these ranges may have been freed.
            let is_live = |key: &[u8]| references.iter().any(|range| range.contains(key));
            handle.run.verify(&mut blocks, &is_live, &mut |entries| {
                report.entries += entries;
                progress(&report)
            })?;
        }
        self.verify_space(&mut blocks)?;
        report.blocks = blocks.len() as u64;
        let padded = blocks.iter().map(|block| block.end() - block.offset);
        report.block_bytes = padded.sum();
        Ok(report)
    }

    fn damage(&self, offset: u64, reason: &str) -> StorageError {
        StorageError::corrupt(self.path(), offset, reason)
    }

    fn verify_node(
        &self,
        node: &Node,
        range: &KeyRange,
        handles: &mut Handles,
        report: &mut VerifyReport,
    ) -> StorageResult<()> {
        report.nodes += 1;
        let offset = node.address.lock().map_or(0, |address| address.offset);
        for (child, child_range) in node.children_with_ranges(range) {
            if child_range.is_empty() || !range.covers(&child_range) {
                return Err(self.damage(offset, "a child's range is outside its node's"));
            }
            for run in &child.runs {
                if run.clip.is_none() && !child_range.covers(run.handle.extent()) {
                    return Err(self.damage(offset, "a run is outside its child's range"));
                }
                let key = Arc::as_ptr(&run.handle);
                let entry = handles.entry(key);
                let (_, references) =
                    entry.or_insert_with(|| (Arc::clone(&run.handle), Vec::new()));
                references.push(run.range());
            }
            match &child.below {
                Some(below) if below.height + 1 == node.height => {
                    self.verify_node(below, &child_range, handles, report)?;
                }
                Some(_) => return Err(self.damage(offset, "a node has the wrong height")),
                None if node.height == 1 => self.verify_leaf(child, offset)?,
                None => return Err(self.damage(offset, "a leaf is above the bottom")),
            }
        }
        Ok(())
    }

    /// Bottom runs are installed only where no older data exists, so they must not overlap.
    fn verify_leaf(&self, leaf: &Child, offset: u64) -> StorageResult<()> {
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

    fn verify_node_blocks(&self, node: &Node, blocks: &mut Vec<BlockAddress>) -> StorageResult<()> {
        let address = *node.address.lock();
        if let Some(address) = address {
            self.file.read_block(address, BlockKind::Node)?;
            blocks.push(address);
        }
        for child in &node.children {
            if let Some(below) = &child.below {
                self.verify_node_blocks(below, blocks)?;
            }
        }
        Ok(())
    }

    fn verify_space(&self, blocks: &mut [BlockAddress]) -> StorageResult<()> {
        blocks.sort_by_key(|block| block.offset);
        for pair in blocks.windows(2) {
            if let [a, b] = pair
                && a.end() > b.offset
            {
                return Err(self.damage(b.offset, "two blocks share space"));
            }
        }
        Ok(())
    }
}

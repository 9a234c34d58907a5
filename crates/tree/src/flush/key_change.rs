//! Writing the blocks of a tree again that are encrypted with another key, or with an older version of the key, than new blocks.
//!
//! The children are visited in the order of their keys, each after those above it. A job for a child writes again what is
//! encrypted otherwise: blocks of its runs, separate values, and the node that contains the child. Runs that are clipped are
//! merged or flushed instead. What other jobs write at the same time has the new key.
//!
//! Nodes above those of leaves need no job, because they are written whenever one below them is.

use super::candidate::candidate;
use super::claim::Claim;
use super::context::Target;
use super::job::{FlushJob, Work};
use super::report::JobKind;
use super::search::{Found, Search};
use crate::install_state::InstallState;
use crate::node::{Child, ChildId, Key, KeyRange, MissingNode, Node};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::HashSet;
use std::sync::Arc;
use teak_base::{KeyVersion, StorageResult};
use teak_block_file::BlockAddress;

/// How far a tree was written again.
#[derive(Debug)]
pub struct KeyChange {
    wanted: Option<KeyVersion>,
    /// Children that end at or before this key are done.
    from: Key,
    /// Other children that are done.
    done: HashSet<ChildId>,
    is_finished: bool,
}

/// The next step of a change.
#[derive(Debug)]
pub enum KeyChangeStep {
    /// To be run; then the next step follows.
    Job(FlushJob),
    /// Another job works on the next child.
    Wait,
    /// The whole tree was visited. After the next checkpoint, [`Tree::end_key_change`] follows.
    Finished,
}

/// A child to be visited, and its node's block.
struct Place {
    child: Arc<Child>,
    range: KeyRange,
    node: Option<BlockAddress>,
}

impl Tree {
    /// Begins to write the blocks again that are not encrypted as new ones are. `None` if there are none.
    ///
    /// # Errors
    /// `Key`: the key of new blocks is not available.
    pub fn begin_key_change(&self) -> StorageResult<Option<KeyChange>> {
        let wanted = self.file.encryption().current(self.path())?;
        if !self.file.begin_key_change(wanted) {
            return Ok(None);
        }
        Ok(Some(KeyChange {
            wanted,
            from: Key::default(),
            done: HashSet::new(),
            is_finished: false,
        }))
    }

    /// Claims the next job of a change.
    ///
    /// # Errors
    /// Errors of reading nodes. The change then cannot be finished.
    pub fn next_key_change(
        self: &Arc<Self>,
        change: &mut KeyChange,
    ) -> StorageResult<KeyChangeStep> {
        if change.is_finished {
            return Ok(KeyChangeStep::Finished);
        }
        let mut search = Search::default();
        loop {
            // Retains the blocks of its nodes while one of them is read.
            let version;
            let missing = {
                let mut install = self.install.lock();
                version = self.version.load_full();
                match self.try_key_change(change, &mut install, &version, &search) {
                    Ok(step) => return Ok(step),
                    Err(missing) => missing,
                }
            };
            // Without this node the change must not go further: its children would keep their key.
            let node = self.nodes.load(&missing.link, &missing.range)?;
            search.hold(&node, missing.range);
            drop(version);
        }
    }

    fn try_key_change(
        self: &Arc<Self>,
        change: &mut KeyChange,
        install: &mut InstallState,
        version: &Arc<TreeVersion>,
        search: &Search,
    ) -> Result<KeyChangeStep, MissingNode> {
        if version.awaits_base {
            return Ok(KeyChangeStep::Wait);
        }
        let root = (version.root.as_ref(), KeyRange::all());
        let Some(Place { child, range, node }) = next_place(root, change, search)? else {
            change.is_finished = true;
            return Ok(KeyChangeStep::Finished);
        };
        if install.claimed.contains(&child.id) {
            return Ok(KeyChangeStep::Wait);
        }
        let is_clipped = child.runs.iter().any(|run| run.clip.is_some());
        let job = if is_clipped {
            let kind = match child.below {
                Some(_) => JobKind::Child,
                None => JobKind::Leaf,
            };
            let candidate = candidate(&child, range.clone(), kind);
            self.claim_child(install, version, search, candidate)?
        } else {
            let target = Target {
                id: child.id,
                range: range.clone(),
                runs: child.runs.clone(),
            };
            let claim = Claim::take(self, install, child.id);
            let work = Work::ChangeKey(target, change.wanted, node);
            Some(FlushJob::new(claim, Arc::clone(version), work))
        };
        let Some(job) = job else {
            return Ok(KeyChangeStep::Wait);
        };
        // A child with clipped runs is visited again: merges do not write separate values again.
        match (child.is_leaf(), range.upper) {
            _ if is_clipped => {}
            (true, Some(upper)) => change.from = upper,
            (true, None) => change.is_finished = true,
            (false, _) => {
                change.done.insert(child.id);
            }
        }
        Ok(KeyChangeStep::Job(job))
    }

    /// Lets the next checkpoint write the list of shared runs again, which precedes [`Tree::end_key_change`].
    pub fn finish_key_change(&self) {
        let mut install = self.install.lock();
        install.shared_changed |= !install.shared_blocks.is_empty();
        install.changed = true;
    }

    /// Whether blocks are encrypted otherwise than new ones. False if the key of new blocks is not available.
    #[must_use]
    pub fn needs_key_change(&self) -> bool {
        let wanted = self.file.encryption().current(self.path());
        wanted.is_ok_and(|wanted| !self.file.encryption_state().is_current(wanted))
    }

    /// Notes that no block has an older key, unless a writer that began before the change has published one, so that another
    /// change is needed. The next checkpoint makes this durable.
    pub fn end_key_change(&self) {
        self.file.end_key_change();
        self.install.lock().changed = true;
    }
}

/// The first child that is not done, or one whose node must be read.
fn next_place(
    (node, range): (&Node, KeyRange),
    change: &KeyChange,
    search: &Search,
) -> Result<Option<Place>, MissingNode> {
    let address = node.block.place().map(|place| place.address);
    for (child, child_range) in node.children_with_ranges(&range) {
        if child_range.ends_at_or_before(&change.from) {
            continue;
        }
        if !change.done.contains(&child.id) && (child.is_leaf() || !child.runs.is_empty()) {
            return Ok(Some(Place {
                child: Arc::clone(child),
                range: child_range,
                node: address,
            }));
        }
        let below: Found<_> = search.below(child, &child_range);
        if let Some(below) = below?
            && let Some(place) = next_place((&below, child_range), change, search)?
        {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

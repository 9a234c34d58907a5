//! Point lookup: from the active memtable down the path of a key, newest to
//! oldest, until a visible version is found.
//!
//! Filters exclude most runs without the key. A lookup reads a page of each run that has the key
//! (more if the versions of the key continue on further pages), and rarely a page of another run,
//! if its filter gives a false positive.
//!
//! A caller that must not read blocks while it holds a latch of the key divides a lookup:
//! 1. With the latch, [`Tree::visit_in_memory`] visits the versions that are in memory. Usually this
//!    is sufficient.
//! 2. Otherwise [`Tree::visit_older`], without the latch, visits the versions that are not in the
//!    active memtable.
//! 3. With the latch again, [`Tree::visit_newer`] visits the versions in that memtable and in later
//!    ones. The latch prevents others from adding more. If one of these memtables has been flushed
//!    since, step 2 is repeated.

use crate::node::{LoadedNode, Node, NodeReader, RunRef};
use crate::page::Projection;
use crate::run::{BlockSource, PageNeeds, Visitor};
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use crate::{LookupKey, StoredValue, Visit};
use std::sync::Arc;
use teak_base::visibility::Visibility;
use teak_base::{Operation, StorageResult, WriteId};

/// The versions that [`Tree::visit_older`] has visited: those of a version of the tree, without its
/// active memtable.
#[derive(Debug)]
pub struct OlderVersions {
    version: Arc<TreeVersion>,
}

/// What a lookup may read, and what it does not need.
struct Needs<'a> {
    pages: PageNeeds<'a>,
    /// Whether the reader sees none of the writes in this range of ids.
    hides: &'a dyn Fn(WriteId, WriteId) -> bool,
}

impl Needs<'_> {
    /// All versions, with all columns.
    fn all(source: BlockSource) -> Self {
        Self {
            pages: PageNeeds::all(source),
            hides: &|_, _| false,
        }
    }
}

impl Tree {
    /// Calls `visitor` for the versions of a key, newest first, until it returns [`Visit::Stop`].
    /// Versions that no reader sees are included. Range tombstones that cover the key appear as
    /// deletes at their position.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn visit(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
    ) -> StorageResult<()> {
        let version = self.load_version();
        let needs = Needs::all(BlockSource::File);
        visit_version(&self.nodes, &version, key, &needs, visitor)?;
        Ok(())
    }

    /// As [`Tree::visit`], but reads no block. Returns `false` if the visit has ended at a block
    /// that is not in memory. The visitor may get references to separate values, which it must not
    /// read.
    ///
    /// # Errors
    /// Those of [`Tree::visit`], except errors of reading.
    pub fn visit_in_memory(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
    ) -> StorageResult<bool> {
        let version = self.load_version();
        let needs = Needs::all(BlockSource::Memory);
        visit_version(&self.nodes, &version, key, &needs, visitor)
    }

    /// As [`Tree::visit`], for the versions that are not in the active memtable. The result retains
    /// memory and disk space, so it should be dropped soon.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn visit_older(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
    ) -> StorageResult<OlderVersions> {
        let version = self.version.load_full();
        if visit_memtables(version.frozen.iter(), key, visitor) == Visit::Continue {
            let needs = Needs::all(BlockSource::File);
            visit_runs(&self.nodes, &version, key, &needs, visitor)?;
        }
        Ok(OlderVersions { version })
    }

    /// Visits the versions of a key that are newer than those that [`Tree::visit_older`] has
    /// visited, newest first. Reads no block. Returns `false` if some of them may be in runs by
    /// now, or if older data was added below the tree; the visitor may have been called then.
    pub fn visit_newer(
        &self,
        older: &OlderVersions,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
    ) -> bool {
        let now = self.load_version();
        let older = &older.version;
        // Memtables are numbered in the order of their creation.
        let first = older.flushed + older.frozen.len() as u64;
        let active = now.flushed + now.frozen.len() as u64;
        if now.flushed > first + 1 || now.awaits_base != older.awaits_base {
            return false;
        }
        let newer = usize::try_from(active - first).unwrap_or(usize::MAX);
        // The memtable with the number `first` may have been flushed.
        let memtables = now.memtables().take(newer).chain([&older.active]);
        visit_memtables(memtables, key, visitor);
        true
    }

    /// Returns the value of a key as seen by `visibility`.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn get<V: Visibility + ?Sized>(
        &self,
        key: &[u8],
        visibility: &V,
    ) -> StorageResult<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.get_into(key, visibility, None, &mut value)?;
        Ok(found.then_some(value))
    }

    /// Like [`Tree::get`], into a buffer that is cleared first, and with some columns of the value if there is a
    /// projection. Returns false when the key has no value; the buffer is then empty.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn get_into<V: Visibility + ?Sized>(
        &self,
        key: &[u8],
        visibility: &V,
        projection: Option<&Projection>,
        value: &mut Vec<u8>,
    ) -> StorageResult<bool> {
        value.clear();
        let mut found = Ok(false);
        let version = self.load_version();
        let pages = PageNeeds {
            source: BlockSource::File,
            projection,
            one_row: true,
        };
        let needs = Needs {
            pages,
            hides: &|min, max| visibility.hides_all(min, max),
        };
        visit_version(
            &self.nodes,
            &version,
            key,
            &needs,
            &mut |id, operation, stored| {
                if !id.is_settled() && !visibility.is_visible(id) {
                    return Visit::Continue;
                }
                if operation == Operation::Put {
                    found = stored.append_to(value).map(|()| true);
                }
                Visit::Stop
            },
        )?;
        found
    }
}

impl Tree {
    /// Begins to read in the background the blocks that a lookup of the key will read from the
    /// file, as far as filters and index blocks in memory tell. Waits for nothing. A hint: the
    /// lookup may need other blocks, or none.
    pub fn prefetch(&self, key: &[u8]) {
        let version = self.load_version();
        let key = LookupKey::new(key);
        let source = BlockSource::Memory;
        let prefetch = |run: &RunRef| {
            let run_has_key = run.may_contain(key.bytes()) && run.handle.run.prefetch(&key);
            Ok(Some(if run_has_key {
                Visit::Stop
            } else {
                Visit::Continue
            }))
        };
        // Without I/O there are no errors; and without the node that is missing, no hint.
        let _ = for_runs_on_path(&self.nodes, &version, &key, source, prefetch);
    }
}

impl Tree {
    /// Whether filters in memory say that a key is in some run, and all runs that may have it have no deletes, and only settled
    /// writes; `is_settled` decides about the ids of a range. So no run has a version of the key that is not
    /// settled, and if the key is anywhere, it exists. Memtables are not searched. `false` also if this
    /// is not known without reading a block.
    #[must_use]
    pub fn has_settled_key(
        &self,
        key: &[u8],
        is_settled: &dyn Fn(WriteId, WriteId) -> bool,
    ) -> bool {
        let version = self.load_version();
        let key = LookupKey::new(key);
        let mut found = false;
        // The runs below one that may have the key are examined, too: its filter may be wrong.
        let examine = |run: &RunRef| {
            if !run.may_contain(key.bytes()) {
                return Ok(Some(Visit::Continue));
            }
            let handle = &run.handle;
            Ok(match handle.run.filter_has_key(&key) {
                Some(false) => Some(Visit::Continue),
                Some(true) => {
                    let of_run = handle.description();
                    let is_decided = handle.is_settled()
                        || of_run
                            .write_ids
                            .is_none_or(|(min, max)| is_settled(min, max));
                    found = true;
                    (is_decided && of_run.deletes == 0).then_some(Visit::Continue)
                }
                None => None,
            })
        };
        let examined = for_runs_on_path(&self.nodes, &version, &key, BlockSource::Memory, examine);
        found && matches!(examined, Ok(true))
    }
}

/// Returns `false` if the visit has ended at a block that is not in memory.
fn visit_version(
    nodes: &NodeReader,
    version: &TreeVersion,
    key: &[u8],
    needs: &Needs<'_>,
    visitor: Visitor<'_>,
) -> StorageResult<bool> {
    match visit_memtables(version.memtables(), key, visitor) {
        Visit::Stop => Ok(true),
        Visit::Continue => visit_runs(nodes, version, key, needs, visitor),
    }
}

fn visit_memtables<'a>(
    memtables: impl Iterator<Item = &'a Arc<MemtableSlot>>,
    key: &[u8],
    visitor: Visitor<'_>,
) -> Visit {
    for slot in memtables {
        let visited = slot.memtable.visit(key, &mut |id, operation, value| {
            visitor(id, operation, StoredValue::Inline(value))
        });
        if visited == Visit::Stop {
            return Visit::Stop;
        }
    }
    Visit::Continue
}

/// Returns `false` if the visit has ended at a block that is not in memory.
fn visit_runs(
    nodes: &NodeReader,
    version: &TreeVersion,
    key: &[u8],
    needs: &Needs<'_>,
    visitor: Visitor<'_>,
) -> StorageResult<bool> {
    let key = LookupKey::new(key);
    for_runs_on_path(nodes, version, &key, needs.pages.source, |run| {
        visit_run(run, &key, needs, visitor)
    })
}

/// Calls `visit` for the runs on the path to a key, newest first. Returns `false` if the visit has
/// ended at a block that is not in memory.
#[inline]
fn for_runs_on_path(
    nodes: &NodeReader,
    version: &TreeVersion,
    key: &LookupKey<'_>,
    source: BlockSource,
    mut visit: impl FnMut(&RunRef) -> StorageResult<Option<Visit>>,
) -> StorageResult<bool> {
    if version.root.summary.runs == 0 {
        return Ok(true);
    }
    let mut node: &Node = &version.root;
    let mut loaded: LoadedNode;
    loop {
        let Some(child) = node.children.get(node.child_position(key.bytes())) else {
            return Ok(true);
        };
        for run in &child.runs {
            match visit(run)? {
                Some(Visit::Continue) => {}
                Some(Visit::Stop) => return Ok(true),
                None => return Ok(false),
            }
        }
        let below = match &child.below {
            Some(link) if link.summary().runs > 0 => link,
            _ => return Ok(true),
        };
        loaded = match (below.loaded(), source) {
            (Some(below), _) => below,
            (None, BlockSource::Memory) => return Ok(false),
            (None, BlockSource::File) => {
                nodes.load_on_path(&version.root, key.bytes(), below.totals().height)?
            }
        };
        node = &loaded;
    }
}

/// Returns `None` if the visit has ended at a block that is not in memory.
fn visit_run(
    run: &RunRef,
    key: &LookupKey<'_>,
    needs: &Needs<'_>,
    visitor: Visitor<'_>,
) -> StorageResult<Option<Visit>> {
    if !run.may_contain(key.bytes()) {
        return Ok(Some(Visit::Continue));
    }
    if run.handle.is_settled() {
        return run
            .handle
            .run
            .visit_from(needs.pages, key, &mut |_, operation, value| {
                visitor(WriteId::SETTLED, operation, value)
            });
    }
    let only = run.handle.only_write_ids();
    if only.is_some_and(|(min, max)| (needs.hides)(min, max)) {
        return Ok(Some(Visit::Continue));
    }
    let run = &run.handle.run;
    run.visit_from(needs.pages, key, visitor)
}

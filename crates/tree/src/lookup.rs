//! Point lookup: from the active memtable down the path of a key, newest to
//! oldest, until a visible version is found.
//!
//! Filters exclude most runs without the key. A lookup reads a page of each run that has the key
//! (more if the versions of the key continue on further pages), and rarely a page of another run,
//! if its filter gives a false positive.

use crate::node::{LoadedNode, Node, NodeReader, RunRef};
use crate::tree::Tree;
use crate::version::TreeVersion;
use crate::{LookupKey, StoredValue, Visit};
use teak_base::visibility::Visibility;
use teak_base::{Operation, StorageResult, WriteId};

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
        visit_version(&self.nodes, &version, key, &|_, _| false, visitor)
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
        Ok(self.get_into(key, visibility, &mut value)?.then_some(value))
    }

    /// Like [`Tree::get`], into a buffer that is cleared first. Returns false
    /// when the key has no value; the buffer is then empty.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn get_into<V: Visibility + ?Sized>(
        &self,
        key: &[u8],
        visibility: &V,
        value: &mut Vec<u8>,
    ) -> StorageResult<bool> {
        value.clear();
        let mut found = Ok(false);
        let version = self.load_version();
        let hides = |min, max| visibility.hides_all(min, max);
        visit_version(
            &self.nodes,
            &version,
            key,
            &hides,
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

fn visit_version(
    nodes: &NodeReader,
    version: &TreeVersion,
    key: &[u8],
    hides: &dyn Fn(WriteId, WriteId) -> bool,
    visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
) -> StorageResult<()> {
    for slot in version.memtables() {
        let visited = slot.memtable.visit(key, &mut |id, operation, value| {
            visitor(id, operation, StoredValue::Inline(value))
        });
        if visited == Visit::Stop {
            return Ok(());
        }
    }
    if version.root.summary.runs == 0 {
        return Ok(());
    }
    let key = LookupKey::new(key);
    let mut node: &Node = &version.root;
    let mut loaded: LoadedNode;
    loop {
        let Some(child) = node.children.get(node.child_position(key.bytes())) else {
            return Ok(());
        };
        for run in &child.runs {
            if visit_run(run, &key, hides, visitor)? == Visit::Stop {
                return Ok(());
            }
        }
        let below = match &child.below {
            Some(link) if link.summary().runs > 0 => link,
            _ => return Ok(()),
        };
        loaded = match below.loaded() {
            Some(below) => below,
            None => nodes.load_on_path(&version.root, key.bytes(), below.totals().height)?,
        };
        node = &loaded;
    }
}

fn visit_run(
    run: &RunRef,
    key: &LookupKey<'_>,
    hides: &dyn Fn(WriteId, WriteId) -> bool,
    visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
) -> StorageResult<Visit> {
    if !run.may_contain(key.bytes()) {
        return Ok(Visit::Continue);
    }
    if run.handle.is_settled() {
        return run.handle.run.visit(key, &mut |_, operation, value| {
            visitor(WriteId::SETTLED, operation, value)
        });
    }
    let only = run.handle.only_write_ids();
    if only.is_some_and(|(min, max)| hides(min, max)) {
        return Ok(Visit::Continue);
    }
    run.handle.run.visit(key, visitor)
}

//! Checkpoints: make the current root durable, so that recovery starts from it.
//!
//! 1. Nodes that have no block yet are written, without the install lock.
//! 2. Under the install lock, nodes that were created since step 1 are written, the root is
//!    captured, and blocks of nodes that the root no longer contains are freed. Then the lock is
//!    released.
//! 3. The log is made durable up to the newest record whose entries are in runs.
//! 4. The block file is synced, its superblock is written, and it is synced
//!    again.
//!
//! After a failure the older checkpoint is valid. The blocks that were written remain; the next
//! checkpoint makes them durable.

use crate::node::{Node, encode_node, node_block_description};
use crate::payload::Payload;
use crate::tree::Tree;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{Lsn, StorageResult};
use teak_block_file::{BlockAddress, WrittenBlocks};

impl Tree {
    /// Makes the runs and nodes of the current root durable. Returns a
    /// position: the checkpoint contains everything that this index logged
    /// before it.
    ///
    /// Calls `make_log_durable` with a position. When it returns, all of the
    /// log before that position must be durable, so that no block contains an
    /// entry whose log record was lost.
    ///
    /// # Errors
    /// Errors of `make_log_durable`; `NoSpace`, `Io`, `Poisoned`, `Corrupt`. After an error the
    /// previous checkpoint is still valid.
    pub fn checkpoint(
        &self,
        make_log_durable: &dyn Fn(Lsn) -> StorageResult<()>,
    ) -> StorageResult<Lsn> {
        let _one_at_a_time = self.checkpoint.lock();
        let mut nodes = NodeWriter::default();
        let root = Arc::clone(&self.load_version().root);
        self.forget_relocated_nodes(&root);
        nodes.write(self, &root)?;
        drop(root);

        let (prepared, flushed_lsn) = {
            let mut install = self.install.lock();
            let version = self.version.load_full();
            let root = &version.root;
            nodes.write(self, root)?;
            let mut reachable = HashSet::new();
            collect_addresses(root, &mut reachable);
            let payload = Payload {
                root: *root.address.lock(),
                flushed_lsn: install.flushed_lsn,
                next_child_id: install.next_child_id,
                options: (*self.options()).clone(),
                rows: u64::try_from(root.summary.rows).unwrap_or(0),
                raw_bytes: root.summary.raw_bytes,
            };
            let (blocks, mut replaced) = nodes.into_blocks();
            replaced.extend(&install.written_nodes);
            replaced.retain(|address| !reachable.contains(address));
            let freed: Vec<BlockAddress> = replaced.into_iter().collect();
            self.file.publish(blocks, &freed);
            install.written_nodes = reachable;
            if !freed.is_empty() {
                self.version
                    .store(Arc::new(version.pinned_again(&self.file)));
            }
            let prepared = self.file.prepare_checkpoint(payload.encode())?;
            install.changed = false;
            install.capture_undurable();
            (prepared, install.flushed_lsn)
        };

        let committed = make_log_durable(flushed_lsn).and_then(|()| prepared.commit());
        let mut install = self.install.lock();
        match committed {
            Ok(()) => {
                install.captured_durable(flushed_lsn);
                self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                Ok(flushed_lsn)
            }
            Err(error) => {
                install.captured_failed();
                Err(error)
            }
        }
    }

    /// Whether anything changed since the last captured checkpoint.
    #[must_use]
    pub fn needs_checkpoint(&self) -> bool {
        self.install.lock().changed
    }

    /// A position: the last durable checkpoint contains everything that this
    /// index logged before it.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.install.lock().durable_lsn
    }

    /// Returns the oldest log position that recovery of this index needs. Log
    /// before it can be removed. `end` is called while no write guard is held,
    /// and returns the end of the log.
    pub fn oldest_needed_lsn(&self, end: impl FnOnce() -> Lsn) -> Lsn {
        // Without writers, the position of every record logged for this tree is
        // known.
        let _no_writers = self.active.write();
        let end = end();
        let install = self.install.lock();
        let version = self.load_version();
        let unflushed = version.memtables().filter_map(|slot| slot.first_lsn());
        let needed = unflushed.chain(install.oldest_undurable()).min();
        needed.unwrap_or(end).min(end)
    }
}

/// Writes nodes, children before parents. Dropping it frees the blocks, unless they were published.
#[derive(Default)]
struct NodeWriter {
    blocks: Vec<WrittenBlocks>,
    written: Vec<Arc<Node>>,
    raw: Vec<u8>,
}

impl NodeWriter {
    /// Writes the nodes at and below `root` that have no block yet.
    fn write(&mut self, tree: &Tree, root: &Arc<Node>) -> StorageResult<()> {
        let mut pending = Vec::new();
        collect_unwritten(root, &mut pending);
        if pending.is_empty() {
            return Ok(());
        }
        let mut writer = tree.file.writer(0);
        for node in pending {
            self.raw.clear();
            encode_node(node, &mut self.raw);
            let address = writer.write(node_block_description(), &self.raw)?;
            *node.address.lock() = Some(address);
            self.written.push(Arc::clone(node));
        }
        self.blocks.push(writer.finish()?);
        Ok(())
    }

    /// Returns the written blocks, to publish them.
    fn into_blocks(mut self) -> (Vec<WrittenBlocks>, HashSet<BlockAddress>) {
        let written = std::mem::take(&mut self.written);
        let addresses = written.iter().filter_map(|node| *node.address.lock());
        (std::mem::take(&mut self.blocks), addresses.collect())
    }
}

impl Drop for NodeWriter {
    fn drop(&mut self) {
        for node in &self.written {
            *node.address.lock() = None;
        }
    }
}

/// Collects the nodes without an address, children before parents. If a node
/// has an address, all nodes below it have one.
fn collect_unwritten<'a>(node: &'a Arc<Node>, pending: &mut Vec<&'a Arc<Node>>) {
    if node.address.lock().is_some() {
        return;
    }
    for child in &node.children {
        if let Some(below) = &child.below {
            collect_unwritten(below, pending);
        }
    }
    pending.push(node);
}

fn collect_addresses(node: &Node, addresses: &mut HashSet<BlockAddress>) {
    addresses.extend(*node.address.lock());
    for child in &node.children {
        if let Some(below) = &child.below {
            collect_addresses(below, addresses);
        }
    }
}

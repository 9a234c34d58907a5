//! Checkpoints: making the current root the one that a crash finds.
//!
//! 1. Nodes that have not been written are written, without the install lock.
//! 2. Under the install lock the few that came into being meanwhile are
//!    written, the root is captured, and node blocks that it no longer has are
//!    freed. From here on other jobs may install.
//! 3. The log is made durable up to what the runs hold.
//! 4. The block file syncs, writes its superblock, and syncs.
//!
//! A failure leaves the older checkpoint valid; what was written stays, and
//! the next checkpoint makes it durable.

use crate::node::{Node, encode_node, node_block_description};
use crate::payload::Payload;
use crate::tree::Tree;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{Lsn, StorageResult};
use teak_block_file::{BlockAddress, WrittenBlocks};

impl Tree {
    /// Makes the runs and nodes of the current root durable, and with them
    /// everything that this index logged before the returned position.
    ///
    /// `make_log_durable` is called with a position before which all of the
    /// log must be durable when it returns: blocks must not outlive the
    /// records of what they hold.
    ///
    /// # Errors
    /// Those of `make_log_durable`; `NoSpace`, `Io`, `Poisoned`, `Corrupt`.
    /// The older checkpoint stays valid.
    pub fn checkpoint(
        &self,
        make_log_durable: &dyn Fn(Lsn) -> StorageResult<()>,
    ) -> StorageResult<Lsn> {
        let _one_at_a_time = self.checkpoint.lock();
        let mut nodes = NodeWriter::default();
        let root = Arc::clone(&self.load_version().root);
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

    /// Whether anything changed since the last checkpoint that was captured.
    #[must_use]
    pub fn needs_checkpoint(&self) -> bool {
        self.install.lock().changed
    }

    /// What the last durable checkpoint holds: everything that this index
    /// logged before this position.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.install.lock().durable_lsn
    }

    /// The oldest log position that recovery of this index would need if the
    /// process ended now: records before it may be trimmed. `end` is called
    /// while no write guard is held, and returns the end of the log.
    pub fn oldest_needed_lsn(&self, end: impl FnOnce() -> Lsn) -> Lsn {
        // Without writers, every record logged for this tree is noted.
        let _no_writers = self.active.write();
        let end = end();
        let install = self.install.lock();
        let version = self.load_version();
        let unflushed = version.memtables().filter_map(|slot| slot.first_lsn());
        let needed = unflushed.chain(install.oldest_undurable()).min();
        needed.unwrap_or(end).min(end)
    }
}

/// Writes nodes, children before parents. Dropping it frees what it wrote.
#[derive(Default)]
struct NodeWriter {
    blocks: Vec<WrittenBlocks>,
    written: Vec<Arc<Node>>,
    raw: Vec<u8>,
}

impl NodeWriter {
    /// Writes the nodes at and below `root` that have not been written.
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

    /// What was written, for publishing.
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

/// The nodes without an address, children before parents. What lies below a
/// written node has been written.
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

//! Checkpoints: make the current root durable, so that recovery starts from it.
//!
//! 1. Wait for the turn: a tree makes one checkpoint at a time.
//! 2. Nodes that have no block yet are written.
//! 3. Under the install lock, root, positions and the state of the space are
//!    captured. This does no I/O, and its time does not depend on the size of
//!    the tree. From then on jobs may install again.
//! 4. Nodes that were created between 2 and 3 are written. Blocks of nodes that
//!    the captured root does not contain are freed.
//! 5. The caller makes the log durable up to the position that the runs hold,
//!    for one checkpoint or for many.
//! 6. The block file writes its space map and its superblock, and syncs.
//!
//! After a failure the older checkpoint is valid. Blocks that were published remain, and the next
//! checkpoint makes them durable.

use crate::node::{Node, encode_node, node_block_description};
use crate::payload::Payload;
use crate::tree::Tree;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::{Lsn, StorageError, StorageResult, WriteId};
use teak_block_file::{BlockAddress, CheckpointTurn, PreparedCheckpoint, WrittenBlocks};

/// The right to make the next checkpoint of a tree. Dropping it lets another
/// thread begin one.
#[derive(Debug)]
pub struct TreeCheckpointTurn {
    tree: Arc<Tree>,
    turn: CheckpointTurn,
}

/// A captured state of a tree, whose superblock is not written. Dropping it
/// cancels the checkpoint, unless it is committed.
#[derive(Debug)]
pub struct TreeCheckpoint {
    /// Declared before `prepared`, whose drop ends the turn, so that it is dropped first.
    captured: CapturedPositions,
    prepared: PreparedCheckpoint,
    payload: Payload,
    write_ids: Option<(WriteId, WriteId)>,
}

/// Reports the end of a captured checkpoint to the tree: its failure, if it is dropped before
/// `durable` is called.
#[derive(Debug)]
struct CapturedPositions {
    tree: Arc<Tree>,
    is_open: bool,
}

impl CapturedPositions {
    /// Records that the checkpoint is durable.
    fn durable(&mut self, flushed_lsn: Lsn) {
        self.is_open = false;
        self.tree.install.lock().captured_durable(flushed_lsn);
    }
}

impl Drop for CapturedPositions {
    fn drop(&mut self) {
        if self.is_open {
            self.tree.install.lock().captured_failed();
        }
    }
}

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
    /// Those of `make_log_durable`; `NoSpace`, `Io`, `Poisoned`, `Corrupt`. The
    /// older checkpoint is then still valid.
    pub fn checkpoint(
        self: &Arc<Self>,
        make_log_durable: &dyn Fn(Lsn) -> StorageResult<()>,
    ) -> StorageResult<Lsn> {
        let mut checkpoint = self.begin_checkpoint().capture()?;
        make_log_durable(checkpoint.flushed_lsn())?;
        checkpoint.commit()
    }

    /// Waits for the checkpoint of this tree that is in progress, if there is
    /// one, and for the caller's turn to make the next.
    #[must_use]
    pub fn begin_checkpoint(self: &Arc<Self>) -> TreeCheckpointTurn {
        TreeCheckpointTurn {
            tree: Arc::clone(self),
            turn: self.file.begin_checkpoint(),
        }
    }

    /// Whether anything changed since the last captured checkpoint.
    #[must_use]
    pub fn needs_checkpoint(&self) -> bool {
        self.install.lock().changed
    }

    /// The error with which every checkpoint fails until the file is opened again; `None` if
    /// checkpoints are possible.
    #[must_use]
    pub fn checkpoint_refusal(&self) -> Option<StorageError> {
        self.file.checkpoint_refusal()
    }

    /// Makes another checkpoint necessary, even if no run has changed, unless the
    /// durable one says that it contains everything before `lsn`.
    pub fn require_durable(&self, lsn: Lsn) {
        let mut install = self.install.lock();
        install.changed |= install.durable_lsn < lsn;
    }

    /// A position: the last durable checkpoint contains everything that this
    /// index logged before it.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.install.lock().durable_lsn
    }

    /// The number of the last durable checkpoint. It increases with each checkpoint.
    #[must_use]
    pub fn durable_generation(&self) -> u64 {
        self.file.durable_generation()
    }

    /// Log position of the oldest record whose entries are not in a durable
    /// checkpoint. Does not wait for writers, so a record that is being written
    /// may be missed.
    #[must_use]
    pub fn oldest_undurable_lsn(&self) -> Option<Lsn> {
        let install = self.install.lock();
        let version = self.load_version();
        let unflushed = version.memtables().filter_map(|slot| slot.first_lsn());
        unflushed.chain(install.undurable().lsn).min()
    }

    /// The oldest write that was unsettled when it was flushed, among those that
    /// are in no durable checkpoint. Recovery may find its log records.
    #[must_use]
    pub fn oldest_undurable_write_id(&self) -> Option<WriteId> {
        self.install.lock().undurable().oldest
    }

    /// Returns the oldest log position that recovery of this index needs. As far as this index is
    /// concerned, the log before this position can be removed. `end` is called while no write guard
    /// is held, and returns the end of the log.
    pub fn oldest_needed_lsn(&self, end: impl FnOnce() -> Lsn) -> Lsn {
        // Without writers, the position of every record logged for this tree is
        // known.
        let _no_writers = self.active.write();
        let end = end();
        let needed = self.oldest_undurable_lsn();
        needed.unwrap_or(end).min(end)
    }
}

impl TreeCheckpointTurn {
    /// Captures the current root and writes its nodes. The space of blocks that the captured root
    /// needs is not reused, at least until the checkpoint is committed or dropped.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Poisoned`, `Corrupt`.
    pub fn capture(self) -> StorageResult<TreeCheckpoint> {
        let Self { tree, turn } = self;
        let mut nodes = NodeWriter::default();
        let root = Arc::clone(&tree.load_version().root);
        tree.forget_relocated_nodes(&root);
        nodes.write(&tree, &root)?;
        drop(root);

        let options = (*tree.options()).clone();
        let freeing = tree.freeing.write();
        let mut install = tree.install.lock();
        let since = Instant::now();
        let mut prepared = turn.capture()?;
        let root = Arc::clone(&tree.load_version().root);
        let (flushed_lsn, next_child_id) = (install.flushed_lsn, install.next_child_id);
        install.changed = false;
        install.capture_undurable();
        drop(install);
        drop(freeing);
        tree.cache.lock_times().captures.record_since(since);
        let captured = CapturedPositions {
            tree: Arc::clone(&tree),
            is_open: true,
        };

        if let Err(error) = nodes.write(&tree, &root) {
            // Resets the addresses of these nodes before the turn ends: the next checkpoint reads
            // them.
            drop(nodes);
            return Err(error);
        }
        let mut reachable = HashSet::new();
        collect_addresses(&root, &mut reachable);
        let (blocks, mut replaced) = nodes.into_blocks();
        let mut written_nodes = tree.written_nodes.lock();
        replaced.extend(&*written_nodes);
        replaced.retain(|address| !reachable.contains(address));
        let freed: Vec<BlockAddress> = replaced.into_iter().collect();
        *written_nodes = reachable;
        drop(written_nodes);
        prepared.publish(blocks, &freed);
        if !freed.is_empty() {
            let _install = tree.install.lock();
            let version = tree.version.load_full();
            tree.version
                .store(Arc::new(version.pinned_again(&tree.file)));
        }
        let payload = Payload {
            root: *root.address.lock(),
            flushed_lsn,
            next_child_id,
            options,
            rows: u64::try_from(root.summary.rows).unwrap_or(0),
            raw_bytes: root.summary.raw_bytes,
        };
        Ok(TreeCheckpoint {
            captured,
            prepared,
            payload,
            write_ids: root.summary.write_ids,
        })
    }
}

impl TreeCheckpoint {
    /// The log position of the checkpoint: it contains the effects of all log records of this index
    /// before the position, and of none after it.
    #[must_use]
    pub fn flushed_lsn(&self) -> Lsn {
        self.payload.flushed_lsn
    }

    /// The minimum and maximum unsettled write id in the captured runs; `None`
    /// when everything is settled.
    #[must_use]
    pub fn write_id_range(&self) -> Option<(WriteId, WriteId)> {
        self.write_ids
    }

    /// Makes the captured state durable. All of the log before [`TreeCheckpoint::flushed_lsn`] must
    /// be durable. The turn ends when the checkpoint is dropped.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Poisoned`, `Corrupt`. The older checkpoint is then
    /// still valid.
    ///
    /// # Panics
    /// When it was called before.
    pub fn commit(&mut self) -> StorageResult<Lsn> {
        self.prepared.commit(&self.payload.encode())?;
        self.captured.durable(self.payload.flushed_lsn);
        let checkpoints = &self.captured.tree.counters.checkpoints;
        checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(self.payload.flushed_lsn)
    }
}

/// Writes nodes, children before parents. Dropping it frees the blocks and resets the addresses of
/// the nodes.
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

    /// Returns the written blocks, to publish them, and their addresses.
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

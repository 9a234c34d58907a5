//! Checkpoints: make the current root durable, so that recovery starts from it.
//!
//! 1. Wait for the turn: a tree makes one checkpoint at a time.
//! 2. Nodes that have no block yet are written.
//! 3. Under the install lock, root, positions and the state of the space are
//!    captured. This does no I/O, and its time does not depend on the size of
//!    the tree. From then on jobs may install again.
//! 4. Nodes that were created between 2 and 3 are written, and the list of shared
//!    runs, if it has changed. Blocks of nodes that the captured root does not
//!    refer to are freed. From then on the written nodes may be evicted, except
//!    those that were replaced between 2 and 3.
//! 5. The caller makes the log durable up to the flushed position, for one checkpoint or for
//!    several.
//! 6. The block file writes its space map and its superblock, and syncs.
//!
//! After a failure the older checkpoint is valid. Blocks that were published remain, and the next
//! checkpoint makes them durable.

use crate::install_state::CapturedNodes;
use crate::node::{Node, NodeBlock, NodeLink, NodePlace, encode_node, node_block_description};
use crate::payload::Payload;
use crate::tree::Tree;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::{EncryptionState, FileId, Lsn, StorageError, StorageResult, WriteId};
use teak_block_file::{
    BackupEpochs, BlockAddress, BlockFile, CheckpointPin, CheckpointTurn, PreparedCheckpoint,
    WrittenBlocks,
};
use teak_disk::Disk;

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
    /// Declared before `prepared`, so that it is dropped before the turn ends with `prepared`.
    captured: CapturedPositions,
    prepared: PreparedCheckpoint,
    payload: Payload,
    oldest_unpurged: Option<WriteId>,
}

/// Reports to the tree whether a captured checkpoint has become durable. If this is dropped before
/// `durable` is called, the checkpoint has failed.
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

    /// Makes another checkpoint necessary, even if no run has changed, unless [`Tree::durable_lsn`]
    /// is `lsn` or above.
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

    /// Retains the blocks of the last durable checkpoint, so that they can be copied. Does no I/O.
    ///
    /// # Errors
    /// `Corrupt` if the tree was opened without a valid superblock.
    pub fn pin_checkpoint(&self) -> StorageResult<CheckpointPin> {
        self.file.pin_checkpoint()
    }

    /// Notes in the file which blocks are written in which epoch, for incremental backups.
    pub fn count_epochs(&self, epochs: &Arc<BackupEpochs>) {
        self.file.count_epochs(epochs);
    }

    /// As [`Tree::pin_checkpoint`], for a file that no tree has open: as long as the pin exists, no
    /// tree that is open may write the file, unless the tree is pinned, too.
    ///
    /// # Errors
    /// As [`Tree::open_not_before`].
    pub fn pin_closed(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        generation_min: u64,
    ) -> StorageResult<CheckpointPin> {
        let (file, _) = BlockFile::open_not_before(disk, path, file_id, generation_min)?;
        file.pin_checkpoint()
    }

    /// See [`BlockFile::encryption_state`].
    #[must_use]
    pub fn encryption_state(&self) -> EncryptionState {
        self.file.encryption_state()
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
        let mut nodes = NodeWriter::new(&tree);
        let root = Arc::clone(&tree.load_version().root);
        nodes.write(&root)?;
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
        // Retains exactly the captured state.
        nodes.captured = Some(install.capture_nodes(tree.file.pin()));
        drop(install);
        drop(freeing);
        tree.nodes.raise_child_ids_end(next_child_id);
        tree.cache.lock_times().captures.record_since(since);
        let captured = CapturedPositions {
            tree: Arc::clone(&tree),
            is_open: true,
        };

        let written = nodes.write(&root).and_then(|()| nodes.write_shared());
        if let Err(error) = written {
            // Before the turn ends.
            drop(nodes);
            return Err(error);
        }
        let shared_runs = nodes.publish(&mut prepared);
        let payload = Payload {
            root: root.block.place().map(|place| place.address),
            shared_runs,
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
            oldest_unpurged: root.summary.oldest_unpurged,
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

    /// As [`Tree::oldest_unpurged_write_id`], for the captured runs.
    #[must_use]
    pub fn oldest_unpurged_write_id(&self) -> Option<WriteId> {
        self.oldest_unpurged
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

/// A node with the link to it; the root has none.
type WrittenNode = (Arc<Node>, Option<Arc<NodeLink>>);

/// Writes nodes, children before parents, and the list of shared runs. Dropping it before they are
/// published frees the blocks, and the nodes are in no block again.
struct NodeWriter {
    tree: Arc<Tree>,
    blocks: Vec<WrittenBlocks>,
    written: Vec<WrittenNode>,
    captured: Option<CapturedNodes>,
    /// The blocks of the list of shared runs, if it was written.
    shared_blocks: Option<Vec<BlockAddress>>,
    is_published: bool,
    raw: Vec<u8>,
}

impl NodeWriter {
    fn new(tree: &Arc<Tree>) -> Self {
        // Before the root is loaded: nodes that a later root does not refer to may be written.
        tree.install.lock().begin_writing_nodes();
        Self {
            tree: Arc::clone(tree),
            blocks: Vec::new(),
            written: Vec::new(),
            captured: None,
            shared_blocks: None,
            is_published: false,
            raw: Vec::new(),
        }
    }

    /// Writes the nodes at and below `root` that have no block yet.
    fn write(&mut self, root: &Arc<Node>) -> StorageResult<()> {
        let mut pending = Vec::new();
        if root.block.place().is_none() {
            collect_unwritten(root, &mut pending);
            pending.push((Arc::clone(root), None));
        }
        if pending.is_empty() {
            return Ok(());
        }
        let mut writer = self.tree.file.writer(0);
        for (node, link) in pending {
            self.raw.clear();
            encode_node(&node, &mut self.raw);
            let address = writer.write(node_block_description(), &self.raw)?;
            let links = node
                .children
                .iter()
                .filter_map(|child| child.below.as_ref());
            let below = links.filter_map(|link| Some(link.block().place()?.blocks_end));
            node.block.set_written(NodePlace {
                address,
                blocks_end: below.fold(address.end(), u64::max),
            });
            self.written.push((node, link));
        }
        self.blocks.push(writer.finish()?);
        Ok(())
    }

    /// Writes the captured list of shared runs, if it has changed.
    fn write_shared(&mut self) -> StorageResult<()> {
        let captured = self.captured.as_ref();
        let Some(shared) = captured.and_then(|captured| captured.shared.as_ref()) else {
            return Ok(());
        };
        let mut addresses = Vec::new();
        if shared.len() > 0 {
            let mut writer = self.tree.file.writer(0);
            addresses = shared.write(&mut writer)?;
            self.blocks.push(writer.finish()?);
        }
        self.shared_blocks = Some(addresses);
        Ok(())
    }

    /// Publishes the blocks, and frees those of nodes that the captured root does not refer to.
    /// Returns the address of the list of shared runs.
    fn publish(mut self, prepared: &mut PreparedCheckpoint) -> Option<BlockAddress> {
        let tree = Arc::clone(&self.tree);
        let blocks = std::mem::take(&mut self.blocks);
        let mut written = std::mem::take(&mut self.written);
        let replaced = self.take_replaced(&mut written);
        let captured = self.captured.take();
        let dropped = captured.iter().flat_map(|captured| &captured.dropped);
        let places = dropped.filter_map(|block| block.place());
        let mut freed: Vec<BlockAddress> = places.map(|place| place.address).collect();
        if let Some(blocks) = self.shared_blocks.take() {
            let mut install = tree.install.lock();
            freed.extend(std::mem::replace(&mut install.shared_blocks, blocks));
        }
        prepared.publish(blocks, &freed);
        let mut install = tree.install.lock();
        if let Some(captured) = captured {
            install.published_nodes(captured);
        }
        for (node, _) in &replaced {
            node.block.set_unwritten();
        }
        self.is_published = true;
        // From now on they can be read again.
        for (node, _) in &written {
            node.block.set_published();
        }
        let shared_runs = install.shared_blocks.first().copied();
        if !freed.is_empty() {
            let version = tree.version.load_full();
            let root = Arc::clone(&version.root);
            let pinned_again = version.with_root(root, &tree.file, install.checkpoint_pin());
            tree.publish_version(pinned_again);
        }
        drop(install);
        // A node is not evicted while `written` refers to it.
        let links = written.into_iter();
        let links = links.filter_map(|(node, link)| Some(link?.to_evict(&node)));
        let links: Vec<_> = links.collect();
        tree.cache.nodes().add_evictable(links.into_iter());
        shared_runs
    }

    /// Removes the nodes that were replaced between their writing and the capture. No pin retains
    /// their blocks, which are freed by the same checkpoint, so they remain in memory as long as an
    /// older version refers to them.
    fn take_replaced(&self, written: &mut Vec<WrittenNode>) -> Vec<WrittenNode> {
        let dropped = self.captured.iter().flat_map(|captured| &captured.dropped);
        let dropped: HashSet<*const NodeBlock> = dropped.map(Arc::as_ptr).collect();
        let is_replaced = |(node, _): &mut WrittenNode| dropped.contains(&Arc::as_ptr(&node.block));
        written.extract_if(.., is_replaced).collect()
    }
}

impl Drop for NodeWriter {
    fn drop(&mut self) {
        for (node, _) in &self.written {
            node.block.set_unwritten();
        }
        if !self.is_published {
            let captured = self.captured.take();
            self.tree.install.lock().writing_nodes_failed(captured);
        }
    }
}

/// Collects the nodes below `node` that have no block, children before parents. If a node has a
/// block, all nodes below it have one.
fn collect_unwritten(node: &Node, pending: &mut Vec<WrittenNode>) {
    for link in node
        .children
        .iter()
        .filter_map(|child| child.below.as_ref())
    {
        if link.block().place().is_some() {
            continue;
        }
        let Some(below) = link.loaded() else {
            unreachable!("a node without a block is in memory");
        };
        collect_unwritten(&below, pending);
        pending.push((below.to_arc(), Some(Arc::clone(link))));
    }
}

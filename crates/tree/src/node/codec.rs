//! The format of node blocks. See "Node" in `docs/design/format.md`.

use super::{Child, ChildId, HEIGHT_MAX, Key, KeyRange, Node, RunForm, RunHandle, RunRef};
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::{PageCache, Run, RunDescription, TreeOptions};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{Codec, StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockDescription, BlockFile, BlockKind};

/// The layout number of node blocks.
const NODE_LAYOUT: u8 = 3;

const FLAG_SETTLED: u8 = 1;
const FLAG_CLIPPED: u8 = 2;
const FLAG_CLIP_UPPER: u8 = 4;
const FLAGS_ALL: u8 = FLAG_SETTLED | FLAG_CLIPPED | FLAG_CLIP_UPPER;

/// The header of node blocks.
pub(crate) fn node_block_description() -> BlockDescription {
    BlockDescription {
        kind: BlockKind::Node,
        layout: NODE_LAYOUT,
        codec: Codec::Lz4,
    }
}

/// Appends the raw bytes of a node.
///
/// # Panics
/// When a node below has no block.
pub(crate) fn encode_node(node: &Node, out: &mut Vec<u8>) {
    out.put_u8(node.height);
    out.put_varint(node.children.len() as u64);
    let no_pivot: Key = Arc::default();
    let pivots = std::iter::once(&no_pivot).chain(&node.pivots);
    for (child, pivot) in node.children.iter().zip(pivots) {
        out.put_bytes(pivot);
        out.put_u64(child.id.0);
        if let Some(below) = &child.below {
            let address = *below.address.lock();
            assert!(address.is_some(), "nodes are written from the bottom up");
            if let Some(address) = address {
                address.encode(out);
            }
        }
        out.put_varint(child.runs.len() as u64);
        for run in &child.runs {
            encode_run(run, out);
        }
    }
}

fn encode_run(run: &RunRef, out: &mut Vec<u8>) {
    out.put_u8(run.handle.form as u8);
    let mut flags = 0;
    if run.handle.is_settled() {
        flags |= FLAG_SETTLED;
    }
    let upper = run.clip.as_ref().and_then(|clip| clip.upper.as_deref());
    if run.clip.is_some() {
        flags |= FLAG_CLIPPED;
    }
    if upper.is_some() {
        flags |= FLAG_CLIP_UPPER;
    }
    out.put_u8(flags);
    if let Some(clip) = &run.clip {
        out.put_bytes(&clip.lower);
    }
    if let Some(upper) = upper {
        out.put_bytes(upper);
    }
    run.handle.description().encode(out);
}

/// The fields of a node in its block.
struct RawNode {
    height: u8,
    children: Vec<RawChild>,
}

struct RawChild {
    pivot: Key,
    id: ChildId,
    below: Option<BlockAddress>,
    runs: Vec<RawRun>,
}

struct RawRun {
    form: RunForm,
    settled: bool,
    clip: Option<Arc<KeyRange>>,
    description: RunDescription,
}

fn decode_node(bytes: &[u8]) -> Result<RawNode, Malformed> {
    let mut take = Take::new(bytes);
    let height = take.u8()?;
    if height == 0 || height > HEIGHT_MAX {
        return Err(Malformed);
    }
    let count = take.length(take.rest().len())?;
    if count == 0 {
        return Err(Malformed);
    }
    let mut children = Vec::new();
    for position in 0..count {
        let pivot: Key = take.bytes()?.into();
        let ascends = match children.last() {
            Some(RawChild { pivot: before, .. }) => *before < pivot,
            None => pivot.is_empty(),
        };
        if !ascends || (position > 0 && pivot.is_empty()) {
            return Err(Malformed);
        }
        let id = ChildId(take.u64()?);
        if id > ChildId::MAX {
            return Err(Malformed);
        }
        let below = if height > 1 {
            Some(BlockAddress::decode(&mut take)?)
        } else {
            None
        };
        let run_count = take.length(take.rest().len())?;
        let mut runs = Vec::new();
        for _ in 0..run_count {
            runs.push(decode_run(&mut take)?);
        }
        children.push(RawChild {
            pivot,
            id,
            below,
            runs,
        });
    }
    if !take.is_empty() {
        return Err(Malformed);
    }
    Ok(RawNode { height, children })
}

fn decode_run(take: &mut Take<'_>) -> Result<RawRun, Malformed> {
    let form = RunForm::from_number(take.u8()?).ok_or(Malformed)?;
    let flags = take.u8()?;
    let clipped = flags & FLAG_CLIPPED != 0;
    let clip_upper = flags & FLAG_CLIP_UPPER != 0;
    if flags & !FLAGS_ALL != 0 || (clip_upper && !clipped) {
        return Err(Malformed);
    }
    let lower: Option<Key> = match clipped {
        true => Some(take.bytes()?.into()),
        false => None,
    };
    let upper: Option<Key> = match clip_upper {
        true => Some(take.bytes()?.into()),
        false => None,
    };
    let clip = lower.map(|lower| KeyRange { lower, upper });
    if clip.as_ref().is_some_and(KeyRange::is_empty) {
        return Err(Malformed);
    }
    Ok(RawRun {
        form,
        settled: flags & FLAG_SETTLED != 0,
        clip: clip.map(Arc::new),
        description: RunDescription::decode(take)?,
    })
}

/// What the loader does with a node that it cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// Returns the error.
    Fail,
    /// Puts an empty subtree in its place.
    Skip,
}

/// Reads nodes. Creates one handle for a run to which several children refer.
pub(crate) struct NodeLoader<'a> {
    file: &'a BlockFile,
    cache: &'a Arc<PageCache>,
    options: &'a TreeOptions,
    runs: HashMap<u64, Arc<RunHandle>>,
    addresses: HashSet<BlockAddress>,
    child_ids: HashSet<ChildId>,
    on_damage: OnDamage,
    lost: Vec<LostPart>,
}

impl<'a> NodeLoader<'a> {
    pub(crate) fn new(
        file: &'a BlockFile,
        cache: &'a Arc<PageCache>,
        options: &'a TreeOptions,
        on_damage: OnDamage,
    ) -> Self {
        Self {
            file,
            cache,
            options,
            runs: HashMap::new(),
            addresses: HashSet::new(),
            child_ids: HashSet::new(),
            on_damage,
            lost: Vec::new(),
        }
    }

    /// Reads the root and all nodes below it.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn load_root(&mut self, address: BlockAddress) -> StorageResult<Arc<Node>> {
        match self.load(address, None, &KeyRange::all()) {
            Err(error) => self.skip(1, &KeyRange::all(), error),
            loaded => loaded,
        }
    }

    /// The nodes that could not be read.
    pub(crate) fn take_lost(&mut self) -> Vec<LostPart> {
        std::mem::take(&mut self.lost)
    }

    /// Replaces a node that cannot be read, if that is wanted.
    fn skip(
        &mut self,
        height: u8,
        range: &KeyRange,
        error: StorageError,
    ) -> StorageResult<Arc<Node>> {
        if self.on_damage == OnDamage::Fail || !is_loss(&error) {
            return Err(error);
        }
        let upper = range.upper.as_deref();
        let lost = LostPart::new(LostKind::Subtree, &range.lower, upper, error);
        self.lost.push(lost);
        Ok(Node::empty_subtree(height, self.options))
    }

    /// The maximum child id read.
    pub(crate) fn child_id_max(&self) -> u64 {
        self.child_ids.iter().map(|id| id.0).max().unwrap_or(0)
    }

    /// The addresses of all node blocks read.
    pub(crate) fn into_addresses(self) -> HashSet<BlockAddress> {
        self.addresses
    }

    fn load(
        &mut self,
        address: BlockAddress,
        height: Option<u8>,
        range: &KeyRange,
    ) -> StorageResult<Arc<Node>> {
        let path = self.file.path();
        let corrupt = |reason: &str| StorageError::corrupt(path, address.offset, reason);
        if !self.addresses.insert(address) {
            return Err(corrupt("two nodes lead to this one"));
        }
        let block = self.file.read_block(address, BlockKind::Node)?;
        if block.description.layout != NODE_LAYOUT {
            return Err(StorageError::UnsupportedFormat {
                path: path.to_path_buf(),
                found: u32::from(block.description.layout),
                supported: u32::from(NODE_LAYOUT),
            });
        }
        let raw = decode_node(&block.raw).map_err(|_| corrupt("the node is malformed"))?;
        if height.is_some_and(|height| height != raw.height) {
            return Err(corrupt("the node has the wrong height"));
        }
        let uppers = raw.children.iter().skip(1).map(|c| Some(c.pivot.clone()));
        let uppers: Vec<Option<Key>> = uppers.chain([range.upper.clone()]).collect();
        let mut pivots = Vec::new();
        let mut children = Vec::new();
        for (position, (child, upper)) in raw.children.into_iter().zip(uppers).enumerate() {
            let lower = if position == 0 {
                range.lower.clone()
            } else {
                pivots.push(child.pivot.clone());
                child.pivot
            };
            let child_range = KeyRange { lower, upper };
            if child_range.is_empty() || !range.covers(&child_range) {
                return Err(corrupt("a pivot is outside the node's range"));
            }
            if child.id == ChildId::ROOT || !self.child_ids.insert(child.id) {
                return Err(corrupt("a child's number is taken"));
            }
            let mut runs = Vec::new();
            for run in child.runs {
                let run = self.run(run).map_err(corrupt)?;
                if !child_range.covers(&run.range()) {
                    return Err(corrupt("a run is outside its child's range"));
                }
                run.handle.add_reference();
                runs.push(run);
            }
            let below = match child.below {
                Some(below) => {
                    let height = raw.height - 1;
                    let loaded = self.load(below, Some(height), &child_range);
                    Some(loaded.or_else(|error| self.skip(height, &child_range, error))?)
                }
                None => None,
            };
            children.push(Child::new(child.id, runs, below, self.options));
        }
        let node = Node::new(raw.height, pivots, children);
        *node.address.lock() = Some(address);
        Ok(node)
    }

    fn run(&mut self, raw: RawRun) -> Result<RunRef, &'static str> {
        let open = |description| {
            let run = Run::open(self.file, self.cache, description);
            Arc::new(RunHandle::new(run, raw.form, raw.settled))
        };
        let handle = match raw.description.index {
            None => open(raw.description),
            Some(index) => match self.runs.get(&index.offset) {
                Some(shared) if *shared.description() == raw.description => Arc::clone(shared),
                Some(_) => return Err("two accounts of one run differ"),
                None => {
                    let handle = open(raw.description);
                    self.runs.insert(index.offset, Arc::clone(&handle));
                    handle
                }
            },
        };
        Ok(RunRef {
            handle,
            clip: raw.clip,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::documented_bytes;
    use crate::{RangeTombstone, SeparateTotals};
    use proptest::prelude::*;
    use teak_base::{FileId, WriteId};
    use teak_disk::{Disk, MemoryDisk};

    fn run_of(description: RunDescription, form: RunForm) -> Arc<RunHandle> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let path = std::path::Path::new("/t");
        let file = BlockFile::create(&disk, path, FileId(1), &[]).unwrap();
        let cache = Arc::new(PageCache::new(0));
        let run = Run::open(&file, &cache, description);
        Arc::new(RunHandle::new(run, form, false))
    }

    /// Two leaves: one has a complete run and the first half of a second run, the other has the
    /// second half.
    fn documented_node() -> Arc<Node> {
        let description =
            |offset, first: &[u8], last: &[u8], tombstone: Option<RangeTombstone>| RunDescription {
                index: Some(BlockAddress { offset, bytes: 200 }),
                blocks_end: offset + 256,
                first_key: first.to_vec(),
                last_key: last.to_vec(),
                puts: 2,
                deletes: 0,
                keys: 2,
                pages: 1,
                raw_bytes: 25,
                stored_bytes: 512,
                separate: SeparateTotals::default(),
                write_ids: tombstone.as_ref().map(|t| (t.write_id, t.write_id)),
                all_unsettled: false,
                range_tombstones: tombstone.into_iter().collect(),
            };
        let leaf_data = run_of(description(0x2400, b"a", b"c", None), RunForm::Bottom);
        let tombstone = RangeTombstone {
            start: b"b".to_vec(),
            end: Vec::new(),
            write_id: WriteId(9),
        };
        let pending = description(0x2800, b"b", b"x", Some(tombstone));
        let pending = RunRef::whole(run_of(pending, RunForm::Upper));
        let half = |lower: &[u8], upper: Option<&[u8]>| {
            let clipped = pending.clipped(&KeyRange::new(lower, upper));
            clipped.expect("the run reaches there")
        };
        let options = TreeOptions::default();
        let left = vec![half(b"", Some(b"m")), RunRef::whole(leaf_data)];
        let left = Child::new(ChildId(1), left, None, &options);
        let right = Child::new(ChildId(2), vec![half(b"m", None)], None, &options);
        Node::new(1, vec![b"m".as_slice().into()], vec![left, right])
    }

    #[test]
    fn the_documented_example_holds() {
        let mut bytes = Vec::new();
        encode_node(&documented_node(), &mut bytes);
        assert_eq!(bytes, documented_bytes("## Node"), "{bytes:02x?}");
        let node = decode_node(&bytes).unwrap();
        assert_eq!((node.height, node.children.len()), (1, 2));
    }

    proptest! {
        #![proptest_config(crate::test_support::proptest_config(2000))]
        #[test]
        fn damaged_bytes_never_panic(cut in 0..400usize, at in 0..200usize, byte: u8) {
            let mut bytes = Vec::new();
            encode_node(&documented_node(), &mut bytes);
            bytes.truncate(cut);
            if let Some(damaged) = bytes.get_mut(at) {
                *damaged = byte;
            }
            let _ = decode_node(&bytes);
        }
    }
}

//! The format of node blocks. See "Node" in `docs/design/format.md`.

use super::totals::{decode_watermark, due, encode_watermark};
use super::{
    ChildId, HEIGHT_MAX, Key, KeyRange, Node, NodePlace, NodeTotals, RunForm, RunId, RunMarks,
    RunRef,
};
use crate::RunDescription;
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{Codec, WriteId};
use teak_block_file::{BLOCK_UNIT_BYTES, BlockAddress, BlockDescription, BlockKind};

/// The layout number of node blocks.
pub(super) const NODE_LAYOUT: u8 = 9;

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
        out.put_u64(child.own_due.to_bits());
        encode_watermark(child.garbage_due_at, out);
        if let Some(below) = &child.below {
            let place = below.block().place();
            assert!(place.is_some(), "nodes are written from the bottom up");
            if let Some(place) = place {
                encode_link(place, below.totals(), out);
            }
        }
        out.put_varint(child.runs.len() as u64);
        for run in &child.runs {
            encode_run(run, out);
        }
    }
}

pub(super) fn encode_link(place: NodePlace, totals: &NodeTotals, out: &mut Vec<u8>) {
    place.address.encode(out);
    out.put_varint(place.blocks_end / BLOCK_UNIT_BYTES);
    totals.encode(out);
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
    let description = run.handle.description();
    description.encode(out);
    if let Some((min, max)) = description.write_ids {
        let purged_below = run.handle.marks().purged_below.0;
        let purged = purged_below.saturating_sub(min.0);
        out.put_varint(purged.min(max.0.saturating_sub(min.0) + 1));
    }
    if let RunId::Number(number) = run.handle.id() {
        out.put_varint(number);
    }
}

/// The fields of a node in its block.
pub(super) struct RawNode {
    pub(super) height: u8,
    pub(super) children: Vec<RawChild>,
}

pub(super) struct RawChild {
    pub(super) pivot: Key,
    pub(super) id: ChildId,
    pub(super) own_due: f64,
    pub(super) garbage_due_at: Option<WriteId>,
    pub(super) below: Option<(NodePlace, NodeTotals)>,
    pub(super) runs: Vec<RawRun>,
}

pub(super) struct RawRun {
    pub(super) form: RunForm,
    pub(super) marks: RunMarks,
    pub(super) clip: Option<Arc<KeyRange>>,
    pub(super) description: RunDescription,
    /// The number of a run without blocks, otherwise zero.
    pub(super) number: u64,
}

pub(super) fn decode_node(bytes: &[u8]) -> Result<RawNode, Malformed> {
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
        let own_due = due(&mut take)?;
        let garbage_due_at = decode_watermark(&mut take)?;
        let below = match height > 1 {
            true => Some(decode_link(height - 1, &mut take)?),
            false => None,
        };
        let run_count = take.length(take.rest().len())?;
        let mut runs = Vec::new();
        for _ in 0..run_count {
            runs.push(decode_run(&mut take)?);
        }
        children.push(RawChild {
            pivot,
            id,
            own_due,
            garbage_due_at,
            below,
            runs,
        });
    }
    if !take.is_empty() {
        return Err(Malformed);
    }
    Ok(RawNode { height, children })
}

fn decode_link(height: u8, take: &mut Take<'_>) -> Result<(NodePlace, NodeTotals), Malformed> {
    let address = BlockAddress::decode(take)?;
    let blocks_end = take.varint()?.checked_mul(BLOCK_UNIT_BYTES);
    let blocks_end = blocks_end.filter(|end| *end >= address.end());
    let place = NodePlace {
        address,
        blocks_end: blocks_end.ok_or(Malformed)?,
    };
    Ok((place, NodeTotals::decode(height, take)?))
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
    let description = RunDescription::decode(take)?;
    let mut marks = RunMarks {
        is_settled: flags & FLAG_SETTLED != 0,
        purged_below: WriteId::SETTLED,
    };
    if let Some((min, max)) = description.write_ids {
        let purged = take.varint()?;
        if purged > max.0 - min.0 + 1 {
            return Err(Malformed);
        }
        marks.purged_below = WriteId(min.0.saturating_add(purged));
    }
    Ok(RawRun {
        form,
        marks,
        clip: clip.map(Arc::new),
        number: match description.index.is_empty() {
            true => take.varint()?,
            false => 0,
        },
        description,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Child, NodeLink, RunHandle};
    use crate::test_support::documented_bytes;
    use crate::{FilterKeys, IndexTable, PageCache, RangeTombstone, Run, SeparateTotals};
    use proptest::prelude::*;
    use teak_base::FileId;
    use teak_block_file::BlockFile;
    use teak_disk::{Disk, MemoryDisk};

    fn run_of(description: RunDescription, form: RunForm) -> Arc<RunHandle> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let path = std::path::Path::new("/t");
        let file = BlockFile::create(&disk, path, FileId(1), &[]).unwrap();
        let cache = Arc::new(PageCache::new(0));
        let run = Run::open(&file, &cache, description);
        Arc::new(RunHandle::new(run, form, RunMarks::default(), 0))
    }

    /// Two leaves: one has a complete run and the first half of a second run, the other has the
    /// second half.
    fn documented_node() -> Arc<Node> {
        let description =
            |offset, first: &[u8], last: &[u8], tombstone: Option<RangeTombstone>| RunDescription {
                index: IndexTable::of_one(BlockAddress { offset, bytes: 200 }, 1, 2),
                filter_keys: FilterKeys::Whole,
                blocks_end: offset + 256,
                first_key: first.to_vec(),
                last_key: last.to_vec(),
                puts: 2,
                deletes: 0,
                keys: 2,
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
        let left = vec![half(b"", Some(b"m")), RunRef::whole(leaf_data)];
        let left = Child::with_due(ChildId(1), left, None, 0.5, Some(WriteId(10)));
        let right = Child::with_due(ChildId(2), vec![half(b"m", None)], None, 0.0, None);
        let pivots = vec![b"m".as_slice().into()];
        Node::new(1, pivots, vec![left, right], PageCache::new(0).nodes())
    }

    /// A node with a link to `documented_node`, which is at 0x3000.
    fn documented_root() -> Arc<Node> {
        let below = documented_node();
        let address = BlockAddress {
            offset: 0x3000,
            bytes: 150,
        };
        below.block.set_written(NodePlace {
            address,
            blocks_end: address.end(),
        });
        let link = Some(NodeLink::to_node(&below));
        let child = Child::with_due(ChildId(3), vec![], link, 0.0, None);
        Node::new(2, vec![], vec![child], below.memory())
    }

    #[test]
    fn the_documented_example_holds() {
        let mut bytes = Vec::new();
        encode_node(&documented_node(), &mut bytes);
        assert_eq!(bytes, documented_bytes("## Node"), "{bytes:02x?}");
        let node = decode_node(&bytes).unwrap();
        assert_eq!((node.height, node.children.len()), (1, 2));
    }

    #[test]
    fn the_documented_link_holds() {
        let root = documented_root();
        let mut bytes = Vec::new();
        encode_node(&root, &mut bytes);
        assert_eq!(
            bytes,
            documented_bytes("### A node with a link"),
            "{bytes:02x?}"
        );
        let node = decode_node(&bytes).unwrap();
        let link = root.children[0].below.as_ref().unwrap();
        let (place, totals) = node.children[0].below.as_ref().unwrap();
        assert_eq!(Some(*place), link.block().place());
        assert_eq!(totals, link.totals());
    }

    proptest! {
        #![proptest_config(crate::test_support::proptest_config(2000))]
        #[test]
        fn damaged_bytes_never_panic(
            cut in 0..400usize, at in 0..200usize, byte: u8, has_link: bool,
        ) {
            let mut bytes = Vec::new();
            let node = if has_link { documented_root() } else { documented_node() };
            encode_node(&node, &mut bytes);
            bytes.truncate(cut);
            if let Some(damaged) = bytes.get_mut(at) {
                *damaged = byte;
            }
            let _ = decode_node(&bytes);
        }
    }
}

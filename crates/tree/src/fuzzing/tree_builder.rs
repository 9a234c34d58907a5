//! Builds the file of a small tree from an input. The file is valid, except for changed bytes and
//! wrong fields that the input selects. The checksums of all blocks are correct.
//!
//! Leaves start at the keys `b`, `c`, `d` and so on, except the first, which starts at the empty
//! key. A tree has one or two levels of nodes.

use super::run::FILTER_KEYS;
use crate::filter::FilterSize;
use crate::node::{KeyRange, NodeReader, node_block_description};
use crate::page::PAGE_LAYOUT;
use crate::payload::Payload;
use crate::run::{INDEX_BLOCK_LAYOUT, IndexBlockBuilder, IndexTableBuilder, bound_between};
use crate::value::VALUE_LAYOUT;
use crate::{
    FilterKeys, PageBuilder, PageCache, RangeTombstone, RunDescription, TreeOptions, ValueReference,
};
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::Put;
use teak_base::fuzzing::Input;
use teak_base::{FileId, Lsn, Operation, StorageResult, WriteId};
use teak_block_file::{BlockAddress, BlockDescription, BlockFile, BlockKind, BlockWriter};
use teak_disk::Disk;

/// The range of first bytes of a run's keys.
type FirstBytes = std::ops::Range<u8>;

struct Builder<'a, 'i> {
    writer: BlockWriter,
    input: &'a mut Input<'i>,
    nodes: NodeReader,
    children: u64,
    /// Runs without blocks.
    numbered_runs: u64,
}

/// A node in the file.
struct WrittenNode {
    address: BlockAddress,
    /// The link to it.
    link: Vec<u8>,
}

/// Creates the file at `path`.
///
/// # Errors
/// None on a disk without faults.
pub(super) fn build(disk: &Arc<dyn Disk>, path: &Path, input: &mut Input<'_>) -> StorageResult<()> {
    let file = BlockFile::create(disk, path, FileId(1), &[])?;
    let cache = Arc::new(PageCache::new(0));
    let mut builder = Builder {
        writer: file.writer(0),
        input,
        nodes: NodeReader::new(&file, &cache, u64::MAX),
        children: 0,
        numbered_runs: 0,
    };
    let root = builder.root()?.address;
    let (written, children) = (builder.writer.finish()?, builder.children);
    file.publish(vec![written], &[]);
    let mut payload = Payload {
        shared_runs: None,
        root: Some(root),
        flushed_lsn: Lsn(10),
        next_child_id: children + 1,
        options: options(input),
        rows: 0,
        raw_bytes: 0,
    }
    .encode();
    change_rarely(input, &mut payload);
    file.prepare_checkpoint()?.commit(&payload)
}

fn options(input: &mut Input<'_>) -> TreeOptions {
    let mut options = TreeOptions::tiny();
    options.filter_keys = input.one_of(&FILTER_KEYS);
    options.codec = input.quick_codec();
    if input.rarely() {
        options.fanout = input.u32();
        options.leaf_runs_max = input.u32();
        options.child_runs_max = input.u32();
        options.page_bytes = input.u32();
        options.value_planes = input.u32();
        options.separate_value_bytes = input.u32();
        options.leaf_bytes = input.u64();
        options.child_buffer_bytes = input.u64();
        options.run_bytes_max = input.u64();
    }
    options
}

/// In rare cases, changes, inserts or removes a few bytes.
fn change_rarely(input: &mut Input<'_>, bytes: &mut Vec<u8>) {
    if !input.rarely() {
        return;
    }
    for _ in 0..=input.below(3) {
        let at = usize::from(input.u16()) % bytes.len().max(1);
        match (input.below(8), bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at.max(1)),
            (1, _) => bytes.insert(at.min(bytes.len()), input.u8()),
            (_, Some(byte)) => *byte = input.u8(),
            (_, None) => {}
        }
    }
}

impl Builder<'_, '_> {
    fn root(&mut self) -> StorageResult<WrittenNode> {
        let leaves = 1 + self.input.below(3);
        if self.input.below(2) == 0 {
            return self.node(1, b'a', &vec![1; usize::from(leaves)]);
        }
        let widths: Vec<u8> = (0..leaves).map(|_| 1 + self.input.below(3)).collect();
        self.node(2, b'a', &widths)
    }

    /// Writes a node, whose children have `widths` leaves. The first key byte is `lead`.
    fn node(&mut self, height: u8, lead: u8, widths: &[u8]) -> StorageResult<WrittenNode> {
        let first_lead = lead;
        let mut lead = lead;
        let mut raw = Vec::new();
        raw.put_u8(height);
        raw.put_varint(widths.len() as u64);
        for width in widths {
            let first_bytes = lead..lead + width;
            lead = first_bytes.end;
            let below = match height {
                1 => None,
                _ => {
                    Some(self.node(height - 1, first_bytes.start, &vec![1; usize::from(*width)])?)
                }
            };
            match first_bytes.start == first_lead {
                true => raw.put_bytes(b""),
                false => raw.put_bytes(&[first_bytes.start]),
            }
            self.children += 1;
            raw.put_u64(self.children);
            raw.put_u64(0.0_f64.to_bits());
            raw.put_varint(0);
            if let Some(below) = below {
                raw.extend_from_slice(&below.link);
            }
            let runs = self.input.below(4);
            raw.put_varint(u64::from(runs));
            for number in 0..runs {
                let bottom = height == 1 && number + 1 == runs;
                self.run(bottom, &first_bytes, &mut raw)?;
            }
        }
        let unchanged = raw.clone();
        change_rarely(self.input, &mut raw);
        let address = self.writer.write(node_block_description(), &raw)?;
        let mut link = Vec::new();
        let all = KeyRange::all();
        if !self.nodes.encode_link_to(&raw, address, &all, &mut link) {
            self.nodes
                .encode_link_to(&unchanged, address, &all, &mut link);
        }
        Ok(WrittenNode { address, link })
    }

    /// Writes a run and appends the reference to it to `raw`.
    fn run(
        &mut self,
        bottom: bool,
        first_bytes: &FirstBytes,
        raw: &mut Vec<u8>,
    ) -> StorageResult<()> {
        let mut description = self.entries(first_bytes)?;
        let tombstones = if bottom { 0 } else { self.input.below(3) };
        for _ in 0..tombstones {
            let id = WriteId(1 + u64::from(self.input.below(4)));
            let start = vec![first_bytes.start, self.input.below(20)];
            let end = vec![first_bytes.end - 1, 20 + self.input.below(20)];
            let range = description.write_ids.get_or_insert((id, id));
            *range = (range.0.min(id), range.1.max(id));
            description.range_tombstones.push(RangeTombstone {
                start,
                end,
                write_id: id,
            });
        }
        if description.index.is_empty() && description.range_tombstones.is_empty() {
            description.range_tombstones.push(RangeTombstone {
                start: vec![first_bytes.start],
                end: vec![first_bytes.start, 1],
                write_id: WriteId(1),
            });
            description.write_ids = Some((WriteId(1), WriteId(1)));
        }
        if self.input.rarely() {
            self.falsify(&mut description);
        }
        raw.put_u8(u8::from(bottom) ^ u8::from(self.input.rarely()));
        let flags = if self.input.rarely() {
            self.input.below(8)
        } else {
            0
        };
        raw.put_u8(flags);
        if flags & 2 != 0 {
            raw.put_bytes(&[first_bytes.start, self.input.u8()]);
        }
        if flags & 4 != 0 {
            raw.put_bytes(&[first_bytes.end - 1, self.input.u8()]);
        }
        description.encode(raw);
        if description.index.is_empty() {
            self.numbered_runs += 1;
            raw.put_varint(self.numbered_runs);
        }
        Ok(())
    }

    fn falsify(&mut self, description: &mut RunDescription) {
        let number = match self.input.below(3) {
            0 => u64::from(self.input.u8()),
            1 => u64::MAX - u64::from(self.input.u8()),
            _ => u64::MAX / 3,
        };
        match self.input.below(10) {
            0 => description.puts = number,
            1 => description.deletes = number,
            2 => description.keys = number,
            3 => description.filter_keys = self.input.one_of(&FILTER_KEYS),
            4 => description.raw_bytes = number,
            5 => description.stored_bytes = number,
            6 => description.write_ids = Some((WriteId(2), WriteId(number))),
            7 => description.all_unsettled ^= true,
            8 => description.separate.stored_bytes = number,
            _ => description.last_key.push(self.input.u8()),
        }
    }

    /// Writes the pages and the index of a run.
    fn entries(&mut self, first_bytes: &FirstBytes) -> StorageResult<RunDescription> {
        let mut description = RunDescription::default();
        let mut block = IndexBlockBuilder::new(FilterSize::Bottom);
        let mut index = IndexTableBuilder::default();
        let mut bound = Vec::new();
        let start = self.writer.bytes_written();
        let (mut lead, mut number) = (first_bytes.start, 0u8);
        let mut last: Option<(Vec<u8>, bool)> = None;
        let filter_keys = self.input.one_of(&FILTER_KEYS);
        for _ in 0..self.input.below(4) {
            let mut page = PageBuilder::new(u32::from(self.input.below(3)));
            let mut values_end = 0;
            for _ in 0..=self.input.below(20) {
                let step = self.input.u8();
                number = number.saturating_add(step % 4);
                if step >= 0xe0 && lead + 1 < first_bytes.end {
                    (lead, number) = (lead + 1, 0);
                }
                let mut key = vec![lead, number];
                if let Some((before, closed)) = &last
                    && (key < *before || (key == *before && *closed))
                {
                    key.clone_from(before);
                    key.push(0);
                }
                if step == 0xdf {
                    // The key may be out of order.
                    key = vec![lead, self.input.u8()];
                }
                let is_new = last.as_ref().is_none_or(|(before, _)| *before != key);
                let id = WriteId(u64::from(self.input.below(4)));
                let operation = self.input.one_of(&Operation::ALL);
                let value = match operation {
                    Operation::Put => vec![number; usize::from(step % 9)],
                    Operation::Delete => Vec::new(),
                };
                if description.entries() == 0 {
                    description.first_key.clone_from(&key);
                }
                if is_new && page.is_empty() && block.pages() > 0 && self.input.below(2) == 1 {
                    self.index_block(&mut block, &mut index, &bound, &mut description)?;
                    let before = last.as_ref().map_or(&[][..], |(key, _)| key);
                    bound = bound_between(before, &key).to_vec();
                    change_rarely(self.input, &mut bound);
                }
                if filter_keys != FilterKeys::None && is_new {
                    block.add_hash(filter_keys.hash(&key));
                }
                if operation == Operation::Put && step % 16 == 5 {
                    let reference = self.separate(&value)?;
                    page.push_separate(&key, id, &reference.encoded());
                    description.separate.add(&reference);
                    values_end = values_end.max(reference.address.end());
                } else {
                    page.push(&key, id, operation, &value);
                }
                match operation {
                    Operation::Put => description.puts += 1,
                    Operation::Delete => description.deletes += 1,
                }
                description.keys += u64::from(is_new);
                description.raw_bytes += (key.len() + value.len()) as u64 + 2;
                if !id.is_settled() {
                    let range = description.write_ids.get_or_insert((id, id));
                    *range = (range.0.min(id), range.1.max(id));
                }
                last = Some((key, id.is_settled()));
            }
            let last_key = last.as_ref().map_or(&[][..], |(key, _)| key);
            let entries = page.entries();
            let mut raw = Vec::new();
            page.finish(&mut raw);
            let raw_bytes = raw.len();
            change_rarely(self.input, &mut raw);
            let address = self.write(BlockKind::Page, PAGE_LAYOUT, &raw)?;
            block.push(address, entries, raw_bytes, last_key, values_end);
            let ends = address.end().max(values_end);
            description.blocks_end = description.blocks_end.max(ends);
        }
        if let Some((key, _)) = last {
            description.last_key = key;
            self.index_block(&mut block, &mut index, &bound, &mut description)?;
            description.index = index.finish();
            description.filter_keys = filter_keys;
            description.stored_bytes = self.writer.bytes_written() - start;
        }
        Ok(description)
    }

    fn index_block(
        &mut self,
        block: &mut IndexBlockBuilder,
        index: &mut IndexTableBuilder,
        bound: &[u8],
        description: &mut RunDescription,
    ) -> StorageResult<()> {
        let (pages, entries) = (block.pages() as u64, block.entries());
        let mut raw = Vec::new();
        block.finish(&mut raw);
        change_rarely(self.input, &mut raw);
        let address = self.write(BlockKind::RunIndex, INDEX_BLOCK_LAYOUT, &raw)?;
        description.blocks_end = description.blocks_end.max(address.end());
        let pushed = index.push(bound, address, pages, entries);
        pushed.expect("the counts are small");
        Ok(())
    }

    /// Writes a separate value. In rare cases the returned reference is wrong.
    fn separate(&mut self, value: &[u8]) -> StorageResult<ValueReference> {
        let address = self.write(BlockKind::Value, VALUE_LAYOUT, value)?;
        let mut reference = ValueReference::new(address, value);
        if self.input.rarely() {
            match self.input.below(3) {
                0 => reference.checksum ^= 1,
                1 => reference.raw_bytes ^= 1,
                _ => reference.address.offset ^= 128,
            }
        }
        Ok(reference)
    }

    fn write(&mut self, kind: BlockKind, layout: u8, raw: &[u8]) -> StorageResult<BlockAddress> {
        let description = BlockDescription {
            kind,
            layout: layout ^ u8::from(self.input.rarely()),
            codec: self.input.quick_codec(),
        };
        self.writer.write(description, raw)
    }
}

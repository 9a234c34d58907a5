//! Fuzz target of node blocks: they are loaded, which computes their totals, and encoded again.

use crate::node::{Node, NodeReader, encode_node, node_block_description};
use crate::{FilterKeys, IndexTable, PageCache, RunDescription, SeparateTotals};
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::Put;
use teak_base::{FileId, StorageResult};
use teak_block_file::{BlockAddress, BlockFile, BlockKind};
use teak_disk::{Disk, MemoryDisk};

/// Loads the raw bytes of a node. If this succeeds, encoding and loading it
/// again must give the same node.
pub(super) fn node(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let Ok(node) = load(bytes) else {
        return;
    };
    let mut encoded = Vec::new();
    encode_node(&node, &mut encoded);
    let again = load(&encoded).expect("what was encoded loads");
    let mut twice = Vec::new();
    encode_node(&again, &mut twice);
    assert_eq!(encoded, twice);
    assert_eq!(node.summary, again.summary);
    assert!(node.pivots.is_sorted());
    let runs = node.children.iter().map(|child| child.runs.len() as u64);
    let links = node
        .children
        .iter()
        .filter_map(|child| child.below.as_ref());
    let below = links.map(|link| link.summary().runs);
    let sum: u64 = runs.chain(below).sum();
    assert_eq!(node.summary.runs, sum.min(1 << 60));
}

fn load(raw: &[u8]) -> StorageResult<Arc<Node>> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/fuzz.teak"), FileId(1), &[])?;
    let mut writer = file.writer(0);
    let address = writer.write(node_block_description(), raw)?;
    file.publish(vec![writer.finish()?], &[]);
    assert!(file.read_block(address, BlockKind::Node)?.raw == raw);
    let cache = Arc::new(PageCache::new(0));
    NodeReader::new(&file, &cache, u64::MAX).read_root(address)
}

pub(super) fn node_seeds() -> Vec<Vec<u8>> {
    let mut descriptions = super::decoders::run_description_seeds();
    let tombstones = descriptions.pop().unwrap_or_default();
    let full = descriptions.pop().unwrap_or_default();
    // Seeds: one leaf with every feature; three leaves, of which two share a
    // run.
    let mut one = vec![1, 1, 0];
    one.put_u64(1);
    one.put_u64(0.5_f64.to_bits());
    one.put_varint(9);
    one.extend([3, 0, 0]);
    one.extend_from_slice(&tombstones);
    one.put_varint(300);
    one.extend([0, 0]);
    one.extend_from_slice(&full);
    one.extend([1, 1]);
    one.extend_from_slice(&other_run());
    let mut three = vec![1, 3, 0];
    three.put_u64(4);
    three.put_u64(0);
    three.extend([0, 1, 0, 6, 0, 1, b'c']);
    three.extend_from_slice(&full);
    three.extend([1, b'c']);
    three.put_u64(5);
    three.put_u64(0);
    three.extend([0, 1, 0, 2, 1, b'c']);
    three.extend_from_slice(&full);
    three.extend([2, b'd', b'd']);
    three.put_u64(6);
    three.put_u64(0);
    three.extend([0, 0]);
    vec![one, three]
}

fn other_run() -> Vec<u8> {
    let description = RunDescription {
        index: IndexTable::of_one(
            BlockAddress {
                offset: 16384,
                bytes: 99,
            },
            1,
            5,
        ),
        filter_keys: FilterKeys::None,
        blocks_end: 16640,
        first_key: b"c".to_vec(),
        last_key: b"d".to_vec(),
        puts: 5,
        deletes: 0,
        keys: 5,
        raw_bytes: 100,
        stored_bytes: 256,
        separate: SeparateTotals::default(),
        write_ids: None,
        all_unsettled: false,
        range_tombstones: Vec::new(),
    };
    let mut bytes = Vec::new();
    description.encode(&mut bytes);
    bytes
}

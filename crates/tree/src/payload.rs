//! The tree's part of the superblock: the addresses of the root and of the list of shared runs, the
//! options, the log position from which recovery replays, the next child number, and counts of rows
//! and bytes. See "Superblock payload of a tree" in `docs/design/format.md`.

use crate::node::ChildId;
use crate::{FilterKeys, PageColumns, TreeOptions};
use std::path::Path;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::LSN_MAX;
use teak_base::{Codec, Lsn, StorageError, StorageResult};
use teak_block_file::BlockAddress;

/// The version of the payload's format.
const PAYLOAD_VERSION: u32 = 4;

/// The superblock's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The root node; `None` before the first checkpoint after the creation.
    pub(crate) root: Option<BlockAddress>,
    /// The first block of the list of shared runs; `None`: there are none.
    pub(crate) shared_runs: Option<BlockAddress>,
    pub(crate) flushed_lsn: Lsn,
    pub(crate) next_child_id: u64,
    pub(crate) options: TreeOptions,
    /// Estimated number of rows. This and `raw_bytes` are for the inspection of a file; opening a
    /// tree does not use them.
    pub(crate) rows: u64,
    pub(crate) raw_bytes: u64,
}

impl Payload {
    /// That of an empty tree.
    pub(crate) fn empty(options: TreeOptions) -> Self {
        Self {
            root: None,
            shared_runs: None,
            flushed_lsn: Lsn(0),
            next_child_id: 1,
            options,
            rows: 0,
            raw_bytes: 0,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(PAYLOAD_VERSION);
        let none = BlockAddress {
            offset: 0,
            bytes: 0,
        };
        self.root.unwrap_or(none).encode(&mut out);
        out.put_u64(self.flushed_lsn.0);
        out.put_u64(self.next_child_id);
        let options = &self.options;
        out.put_u32(options.page_bytes);
        out.put_u8(options.codec.number());
        out.put_u8(options.upper_codec.number());
        out.put_u8(options.filter_keys.number());
        out.put_u8(0);
        out.put_u32(options.value_planes);
        out.put_u32(options.fanout);
        out.put_u32(options.leaf_runs_max);
        out.put_u32(options.child_runs_max);
        out.put_u64(options.leaf_bytes);
        out.put_u64(options.child_buffer_bytes);
        out.put_u64(options.run_bytes_max);
        out.put_u64(self.rows);
        out.put_u64(self.raw_bytes);
        out.put_u32(options.separate_value_bytes);
        self.shared_runs.unwrap_or(none).encode(&mut out);
        out.put_u16(options.filter_keys.suffix_bytes());
        out
    }

    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> StorageResult<Self> {
        let mut take = Take::new(bytes);
        match take.u32() {
            Ok(PAYLOAD_VERSION) => {}
            Ok(found) if found > PAYLOAD_VERSION => {
                return Err(StorageError::UnsupportedFormat {
                    path: path.to_path_buf(),
                    found,
                    supported: PAYLOAD_VERSION,
                });
            }
            _ => return Err(Self::malformed(path)),
        }
        Self::decode_fields(&mut take).map_err(|Malformed| Self::malformed(path))
    }

    fn malformed(path: &Path) -> StorageError {
        StorageError::corrupt(
            path,
            0,
            "the description of the tree in the superblock is malformed",
        )
    }

    fn decode_fields(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let root = BlockAddress::decode(take)?;
        let codec = |number: u8| Codec::from_number(number).ok_or(Malformed);
        let flushed_lsn = Lsn(take.u64()?);
        let next_child_id = take.u64()?;
        let page_bytes = take.u32()?;
        let page_codec = codec(take.u8()?)?;
        let upper_codec = codec(take.u8()?)?;
        let filter_keys = take.u8()?;
        take.u8()?;
        let value_planes = take.u32()?;
        let fanout = take.u32()?;
        let leaf_runs_max = take.u32()?;
        let child_runs_max = take.u32()?;
        let mut payload = Self {
            root: (root.offset != 0).then_some(root),
            shared_runs: None,
            flushed_lsn,
            next_child_id,
            options: TreeOptions {
                page_bytes,
                codec: page_codec,
                encryption_key: None,
                upper_codec,
                filter_keys: FilterKeys::None,
                value_planes,
                columns: PageColumns::default(),
                separate_value_bytes: 0,
                leaf_bytes: take.u64()?,
                fanout,
                leaf_runs_max,
                child_buffer_bytes: take.u64()?,
                child_runs_max,
                run_bytes_max: take.u64()?,
            },
            rows: take.u64()?,
            raw_bytes: take.u64()?,
        };
        payload.options.separate_value_bytes = take.u32()?;
        let shared_runs = BlockAddress::decode(take)?;
        payload.shared_runs = (shared_runs.offset != 0).then_some(shared_runs);
        let suffix_bytes = take.u16()?;
        payload.options.filter_keys =
            FilterKeys::from_numbers(filter_keys, suffix_bytes).ok_or(Malformed)?;
        if !payload.options.is_valid()
            || payload.next_child_id > ChildId::MAX.0
            || payload.flushed_lsn.0 > LSN_MAX
        {
            return Err(Malformed);
        }
        // Later versions may append fields, which are ignored.
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::documented_bytes;
    use proptest::prelude::*;

    fn payload() -> Payload {
        Payload {
            root: Some(BlockAddress {
                offset: 8192,
                bytes: 77,
            }),
            shared_runs: None,
            flushed_lsn: Lsn(5),
            next_child_id: 9,
            options: TreeOptions::tiny(),
            rows: 3,
            raw_bytes: 4,
        }
    }

    #[test]
    fn the_documented_example_holds() {
        let documented = Payload {
            root: Some(BlockAddress {
                offset: 0x2000,
                bytes: 0x90,
            }),
            shared_runs: Some(BlockAddress {
                offset: 0x2c00,
                bytes: 0x40,
            }),
            flushed_lsn: Lsn(4711),
            next_child_id: 3,
            options: TreeOptions::default(),
            rows: 2,
            raw_bytes: 25,
        };
        let bytes = documented_bytes("## Superblock payload of a tree");
        assert_eq!(Payload::decode(Path::new("t"), &bytes).unwrap(), documented);
        assert_eq!(documented.encode(), bytes);
    }

    #[test]
    fn round_trips() {
        let bytes = payload().encode();
        let decoded = Payload::decode(Path::new("t"), &bytes).unwrap();
        assert_eq!(decoded, payload());
    }

    #[test]
    fn options_that_no_tree_can_work_with_are_malformed() {
        let refused = |change: fn(&mut TreeOptions)| {
            let mut payload = payload();
            change(&mut payload.options);
            Payload::decode(Path::new("t"), &payload.encode()).is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|options| options.leaf_bytes = u64::MAX));
        assert!(refused(|options| options.run_bytes_max = 0));
        assert!(refused(|options| options.fanout = 1));
        assert!(refused(|options| options.page_bytes = 0));
    }

    #[test]
    fn a_newer_version_is_refused() {
        let mut bytes = payload().encode();
        bytes[0] = 5;
        let refused = Payload::decode(Path::new("t"), &bytes);
        assert!(matches!(
            refused,
            Err(StorageError::UnsupportedFormat { found: 5, .. })
        ));
    }

    proptest! {
        #![proptest_config(crate::test_support::proptest_config(256))]
        #[test]
        fn damaged_bytes_never_panic(cut in 0..200usize, at in 0..100usize, byte: u8) {
            let mut bytes = payload().encode();
            bytes.truncate(cut);
            if let Some(damaged) = bytes.get_mut(at) {
                *damaged = byte;
            }
            let _ = Payload::decode(Path::new("t"), &bytes);
        }
    }
}

//! What a node keeps of a run.

use crate::RangeTombstone;
use teak_base::WriteId;
use teak_base::bytes::{Malformed, Take};
use teak_block_file::BlockAddress;

/// Where a run is and what it holds, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDescription {
    /// The index block; `None` when the run has range tombstones only.
    pub index: Option<BlockAddress>,
    /// The key of the first entry; empty without entries.
    pub first_key: Vec<u8>,
    /// The key of the last entry; empty without entries.
    pub last_key: Vec<u8>,
    /// Puts.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Updates.
    pub updates: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Pages.
    pub pages: u32,
    /// Raw bytes of the pages.
    pub raw_bytes: u64,
    /// Bytes of pages and index in the file, headers and padding included.
    pub stored_bytes: u64,
    /// The least and greatest id of unsettled writes, tombstones included.
    pub write_ids: Option<(WriteId, WriteId)>,
    /// The base layer: newest first.
    pub range_tombstones: Vec<RangeTombstone>,
}

impl RunDescription {
    /// Points: puts, deletes and updates.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.puts + self.deletes + self.updates
    }

    /// Appends the encoded form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let _ = out;
        todo!()
    }

    /// Takes an encoded description.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let _ = take;
        todo!()
    }
}

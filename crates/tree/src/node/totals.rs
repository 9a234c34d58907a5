//! The totals of a node, which are stored with the link to it. So planning, estimates and statistics
//! do not read nodes. See "Node" in `docs/design/format.md`.

use super::Summary;
use super::summary::TOTAL_MAX;
use teak_base::WriteId;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::KEY_BYTES_MAX;
use teak_block_file::BLOCK_UNIT_BYTES;

const HOLDS_BUFFERED: u8 = 1;
const HOLDS_PENDING: u8 = 2;
const HAS_WRITE_IDS: u8 = 4;
const HOLDS_IDLE_WORK: u8 = 8;
const FLAGS_ALL: u8 = HOLDS_BUFFERED | HOLDS_PENDING | HAS_WRITE_IDS | HOLDS_IDLE_WORK;

/// The end of the data of a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndOfData {
    /// The child has no data.
    Empty,
    /// All data is below this key.
    Before(Vec<u8>),
    /// A range tombstone without an end.
    Unbounded,
}

/// The totals of a node and of the nodes below it. They are compared with those of the node when it
/// is read, so computing one differently needs another layout number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeTotals {
    pub(crate) height: u8,
    /// Children of the node itself.
    pub(crate) children: u64,
    pub(crate) end: EndOfData,
    pub(crate) summary: Summary,
}

impl EndOfData {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Empty | Self::Unbounded => 0,
            Self::Before(key) => key.len(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => out.put_u8(0),
            Self::Before(key) => {
                out.put_u8(1);
                out.put_bytes(key);
            }
            Self::Unbounded => out.put_u8(2),
        }
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        match take.u8()? {
            0 => Ok(Self::Empty),
            1 => {
                let key = take.bytes()?;
                // The successor of the longest key is one byte longer.
                match key.len() <= KEY_BYTES_MAX + 1 {
                    true => Ok(Self::Before(key.to_vec())),
                    false => Err(Malformed),
                }
            }
            2 => Ok(Self::Unbounded),
            _ => Err(Malformed),
        }
    }
}

impl NodeTotals {
    /// Whether these totals were computed for the same node. A run may have been marked as settled
    /// or as purged between the creation of the node and its writing.
    pub(super) fn agree_with(&self, node: &Self) -> bool {
        let write_ids = self.summary.write_ids;
        let are_covered = match (write_ids, node.summary.write_ids) {
            (_, None) => true,
            (Some(own), Some(other)) => own.0 <= other.0 && other.1 <= own.1,
            (None, Some(_)) => false,
        };
        let oldest_unpurged = self.summary.oldest_unpurged;
        let are_purged = match (oldest_unpurged, node.summary.oldest_unpurged) {
            (_, None) => true,
            (Some(own), Some(other)) => own <= other,
            (None, Some(_)) => false,
        };
        let summary = Summary {
            write_ids,
            oldest_unpurged,
            ..node.summary.clone()
        };
        are_covered
            && are_purged
            && self.summary == summary
            && (self.height, self.children) == (node.height, node.children)
            && self.end == node.end
    }

    /// Appends the encoded form, without the height.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.children);
        self.end.encode(out);
        let summary = &self.summary;
        let mut flags = 0;
        for (is_set, flag) in [
            (summary.holds_buffered, HOLDS_BUFFERED),
            (summary.holds_pending, HOLDS_PENDING),
            (summary.holds_idle_work, HOLDS_IDLE_WORK),
            (summary.write_ids.is_some(), HAS_WRITE_IDS),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        out.put_u8(flags);
        for total in [
            summary.runs,
            summary.leaves,
            summary.nodes,
            summary.entries,
            summary.deletes,
            summary.range_tombstones,
            summary.merge_bytes,
            summary.raw_bytes,
            summary.stored_bytes,
            summary.pages,
            summary.separate_values,
            summary.separate_bytes,
            summary.blocks_end / BLOCK_UNIT_BYTES,
            summary.upper_bytes,
            summary.due_bytes,
            summary.inner_runs,
            summary.leaf_runs,
        ] {
            out.put_varint(total);
        }
        out.put_u64(summary.rows.cast_unsigned());
        out.put_u64(summary.due.to_bits());
        encode_watermark(summary.garbage_due_at, out);
        if let Some((min, max)) = summary.write_ids {
            out.put_varint(min.0);
            out.put_varint(max.0);
            let unpurged = summary.oldest_unpurged;
            out.put_varint(unpurged.map_or(0, |id| id.0.saturating_sub(min.0) + 1));
        }
    }

    pub(super) fn decode(height: u8, take: &mut Take<'_>) -> Result<Self, Malformed> {
        let children = total(take)?;
        let end = EndOfData::decode(take)?;
        let flags = take.u8()?;
        if flags & !FLAGS_ALL != 0 {
            return Err(Malformed);
        }
        let mut summary = Summary {
            runs: total(take)?,
            leaves: total(take)?,
            nodes: total(take)?,
            entries: total(take)?,
            deletes: total(take)?,
            range_tombstones: total(take)?,
            merge_bytes: total(take)?,
            raw_bytes: total(take)?,
            stored_bytes: total(take)?,
            pages: total(take)?,
            separate_values: total(take)?,
            separate_bytes: total(take)?,
            blocks_end: total(take)?
                .checked_mul(BLOCK_UNIT_BYTES)
                .ok_or(Malformed)?,
            upper_bytes: total(take)?,
            due_bytes: total(take)?,
            inner_runs: total(take)?,
            leaf_runs: total(take)?,
            rows: take.u64()?.cast_signed(),
            due: due(take)?,
            garbage_due_at: decode_watermark(take)?,
            holds_buffered: flags & HOLDS_BUFFERED != 0,
            holds_pending: flags & HOLDS_PENDING != 0,
            holds_idle_work: flags & HOLDS_IDLE_WORK != 0,
            write_ids: None,
            oldest_unpurged: None,
        };
        if flags & HAS_WRITE_IDS != 0 {
            let ids = (WriteId(take.varint()?), WriteId(take.varint()?));
            if ids.0.is_settled() || ids.0 > ids.1 {
                return Err(Malformed);
            }
            summary.write_ids = Some(ids);
            summary.oldest_unpurged = match take.varint()? {
                0 => None,
                place if place - 1 <= ids.1.0 - ids.0.0 => Some(WriteId(ids.0.0 + (place - 1))),
                _ => return Err(Malformed),
            };
        }
        if summary.rows.unsigned_abs() > TOTAL_MAX {
            return Err(Malformed);
        }
        Ok(Self {
            height,
            children,
            end,
            summary,
        })
    }
}

fn total(take: &mut Take<'_>) -> Result<u64, Malformed> {
    match take.varint()? {
        total if total <= TOTAL_MAX => Ok(total),
        _ => Err(Malformed),
    }
}

/// A settled watermark, which is not zero.
pub(super) fn encode_watermark(watermark: Option<WriteId>, out: &mut Vec<u8>) {
    out.put_varint(watermark.map_or(0, |watermark| watermark.0));
}

pub(super) fn decode_watermark(take: &mut Take<'_>) -> Result<Option<WriteId>, Malformed> {
    let watermark = take.varint()?;
    Ok((watermark > 0).then_some(WriteId(watermark)))
}

/// An urgency.
pub(super) fn due(take: &mut Take<'_>) -> Result<f64, Malformed> {
    let due = f64::from_bits(take.u64()?);
    match due.is_finite() && due.is_sign_positive() {
        true => Ok(due),
        false => Err(Malformed),
    }
}

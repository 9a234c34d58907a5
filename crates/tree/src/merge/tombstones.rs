//! Range tombstones in a merge.
//!
//! The range tombstones of a source (a memtable or a run) form a *layer*. A merge applies a layer
//! only to the entries of older sources: in a run the tombstones are older than all entries of the
//! run, and in a memtable the cursor has applied them to the entries of the memtable. A layer is
//! cut into disjoint fragments, so a merge finds the fragment that covers a key by advancing
//! through a list.

use super::status_cache::{MergeStatus, StatusCache};
use crate::RangeTombstone;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use teak_base::WriteId;

/// Disjoint pieces of the range tombstones of one source, in key order.
#[derive(Debug)]
pub(crate) struct TombstoneLayer {
    /// The number of the source.
    pub(crate) source: usize,
    fragments: Vec<Fragment>,
    position: usize,
    /// The unsettled writes of the fragments.
    writes: Vec<Write>,
}

/// A write by its place in the commit order: the sequence of its commit, or the maximum if it is
/// active, and its id. The locks of transactions ensure that of two range tombstones that cover a
/// key, the later one has the greater place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    sequence: u64,
    id: WriteId,
}

impl Write {
    /// `None` for a write that every snapshot sees.
    fn of(id: WriteId, status: MergeStatus) -> Option<Self> {
        let sequence = match status {
            MergeStatus::Settled => return None,
            MergeStatus::Committed(at) => at,
            MergeStatus::Active | MergeStatus::Aborted => u64::MAX,
        };
        Some(Self { sequence, id })
    }
}

#[derive(Debug)]
struct Fragment {
    start: Vec<u8>,
    /// `None`: no end.
    end: Option<Vec<u8>>,
    /// Unsettled write ids, newest first.
    ids: Vec<WriteId>,
    /// Whether every snapshot sees one of the tombstones.
    settled: bool,
}

/// The start or the end of a range tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bound<'a> {
    Key(&'a [u8]),
    Unbounded,
}

impl<'a> Bound<'a> {
    fn end(tombstone: &'a RangeTombstone) -> Self {
        if tombstone.end.is_empty() {
            Self::Unbounded
        } else {
            Self::Key(&tombstone.end)
        }
    }
}

impl Fragment {
    /// A fragment that all of `covering` cover; `None` when `covering` is empty.
    fn new(
        start: &[u8],
        end: Bound<'_>,
        covering: &[(&RangeTombstone, MergeStatus)],
    ) -> Option<Self> {
        let settled = covering
            .iter()
            .any(|(_, class)| *class == MergeStatus::Settled);
        let mut unsettled: Vec<Write> = covering
            .iter()
            .filter_map(|(tombstone, class)| Write::of(tombstone.write_id, *class))
            .collect();
        unsettled.sort_unstable();
        unsettled.dedup();
        (!covering.is_empty()).then(|| Self {
            start: start.to_vec(),
            end: match end {
                Bound::Key(key) => Some(key.to_vec()),
                Bound::Unbounded => None,
            },
            ids: unsettled.into_iter().rev().map(|write| write.id).collect(),
            settled,
        })
    }
}

/// The effect of a layer on a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cover<'a> {
    /// Unsettled tombstones, as deletes of the key, newest first.
    pub(crate) ids: &'a [WriteId],
    /// Whether a tombstone that every snapshot sees covers the key.
    pub(crate) settled: bool,
}

impl TombstoneLayer {
    /// Builds the layer of a source's tombstones; `None` if it would be empty.
    pub(crate) fn new(
        source: usize,
        tombstones: &[RangeTombstone],
        statuses: &mut StatusCache<'_>,
    ) -> Option<Self> {
        let mut live: Vec<(&RangeTombstone, MergeStatus)> = tombstones
            .iter()
            .filter(|tombstone| tombstone.clip(None, None).is_some())
            .map(|tombstone| (tombstone, statuses.class(tombstone.write_id)))
            .filter(|(_, class)| *class != MergeStatus::Aborted)
            .collect();
        live.sort_by(|a, b| a.0.start.cmp(&b.0.start));
        let writes = live.iter();
        let writes = writes.filter_map(|(tombstone, class)| Write::of(tombstone.write_id, *class));
        let writes = writes.collect();
        let bounds: BTreeSet<Bound<'_>> = live
            .iter()
            .flat_map(|(tombstone, _)| [Bound::Key(&tombstone.start), Bound::end(tombstone)])
            .collect();
        let bounds: Vec<Bound<'_>> = bounds.into_iter().collect();
        let mut begin = live.into_iter().peekable();
        let mut covering: Vec<(&RangeTombstone, MergeStatus)> = Vec::new();
        let mut fragments = Vec::new();
        for pair in bounds.windows(2) {
            let &[Bound::Key(start), end] = pair else {
                continue;
            };
            covering.retain(|(tombstone, _)| end <= Bound::end(tombstone));
            while let Some(next) = begin.next_if(|(tombstone, _)| tombstone.start == start) {
                covering.push(next);
            }
            fragments.extend(Fragment::new(start, end, &covering));
        }
        (!fragments.is_empty()).then_some(Self {
            source,
            fragments,
            position: 0,
            writes,
        })
    }

    /// Returns the tombstones that cover `key`. Keys must not decrease from call to call, except
    /// after [`TombstoneLayer::rewind`].
    pub(crate) fn cover(&mut self, key: &[u8]) -> Option<Cover<'_>> {
        while let Some(fragment) = self.fragments.get(self.position) {
            match &fragment.end {
                Some(end) if end.as_slice() <= key => self.position += 1,
                _ => break,
            }
        }
        let fragment = self.fragments.get(self.position)?;
        (fragment.start.as_slice() <= key).then_some(Cover {
            ids: &fragment.ids,
            settled: fragment.settled,
        })
    }

    /// Allows any key again.
    pub(crate) fn rewind(&mut self) {
        self.position = 0;
    }

    /// Appends the tombstones of the layer between the bounds.
    fn collect(&self, lower: Option<&[u8]>, upper: Option<&[u8]>, to: &mut Vec<RangeTombstone>) {
        for fragment in &self.fragments {
            let whole = RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone().unwrap_or_default(),
                write_id: WriteId::SETTLED,
            };
            let Some(part) = whole.clip(lower, upper) else {
                continue;
            };
            let settled = fragment.settled.then_some(WriteId::SETTLED);
            for write_id in fragment.ids.iter().copied().chain(settled) {
                to.push(RangeTombstone {
                    write_id,
                    ..part.clone()
                });
            }
        }
    }
}

/// The range tombstones of all layers between the bounds, for the merged run. Adjacent fragments
/// of one write are joined. Of those that cover a key, the newest is first, and the settled one last.
pub(crate) fn retained_tombstones(
    layers: &[TombstoneLayer],
    lower: Option<&[u8]>,
    upper: Option<&[u8]>,
) -> Vec<RangeTombstone> {
    let mut pieces = Vec::new();
    for layer in layers {
        layer.collect(lower, upper, &mut pieces);
    }
    pieces.sort_unstable_by(|a, b| (a.write_id, &a.start).cmp(&(b.write_id, &b.start)));
    let mut joined: Vec<RangeTombstone> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last)
                if last.write_id == piece.write_id
                    && Bound::Key(&piece.start) <= Bound::end(last) =>
            {
                if Bound::end(last) < Bound::end(&piece) {
                    last.end = piece.end;
                }
            }
            _ => joined.push(piece),
        }
    }
    let writes = layers.iter().flat_map(|layer| &layer.writes);
    let places: HashMap<WriteId, Write> = writes.map(|write| (write.id, *write)).collect();
    // A settled write has no place, and `None` is less than any.
    let newest_first = |tombstone: &RangeTombstone| Reverse(places.get(&tombstone.write_id));
    joined.sort_by(|a, b| (newest_first(a), &a.start).cmp(&(newest_first(b), &b.start)));
    joined
}

//! A scan of one index between two bounds, which can be read from either end.
//!
//! Each end has a cursor, opened at the first read from that end. The last key returned by one end
//! becomes a bound of the other end, so no entry is returned twice.

use crate::error::Result;
use crate::session::Session;
use crate::table_state::TableState;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use teak_base::bytes::{key_successor, prefix_successor};
use teak_engine::{Cursor, IndexNumber, ReadMode};

/// `lower <= key < upper`; `None` means no bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
}

impl Bounds {
    pub(crate) fn of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Self {
        Self {
            lower: match range.start_bound() {
                Bound::Included(key) => Some(key.as_ref().to_vec()),
                Bound::Excluded(key) => Some(key_successor(key.as_ref())),
                Bound::Unbounded => None,
            },
            upper: match range.end_bound() {
                Bound::Included(key) => Some(key_successor(key.as_ref())),
                Bound::Excluded(key) => Some(key.as_ref().to_vec()),
                Bound::Unbounded => None,
            },
        }
    }

    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        Self {
            lower: Some(prefix.to_vec()),
            upper: prefix_successor(prefix),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

pub(crate) struct Scan<'t> {
    session: &'t Session,
    table: Arc<TableState>,
    index: IndexNumber,
    /// The read mode, or an error at the scan's creation, which the first step returns.
    mode: Result<ReadMode>,
    bounds: Bounds,
    front: Option<Cursor>,
    back: Option<Cursor>,
    /// The end that was read last.
    last: Option<End>,
    ended: bool,
}

impl<'t> Scan<'t> {
    pub(crate) fn new(
        session: &'t Session,
        table: &Arc<TableState>,
        index: IndexNumber,
        mode: Result<ReadMode>,
        bounds: Bounds,
    ) -> Self {
        Self {
            session,
            table: Arc::clone(table),
            index,
            mode,
            bounds,
            front: None,
            back: None,
            last: None,
            ended: false,
        }
    }

    /// The next entry from one end; `None` after the last entry and after an error.
    pub(crate) fn step(&mut self, end: End) -> Option<Result<Pair>> {
        if self.ended {
            return None;
        }
        let found = self.try_step(end).transpose();
        self.ended = !matches!(found, Some(Ok(_)));
        found
    }

    /// Ends the scan: no entry follows.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    fn try_step(&mut self, end: End) -> Result<Option<Pair>> {
        let mode = self.mode.clone()?;
        let Bounds { lower, upper } = &mut self.bounds;
        let turned = self.last.replace(end) != Some(end);
        let cursor = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        self.session.with(|transaction| {
            let is_first = cursor.is_none();
            let cursor = match cursor {
                Some(cursor) => cursor,
                None => cursor.insert(transaction.cursor(&self.table.handle, self.index, mode)?),
            };
            if turned {
                cursor.set_bounds(lower.as_deref(), upper.as_deref());
            }
            let found = match (end, is_first) {
                (End::Front, true) => cursor.first(transaction)?,
                (End::Front, false) => cursor.next(transaction)?,
                (End::Back, true) => cursor.last(transaction)?,
                (End::Back, false) => cursor.previous(transaction)?,
            };
            let Some(found) = found else { return Ok(None) };
            let (bound, suffix) = match end {
                End::Front => (lower, [0].as_slice()),
                End::Back => (upper, [].as_slice()),
            };
            let bound = bound.get_or_insert_default();
            bound.clear();
            bound.extend_from_slice(found.key);
            bound.extend_from_slice(suffix);
            Ok(Some((found.key.to_vec(), found.value.to_vec())))
        })
    }
}

//! Estimates of row counts, from nodes, memtables and index blocks. For a short range, the pages
//! at its ends are read too.
//!
//! The estimate is the number of keys in bottom runs, plus puts minus deletes in upper runs and
//! memtables (of a memtable, only the newest version of each key counts). For a whole tree it is
//! exact if no row has entries in several memtables or runs, all writes are committed, and no
//! leaves share a run. A short range with entries above the bottom runs is scanned instead, so that
//! query plans do not depend on the progress of flushes.

use crate::filter_keys::KeyPrefix;
use crate::memtable::Memtable;
use crate::node::{Child, KeyRange, Node, NodeReader, RunForm, RunRef};
use crate::tree::Tree;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_base::bytes::{key_successor, prefix_successor};
use teak_base::visibility::Visibility;

/// Maximum number of rows and upper entries in a range that is scanned.
const WALKED_MAX: u64 = 64;

/// The estimate of a range.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    rows: i64,
    /// Entries above the bottom runs. Some may be newer versions of rows that `rows` already
    /// counts.
    above: u64,
}

/// What is counted.
struct Wanted<'a> {
    range: &'a KeyRange,
    /// The prefix of all keys in the range, if filters can exclude it.
    prefix: Option<&'a KeyPrefix>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.rows = self.rows.saturating_add(other.rows);
        self.above = self.above.saturating_add(other.above);
    }
}

impl Tree {
    /// Estimates the number of rows in the tree.
    #[must_use]
    pub fn estimate_entries(&self) -> u64 {
        self.load_version().rows()
    }

    /// As [`Tree::estimate_range`], for the keys that start with the prefix, which must be as for
    /// [`TreeCursor::set_prefix`](crate::TreeCursor::set_prefix). Does not read pages of runs whose
    /// filters exclude the prefix.
    ///
    /// # Errors
    /// As [`Tree::estimate_range`].
    pub fn estimate_prefix<V: Visibility>(
        self: &Arc<Self>,
        prefix: &[u8],
        visibility: V,
    ) -> StorageResult<u64> {
        let after = prefix_successor(prefix);
        let (lower, upper) = (Bound::Included(prefix), after.as_deref());
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        let prefix = KeyPrefix::new(prefix, self.options().filter_keys);
        self.estimate(lower, upper, Some(&prefix), visibility)
    }

    /// An estimate of the number of rows in a range: mostly exact for a short range, see the top of
    /// the file. `visibility` decides which writes an exact result includes. Reads nodes and index
    /// blocks at the range's ends, and for a short range also pages.
    ///
    /// # Errors
    /// Errors of reading blocks; `Interrupted` when the visibility reports it.
    pub fn estimate_range<V: Visibility>(
        self: &Arc<Self>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        visibility: V,
    ) -> StorageResult<u64> {
        self.estimate(lower, upper, None, visibility)
    }

    /// `prefix`: of all keys in the range.
    fn estimate<V: Visibility>(
        self: &Arc<Self>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        prefix: Option<&KeyPrefix>,
        visibility: V,
    ) -> StorageResult<u64> {
        let range = KeyRange {
            lower: match lower {
                Bound::Included(key) => key.into(),
                Bound::Excluded(key) => key_successor(key).into(),
                Bound::Unbounded => KeyRange::all().lower,
            },
            upper: match upper {
                Bound::Included(key) => Some(key_successor(key).into()),
                Bound::Excluded(key) => Some(key.into()),
                Bound::Unbounded => None,
            },
        };
        if range.is_empty() {
            return Ok(0);
        }
        let version = self.version.load_full();
        let wanted = Wanted {
            range: &range,
            prefix,
        };
        let mut found = rows_in_node(&self.nodes, &version.root, &KeyRange::all(), &wanted)?;
        for slot in version.memtables() {
            found.add(rows_in_memtable(&slot.memtable, lower, upper));
        }
        let Found { rows, above } = found;
        let rows = u64::try_from(rows).unwrap_or(0);
        if above > 0 && rows.saturating_add(above) <= WALKED_MAX {
            return self.count_range(&wanted, visibility);
        }
        Ok(rows)
    }

    /// Counts the rows of a range with a cursor.
    fn count_range<V: Visibility>(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        visibility: V,
    ) -> StorageResult<u64> {
        let mut cursor = self.cursor(visibility);
        match wanted.prefix {
            Some(prefix) => cursor.set_prefix(Some(prefix.bytes())),
            None => cursor.set_limits(Some(&wanted.range.lower), wanted.range.upper.as_deref()),
        }
        let mut rows = 0;
        let mut there = cursor.seek(&wanted.range.lower)?;
        while there && wanted.range.contains(cursor.key()) {
            rows += 1;
            there = cursor.next()?;
        }
        Ok(rows)
    }
}

/// The estimated number of the memtable's keys in the range, times its ratio of rows to keys.
fn rows_in_memtable(memtable: &Memtable, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Found {
    let above = memtable.estimate(lower, upper);
    let (rows, keys) = (memtable.rows(), memtable.keys());
    let rows = i128::from(above) * i128::from(rows) / i128::from(keys.max(1));
    Found {
        rows: i64::try_from(rows).unwrap_or(i64::MAX),
        above,
    }
}

fn rows_in_node(
    nodes: &NodeReader,
    node: &Node,
    node_range: &KeyRange,
    wanted: &Wanted<'_>,
) -> StorageResult<Found> {
    let range = wanted.range;
    let first = node.child_position(&range.lower);
    let mut found = Found::default();
    for position in first..node.children.len() {
        let Some(child) = node.children.get(position) else {
            break;
        };
        let child_range = node.child_range(position, node_range);
        if !child_range.overlaps(range) {
            break;
        }
        found.add(if range.covers(&child_range) {
            let summary = &child.summary;
            let settled = !summary.holds_buffered && !summary.holds_pending;
            Found {
                rows: summary.rows,
                above: if settled { 0 } else { summary.entries },
            }
        } else {
            rows_in_child(nodes, child, &child_range, wanted)?
        });
    }
    Ok(found)
}

fn rows_in_child(
    nodes: &NodeReader,
    child: &Child,
    child_range: &KeyRange,
    wanted: &Wanted<'_>,
) -> StorageResult<Found> {
    let mut found = match &child.below {
        Some(link) if link.summary().runs > 0 => {
            let below = nodes.load(link, child_range)?;
            rows_in_node(nodes, &below, child_range, wanted)?
        }
        _ => Found::default(),
    };
    for run in &child.runs {
        found.add(rows_in_run(run, wanted)?);
    }
    Ok(found)
}

/// The estimated number of the run's entries in the range, times its ratio of rows to entries.
fn rows_in_run(run: &RunRef, wanted: &Wanted<'_>) -> StorageResult<Found> {
    let range = run.range().intersection(wanted.range);
    let description = run.handle.description();
    let entries = description.entries();
    // Range tombstones are not counted as entries, but a scan applies them.
    let deletes_range = !description.range_tombstones.is_empty();
    if range.is_empty() || entries == 0 {
        return Ok(Found {
            rows: 0,
            above: u64::from(deletes_range && !range.is_empty()),
        });
    }
    let upper = match range.upper.as_deref() {
        Some(upper) => Bound::Excluded(upper),
        None => Bound::Unbounded,
    };
    let lower = Bound::Included(&*range.lower);
    let found = run.handle.run.estimate(lower, upper, wanted.prefix)?;
    let count = |value: u64| i128::from(value);
    let (rows, above) = if run.handle.form == RunForm::Bottom {
        (count(description.keys), u64::from(deletes_range))
    } else {
        let rows = count(description.puts) - count(description.deletes);
        (rows, found.saturating_add(u64::from(deletes_range)))
    };
    let rows = count(found) * rows / count(entries);
    Ok(Found {
        rows: i64::try_from(rows).unwrap_or(i64::MAX),
        above,
    })
}

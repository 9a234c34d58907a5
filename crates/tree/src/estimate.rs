//! Estimates from what is in memory and from index blocks, without reading
//! data pages.
//!
//! Rows are counted as keys at the bottom plus, above it, puts less deletes:
//! exact for a table that is only inserted into, and near the truth for
//! others once flushes have met.

use crate::node::{Child, KeyRange, Node, RunForm, RunRef, successor};
use crate::tree::Tree;
use std::ops::Bound;
use teak_base::StorageResult;

impl Tree {
    /// Rows in the tree, about.
    #[must_use]
    pub fn estimate_entries(&self) -> u64 {
        let version = self.load_version();
        let memtables: u64 = version.memtables().map(|s| s.memtable.entries()).sum();
        memtables.saturating_add_signed(version.root.summary.rows.max(0))
    }

    /// Rows in a range, about. Reads index blocks of the leaves at the range's
    /// ends, at most.
    ///
    /// # Errors
    /// Those of reading blocks.
    pub fn estimate_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> StorageResult<u64> {
        let range = KeyRange {
            lower: match lower {
                Bound::Included(key) => key.into(),
                Bound::Excluded(key) => successor(key).into(),
                Bound::Unbounded => KeyRange::all().lower,
            },
            upper: match upper {
                Bound::Included(key) => Some(successor(key).into()),
                Bound::Excluded(key) => Some(key.into()),
                Bound::Unbounded => None,
            },
        };
        if range.is_empty() {
            return Ok(0);
        }
        let version = self.version.load_full();
        let memtables = version.memtables();
        let in_memory: u64 = memtables.map(|s| s.memtable.estimate(lower, upper)).sum();
        let rows = rows_in_node(&version.root, &KeyRange::all(), &range)?;
        Ok(in_memory.saturating_add_signed(rows.max(0)))
    }
}

fn rows_in_node(node: &Node, node_range: &KeyRange, range: &KeyRange) -> StorageResult<i64> {
    let first = node.child_position(&range.lower);
    let mut rows: i64 = 0;
    for position in first..node.children.len() {
        let Some(child) = node.children.get(position) else {
            break;
        };
        let child_range = node.child_range(position, node_range);
        if !child_range.overlaps(range) {
            break;
        }
        let in_child = if range.covers(&child_range) {
            child.summary.rows
        } else {
            rows_in_child(child, &child_range, range)?
        };
        rows = rows.saturating_add(in_child);
    }
    Ok(rows)
}

fn rows_in_child(child: &Child, child_range: &KeyRange, range: &KeyRange) -> StorageResult<i64> {
    let mut rows = match &child.below {
        Some(below) => rows_in_node(below, child_range, range)?,
        None => 0,
    };
    for run in &child.runs {
        rows = rows.saturating_add(rows_in_run(run, range)?);
    }
    Ok(rows)
}

/// The run's entries in the range, each for as many rows as one is worth in
/// the whole run.
fn rows_in_run(run: &RunRef, range: &KeyRange) -> StorageResult<i64> {
    let wanted = run.range().intersection(range);
    let description = run.handle.description();
    let entries = description.entries();
    if wanted.is_empty() || entries == 0 {
        return Ok(0);
    }
    let upper = match wanted.upper.as_deref() {
        Some(upper) => Bound::Excluded(upper),
        None => Bound::Unbounded,
    };
    let found = run
        .handle
        .run
        .estimate(Bound::Included(&wanted.lower), upper)?;
    let count = |value: u64| i128::from(value);
    let rows = if run.handle.form == RunForm::Bottom {
        count(description.keys)
    } else {
        count(description.puts) - count(description.deletes)
    };
    let rows = count(found) * rows / count(entries);
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

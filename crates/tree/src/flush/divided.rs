//! Large flushes are divided over threads: each part is the merge for some adjacent children of a
//! node, and writes runs of its own. The parts of a job depend only on its input, not on the number
//! of threads.

use super::context::JobContext;
use super::inputs::Inputs;
use super::output::Written;
use super::partition::{Part, Partitioner};
use crate::TreeOptions;
use crate::node::{Child, KeyRange};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// The size of the batch of a child, as planning counts it, from a key to the end of the range.
/// Counting may stop at the limit.
type BytesFrom<'a> = dyn Fn(&[u8], &KeyRange, u64) -> StorageResult<u64> + Sync + 'a;

/// A batch of entries for the children of a node.
pub(super) struct Batch<'a> {
    /// The children that may get entries, in key order.
    pub(super) children: Vec<(&'a Arc<Child>, KeyRange)>,
    /// Whether a bulk load will add older data below all runs.
    pub(super) awaits_base: bool,
    /// The size, as planning counts it.
    pub(super) bytes: u64,
    /// The share of each child; its unit does not matter.
    pub(super) weights: Vec<u64>,
    /// Creates the sources of a merge of the whole batch.
    pub(super) inputs: &'a (dyn Fn() -> Inputs + Sync),
    pub(super) bytes_from: &'a BytesFrom<'a>,
}

/// The runs of a batch.
#[derive(Default)]
pub(super) struct Divided {
    pub(super) written: Written,
    pub(super) parts: Vec<Part>,
    pub(super) entries_read: u64,
}

impl Batch<'_> {
    /// Writes runs for all children.
    pub(super) fn write(&self, job: &JobContext<'_>) -> StorageResult<Divided> {
        let groups = groups(&self.weights, self.bytes, &job.options);
        let results: Vec<Mutex<Option<StorageResult<Divided>>>> =
            groups.iter().map(|_| Mutex::default()).collect();
        job.threads.run(groups.len(), &|number| {
            if let (Some(group), Some(result)) = (groups.get(number), results.get(number)) {
                *result.lock() = Some(self.write_group(job, group.clone()));
            }
        });
        let mut all = Divided::default();
        for result in results {
            let missing = || StorageError::corrupt(job.tree.path(), 0, "a merge was not run");
            let part = result.into_inner().ok_or_else(missing)??;
            all.written.add(part.written);
            all.parts.extend(part.parts);
            all.entries_read += part.entries_read;
        }
        Ok(all)
    }

    fn write_group(&self, job: &JobContext<'_>, group: Range<usize>) -> StorageResult<Divided> {
        let children = self.children.get(group).unwrap_or_default();
        let Some((_, first)) = children.first() else {
            return Ok(Divided::default());
        };
        let mut partitioner = Partitioner::new(
            job.tree,
            &job.options,
            job.horizon,
            (self.inputs)(),
            self.bytes,
            self.children.len(),
        );
        partitioner.awaits_base = self.awaits_base;
        partitioner.seek(first)?;
        for (child, range) in children {
            partitioner.child(child, range, &|start, limit| {
                (self.bytes_from)(start, range, limit)
            })?;
        }
        Ok(Divided {
            entries_read: partitioner.entries_read(),
            written: partitioner.written,
            parts: partitioner.parts,
        })
    }
}

/// Divides children into groups of about equal weight. With all bytes, there is one group for each
/// [`TreeOptions::divided_bytes`].
fn groups(weights: &[u64], bytes: u64, options: &TreeOptions) -> Vec<Range<usize>> {
    let wanted = u128::from((bytes / options.divided_bytes()).max(1));
    let weight_of = |weight: &u64| u128::from(*weight) + 1;
    let total: u128 = weights.iter().map(weight_of).sum();
    let mut groups: Vec<(u128, Range<usize>)> = Vec::new();
    let mut before = 0;
    for (position, weight) in weights.iter().map(weight_of).enumerate() {
        // The middle of the child determines its group.
        let number = (2 * before + weight) * wanted / (2 * total);
        before += weight;
        match groups.last_mut() {
            Some((last, range)) if *last == number => range.end = position + 1,
            _ => groups.push((number, position..position + 1)),
        }
    }
    groups.into_iter().map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(weights: &[u64], bytes: u64) -> Vec<Range<usize>> {
        let options = TreeOptions {
            child_buffer_bytes: 400,
            ..TreeOptions::default()
        };
        let groups = groups(weights, bytes, &options);
        let covered: Vec<usize> = groups.iter().cloned().flatten().collect();
        assert_eq!(covered, (0..weights.len()).collect::<Vec<_>>());
        groups
    }

    #[test]
    fn groups_have_about_equal_weights() {
        assert_eq!(divided(&[1; 4], 199).len(), 1);
        assert_eq!(divided(&[1; 4], 200), [0..2, 2..4]);
        assert_eq!(divided(&[1; 4], 1000), [0..1, 1..2, 2..3, 3..4]);
        assert_eq!(divided(&[1, 1, 1, 9], 200), [0..3, 3..4]);
        assert_eq!(divided(&[9, 1, 1, 1], 200), [0..1, 1..4]);
        assert_eq!(divided(&[9, 0, 1, 0, 0, 9, 1], 200), [0..3, 3..7]);
        assert_eq!(divided(&[0, 90, 0], 400), [0..1, 1..2, 2..3]);
        assert_eq!(divided(&[0, 0], 200), [0..1, 1..2]);
        assert_eq!(divided(&[], 200), []);
    }
}

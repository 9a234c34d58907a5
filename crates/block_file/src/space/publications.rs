//! The versions at which live space was published.
//!
//! Only versions after that of the oldest holder matter. Space that was published earlier is needed
//! by every holder whose version is before the freeing of the space, whatever the exact version of
//! the publication. So passes over the map remove this space: one after each durable checkpoint,
//! and one when insertions have more than doubled the length of the map.

use crate::extents::Extent;
use std::collections::BTreeMap;

/// Up to this length, insertions do not prune the map.
const RANGES_MIN: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct PublicationVersions {
    /// For each offset, the length in bytes and the version of the publication.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Number of ranges after the last pass.
    pruned: usize,
}

impl PublicationVersions {
    /// Records that the space was published at `version`. `oldest` is the version of the oldest
    /// holder.
    pub fn insert(&mut self, extent: Extent, version: u64, oldest: u64) {
        if self.ranges.len() > 2 * self.pruned + RANGES_MIN {
            self.prune(oldest);
        }
        self.ranges.insert(extent.offset, (extent.bytes, version));
    }

    /// Removes the space that was published at or before version `oldest`.
    pub fn prune(&mut self, oldest: u64) {
        self.ranges.retain(|_, (_, version)| *version > oldest);
        self.pruned = self.ranges.len();
    }

    /// Removes a range and adds its parts with their versions to `parts`; the
    /// version of parts that are not in the map is 0.
    pub fn take(&mut self, extent: Extent, parts: &mut Vec<(Extent, u64)>) {
        let mut end = extent.end();
        while end > extent.offset {
            let found = self.ranges.range(..end).next_back();
            let Some((&offset, &(bytes, version))) = found else {
                break;
            };
            let found_end = offset + bytes;
            if found_end <= extent.offset {
                break;
            }
            self.ranges.remove(&offset);
            if found_end > end {
                self.ranges.insert(end, (found_end - end, version));
            }
            if offset < extent.offset {
                self.ranges
                    .insert(offset, (extent.offset - offset, version));
            }
            let part = Extent::between(offset.max(extent.offset), found_end.min(end));
            if part.end() < end {
                parts.push((Extent::between(part.end(), end), 0));
            }
            parts.push((part, version));
            end = part.offset;
        }
        if end > extent.offset {
            parts.push((Extent::between(extent.offset, end), 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn parts_have_the_versions_of_their_publication(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 1u64..12), 0..120)
        ) {
            let mut published = PublicationVersions::default();
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for (version, (publish, offset, bytes)) in (1u64..).zip(steps) {
                let extent = Extent { offset, bytes };
                if publish {
                    if (offset..extent.end()).all(|byte| !model.contains_key(&byte)) {
                        published.insert(extent, version, 0);
                        model.extend((offset..extent.end()).map(|byte| (byte, version)));
                    }
                    continue;
                }
                let mut parts = Vec::new();
                published.take(extent, &mut parts);
                let mut bytes: Vec<(u64, u64)> = parts
                    .iter()
                    .flat_map(|(part, version)| (part.offset..part.end()).map(|b| (b, *version)))
                    .collect();
                bytes.sort_unstable();
                let expected: Vec<(u64, u64)> = (offset..extent.end())
                    .map(|byte| (byte, model.remove(&byte).unwrap_or(0)))
                    .collect();
                prop_assert_eq!(bytes, expected);
            }
        }
    }

    #[test]
    fn pruning_forgets_only_older_publications() {
        let mut published = PublicationVersions::default();
        for (number, version) in [(0, 4), (1, 5), (2, 6)] {
            let extent = Extent {
                offset: 10 * number,
                bytes: 10,
            };
            published.insert(extent, version, 0);
        }
        published.prune(5);
        let mut parts = Vec::new();
        published.take(Extent::between(0, 30), &mut parts);
        parts.sort_unstable();
        let versions: Vec<u64> = parts.iter().map(|(_, version)| *version).collect();
        assert_eq!(versions, [0, 6]);
    }
}

//! The versions at which live space was published.
//!
//! Only versions after that of the oldest holder matter. Space that was published earlier is needed
//! by every holder whose version is before the freeing of the space, whatever the exact version of
//! the publication. So passes over the map remove this space: one after each durable checkpoint,
//! and one when insertions have more than doubled the length of the map. A pass consists of short
//! steps, because the lock of the file is held during each. There is none while the oldest holder
//! is the same as in the last pass, for example because a reader holds a pin for a long time.

use crate::extents::Extent;
use std::collections::BTreeMap;

/// Up to this length, insertions do not begin a pass.
const RANGES_MIN: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct PublicationVersions {
    /// For each offset, the length in bytes and the version of the publication.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Number of ranges after the last pass.
    pruned: usize,
    /// The version of the oldest holder when the last pass began.
    pruned_to: u64,
    /// The offset at which the present pass continues.
    pass: Option<u64>,
}

impl PublicationVersions {
    /// Records that the space was published at `version`. `oldest` is the version of the oldest
    /// holder.
    pub fn insert(&mut self, extent: Extent, version: u64, oldest: u64) {
        if version > oldest {
            self.ranges.insert(extent.offset, (extent.bytes, version));
        }
        if self.ranges.len() > 2 * self.pruned + RANGES_MIN {
            self.begin_pass(oldest);
        }
    }

    /// Begins a pass, unless there is one, or the last one has removed everything that a pass can
    /// remove now.
    pub fn begin_pass(&mut self, oldest: u64) {
        if self.pass.is_none() && oldest > self.pruned_to {
            self.pruned_to = oldest;
            self.pass = Some(0);
        }
    }

    /// Continues a pass: of up to `max` ranges, removes those that were published at or before
    /// version `oldest`. Returns whether the pass has to be continued.
    pub fn continue_pass(&mut self, oldest: u64, max: usize) -> bool {
        let Some(next) = self.pass else {
            return false;
        };
        let mut examined = 0;
        let mut last = next;
        let mut unneeded = Vec::new();
        for (&offset, &(_, version)) in self.ranges.range(next..).take(max) {
            examined += 1;
            last = offset;
            if version <= oldest {
                unneeded.push(offset);
            }
        }
        for offset in unneeded {
            self.ranges.remove(&offset);
        }
        self.pass = (examined == max).then_some(last + 1);
        if self.pass.is_none() {
            self.pruned = self.ranges.len();
        }
        self.pass.is_some()
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

    fn published(at: &[u64]) -> PublicationVersions {
        let mut versions = PublicationVersions::default();
        for (offset, version) in (0..).step_by(10).zip(at) {
            versions.insert(Extent { offset, bytes: 10 }, *version, 0);
        }
        versions
    }

    fn versions_of(versions: &mut PublicationVersions, count: u64) -> Vec<u64> {
        let mut parts = Vec::new();
        versions.take(Extent::between(0, 10 * count), &mut parts);
        parts.sort_unstable();
        parts.iter().map(|(_, version)| *version).collect()
    }

    #[test]
    fn a_pass_forgets_only_older_publications() {
        let mut versions = published(&[4, 5, 6]);
        versions.begin_pass(5);
        assert!(!versions.continue_pass(5, 10));
        assert_eq!(versions_of(&mut versions, 3), [0, 6]);
    }

    #[test]
    fn a_pass_continues_in_steps_and_is_not_repeated_for_the_same_holder() {
        let mut versions = published(&[4, 6, 5, 4, 6]);
        versions.begin_pass(5);
        assert!(versions.continue_pass(5, 2));
        assert_eq!(versions.ranges.len(), 4);
        assert!(versions.continue_pass(5, 2));
        assert!(!versions.continue_pass(5, 2));
        assert_eq!(versions.ranges.len(), 2);
        versions.begin_pass(5);
        assert_eq!(versions.pass, None);
        versions.begin_pass(6);
        assert!(!versions.continue_pass(6, 9));
        assert!(versions.ranges.is_empty());
    }

    #[test]
    fn space_that_every_holder_sees_is_not_recorded() {
        let mut versions = PublicationVersions::default();
        versions.insert(Extent::between(0, 10), 5, 5);
        assert!(versions.ranges.is_empty());
    }
}

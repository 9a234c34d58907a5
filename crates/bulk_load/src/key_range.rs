//! Division of sorted entries into ranges of keys of about the same size.

use crate::prefix::{Prefix, prefix_of};

/// A sampled key has at most so many bytes of the real one.
pub(crate) const SAMPLE_KEY_BYTES: usize = 64;

/// A key, or the beginning of one, and the size of the entries from it to the next sample of the same
/// sequence, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) key: Vec<u8>,
    pub(crate) bytes: u64,
}

impl Sample {
    pub(crate) fn new(key: &[u8], bytes: u64) -> Self {
        let key = key.get(..SAMPLE_KEY_BYTES).unwrap_or(key).to_vec();
        Self { key, bytes }
    }
}

/// The keys that divide sampled entries into at most `count` ranges: the first of each range but the
/// first one. They ascend strictly.
pub(crate) fn boundaries(mut samples: Vec<Sample>, count: usize) -> Vec<Vec<u8>> {
    samples.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    let total: u64 = samples.iter().map(|sample| sample.bytes).sum();
    let part = total / count.max(1) as u64;
    let mut boundaries: Vec<Vec<u8>> = Vec::new();
    let Some(first) = samples.first().map(|sample| sample.key.clone()) else {
        return boundaries;
    };
    let mut before = 0u64;
    for sample in samples {
        let is_due = before >= part.saturating_mul(boundaries.len() as u64 + 1);
        let is_after = boundaries.last().unwrap_or(&first) < &sample.key;
        if is_due && is_after && boundaries.len() + 1 < count {
            boundaries.push(sample.key);
        }
        before += sample.bytes;
    }
    boundaries
}

/// The end of a range.
#[derive(Clone, Debug)]
pub(crate) struct RangeEnd {
    prefix: Prefix,
    key: Vec<u8>,
}

impl RangeEnd {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self {
            prefix: prefix_of(key),
            key: key.to_vec(),
        }
    }

    /// Whether a key, which has this prefix, is before the end.
    #[inline]
    pub(crate) fn is_after(&self, prefix: &Prefix, key: &[u8]) -> bool {
        *prefix < self.prefix || (*prefix == self.prefix && *key < *self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_about_the_same_size() {
        let sample = |n: u32| Sample::new(&n.to_be_bytes(), 10);
        let samples = |count: u32| (0..count).map(|n| sample(n * 7919 % count)).collect();
        let found = boundaries(samples(1000), 4);
        let expected = [250u32, 500, 750].map(|n| n.to_be_bytes().to_vec());
        assert_eq!(found, expected);
        assert!(boundaries(samples(1000), 1).is_empty());
        assert!(boundaries(Vec::new(), 4).is_empty());
        assert_eq!(boundaries(samples(2), 4).len(), 1);
        // Most entries have the same key.
        let equal = (0..100).map(|n| sample(n / 98)).collect();
        assert!(boundaries(equal, 4).len() <= 1);
    }

    #[test]
    fn keys_with_equal_prefixes_are_compared() {
        let end = RangeEnd::new(b"0123456789abcdefgh");
        let is_after = |key: &[u8]| end.is_after(&prefix_of(key), key);
        assert!(is_after(b"0123456789abcdefg") && is_after(b"0123456789abcdef") && is_after(b""));
        assert!(
            !is_after(b"0123456789abcdefgh") && !is_after(b"0123456789abcdefi") && !is_after(b"1")
        );
        let short = RangeEnd::new(b"a");
        assert!(!short.is_after(&prefix_of(b"a\0"), b"a\0"));
        assert!(short.is_after(&prefix_of(b""), b""));
    }
}

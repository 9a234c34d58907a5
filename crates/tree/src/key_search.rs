//! Binary search among the sorted keys of a page, an index block or an index table.
//!
//! The common prefix of all keys is skipped. An array stores, for one of every `step` keys, the
//! eight bytes after the common prefix as a number; a key that ends within these bytes is padded
//! with zeros. A search first covers this array, which touches few cache lines, and then the keys
//! between two of its elements. Two keys with equal numbers are compared by their remaining bytes;
//! if one of them ends within the eight bytes, the shorter one comes first.

use std::cmp::Ordering;

/// The eight bytes of a key from `skip` on, padded with zeros, as a number with
/// the same order.
#[inline]
pub(crate) fn prefix_at(key: &[u8], skip: usize) -> u64 {
    if let Some((_, rest)) = key.split_at_checked(skip)
        && let Some(bytes) = rest.first_chunk::<8>()
    {
        return u64::from_be_bytes(*bytes);
    }
    short_prefix_at(key, skip)
}

/// [`prefix_at`] of a key that ends within the eight bytes. It combines
/// overlapping words, which is cheaper than copying a few bytes.
#[inline]
fn short_prefix_at(key: &[u8], skip: usize) -> u64 {
    let missing = (skip + 8).saturating_sub(key.len());
    if missing >= 8 {
        return 0;
    }
    let shift = |number: u64, bytes: usize| number << (8 * bytes);
    if let Some(end) = key.last_chunk::<8>() {
        return shift(u64::from_be_bytes(*end), missing);
    }
    let (high, low) = match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(start), Some(end)) => (u32::from_be_bytes(*start), u32::from_be_bytes(*end)),
        _ => match (key.first_chunk::<2>(), key.last_chunk::<2>()) {
            (Some(start), Some(end)) => {
                let high = u32::from(u16::from_be_bytes(*start)) << 16;
                let low = u32::from(u16::from_be_bytes(*end)) << 16;
                return shift(u64::from(high | low >> (8 * (key.len() - 2))) << 32, skip);
            }
            _ => {
                return key
                    .first()
                    .map_or(0, |byte| shift(u64::from(*byte) << 56, skip));
            }
        },
    };
    let padded = u64::from(high) << 32 | u64::from(low) << (8 * (8 - key.len()));
    shift(padded, skip)
}

/// The order of two keys whose first `skip` bytes and whose numbers ([`prefix_at`] `skip`) are
/// equal.
#[inline]
pub(crate) fn order_after_prefix(a: &[u8], b: &[u8], skip: usize) -> Ordering {
    match (a.get(skip + 8..), b.get(skip + 8..)) {
        (Some(a), Some(b)) => a.cmp(b),
        // A key ends within the eight bytes. Because the numbers, padded with zeros, are equal, the
        // shorter key is a prefix of the longer one.
        _ => a.len().cmp(&b.len()),
    }
}

/// The order of two keys. If they differ in their first eight bytes, no function is called.
#[inline]
#[must_use]
pub fn key_order(a: &[u8], b: &[u8]) -> Ordering {
    let first = prefix_at(a, 0).cmp(&prefix_at(b, 0));
    first.then_with(|| order_after_prefix(a, b, 0))
}

/// Whether two keys are equal. Calls no function for keys of up to 16 bytes.
#[inline]
pub(crate) fn is_same_key(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // The two words overlap in the middle.
    match (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        (Some(a_start), Some(b_start)) if a.len() <= 16 => {
            a_start == b_start && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        (None, None) => prefix_at(a, 0) == prefix_at(b, 0),
        _ => a == b,
    }
}

/// The length of the common prefix of two keys.
#[inline]
pub(crate) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A search index over a sequence of sorted keys. If keys are out of order, searches may return a
/// wrong number, but one of at most the number of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySearch {
    count: usize,
    /// `prefixes` contains one of every `step` keys.
    step: usize,
    /// The common prefix of all keys.
    common: Vec<u8>,
    prefixes: Vec<u64>,
}

impl KeySearch {
    /// Builds the index of `count` keys from one of every `step` keys.
    pub(crate) fn new<'k>(count: usize, step: usize, key_of: impl Fn(usize) -> &'k [u8]) -> Self {
        let common = match count.checked_sub(1) {
            Some(last) => {
                let first = key_of(0);
                let bytes = common_bytes(first, key_of(last));
                first.get(..bytes).unwrap_or(&[]).to_vec()
            }
            None => Vec::new(),
        };
        let skip = common.len();
        Self {
            count,
            step,
            prefixes: (0..count)
                .step_by(step)
                .map(|number| prefix_at(key_of(number), skip))
                .collect(),
            common,
        }
    }

    /// Memory used in addition to the struct itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.common.capacity() + self.prefixes.capacity() * size_of::<u64>()
    }

    /// The number of the first key at or after `key`; the number of keys when
    /// there is none.
    #[inline]
    pub(crate) fn lower_bound<'k>(&self, key: &[u8], key_of: impl Fn(usize) -> &'k [u8]) -> usize {
        let skip = self.common.len();
        let beginning = key.get(..skip).unwrap_or(key);
        match beginning.cmp(&self.common) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.count,
            Ordering::Equal => {}
        }
        let prefix = prefix_at(key, skip);
        let at = self.prefixes.partition_point(|kept| *kept < prefix);
        // The key is after the indexed key before `at`, and not after the one at `at`.
        let mut low = match at.checked_sub(1) {
            Some(before) => before * self.step + 1,
            None => 0,
        };
        let rest = self.prefixes.get(at..).unwrap_or(&[]);
        let end = match rest.first() {
            Some(kept) if *kept == prefix => at + rest.partition_point(|kept| *kept <= prefix),
            _ => at,
        };
        let mut high = (end * self.step).min(self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let other = key_of(middle);
            let order = prefix_at(other, skip)
                .cmp(&prefix)
                .then_with(|| order_after_prefix(other, key, skip));
            if order == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prefixes_are_zero_padded(key in proptest::collection::vec(any::<u8>(), 0..20), skip in 0usize..22) {
            let mut padded: Vec<u8> = key.iter().copied().skip(skip).take(8).collect();
            padded.resize(8, 0);
            let expected = u64::from_be_bytes(padded.try_into().unwrap());
            prop_assert_eq!(prefix_at(&key, skip), expected);
        }

        #[test]
        fn prefixes_order_like_keys(
            common in proptest::collection::vec(any::<u8>(), 0..4),
            a in proptest::collection::vec(0u8..2, 0..12),
            b in proptest::collection::vec(0u8..2, 0..12),
        ) {
            let skip = common.len();
            let a = [common.clone(), a].concat();
            let b = [common, b].concat();
            let order = prefix_at(&a, skip)
                .cmp(&prefix_at(&b, skip))
                .then_with(|| order_after_prefix(&a, &b, skip));
            prop_assert_eq!(order, a.cmp(&b));
        }

        #[test]
        fn keys_compare_like_their_bytes(
            common in proptest::collection::vec(any::<u8>(), 0..20),
            a in proptest::collection::vec(0u8..2, 0..4),
            b in proptest::collection::vec(0u8..2, 0..4),
            behind in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let a = [&common[..], &a, &behind].concat();
            let b = [&common[..], &b, &behind].concat();
            prop_assert_eq!(key_order(&a, &b), a.cmp(&b));
            prop_assert_eq!(is_same_key(&a, &b), a == b);
        }

        #[test]
        fn the_first_key_at_or_after_is_found(
            mut keys in proptest::collection::vec(key(), 0..60),
            common in 0usize..20,
            others in proptest::collection::vec(key(), 1..20),
            step in 1usize..20,
        ) {
            for key in &mut keys {
                *key = [vec![1; common], key.clone()].concat();
            }
            keys.sort();
            let search = KeySearch::new(keys.len(), step, |number| &keys[number]);
            let found = |key: &[u8]| search.lower_bound(key, |number| &keys[number]);
            for key in keys.iter().chain(&others) {
                let longer = [vec![1; common], key.clone()].concat();
                for key in [key, &longer] {
                    prop_assert_eq!(found(key), keys.partition_point(|other| other < key));
                }
            }
        }

        #[test]
        fn keys_out_of_order_do_no_harm(
            keys in proptest::collection::vec(key(), 0..60),
            key in key(),
        ) {
            let search = KeySearch::new(keys.len(), 4, |number| &keys[number]);
            prop_assert!(search.lower_bound(&key, |number| &keys[number]) <= keys.len());
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0u8..3, 0..11)
    }
}

//! Key ranges: from an inclusive lower bound to an exclusive upper bound. The
//! empty key is the smallest, so a range without a lower bound starts there.
//! The upper bound may be missing.

use crate::key_search::key_order;
use std::sync::Arc;

/// A shared key of nodes and ranges.
pub(crate) type Key = Arc<[u8]>;

/// All keys at or above `lower` and below `upper`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) lower: Key,
    pub(crate) upper: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub(crate) fn all() -> Self {
        Self {
            lower: Arc::default(),
            upper: None,
        }
    }

    pub(crate) fn new(lower: &[u8], upper: Option<&[u8]>) -> Self {
        Self {
            lower: lower.into(),
            upper: upper.map(Into::into),
        }
    }

    /// Whether the range contains no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends_at_or_before(&self.lower)
    }

    /// Whether the range contains the key.
    #[inline]
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        key_order(&self.lower, key).is_le() && !self.ends_at_or_before(key)
    }

    /// Whether the range contains no key at or above `key`.
    #[inline]
    pub(crate) fn ends_at_or_before(&self, key: &[u8]) -> bool {
        self.upper
            .as_deref()
            .is_some_and(|upper| key_order(upper, key).is_le())
    }

    /// Whether the range contains all of `other`.
    pub(crate) fn covers(&self, other: &KeyRange) -> bool {
        self.lower <= other.lower
            && match (&self.upper, &other.upper) {
                (None, _) => true,
                (Some(upper), Some(other)) => other <= upper,
                (Some(_), None) => false,
            }
    }

    /// Whether the ranges have a key in common.
    pub(crate) fn overlaps(&self, other: &KeyRange) -> bool {
        !self.ends_at_or_before(&other.lower)
            && !other.ends_at_or_before(&self.lower)
            && !self.is_empty()
            && !other.is_empty()
    }

    /// The smallest range that covers both ranges.
    pub(crate) fn hull(&self, other: &KeyRange) -> KeyRange {
        let upper = self.upper.as_ref().zip(other.upper.as_ref());
        KeyRange {
            lower: Arc::clone((&self.lower).min(&other.lower)),
            upper: upper.map(|(a, b)| Arc::clone(a.max(b))),
        }
    }

    /// The keys of both ranges.
    pub(crate) fn intersection(&self, other: &KeyRange) -> KeyRange {
        let upper = match (&self.upper, &other.upper) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.as_ref().or(b.as_ref()),
        };
        KeyRange {
            lower: Arc::clone((&self.lower).max(&other.lower)),
            upper: upper.cloned(),
        }
    }
}

/// The larger of two upper bounds; a missing one is the maximum.
pub(crate) fn max_upper<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        _ => None,
    }
}

/// The smaller of two upper bounds; a missing one is the maximum.
pub(crate) fn min_upper<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The shortest key from `end` to `start`, both inclusive: a pivot between data
/// that ends before `end` and data that starts at `start`.
pub(crate) fn separator(end: &[u8], start: &[u8]) -> Key {
    debug_assert!(end <= start);
    let common = end.iter().zip(start).take_while(|(a, b)| a == b).count();
    match start.get(..=common) {
        Some(prefix) if prefix >= end => prefix.into(),
        _ => start.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = KeyRange> {
        let key = || proptest::collection::vec(0..3u8, 0..3);
        (key(), proptest::option::of(key()))
            .prop_map(|(lower, upper)| KeyRange::new(&lower, upper.as_deref()))
    }

    proptest! {
        #![proptest_config(crate::test_support::proptest_config(256))]
        #[test]
        fn separator_is_between_keys(a: Vec<u8>, b: Vec<u8>) {
            let (end, start) = if a <= b { (a, b) } else { (b, a) };
            let pivot = separator(&end, &start);
            prop_assert!(end.as_slice() <= &*pivot && &*pivot <= start.as_slice());
        }

        #[test]
        fn a_key_is_in_the_intersection_when_it_is_in_both(
            a in range(), b in range(), key in proptest::collection::vec(0..3u8, 0..4),
        ) {
            let both = a.contains(&key) && b.contains(&key);
            prop_assert_eq!(a.intersection(&b).contains(&key), both);
            prop_assert!(a.overlaps(&b) || !both);
            prop_assert!(!(a.covers(&b) && b.contains(&key)) || a.contains(&key));
            prop_assert!(a.hull(&b).covers(&a) && a.hull(&b).covers(&b));
            prop_assert_eq!(a.overlaps(&b), !a.intersection(&b).is_empty());
        }
    }

    #[test]
    fn separator_is_short() {
        assert_eq!(&*separator(b"alpha\0", b"beta"), b"b");
        assert_eq!(&*separator(b"alpha\0", b"alphabet"), b"alphab".as_slice());
    }
}

//! Sorting items by the prefixes of their keys: a radix sort in place, from the highest digit to the
//! lowest (American flag sort).
//!
//! 1. Find the highest bit in which the prefixes differ. The digit is this bit and the seven after
//!    it, so common parts of the prefixes cost one pass, not one for each byte.
//! 2. Count the items of each digit, and move each item into the range of its digit.
//! 3. Sort each range in the same way; ranges of few items, and items with equal prefixes, by
//!    comparisons.

use crate::prefix::Prefix;
use std::cmp::Ordering;

/// Ranges of at most so many items are sorted by comparisons.
const COMPARED_ITEMS_MAX: usize = 96;

const DIGITS: usize = 256;

/// Something with a prefix.
pub(crate) trait HasPrefix {
    fn prefix(&self) -> Prefix;
}

/// Sorts items by prefix. `compare` is the order of items with equal prefixes.
pub(crate) fn sort<T: HasPrefix>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    if items.len() <= COMPARED_ITEMS_MAX {
        items.sort_unstable_by(|one, other| {
            let by_prefix = one.prefix().cmp(&other.prefix());
            by_prefix.then_with(|| compare(one, other))
        });
        return;
    }
    let Some(first) = items.first().map(HasPrefix::prefix) else {
        return;
    };
    let mut differing = [0u64; 2];
    for item in &*items {
        for ((bits, part), first) in differing.iter_mut().zip(item.prefix()).zip(first) {
            *bits |= part ^ first;
        }
    }
    match differing {
        [0, 0] => items.sort_unstable_by(compare),
        [0, low] => by_digit(items, &|[_, part]: Prefix| digit(part, low), compare),
        [high, _] => by_digit(items, &|[part, _]: Prefix| digit(part, high), compare),
    }
}

/// The eight bits of `part` from the highest bit of `differing` on.
#[inline]
fn digit(part: u64, differing: u64) -> usize {
    let shift = (u64::BITS - differing.leading_zeros()).saturating_sub(8);
    #[allow(clippy::cast_possible_truncation, reason = "eight bits")]
    let digit = (part >> shift) as u8;
    usize::from(digit)
}

fn by_digit<T: HasPrefix>(
    items: &mut [T],
    digit_of: &impl Fn(Prefix) -> usize,
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    // Where the next item of each digit goes.
    let mut next = [0usize; DIGITS];
    for item in &*items {
        if let Some(count) = next.get_mut(digit_of(item.prefix())) {
            *count += 1;
        }
    }
    let mut ends = [0usize; DIGITS];
    let mut before = 0;
    for (next, end) in next.iter_mut().zip(&mut ends) {
        let count = std::mem::replace(next, before);
        before += count;
        *end = before;
    }
    for (number, end) in ends.iter().enumerate() {
        loop {
            let position = next.get(number).copied().unwrap_or(*end);
            let Some(item) = items.get(position).filter(|_| position < *end) else {
                break;
            };
            let Some(to) = next.get_mut(digit_of(item.prefix())) else {
                break;
            };
            if *to != position {
                items.swap(position, *to);
            }
            *to += 1;
        }
    }
    let mut rest = items;
    let mut start = 0;
    for end in ends {
        let (range, after) = std::mem::take(&mut rest).split_at_mut(end - start);
        sort(range, compare);
        (rest, start) = (after, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Pair(Prefix, u32);

    impl HasPrefix for Pair {
        fn prefix(&self) -> Prefix {
            self.0
        }
    }

    fn check(mut items: Vec<Pair>) {
        let mut expected = items.clone();
        expected.sort();
        sort(&mut items, &|one: &Pair, other: &Pair| one.1.cmp(&other.1));
        assert_eq!(items, expected);
    }

    proptest! {
        #[test]
        fn items_are_sorted(
            parts: Vec<(u64, u64, u32)>,
            masks in proptest::array::uniform2(prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0u64..1000]),
            copies in 1usize..40,
        ) {
            let pair = |(one, two, tie): &(u64, u64, u32)| Pair([one & masks[0], two & masks[1]], *tie);
            let items: Vec<Pair> = parts.iter().map(pair).collect();
            check(items.repeat(copies));
        }
    }

    #[test]
    fn common_parts_and_few_values_are_sorted() {
        for count in [0, 1, COMPARED_ITEMS_MAX, COMPARED_ITEMS_MAX + 1, 20_000] {
            let items = |part: fn(u64) -> Prefix| {
                let mixed = (0u64..).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let pairs = mixed.zip(0u32..).map(|(n, tie)| Pair(part(n), tie ^ 0x155));
                check(pairs.take(count).collect());
            };
            items(|n| [n, n]);
            items(|n| [7, n >> 40]);
            items(|n| [n >> 63, 5]);
            items(|_| [1, 2]);
            items(|n| [n % 3, n % 5]);
        }
    }
}

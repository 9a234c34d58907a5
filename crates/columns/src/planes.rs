//! Byte planes: strings of equal length stored column by column. Sorted big-endian keys then have
//! long runs of equal bytes, which compress well.
//!
//! Joining planes is a large part of the time of decoding a page, so many bytes of eight planes are
//! joined at a time: to pairs, to groups of four, then to words. The compiler makes vector
//! instructions of these loops.
//!
//! The lengths asserted on entry are multiples of the width, so every index is within bounds.
#![allow(clippy::indexing_slicing)]

/// Rows that are joined at a time. With fewer, the compiler unrolls the loops instead.
const BATCH: usize = 64;

/// Appends the planes of `rows`, strings of `width` bytes each.
///
/// # Panics
/// When `width` is zero, or the bytes are not whole rows.
pub fn split(rows: &[u8], width: usize, out: &mut Vec<u8>) {
    assert!(
        width > 0 && rows.len().is_multiple_of(width),
        "rows are whole"
    );
    for column in 0..width.min(rows.len()) {
        out.extend(rows[column..].iter().step_by(width));
    }
}

/// Appends the rows from which `split` has created `planes`.
///
/// # Panics
/// As [`join_at`].
pub fn join(planes: &[u8], width: usize, out: &mut Vec<u8>) {
    assert!(width > 0, "rows are not empty");
    let start = out.len();
    out.resize(start + planes.len(), 0);
    join_at(planes, width, &mut out[start..], |row| row * width);
}

/// Writes the rows from which `split` has created `planes`, each to its place in `out`.
///
/// # Panics
/// When `width` is zero, the planes are not of whole rows, or a place is not that of a row within `out`.
pub fn join_at(planes: &[u8], width: usize, out: &mut [u8], place_of: impl Fn(usize) -> usize) {
    assert!(
        width > 0 && planes.len().is_multiple_of(width),
        "planes are whole"
    );
    let count = planes.len() / width;
    let plane = |column: usize| &planes[column * count..(column + 1) * count];
    let mut column = 0;
    let (mut batch, mut words) = ([[0; BATCH]; 8], [0; BATCH]);
    while column + 8 <= width {
        let group: [&[u8]; 8] = std::array::from_fn(|number| plane(column + number));
        for start in (0..count).step_by(BATCH) {
            let rows = (count - start).min(BATCH);
            for (batch, plane) in batch.iter_mut().zip(group) {
                match plane[start..].first_chunk() {
                    Some(full) => *batch = *full,
                    None => batch[..rows].copy_from_slice(&plane[start..]),
                }
            }
            join_batch(&batch, &mut words);
            for (row, word) in (start..start + rows).zip(&words) {
                if let Some(place) = out[place_of(row) + column..].first_chunk_mut() {
                    *place = word.to_le_bytes();
                }
            }
        }
        column += 8;
    }
    while column + 4 <= width {
        let [a, b, c, d] = std::array::from_fn(|number| plane(column + number));
        for (row, (((a, b), c), d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
            if let Some(place) = out[place_of(row) + column..].first_chunk_mut() {
                *place = [*a, *b, *c, *d];
            }
        }
        column += 4;
    }
    for column in column..width {
        for (row, byte) in plane(column).iter().enumerate() {
            out[place_of(row) + column] = *byte;
        }
    }
}

/// Joins bytes of eight planes to words. The bytes of a row are in little-endian order.
#[inline]
fn join_batch(planes: &[[u8; BATCH]; 8], words: &mut [u64; BATCH]) {
    let (mut pairs, mut fours) = ([[0; BATCH]; 4], [[0; BATCH]; 2]);
    for (pairs, number) in pairs.iter_mut().zip([0, 2, 4, 6]) {
        join_bytes(&planes[number], &planes[number + 1], pairs);
    }
    let [first, second, third, fourth] = &pairs;
    let [low, high] = &mut fours;
    join_pairs(first, second, low);
    join_pairs(third, fourth, high);
    for row in 0..BATCH {
        words[row] = u64::from(low[row]) | u64::from(high[row]) << 32;
    }
}

#[inline]
fn join_bytes(low: &[u8; BATCH], high: &[u8; BATCH], pairs: &mut [u16; BATCH]) {
    for row in 0..BATCH {
        pairs[row] = u16::from(low[row]) | u16::from(high[row]) << 8;
    }
}

#[inline]
fn join_pairs(low: &[u16; BATCH], high: &[u16; BATCH], fours: &mut [u32; BATCH]) {
    for row in 0..BATCH {
        fours[row] = u32::from(low[row]) | u32::from(high[row]) << 16;
    }
}

/// A plane of integers: byte `number` of each, the lowest being 0.
pub(crate) fn plane(values: &[u64], number: usize) -> impl Iterator<Item = u8> {
    values.iter().map(move |value| value.to_le_bytes()[number])
}

/// Appends the `count` integers of which these are the low planes.
pub(crate) fn append_integers(planes: &[u8], count: usize, values: &mut Vec<u64>) {
    let mut planes_of = planes.chunks_exact(count.max(1));
    // Most columns need one or two planes. These need not be zeroed first.
    match (planes_of.next(), planes_of.next(), planes_of.next()) {
        (Some(low), None, _) => values.extend(low.iter().map(|byte| u64::from(*byte))),
        (Some(low), Some(high), None) => {
            let pairs = low.iter().zip(high);
            values.extend(pairs.map(|(low, high)| u64::from(*low) | u64::from(*high) << 8));
        }
        (first, ..) => {
            let start = values.len();
            values.resize(start + count, 0);
            if first.is_some() {
                join_integers(planes, &mut values[start..]);
            }
        }
    }
}

/// Writes the integers of which these are the low planes over `values`, whose length is their number.
fn join_integers(planes: &[u8], values: &mut [u64]) {
    let count = values.len();
    for start in (0..count).step_by(BATCH) {
        let words = join_low_planes(planes, count, start);
        let found = (count - start).min(BATCH);
        values[start..start + found].copy_from_slice(&words[..found]);
    }
}

/// Joins up to eight planes of `count` bytes each, at a batch of their rows.
#[inline]
fn join_low_planes(planes: &[u8], count: usize, start: usize) -> [u64; BATCH] {
    let mut words = [0u64; BATCH];
    let found = (count - start).min(BATCH);
    for (number, plane) in planes.chunks_exact(count).enumerate() {
        let shift = number * 8;
        let plane = &plane[start..start + found];
        match plane.first_chunk::<BATCH>() {
            Some(full) => {
                for (word, byte) in words.iter_mut().zip(full) {
                    *word |= u64::from(*byte) << shift;
                }
            }
            None => {
                for (word, byte) in words.iter_mut().zip(plane) {
                    *word |= u64::from(*byte) << shift;
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn planes_join_to_the_same_rows() {
        let rows = b"abc1abd2abe3";
        let mut planes = Vec::new();
        split(rows, 4, &mut planes);
        assert_eq!(planes, b"aaabbbcde123");
        let mut joined = vec![9];
        join(&planes, 4, &mut joined);
        assert_eq!(&joined[1..], rows);
    }

    proptest! {
        #[test]
        fn planes_of_any_width_join_to_the_same_rows(
            width in 1usize..40, count in 0usize..200, gap in 0usize..5, seed: u64,
        ) {
            let mut bits = seed;
            let rows: Vec<u8> = std::iter::repeat_with(|| {
                bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (bits >> 56) as u8
            })
            .take(width * count)
            .collect();
            let mut planes = Vec::new();
            split(&rows, width, &mut planes);
            let mut joined = Vec::new();
            join(&planes, width, &mut joined);
            prop_assert_eq!(&joined, &rows);
            // With gaps between the rows.
            let mut apart = vec![0; (width + gap) * count];
            join_at(&planes, width, &mut apart, |row| row * (width + gap));
            for (row, bytes) in rows.chunks(width).enumerate() {
                prop_assert_eq!(&apart[row * (width + gap)..][..width], bytes);
            }
        }

        #[test]
        fn integers_are_joined(values: Vec<u64>, planes in 0usize..=8) {
            let mask = if planes == 8 { u64::MAX } else { (1 << (planes * 8)) - 1 };
            let values: Vec<u64> = values.iter().map(|value| value & mask).collect();
            let mut split_planes = Vec::new();
            for number in 0..planes {
                split_planes.extend(plane(&values, number));
            }
            let mut joined = vec![9];
            append_integers(&split_planes, values.len(), &mut joined);
            prop_assert_eq!(&joined[1..], &values);
        }
    }
}

//! Estimates of how small integers become when their byte planes are compressed: the entropy of the
//! bytes of each plane. An estimate of one encoding of a column is only compared with that of another.
//!
//! Byte values index tables of 256 elements.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation
)]

use std::sync::LazyLock;

/// Values of which the entropy is computed. It is that of parts of a column, so that the cost of an
/// encoding does not depend on the size of a page.
const SAMPLE: usize = 512;

/// Contiguous values in one part of the sample. Differences of neighbours need them.
const PART: usize = 128;

/// Bits that a plane costs at least, for each value. A compressor needs them for its sequences.
const PLANE_BITS: f64 = 0.02;

/// The parts of a column that are sampled.
pub(crate) fn sample(values: &[u64]) -> impl Iterator<Item = &[u64]> {
    let parts = if values.len() <= SAMPLE {
        1
    } else {
        SAMPLE / PART
    };
    let distance = values.len() / parts;
    let part = if parts == 1 { values.len() } else { PART };
    (0..parts).map(move |number| &values[number * distance..][..part])
}

/// `n * log2(n)` for each number of values in a sample.
static WEIGHTS: LazyLock<[f64; SAMPLE + 1]> =
    LazyLock::new(|| std::array::from_fn(|n| n as f64 * (n.max(1) as f64).log2()));

/// Bits for each value of the sample, if the low `planes` planes of these integers are compressed. Only the first 512 values
/// count.
pub(crate) fn of_values(values: impl Iterator<Item = u64>, planes: usize) -> f64 {
    let mut buffer = [0; SAMPLE];
    let mut count = 0;
    for (place, value) in buffer.iter_mut().zip(values) {
        *place = value;
        count += 1;
    }
    let (values, weights) = (&buffer[..count], &*WEIGHTS);
    if count == 0 {
        return 0.0;
    }
    let mut bits = 0.0;
    for plane in 0..planes {
        let byte = |value: u64| usize::from((value >> (8 * plane)) as u8);
        // Two tables, because the next value often has the same byte.
        let mut counts = [[0u16; 256]; 2];
        let mut pairs = values.chunks_exact(2);
        for pair in &mut pairs {
            counts[0][byte(pair[0])] += 1;
            counts[1][byte(pair[1])] += 1;
        }
        if let [last] = pairs.remainder() {
            counts[0][byte(*last)] += 1;
        }
        let [even, odd] = counts;
        let sums = even.iter().zip(odd).map(|(even, odd)| even + odd);
        let of_bytes: f64 = sums.map(|count| weights[usize::from(count)]).sum();
        bits += (weights[count] - of_bytes) / count as f64 + PLANE_BITS;
    }
    bits
}

/// Bits for each value if its own bytes are stored as planes.
pub(crate) fn of_planes(values: &[u64], width: usize) -> f64 {
    of_values(sample(values).flatten().copied(), width)
}

/// Number of planes that a value needs.
pub(crate) fn planes_of(max: u64) -> usize {
    8 - max.leading_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_the_entropy() {
        let two_values = (0..500u64).map(|n| n % 2);
        assert!((of_values(two_values, 1) - 1.0 - PLANE_BITS).abs() < 1e-9);
        let all_bytes = (0..512u64).map(|n| n % 256 * 257);
        assert!((of_values(all_bytes, 2) - 16.0 - 2.0 * PLANE_BITS).abs() < 1e-9);
        assert!(of_values(std::iter::repeat_n(7, 100), 8) < 0.2);
        assert_eq!(of_values(std::iter::empty(), 8), 0.0);
        assert_eq!([0, 1, 255, 256, u64::MAX].map(planes_of), [0, 1, 1, 2, 8]);
    }

    #[test]
    fn the_sample_is_whole_or_in_parts() {
        let values: Vec<u64> = (0..10_000).collect();
        assert_eq!(sample(&values[..300]).map(<[u64]>::len).sum::<usize>(), 300);
        let parts: Vec<&[u64]> = sample(&values).collect();
        assert_eq!(parts.len(), 4);
        assert!(
            parts
                .iter()
                .all(|part| part.len() == PART && part.is_sorted())
        );
    }
}

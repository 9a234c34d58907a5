//! Encodings of integers.
//!
//! Each column has a base, its minimum, and a divisor, the common divisor of the distances from
//! the base. The *steps* of a value from the base, its distance in divisors, are encoded:
//!
//! - direct: the steps.
//! - delta: the first number of steps, the minimum difference of neighbours, and the distances of all
//!   differences from this minimum.
//! - delta of delta: the same for the differences of the differences.
//! - dictionary: the distinct numbers of steps, ascending, and for each value the position of its steps.
//!
//! The integers of an encoding are stored as byte planes, the lowest first, as many as the largest needs.
//! Each plane may be packed.

use crate::cost;
use crate::dictionary::{Dictionary, ENTRIES_MAX};
use crate::packed::{self, put_packed};
use crate::planes;
use teak_base::bytes::{Malformed, Put, Take};

/// The numbers are part of the format.
mod transform {
    pub(super) const DIRECT: u8 = 0;
    pub(super) const DELTA: u8 = 1;
    pub(super) const DELTA_OF_DELTA: u8 = 2;
    pub(super) const DICTIONARY: u8 = 3;
}

/// Part of its bits by which an encoding must be better than a simpler one.
const GAIN_MIN: f64 = 0.02;

/// If differences need more bits than this, as a part of those of the values, their own differences are not tried.
const NOISE: f64 = 1.1;

/// Bits that a value of a dictionary takes for each of its planes.
const DICTIONARY_PLANE_BITS: f64 = 6.0;

/// Buffers of encoding and decoding.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    steps: Vec<u64>,
    deltas: Vec<u64>,
    second_deltas: Vec<u64>,
}

/// Distances of differences from their minimum.
#[derive(Default)]
struct Differences {
    min: i64,
    planes: usize,
    bits: f64,
}

/// An integer with its sign in the lowest bit.
fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Writes the differences of neighbours.
fn differences(values: &[u64], out: &mut Vec<u64>) {
    out.clear();
    let pairs = values.iter().zip(values.iter().skip(1));
    out.extend(pairs.map(|(one, next)| next.wrapping_sub(*one)));
}

/// Subtracts their minimum from differences.
fn subtract_min(deltas: &mut [u64]) -> Differences {
    let min = deltas.iter().map(|delta| delta.cast_signed()).min();
    let min = min.unwrap_or(0);
    let mut max = 0;
    for delta in deltas.iter_mut() {
        *delta = delta.wrapping_sub(min.cast_unsigned());
        max = max.max(*delta);
    }
    let planes = cost::planes_of(max);
    Differences {
        min,
        planes,
        bits: cost::of_planes(deltas, planes),
    }
}

fn is_better(bits: f64, than: f64) -> bool {
    bits < than * (1.0 - GAIN_MIN)
}

impl Buffers {
    /// Appends the encoded integers, at least two. `packs`: planes are packed. Returns the estimated bits for each, after
    /// compression.
    pub(crate) fn encode(&mut self, values: &[u64], packs: bool, out: &mut Vec<u8>) -> f64 {
        let base = values.iter().copied().min().unwrap_or(0);
        let (divisor, max) = self.set_steps(values, base);
        let steps_planes = cost::planes_of(max);
        let direct_bits = cost::of_planes(&self.steps, steps_planes);
        let (mut best, mut bits) = (transform::DIRECT, direct_bits);
        differences(&self.steps, &mut self.deltas);
        differences(&self.deltas, &mut self.second_deltas);
        let first_delta = self.deltas.first().copied().unwrap_or(0);
        let delta = subtract_min(&mut self.deltas);
        if is_better(delta.bits, bits) {
            (best, bits) = (transform::DELTA, delta.bits);
        }
        let mut second = Differences::default();
        // Differences of noise are more noise.
        if delta.bits < direct_bits * NOISE {
            second = subtract_min(&mut self.second_deltas);
            if is_better(second.bits, bits) {
                (best, bits) = (transform::DELTA_OF_DELTA, second.bits);
            }
        }
        let dictionary = match steps_planes {
            0 | 1 => None,
            _ => Dictionary::of(&self.steps),
        };
        if let Some(dictionary) = &dictionary {
            let found = self.dictionary_bits(dictionary, steps_planes);
            if is_better(found, bits) {
                (best, bits) = (transform::DICTIONARY, found);
            }
        }
        out.put_u8(best);
        out.put_varint(base);
        out.put_varint(divisor);
        match (best, dictionary) {
            (transform::DELTA, _) => {
                out.put_varint(self.steps.first().copied().unwrap_or(0));
                out.put_varint(zigzag(delta.min));
                put_planes(&self.deltas, delta.planes, packs, out);
            }
            (transform::DELTA_OF_DELTA, _) => {
                out.put_varint(self.steps.first().copied().unwrap_or(0));
                out.put_varint(zigzag(first_delta.cast_signed()));
                out.put_varint(zigzag(second.min));
                put_planes(&self.second_deltas, second.planes, packs, out);
            }
            (transform::DICTIONARY, Some(dictionary)) => {
                put_dictionary(dictionary.values(), out);
                for steps in &mut self.steps {
                    *steps = dictionary.number_of(*steps);
                }
                put_planes(&self.steps, 1, packs, out);
            }
            _ => put_planes(&self.steps, steps_planes, packs, out),
        }
        bits
    }

    /// Sets the steps of the values. Returns the divisor and the maximum number of steps.
    fn set_steps(&mut self, values: &[u64], base: u64) -> (u64, u64) {
        let mut divisor = 0;
        for value in values {
            divisor = gcd(value - base, divisor);
            if divisor == 1 {
                break;
            }
        }
        let divisor = divisor.max(1);
        self.steps.clear();
        let distances = values.iter().map(|value| value - base);
        match divisor {
            1 => self.steps.extend(distances),
            _ => self
                .steps
                .extend(distances.map(|distance| distance / divisor)),
        }
        let max = self.steps.iter().copied().max().unwrap_or(0);
        (divisor, max)
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn dictionary_bits(&self, dictionary: &Dictionary, planes: usize) -> f64 {
        let numbers = cost::sample(&self.steps).flatten();
        let bits = cost::of_values(numbers.map(|steps| dictionary.number_of(*steps)), 1);
        let stored = dictionary.values().len() as f64 * planes as f64 * DICTIONARY_PLANE_BITS;
        bits + stored / self.steps.len() as f64
    }

    /// Decodes `count` integers, over `values`.
    pub(crate) fn decode(
        &mut self,
        count: usize,
        take: &mut Take<'_>,
        values: &mut Vec<u64>,
    ) -> Result<(), Malformed> {
        let head = Head::take(take, &mut self.steps)?;
        self.decode_after(&head, count, take, values)
    }

    fn decode_after(
        &mut self,
        head: &Head,
        count: usize,
        take: &mut Take<'_>,
        values: &mut Vec<u64>,
    ) -> Result<(), Malformed> {
        values.clear();
        take_planes(head.stored(count)?, take, values)?;
        match head.transform {
            Transform::Direct => head.scale(values),
            Transform::Delta { first, min } => head.sum_and_scale(first, min, values),
            Transform::DeltaOfDelta {
                first,
                first_delta,
                min,
            } => {
                sum(first_delta.cast_unsigned(), min, values);
                head.sum_and_scale(first, 0, values);
            }
            Transform::Dictionary { entries } => {
                // Numbers have one byte, and the table has an entry for each.
                self.steps.resize(ENTRIES_MAX, 0);
                head.scale(&mut self.steps);
                let mut max = 0;
                for value in values.iter_mut() {
                    let number = usize::from(value.to_le_bytes()[0]);
                    max = max.max(number);
                    *value = self.steps.get(number).copied().unwrap_or(0);
                }
                if max >= entries {
                    return Err(Malformed);
                }
            }
        }
        Ok(())
    }

    /// Decodes integer `number` of `count`. Uses the buffer `values`.
    pub(crate) fn decode_one(
        &mut self,
        count: usize,
        number: usize,
        take: &mut Take<'_>,
        values: &mut Vec<u64>,
    ) -> Result<u64, Malformed> {
        let head = Head::take(take, &mut self.steps)?;
        let entries = match head.transform {
            Transform::Direct => None,
            Transform::Dictionary { entries } => Some(entries),
            Transform::Delta { .. } | Transform::DeltaOfDelta { .. } => {
                self.decode_after(&head, count, take, values)?;
                return values.get(number).copied().ok_or(Malformed);
            }
        };
        let mut value = 0;
        for plane in 0..take_plane_count(take)? {
            value |= u64::from(packed::take_one(count, number, take)?) << (plane * 8);
        }
        if let Some(entries) = entries {
            let place = usize::try_from(value).map_err(|_| Malformed)?;
            let steps = self.steps.get(place).filter(|_| place < entries);
            value = *steps.ok_or(Malformed)?;
        }
        Ok(value.wrapping_mul(head.divisor).wrapping_add(head.base))
    }
}

/// What an encoding has before its planes.
struct Head {
    base: u64,
    divisor: u64,
    transform: Transform,
}

enum Transform {
    Direct,
    Delta {
        first: u64,
        min: i64,
    },
    DeltaOfDelta {
        first: u64,
        first_delta: i64,
        min: i64,
    },
    Dictionary {
        entries: usize,
    },
}

impl Head {
    /// Writes the values of a dictionary to `dictionary`.
    fn take(take: &mut Take<'_>, dictionary: &mut Vec<u64>) -> Result<Self, Malformed> {
        let transform = take.u8()?;
        let (base, divisor) = (take.varint()?, take.varint()?);
        let transform = match transform {
            transform::DIRECT => Transform::Direct,
            transform::DELTA => Transform::Delta {
                first: take.varint()?,
                min: unzigzag(take.varint()?),
            },
            transform::DELTA_OF_DELTA => Transform::DeltaOfDelta {
                first: take.varint()?,
                first_delta: unzigzag(take.varint()?),
                min: unzigzag(take.varint()?),
            },
            transform::DICTIONARY => Transform::Dictionary {
                entries: take_dictionary(take, dictionary)?,
            },
            _ => return Err(Malformed),
        };
        Ok(Self {
            base,
            divisor,
            transform,
        })
    }

    /// Replaces steps by values.
    fn scale(&self, values: &mut [u64]) {
        if (self.base, self.divisor) != (0, 1) {
            for value in values.iter_mut() {
                *value = value.wrapping_mul(self.divisor).wrapping_add(self.base);
            }
        }
    }

    /// Replaces differences of steps less `min` by values.
    fn sum_and_scale(&self, first: u64, min: i64, values: &mut Vec<u64>) {
        if self.divisor == 1 {
            return sum(first.wrapping_add(self.base), min, values);
        }
        sum(first, min, values);
        self.scale(values);
    }

    /// The number of integers in the planes of `count` values.
    fn stored(&self, count: usize) -> Result<usize, Malformed> {
        let first = match self.transform {
            Transform::Direct | Transform::Dictionary { .. } => 0,
            Transform::Delta { .. } => 1,
            Transform::DeltaOfDelta { .. } => 2,
        };
        count.checked_sub(first).ok_or(Malformed)
    }
}

pub(crate) const DELTA_NAME: &str = "differences";
pub(crate) const DICTIONARY_NAME: &str = "dictionary";

/// The name of the transform of encoded integers.
pub(crate) fn transform_name(encoded: &[u8]) -> &'static str {
    match encoded.first() {
        Some(&transform::DIRECT) => "integers",
        Some(&transform::DELTA) => DELTA_NAME,
        Some(&transform::DELTA_OF_DELTA) => "differences of differences",
        Some(&transform::DICTIONARY) => DICTIONARY_NAME,
        _ => "unknown",
    }
}

/// Skips integers that [`Buffers::decode`] would read.
pub(crate) fn skip(count: usize, take: &mut Take<'_>) -> Result<(), Malformed> {
    let stored = Head::take(take, &mut Vec::new())?.stored(count)?;
    packed::skip_planes(take_plane_count(take)?, stored, take)
}

/// Replaces differences less `min` by `first` and the sums of the differences after it.
fn sum(first: u64, min: i64, values: &mut Vec<u64>) {
    let mut sum = first;
    for value in values.iter_mut() {
        let next = sum.wrapping_add(*value).wrapping_add(min.cast_unsigned());
        *value = sum;
        sum = next;
    }
    values.push(sum);
}

/// Appends planes, with `packs` each packed apart.
fn put_planes(values: &[u64], count: usize, packs: bool, out: &mut Vec<u8>) {
    out.put_u8(u8::try_from(count).unwrap_or(8));
    let mut plane = Vec::with_capacity(values.len());
    for number in 0..count {
        plane.clear();
        plane.extend(planes::plane(values, number));
        put_packed(&plane, packs, out);
    }
}

/// The number of planes of integers.
fn take_plane_count(take: &mut Take<'_>) -> Result<usize, Malformed> {
    let planes = usize::from(take.u8()?);
    if planes <= 8 {
        Ok(planes)
    } else {
        Err(Malformed)
    }
}

fn take_planes(count: usize, take: &mut Take<'_>, values: &mut Vec<u64>) -> Result<(), Malformed> {
    let planes = take_plane_count(take)?;
    let mut bytes = Vec::with_capacity(planes.checked_mul(count).ok_or(Malformed)?);
    packed::take_planes(planes, count, take, &mut bytes)?;
    values.clear();
    // Each sum of differences adds a value; differences of differences are summed twice.
    values.reserve(count + 2);
    planes::append_integers(&bytes, count, values);
    Ok(())
}

fn put_dictionary(values: &[u64], out: &mut Vec<u8>) {
    out.put_varint(values.len() as u64);
    let mut last = 0;
    for value in values {
        out.put_varint(value - last);
        last = *value;
    }
}

/// Reads the values of a dictionary. Returns their number.
fn take_dictionary(take: &mut Take<'_>, values: &mut Vec<u64>) -> Result<usize, Malformed> {
    let entries = usize::try_from(take.varint()?).map_err(|_| Malformed)?;
    if entries > ENTRIES_MAX {
        return Err(Malformed);
    }
    values.clear();
    let mut last = 0u64;
    for _ in 0..entries {
        last = last.checked_add(take.varint()?).ok_or(Malformed)?;
        values.push(last);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes and decodes; returns the transform and the number of planes bytes.
    fn round_trip(values: &[u64]) -> (u8, usize) {
        let mut buffers = Buffers::default();
        let [packed, plain] = [true, false].map(|packs| {
            let mut out = Vec::new();
            buffers.encode(values, packs, &mut out);
            let mut decoded = vec![7];
            let mut take = Take::new(&out);
            let result = buffers.decode(values.len(), &mut take, &mut decoded);
            assert_eq!(result, Ok(()));
            assert_eq!(decoded, values);
            assert!(take.is_empty());
            out
        });
        assert!(packed.len() <= plain.len());
        (plain[0], plain.len() / values.len())
    }

    #[test]
    fn each_kind_of_series_has_its_encoding() {
        let count = 1000u64;
        // A constant needs no planes.
        assert_eq!(round_trip(&vec![1 << 60; 1000]), (transform::DIRECT, 0));
        // An even step.
        let even: Vec<u64> = (0..count).map(|n| (1 << 50) + n * 60_000).collect();
        assert_eq!(round_trip(&even), (transform::DELTA, 0));
        // Times with jitter in milliseconds, a multiple of 1000.
        let mut jitter = 12345u64;
        let mut times = Vec::new();
        let mut time = 1 << 50;
        for _ in 0..count {
            jitter = jitter.wrapping_mul(6364136223846793005).wrapping_add(1);
            time += 60_000_000 + (jitter >> 58) * 1000;
            times.push(time);
        }
        assert_eq!(round_trip(&times), (transform::DELTA, 1));
        // An accelerating series.
        let squares: Vec<u64> = (0..count).map(|n| n * n * 1000).collect();
        assert_eq!(round_trip(&squares), (transform::DELTA_OF_DELTA, 0));
        // Few values of several bytes.
        let mut random = 1u64;
        let few: Vec<u64> = (0..count)
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                [3, 0x1234_5678_9abc, 0x7777_0000_0011, 0xaaaa_bbbb_cccc][(random >> 62) as usize]
            })
            .collect();
        assert_eq!(round_trip(&few), (transform::DICTIONARY, 1));
        // Random values.
        let random: Vec<u64> = (1..=count)
            .map(|n| {
                let bits = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
            })
            .collect();
        assert_eq!(round_trip(&random), (transform::DIRECT, 8));
    }

    #[test]
    fn zigzag_orders_by_distance_from_zero() {
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
        for value in [0, 5, -5, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    proptest! {
        #[test]
        fn any_integers_round_trip(values in proptest::collection::vec(any::<u64>(), 2..300)) {
            round_trip(&values);
        }

        #[test]
        fn series_round_trip(
            start: u64, step: u64, count in 2u64..600, noise in 0u64..1000, scale in 1u64..50,
        ) {
            let values: Vec<u64> = (0..count)
                .map(|n| start.wrapping_add(n.wrapping_mul(step)).wrapping_add(n * n % (noise + 1) * scale))
                .collect();
            round_trip(&values);
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>, count in 0usize..50) {
            let mut decoded = Vec::new();
            let result = Buffers::default().decode(count, &mut Take::new(&bytes), &mut decoded);
            prop_assert!(result.is_err() || decoded.len() == count);
        }
    }
}

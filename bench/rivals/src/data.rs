//! Keys of 16 bytes and values of 100 bytes, determined by a seed and a number.

pub const KEY_BYTES: usize = 16;
pub const VALUE_BYTES: usize = 100;
/// The first bytes of a value are random, the others compressible.
const RANDOM_BYTES: usize = VALUE_BYTES / 2;

pub type Key = [u8; KEY_BYTES];
pub type Value = [u8; VALUE_BYTES];

/// SplitMix64, a bijection of 64-bit numbers.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The order of the keys of 0, 1, 2, ...
#[derive(Clone, Copy)]
pub enum Order {
    Ascending,
    Random,
}

/// The key of a number. Different numbers have different keys.
pub fn key(order: Order, number: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    let (head, tail) = key.split_at_mut(8);
    let (first, second) = match order {
        Order::Ascending => (number, mix(number)),
        Order::Random => (mix(number), mix(!number)),
    };
    head.copy_from_slice(&first.to_be_bytes());
    tail.copy_from_slice(&second.to_be_bytes());
    key
}

/// The value of the `version`-th write of a number.
pub fn value(number: u64, version: u64) -> Value {
    let mut value = [b'.'; VALUE_BYTES];
    let mut state = mix(number) ^ version;
    for part in value[..RANDOM_BYTES].chunks_mut(8) {
        state = mix(state);
        part.copy_from_slice(&state.to_le_bytes()[..part.len()]);
    }
    value
}

/// A sequence of random numbers.
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        let product = u128::from(mix(mix(self.0))) * u128::from(bound);
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_of_different_numbers_differ_and_ascend_if_asked_for() {
        let ascending: Vec<Key> = (0..1000).map(|n| key(Order::Ascending, n)).collect();
        assert!(ascending.windows(2).all(|pair| pair[0] < pair[1]));
        let random: HashSet<Key> = (0..1000).map(|n| key(Order::Random, n)).collect();
        assert_eq!(random.len(), 1000);
    }

    #[test]
    fn half_of_a_value_is_random() {
        let value = value(7, 0);
        assert!(value[RANDOM_BYTES..].iter().all(|&byte| byte == b'.'));
        assert!(value[..RANDOM_BYTES].iter().collect::<HashSet<_>>().len() > 20);
        assert_ne!(value, super::value(7, 1));
        assert_ne!(value, super::value(8, 0));
    }

    #[test]
    fn random_numbers_are_below_the_bound_and_spread() {
        let mut random = Random(1);
        let drawn: HashSet<u64> = (0..10_000).map(|_| random.below(100)).collect();
        assert_eq!(drawn.len(), 100);
        assert!(drawn.iter().all(|&number| number < 100));
    }
}

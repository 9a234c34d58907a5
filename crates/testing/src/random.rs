//! A small seeded generator (xoshiro256**, seeded by splitmix64; Blackman and
//! Vigna, "Scrambled linear pseudorandom number generators", 2021). For tests
//! and simulations that replay from a seed; not for cryptography.

/// A sequence of numbers that depends only on its seed.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let state = std::array::from_fn(|_| {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Self { state }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound`; zero when `bound` is zero. The relative difference
    /// between the probabilities of two numbers is about `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True with probability 1 / `n`; always true when `n` is zero.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        let mut one = Random::new(7);
        let mut two = Random::new(7);
        let mut other = Random::new(8);
        let first: Vec<u64> = (0..4).map(|_| one.next_u64()).collect();
        assert!(first.iter().all(|&word| word == two.next_u64()));
        assert!(first.iter().any(|&word| word != other.next_u64()));
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[usize::try_from(random.below(10)).unwrap()] = true;
        }
        assert!(seen.iter().all(|&seen| seen));
        assert_eq!(random.below(0), 0);
    }
}

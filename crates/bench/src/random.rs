//! Random numbers from a seed, and words from numbers. `SplitMix64` is small and fast; it is not
//! suitable for cryptography.

/// `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound` (0 if `bound` is 0). The relative difference between the
    /// probabilities of two numbers is at most `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A number below `bound`. Small numbers are more likely: the result is the square of a uniform
    /// number, which resembles a Zipf distribution with exponent 1/2.
    pub fn skewed(&mut self, bound: u64) -> u64 {
        let draw = self.below(1 << 32);
        let square = (draw * draw) >> 32;
        (square * bound) >> 32
    }
}

/// A fixed vocabulary of pronounceable words, independent of seeds.
#[derive(Debug)]
pub struct Vocabulary {
    words: Vec<String>,
}

impl Vocabulary {
    /// `count` different words of two or three syllables.
    #[must_use]
    pub fn new(count: usize) -> Self {
        const ONSETS: [&str; 16] = [
            "b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl",
        ];
        const NUCLEI: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "ai"];
        const CODAS: [&str; 8] = ["", "n", "r", "s", "t", "l", "nd", "ck"];
        let mut random = Random::new(0x07ea_c0de);
        let mut seen = std::collections::BTreeSet::new();
        let mut words = Vec::with_capacity(count);
        let pick = |parts: &[&'static str], random: &mut Random| -> &'static str {
            let index = random.below(parts.len() as u64);
            usize::try_from(index)
                .ok()
                .and_then(|index| parts.get(index).copied())
                .unwrap_or("")
        };
        while words.len() < count {
            let mut word = String::new();
            for _ in 0..random.between(2, 3) {
                word.push_str(pick(&ONSETS, &mut random));
                word.push_str(pick(&NUCLEI, &mut random));
            }
            word.push_str(pick(&CODAS, &mut random));
            if seen.insert(word.clone()) {
                words.push(word);
            }
        }
        Self { words }
    }

    /// A random word. The first words of the vocabulary are the most frequent.
    pub fn word(&self, random: &mut Random) -> &str {
        let index = random.skewed(self.words.len() as u64);
        usize::try_from(index)
            .ok()
            .and_then(|index| self.words.get(index))
            .map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            assert!(random.below(10) < 10);
            assert!((5..=9).contains(&random.between(5, 9)));
            assert!(random.skewed(10) < 10);
        }
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn skewed_draws_favour_small_numbers() {
        let mut random = Random::new(2);
        let small = (0..10_000).filter(|_| random.skewed(100) < 25).count();
        assert!((4_500..5_500).contains(&small), "{small}");
    }

    #[test]
    fn a_vocabulary_has_no_word_twice() {
        let vocabulary = Vocabulary::new(1000);
        let mut words = vocabulary.words.clone();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), 1000);
    }
}

//! Ribbon filters (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor"): a
//! system of linear equations over bits, one equation for each key, with `W` consecutive variables.
//! The solution has `R` bits for each variable, in blocks of 64 variables.

/// A filter: a seed byte, and the solution.
pub struct Ribbon<const R: usize> {
    seed: u64,
    starts: u64,
    /// For each block of 64 variables, `R` words.
    words: Vec<u64>,
}

const WIDTH: u64 = 64;
const RESULT_SHIFT: u64 = 40;

/// The first variable, the coefficients and the result of a key.
#[inline]
fn equation<const R: usize>(hash: u64, seed: u64, starts: u64) -> (u64, u64, u64) {
    let mixed =
        (hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let start = ((mixed >> 32) * starts) >> 32;
    let coefficients = (mixed ^ (mixed >> 29)).wrapping_mul(0xc4ce_b9fe_1a85_ec53) | 1;
    let result = (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> RESULT_SHIFT) & ((1 << R) - 1);
    (start, coefficients, result)
}

impl<const R: usize> Ribbon<R> {
    /// Builds a filter with `percent` variables for 100 keys. Adds 2 % after every fourth failure.
    pub fn build(hashes: &[u64], percent: u64) -> Self {
        for seed in 0.. {
            let percent = percent + 2 * (seed / 4);
            let variables = (hashes.len() as u64 * percent / 100 + 1)
                .next_multiple_of(64)
                .max(128);
            if let Some(filter) = Self::attempt(hashes, seed, variables) {
                return filter;
            }
        }
        unreachable!("a larger system has a solution");
    }

    fn attempt(hashes: &[u64], seed: u64, variables: u64) -> Option<Self> {
        let starts = variables - WIDTH + 1;
        let mut rows = vec![(0u64, 0u64); variables as usize];
        for hash in hashes {
            let (start, mut coefficients, mut result) = equation::<R>(*hash, seed, starts);
            let mut at = start as usize;
            loop {
                let row = &mut rows[at];
                if row.0 == 0 {
                    *row = (coefficients, result);
                    break;
                }
                coefficients ^= row.0;
                result ^= row.1;
                if coefficients == 0 {
                    if result != 0 {
                        return None;
                    }
                    break;
                }
                let zeros = coefficients.trailing_zeros();
                at += zeros as usize;
                coefficients >>= zeros;
            }
        }
        Some(Self {
            seed,
            starts,
            words: solve::<R>(&rows),
        })
    }

    pub fn bytes(&self) -> usize {
        1 + self.words.len() * 8
    }

    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let (start, coefficients, result) = equation::<R>(hash, self.seed, self.starts);
        let (block, shift) = ((start / 64) as usize, (start % 64) as u32);
        let words = &self.words[block * R..];
        let low = coefficients << shift;
        let mut found = 0;
        let (first, second) = words.split_at(R);
        if shift == 0 {
            for (column, word) in first.iter().enumerate() {
                found |= u64::from((word & low).count_ones() & 1) << column;
            }
        } else {
            let high = coefficients >> (64 - shift);
            for (column, (first, second)) in first.iter().zip(second).enumerate() {
                let bits = (first & low) ^ (second & high);
                found |= u64::from(bits.count_ones() & 1) << column;
            }
        }
        found == result
    }
}

/// Back substitution.
fn solve<const R: usize>(rows: &[(u64, u64)]) -> Vec<u64> {
    let mut words = vec![0; rows.len() / 64 * R];
    let mut state = [0u64; R];
    for (at, (coefficients, result)) in rows.iter().enumerate().rev() {
        let block = at / 64 * R;
        for (column, state) in state.iter_mut().enumerate() {
            let shifted = *state << 1;
            let parity = u64::from((shifted & coefficients).count_ones() & 1);
            *state = shifted | (parity ^ (result >> column & 1));
            if at % 64 == 0 {
                words[block + column] = *state;
            }
        }
    }
    words
}

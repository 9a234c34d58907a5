//! Runs targets on mutated seeds. Runs with the same `FUZZ_SEED` use the same
//! cases, so that a failure can be reproduced.

use super::target::Target;

/// A small pseudo-random generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with its own sequence for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; zero when `limit` is zero.
    pub fn below(&mut self, limit: usize) -> usize {
        let number = self.number() % (limit.max(1) as u64);
        usize::try_from(number).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }
}

/// Runs each target on its seeds, and on `cases` mutated inputs. A number in the environment
/// variable `FUZZ_SEED` (default 1) selects the mutations.
///
/// # Panics
/// When a target panics; the input is printed.
pub fn smoke(targets: &[Target], cases: u64) {
    let seed = std::env::var("FUZZ_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for target in targets {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has seeds", target.name);
        for input in &seeds {
            run(target, input);
        }
        let mut random = Random::new(seed);
        for _ in 0..cases {
            let input = mutated(&seeds, &mut random);
            run(target, &input);
        }
    }
}

/// Prints the input when the target panics.
struct PrintOnPanic<'a>(&'a Target, &'a [u8]);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.1.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("target {} failed on the input {hex}", self.0.name);
        }
    }
}

fn run(target: &Target, input: &[u8]) {
    let _print = PrintOnPanic(target, input);
    (target.run)(input);
}

/// Numbers at which errors are likely.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 56,
    u64::MAX / 2,
    u64::MAX,
];

/// One of the seeds with a few changes.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let seed = |random: &mut Random| seeds.get(random.below(seeds.len()));
    let mut bytes = seed(random).cloned().unwrap_or_default();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let len = (1 + random.below(16)).min(bytes.len() - at);
        match random.below(9) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.byte();
                }
            }
            2 | 3 => {
                let edge = EDGES.get(random.below(EDGES.len())).copied();
                let number = edge.unwrap_or(0).to_le_bytes();
                let width = 1 << random.below(4);
                for (byte, new) in bytes.iter_mut().skip(at).zip(number).take(width) {
                    *byte = new;
                }
            }
            4 => bytes.insert(at, random.byte()),
            5 => drop(bytes.drain(at..at + len)),
            6 => {
                let copy: Vec<u8> = bytes.iter().skip(at).take(len).copied().collect();
                let place = random.below(bytes.len() + 1);
                bytes.splice(place..place, copy);
            }
            7 => bytes.truncate(at),
            _ => {
                if let Some(other) = seed(random) {
                    let from = random.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend(other.iter().skip(from));
                }
            }
        }
    }
    bytes
}

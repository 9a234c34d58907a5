//! Functions that several tests of this crate use.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Uses the same cases in every run. Set `PROPTEST_RNG_SEED` to get other
/// cases.
pub(crate) fn proptest_config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = match std::env::var_os("PROPTEST_RNG_SEED") {
        Some(_) => default.rng_seed,
        None => RngSeed::Fixed(1),
    };
    ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        ..default
    }
}

/// The bytes of the hexadecimal example under a heading of
/// `docs/design/format.md`.
pub(crate) fn documented_bytes(heading: &str) -> Vec<u8> {
    let page = include_str!("../../../docs/design/format.md");
    let section = page.split(heading).nth(1).expect("the heading exists");
    let example = section.split("```hex\n").nth(1).expect("it has an example");
    let example = example.split("```").next().expect("which ends");
    example
        .lines()
        .flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
        .collect()
}

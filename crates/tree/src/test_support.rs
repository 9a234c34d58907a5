//! What several tests of this crate share.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The same cases in every run; set `PROPTEST_RNG_SEED` for others.
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

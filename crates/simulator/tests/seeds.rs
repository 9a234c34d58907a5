//! Runs of a few hundred seeds. `TEAK_SIMULATOR_SEEDS=first,count` chooses
//! others.
#![allow(clippy::unwrap_used, clippy::panic)]

use teak_simulator::{Report, simulate};

const SEEDS: u64 = 300;

#[test]
fn every_seed_keeps_what_was_acknowledged() {
    let (first, count) = match std::env::var("TEAK_SIMULATOR_SEEDS") {
        Ok(text) => {
            let (first, count) = text.split_once(',').unwrap();
            (first.parse().unwrap(), count.parse().unwrap())
        }
        Err(_) => (0, SEEDS),
    };
    let mut total = Report::default();
    for seed in first..first + count {
        match simulate(seed, false) {
            Ok(report) => total.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{total:?}");
    // The runs must cover all of these.
    if count >= SEEDS {
        assert!(total.crashes > SEEDS && total.kills > 0 && total.closings > 0);
        assert!(total.commits > 10 * SEEDS);
        assert!(total.alterations > SEEDS / 4 && total.loads > SEEDS / 2);
        assert!(total.repairs > SEEDS / 30);
        assert!(total.fault_errors > SEEDS / 4 && total.failed_openings > 0);
        assert!(total.events_lost > 0 && total.events_kept > 0);
        assert!(total.hidden_files > SEEDS / 10 && total.revealed_files > SEEDS / 20);
        assert!(total.older_files > SEEDS / 30);
        assert!(total.retained_logs > SEEDS / 30);
        assert!(total.escalations > SEEDS / 20 && total.range_refusals > 0);
    }
}

//! A few runs with several threads; their interleavings differ each time.
#![allow(clippy::unwrap_used, clippy::panic)]

use teak_simulator::simulate_threads;

#[test]
fn threads_on_a_disk_that_fills_up_and_loses_power_keep_their_rows() {
    let mut commits = 0;
    for seed in 0..12 {
        match simulate_threads(seed, 4) {
            Ok(report) => commits += report.commits,
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(commits > 100, "{commits} commits");
}

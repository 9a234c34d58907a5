//! Prints, for the filter of each of 10,000 index blocks with 3,500 keys: bits for each key, false
//! positives in 10,000 absent keys, and the nanoseconds of building (for each key) and of checking
//! a key in one filter or in any of them: `cargo bench -p teak-tree --bench filters`. Decision 29
//! has the results.

// Benches may panic, and run where usize has 64 bits.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

mod bloom;
mod ribbon;

use bloom::{CacheLine, SplitBlock};
use ribbon::Ribbon;
use std::hint::black_box;
use xorf::{BinaryFuse8, Filter};

const FILTERS: usize = 10_000;
const KEYS: usize = 3_500;
const CHECKS: u64 = 2_000_000;

fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn keys(filter: usize) -> impl Iterator<Item = u64> {
    let first = (filter * KEYS) as u64;
    (first..first + KEYS as u64).map(hash)
}

/// Nanoseconds that this thread has run; 0 where the system does not report them.
fn nanoseconds_run() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat");
    let text = statistics.unwrap_or_default();
    let number = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    number.unwrap_or(0.0)
}

/// The fastest of five. Times on the processor, which other processes disturb less.
fn nanoseconds(times: u64, mut run: impl FnMut()) -> f64 {
    let measured = (0..5).map(|_| {
        let start = nanoseconds_run();
        run();
        (nanoseconds_run() - start) / times as f64
    });
    measured.fold(f64::MAX, f64::min)
}

fn measure<F>(
    name: &str,
    build: impl Fn(&[u64]) -> F,
    bytes: impl Fn(&F) -> usize,
    may_contain: impl Fn(&F, u64) -> bool,
) {
    let mut hashes: Vec<u64> = Vec::new();
    let mut filters: Vec<F> = Vec::new();
    for filter in 0..FILTERS {
        hashes.clear();
        hashes.extend(keys(filter));
        filters.push(build(&hashes));
        if filter % 100 == 0 {
            let built = &filters[filter];
            assert!(hashes.iter().all(|hash| may_contain(built, *hash)));
        }
    }
    let building = nanoseconds(3000 * KEYS as u64, || {
        for _ in 0..3000 {
            black_box(build(black_box(&hashes)));
        }
    });
    let one = nanoseconds(CHECKS, || {
        for number in 0..CHECKS {
            black_box(may_contain(&filters[0], hash(1 << 40 | number)));
        }
    });
    let passed = std::cell::Cell::new(0u64);
    let any = nanoseconds(CHECKS, || {
        passed.set(0);
        for number in 0..CHECKS {
            let hash = hash(1 << 41 | number);
            let filter = &filters[(hash.rotate_left(17) % FILTERS as u64) as usize];
            passed.set(passed.get() + u64::from(may_contain(filter, hash)));
        }
    });
    let size: usize = filters.iter().map(bytes).sum();
    println!(
        "{name:<28} {:>5.2} bits/key {:>6.1} false positives in 10,000 {building:>6.1} ns/key built \
         {one:>6.1} ns in one {any:>6.1} ns in any",
        size as f64 * 8.0 / (FILTERS * KEYS) as f64,
        passed.get() as f64 * 1e4 / CHECKS as f64,
    );
}

fn main() {
    let bytes = |filter: &Vec<u8>| filter.len();
    for tenths in [70, 80, 100, 120] {
        let name = format!("split block, {} bits", tenths / 10);
        let build = |hashes: &[u64]| bloom::build::<SplitBlock>(hashes, tenths);
        let may_contain = |filter: &Vec<u8>, hash| bloom::may_contain::<SplitBlock>(filter, hash);
        measure(&name, build, bytes, may_contain);
    }
    cache_line::<4>(70);
    cache_line::<5>(80);
    cache_line::<6>(100);
    cache_line::<7>(120);
    ribbon::<6>(108);
    ribbon::<7>(108);
    ribbon::<8>(108);
    measure(
        "binary fuse, 8 bits",
        |hashes| BinaryFuse8::try_from(hashes).unwrap_or_else(|_| unreachable!("keys differ")),
        |filter| filter.len() + 20,
        |filter, hash| filter.contains(&hash),
    );
}

fn cache_line<const PROBES: usize>(tenths: usize) {
    measure(
        &format!("cache line, {} bits", tenths / 10),
        |hashes| bloom::build::<CacheLine<PROBES>>(hashes, tenths),
        Vec::len,
        |filter, hash| bloom::may_contain::<CacheLine<PROBES>>(filter, hash),
    );
}

fn ribbon<const R: usize>(percent: u64) {
    measure(
        &format!("ribbon, {R} bits"),
        |hashes| Ribbon::<R>::build(hashes, percent),
        Ribbon::bytes,
        Ribbon::may_contain,
    );
}

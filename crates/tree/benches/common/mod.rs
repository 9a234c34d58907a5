//! Measures and prints times on shared machines: the same work is repeated in
//! short parts, and the fastest time of each part counts. Words after `--`
//! select the benches whose names contain one of them.

use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
/// Operations timed together.
const OPERATIONS_PER_SAMPLE: usize = 256;

/// Runs `operation` for each number below `count`, in several rounds. Each
/// round uses a new value from `prepare`. Prints the nanoseconds per operation.
pub fn bench<S>(
    name: &str,
    count: u64,
    mut prepare: impl FnMut() -> S,
    mut operation: impl FnMut(&mut S, u64),
) {
    if !is_wanted(name) {
        return;
    }
    let mut fastest: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let mut state = prepare();
        for (stretch, start) in (0..count).step_by(OPERATIONS_PER_SAMPLE).enumerate() {
            let clock = Instant::now();
            for number in start..(start + OPERATIONS_PER_SAMPLE as u64).min(count) {
                operation(&mut state, number);
            }
            let time = clock.elapsed();
            match fastest.get_mut(stretch) {
                Some(fastest) => *fastest = time.min(*fastest),
                None => fastest.push(time),
            }
        }
    }
    let total: Duration = fastest.into_iter().sum();
    #[allow(clippy::cast_precision_loss)]
    let nanoseconds = total.as_secs_f64() * 1e9 / count.max(1) as f64;
    println!("{name:<44} {count:>8} times {nanoseconds:>8.1} ns");
}

fn is_wanted(name: &str) -> bool {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

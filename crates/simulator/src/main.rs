//! `teak-simulate [--seed S] [--count N] [--threads T] [--verbose]`: runs the simulations of N
//! seeds, starting with S, until one fails. N is 1000 when not given, or 1 if S is given. If T is
//! given, each simulation uses T threads. Reports runs that take minutes.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use teak_simulator::{Report, simulate, simulate_threads};

const USAGE: &str = "usage: teak-simulate [--seed S] [--count N] [--threads T] [--verbose]";

/// Period of the reports of a long run.
const WATCH_PERIOD: Duration = Duration::from_secs(60);

/// Reports the seed of a run that has not ended since the last check.
fn watch(current: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut seen = u64::MAX;
        loop {
            std::thread::sleep(WATCH_PERIOD);
            let seed = current.load(Ordering::Relaxed);
            if seed == seen {
                eprintln!("seed {seed} has been running for {WATCH_PERIOD:?}");
            }
            seen = seed;
        }
    });
}

struct Options {
    seed: u64,
    count: u64,
    /// Zero: runs without threads.
    threads: u8,
    verbose: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 0,
        count: 1000,
        threads: 0,
        verbose: false,
    };
    let mut arguments = std::env::args().skip(1);
    let mut one_seed = false;
    let mut counted = false;
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().unwrap_or_default();
            text.parse()
                .map_err(|_| format!("{argument} needs a number, not {text:?}\n{USAGE}"))
        };
        match argument.as_str() {
            "--seed" | "--first" => {
                options.seed = number()?;
                one_seed = true;
            }
            "--count" | "--seeds" => {
                options.count = number()?;
                counted = true;
            }
            "--threads" => options.threads = u8::try_from(number()?).unwrap_or(u8::MAX),
            "--verbose" => options.verbose = true,
            _ => return Err(USAGE.into()),
        }
    }
    if one_seed && !counted {
        options.count = 1;
    }
    Ok(options)
}

/// How to run the simulation of a seed again.
fn hint(seed: u64, threads: u8) -> String {
    match threads {
        0 => format!("replay it with: teak-simulate --seed {seed} --verbose"),
        // The interleaving of the threads differs each time, and no trace is recorded.
        _ => format!("run it again with: teak-simulate --seed {seed} --threads {threads}"),
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let mut total = Report::default();
    let started = Instant::now();
    let mut reported = Instant::now();
    let current = Arc::new(AtomicU64::new(options.seed));
    watch(Arc::clone(&current));
    for seed in options.seed..options.seed.saturating_add(options.count) {
        current.store(seed, Ordering::Relaxed);
        let outcome = match options.threads {
            0 => simulate(seed, options.verbose),
            threads => simulate_threads(seed, threads),
        };
        match outcome {
            Ok(report) => total.add(&report),
            Err(failure) => {
                eprintln!("{failure}");
                eprintln!("{}", hint(seed, options.threads));
                return ExitCode::FAILURE;
            }
        }
        if reported.elapsed() >= Duration::from_secs(10) {
            reported = Instant::now();
            println!("seed {seed} is done after {:?}", started.elapsed());
        }
    }
    println!(
        "{} seeds in {:?}: {total:?}",
        options.count,
        started.elapsed()
    );
    println!("{} passed, 0 failed", options.count);
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn the_hint_names_the_options_of_the_run() {
        assert!(hint(7, 0).ends_with("teak-simulate --seed 7 --verbose"));
        assert!(hint(7, 3).ends_with("teak-simulate --seed 7 --threads 3"));
    }
}

//! `teak-simulate [--seed S] [--count N] [--threads T] [--verbose]`: tells the
//! stories of N seeds from S on, all of them or until one fails; with T threads
//! in each, if that is asked for. A story that goes on for minutes is named.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use teak_simulator::{Report, simulate, simulate_threads};

const USAGE: &str = "usage: teak-simulate [--seed S] [--count N] [--threads T] [--verbose]";

/// How often a story that does not end is named.
const WATCH_PERIOD: Duration = Duration::from_secs(60);

/// Names the seed whose story has gone on since the last look.
fn watch(current: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut seen = u64::MAX;
        loop {
            std::thread::sleep(WATCH_PERIOD);
            let seed = current.load(Ordering::Relaxed);
            if seed == seen {
                eprintln!("seed {seed} has gone on for {WATCH_PERIOD:?}");
            }
            seen = seed;
        }
    });
}

struct Options {
    seed: u64,
    count: u64,
    /// Zero: the stories without threads.
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
    let mut told = Instant::now();
    let current = Arc::new(AtomicU64::new(options.seed));
    watch(Arc::clone(&current));
    for seed in options.seed..options.seed.saturating_add(options.count) {
        current.store(seed, Ordering::Relaxed);
        let story = match options.threads {
            0 => simulate(seed, options.verbose),
            threads => simulate_threads(seed, threads),
        };
        match story {
            Ok(report) => total.add(&report),
            Err(failure) => {
                eprintln!("{failure}");
                eprintln!("replay it with: teak-simulate --seed {seed} --verbose");
                return ExitCode::FAILURE;
            }
        }
        if told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
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

//! `teak-simulate [--seed S] [--count N] [--verbose]`: tells the stories of N
//! seeds from S on, all of them or until one fails.

use std::process::ExitCode;
use std::time::{Duration, Instant};
use teak_simulator::{Report, simulate};

const USAGE: &str = "usage: teak-simulate [--seed S] [--count N] [--verbose]";

struct Options {
    seed: u64,
    count: u64,
    verbose: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 0,
        count: 1000,
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
    for seed in options.seed..options.seed.saturating_add(options.count) {
        match simulate(seed, options.verbose) {
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

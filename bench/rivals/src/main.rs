//! One engine under all workloads of `make bench-rivals`; prints a line of JSON for each.
//!
//!     teak-rivals ENGINE DIRECTORY ROWS CACHE_BYTES SEED [WORKLOAD...]
//!
//! The Python driver, `bench/rivals/run.py`, starts a process for each engine and describes the workloads.

mod data;
mod measure;
mod stores;
mod workloads;

use std::path::Path;
use stores::Failure;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, directory, rows, cache_bytes, seed, chosen @ ..] = arguments.as_slice() else {
        return Err(
            "usage: teak-rivals ENGINE DIRECTORY ROWS CACHE_BYTES SEED [WORKLOAD...]".into(),
        );
    };
    let directory = Path::new(directory);
    std::fs::create_dir_all(directory)?;
    let bench = workloads::Bench {
        engine,
        directory,
        rows: rows.parse()?,
        cache_bytes: cache_bytes.parse()?,
        seed: seed.parse()?,
        chosen,
    };
    bench.run()
}

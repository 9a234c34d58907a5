//! Prints the write, read and space amplification of tables of several sizes under several
//! workloads, with and without an old snapshot. The tree is the real one, with all sizes divided,
//! over a file in memory. See `docs/design/compaction.md`.
//!
//! Arguments: words that select workloads, and options `--memtable=KIB`, `--times=1,10,100,1000`,
//! `--scale=1024`, `--snapshot=no,yes`.

// A tool for developers; its numbers are small.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

#[allow(dead_code)] // for the tests
#[path = "../tests/common/mod.rs"]
mod common;

use common::amplification::{Setup, Workload, simulate};

const WORKLOADS: [Workload; 6] = [
    Workload::OrderedInserts,
    Workload::RandomInserts,
    Workload::RowUpdates,
    Workload::IndexUpdates,
    Workload::RandomDeletes,
    Workload::Queue,
];

fn option(name: &str, default: &str) -> String {
    let prefix = format!("--{name}=");
    let found = std::env::args().find_map(|word| Some(word.strip_prefix(&prefix)?.to_owned()));
    found.unwrap_or_else(|| default.to_owned())
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(',').map(|word| word.parse().unwrap()).collect()
}

fn main() {
    let words = std::env::args().skip(1);
    let words: Vec<String> = words.filter(|word| !word.starts_with("--")).collect();
    let memtable_bytes = numbers(&option("memtable", "49152"))[0] * 1024;
    let scale = numbers(&option("scale", "1024"))[0];
    println!(
        "workload | memtables | snapshot | write | flush | push | consolidate | leaf | read | space | max | jobs | max | height | leaves"
    );
    for workload in WORKLOADS {
        let name = format!("{workload:?}");
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        for snapshot in option("snapshot", "no,yes").split(',') {
            for memtables in numbers(&option("times", "1,10,100,1000")) {
                let setup = Setup {
                    workload,
                    scale,
                    memtable_bytes,
                    memtables,
                    has_snapshot: snapshot == "yes",
                };
                let result = simulate(&setup);
                println!("{name} | {memtables:4} | {snapshot:3} | {result}");
            }
        }
    }
}

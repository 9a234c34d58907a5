//! Checks that the examples run and print the documented output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of an example, which cargo builds with the tests.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().unwrap().parent().unwrap();
    profile.join("examples").join(name)
}

/// Runs an example in a directory of its own, and returns its output.
fn run(name: &str) -> String {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let output = Command::new(program(name))
        .arg(&directory)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(&directory);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}{errors}");
    text
}

fn expect(name: &str, lines: &[&str]) {
    let text = run(name);
    for line in lines {
        assert!(text.contains(line), "{name}: no {line:?} in\n{text}");
    }
}

#[test]
fn basic() {
    expect(
        "basic",
        &["apple is red", "after opening again, the pear is yellow"],
    );
}

#[test]
fn secondary_index() {
    expect(
        "secondary_index",
        &["refused by by_email", "bob is user 2", "users in London: 3"],
    );
}

#[test]
fn time_series() {
    expect(
        "time_series",
        &[
            "wrote 100000 readings",
            "one minute of one sensor: 60 readings",
        ],
    );
}

#[test]
fn transactions_and_conflicts() {
    expect(
        "transactions_and_conflicts",
        &[
            "the second transaction conflicts",
            "all accounts together still have 500",
        ],
    );
}

#[test]
fn crash_recovery() {
    expect(
        "crash_recovery",
        &[
            "killed the writer after it had reported 200 commits",
            "every reported commit is there",
        ],
    );
}

//! Compiles C programs against the header and the static library, and runs them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library that cargo built for this test.
fn static_library() -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let dependencies = executable.parent().unwrap();
    let mut found: Vec<PathBuf> = [dependencies, dependencies.parent().unwrap()]
        .iter()
        .flat_map(|directory| std::fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap_or("");
            name.starts_with("libteak_c_api") && name.ends_with(".a")
        })
        .collect();
    found.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    found.pop().expect("the static library")
}

fn run(command: &mut Command) {
    let output = command.output().expect("the command starts");
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles and runs one of the programs in this directory. `TEAK_C_RUNNER` is a command to run it
/// with, such as `valgrind --error-exitcode=9`. `TEAK_C_LINK` contains arguments for the linker:
/// the runtime of the sanitizer that the library was built with.
fn compile_and_run(name: &str) {
    let scratch = Scratch::new(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c"));
    let program = scratch.0.join(name);
    let link = std::env::var("TEAK_C_LINK").unwrap_or_default();
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-o"])
        .arg(&program)
        .arg(&source)
        .arg(static_library())
        .args(link.split_whitespace())
        .args(["-lpthread", "-ldl", "-lm"]));
    let runner = std::env::var("TEAK_C_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let mut command = match words.next() {
        Some(first) => Command::new(first),
        None => Command::new(&program),
    };
    if !runner.trim().is_empty() {
        command.args(words).arg(&program);
    }
    run(command.arg(scratch.0.join("data")));
}

#[test]
fn every_call_matches_the_header() {
    compile_and_run("program");
}

#[test]
fn transactions_and_cursors_are_used_again() {
    compile_and_run("again");
}

#[test]
fn edge_cases_match_the_header() {
    compile_and_run("edges");
}

#[test]
fn the_headers_compile_as_strict_c_and_as_cpp() {
    let scratch = Scratch::new("header");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for header in ["teak.h", "teak_server.h"] {
        for (compiler, source, standard) in
            [("cc", "h.c", "-std=c11"), ("c++", "h.cc", "-std=c++17")]
        {
            let source = scratch.0.join(source);
            std::fs::write(&source, format!("#include <{header}>\n")).unwrap();
            run(Command::new(compiler)
                .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
                .arg("-fsyntax-only")
                .arg("-I")
                .arg(&include)
                .arg(&source));
        }
    }
}

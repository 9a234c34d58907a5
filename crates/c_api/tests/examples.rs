//! Installs the library of this test run and builds the C examples against it
//! through pkg-config, with the shared and with the static library.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}{errors}");
    text
}

/// The newest library with this extension that cargo has built.
fn newest(extension: &str) -> PathBuf {
    let dependencies = std::env::current_exe().unwrap();
    let dependencies = dependencies.parent().unwrap();
    let files = std::fs::read_dir(dependencies).unwrap();
    let mut found: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap_or("");
            name.starts_with("libteak_c_api") && name.ends_with(extension)
        })
        .collect();
    found.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    found.pop().expect("a library")
}

/// A directory with the libraries under the names that install.sh expects.
fn built(scratch: &Path) -> PathBuf {
    let built = scratch.join("built");
    std::fs::create_dir_all(&built).unwrap();
    for extension in [".a", ".so"] {
        let copy = built.join(format!("libteak_c_api{extension}"));
        std::fs::copy(newest(extension), copy).unwrap();
    }
    built
}

/// The symbols that a shared library exports.
fn exported(library: &Path) -> Vec<String> {
    let listed = run(Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(library));
    listed.lines().map(str::to_owned).collect()
}

fn expect(program: &Path, data: &Path, lines: &[&str]) {
    let _ = std::fs::remove_dir_all(data);
    let text = run(Command::new(program).arg(data));
    for line in lines {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

#[test]
fn the_examples_run_with_the_installed_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    let (prefix, programs) = (scratch.join("usr"), scratch.join("programs"));
    std::fs::create_dir_all(&programs).unwrap();
    run(Command::new(root.join("install.sh")).args([built(&scratch), prefix.clone()]));

    // Linker arguments for a sanitizer's runtime. If there are any, the library also exports the
    // symbols of that runtime.
    let link = std::env::var("TEAK_C_LINK").unwrap_or_default();
    let symbols = exported(&prefix.join("lib/libteak.so"));
    assert!(symbols.iter().any(|symbol| symbol == "teak_engine_open"));
    if link.is_empty() {
        let foreign = symbols.iter().filter(|name| !name.starts_with("teak_"));
        assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&String>::new());
    }

    let make = Command::new("make")
        .arg("-C")
        .arg(root.join("../../examples/c"))
        .arg(format!("OUT={}", programs.display()))
        .arg(format!("LDLIBS={link}"))
        .arg("CFLAGS=-O1 -g -Wall -Wextra -Wpedantic -Werror")
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&make.stderr);
    assert!(make.status.success(), "{errors}");

    let data = scratch.join("data");
    for suffix in ["", "-static"] {
        let program = |name: &str| programs.join(format!("{name}{suffix}"));
        expect(&program("basic"), &data, &["pear: green", "plum: blue"]);
        expect(
            &program("secondary_index"),
            &data,
            &["3 refused by index 1", "in London: bob@example.org"],
        );
        expect(&program("transactions"), &data, &["a = 400", "b = 400"]);
    }
    std::fs::remove_dir_all(&scratch).unwrap();
}

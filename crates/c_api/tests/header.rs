//! The committed header is what cbindgen makes of the sources.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::path::Path;

#[test]
fn header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order in which a reader wants them.
    for file in [
        "status",
        "arguments",
        "engine",
        "table",
        "transaction",
        "prepared",
        "write",
        "cursor",
        "locks",
        "alter",
    ] {
        builder = builder.with_src(root.join(format!("src/{file}.rs")));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    let generated = String::from_utf8(generated).unwrap();
    let path = root.join("include/teak.h");
    if std::env::var_os("TEAK_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "include/teak.h is not current: run TEAK_WRITE_HEADER=1 cargo test -p teak-c-api"
    );
}

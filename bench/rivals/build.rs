//! Links RocksDB's shared library, which scripts/setup_rivals.sh installs.

fn main() {
    println!("cargo:rustc-link-lib=dylib=rocksdb");
}

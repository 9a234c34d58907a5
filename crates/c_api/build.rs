//! Names the shared library's interface: programs that were linked with
//! libteak.so.0 run with every later version 0.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libteak.so.{major}");
}

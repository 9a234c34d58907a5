//! Sets the shared library's SONAME, libteak.so.0: programs that are linked with it run with every
//! later 0.x version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libteak.so.{major}");
}

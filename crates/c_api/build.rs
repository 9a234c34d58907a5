//! Sets the shared library's SONAME.

/// The version of the binary interface: programs run with every later library of the same version.
const ABI: u32 = 1;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libteak.so.{ABI}");
}

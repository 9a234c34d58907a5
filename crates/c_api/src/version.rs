//! The version of the library.

use std::ffi::c_char;

/// Major version of this header: increased when programs must be changed.
pub const TEAK_VERSION_MAJOR: u32 = 0;

/// Minor version of this header: increased by additions.
pub const TEAK_VERSION_MINOR: u32 = 1;

/// Patch version of this header.
pub const TEAK_VERSION_PATCH: u32 = 0;

const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the library that runs, such as "0.1.0". Static; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn teak_version() -> *const c_char {
    TEXT.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version_of_the_package() {
        let header = format!("{TEAK_VERSION_MAJOR}.{TEAK_VERSION_MINOR}.{TEAK_VERSION_PATCH}");
        assert_eq!(header, env!("CARGO_PKG_VERSION"));
    }
}

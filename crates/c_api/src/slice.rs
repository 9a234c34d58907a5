//! Bytes with a length.

use crate::boundary::Failure;

/// Bytes with a length. As an argument it is borrowed during the call; a returned slice is valid as
/// long as the documentation of the call states.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_slice {
    /// The first byte. NULL with a length of 0 means empty bytes, or no value if the call documents
    /// this.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// Maximum size of an object in memory, in bytes.
const BYTES_MAX: usize = isize::MAX.unsigned_abs();

impl teak_slice {
    pub(crate) const NONE: Self = Self {
        data: std::ptr::null(),
        len: 0,
    };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// NULL for `None`, and not NULL for empty bytes.
    pub(crate) fn of_optional(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::NONE, Self::of)
    }

    /// The bytes. NULL with a length is an error.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        if self.len == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() || self.len > BYTES_MAX {
            return Err(malformed());
        }
        // SAFETY: the contract of `boundary`.
        Ok(unsafe { std::slice::from_raw_parts(self.data, self.len) })
    }

    /// The bytes; `None` for NULL.
    #[inline]
    pub(crate) unsafe fn optional<'a>(self) -> Result<Option<&'a [u8]>, Failure> {
        // SAFETY: the caller guarantees the contract of `boundary`.
        let bytes = unsafe { self.bytes() }?;
        Ok((!self.data.is_null()).then_some(bytes))
    }

    pub(crate) unsafe fn text<'a>(self, name: &str) -> Result<&'a str, Failure> {
        // SAFETY: the caller guarantees the contract of `boundary`.
        let bytes = unsafe { self.bytes() }?;
        std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
    }
}

#[cold]
fn malformed() -> Failure {
    Failure::invalid("a slice has a length but its data is NULL")
}

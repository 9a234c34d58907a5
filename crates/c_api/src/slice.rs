//! Bytes with a length.

use crate::boundary::{Failure, array};

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

    /// `None` becomes a NULL pointer; empty bytes become a pointer that is not NULL.
    pub(crate) fn of_optional(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::NONE, Self::of)
    }

    /// The bytes. NULL with a length above 0 is an error, and so is a length above `isize::MAX`.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        // SAFETY: the caller guarantees the contract of `boundary`.
        unsafe { array(self.data, self.len, "the data of a slice") }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(data: *const u8, len: usize) -> String {
        // SAFETY: each slice is refused before its bytes are read.
        match unsafe { teak_slice { data, len }.bytes() } {
            Ok(_) => panic!("accepted"),
            Err(failure) => failure.text.into_owned(),
        }
    }

    #[test]
    fn a_refused_slice_is_described() {
        let byte = std::ptr::from_ref(&7);
        let too_long = isize::MAX.unsigned_abs() + 1;
        assert_eq!(refusal(std::ptr::null(), 1), "the data of a slice is NULL");
        for len in [too_long, usize::MAX] {
            let text = refusal(byte, len);
            assert_eq!(
                text,
                "the data of a slice has more elements than fit into memory"
            );
        }
    }
}

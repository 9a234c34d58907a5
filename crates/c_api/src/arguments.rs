//! Arguments from C. The caller promises, and nothing here can check, that
//! - a handle came from this library and has not been given up;
//! - a pointer with a length names that many initialised elements that nobody
//!   changes during the call;
//! - an out-parameter may be written and is aligned.
//!
//! NULL is checked wherever it is not allowed.

use crate::status::Failure;

/// Bytes borrowed for the duration of a call, or until the next call on the handle that returned them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_slice {
    /// The first byte; NULL where a call says that it means something.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

impl teak_slice {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes; NULL counts as none.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.data.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: the caller's promise of a pointer with a length.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// The bytes; `None` for NULL.
    pub(crate) unsafe fn optional<'a>(self) -> Option<&'a [u8]> {
        if self.data.is_null() {
            return None;
        }
        // SAFETY: passed on.
        Some(unsafe { self.bytes() })
    }

    pub(crate) unsafe fn text<'a>(self, what: &str) -> Result<&'a str, Failure> {
        // SAFETY: passed on.
        let bytes = unsafe { self.bytes() };
        std::str::from_utf8(bytes).map_err(|_| Failure::invalid(&format!("{what} is not UTF-8")))
    }
}

/// A handle or struct behind a pointer.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise of a handle or struct.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(&format!("{what} is NULL")))
}

/// A handle that the call has for itself.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise of a handle that no other thread uses.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::invalid(&format!("{what} is NULL")))
}

/// An array with a length.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::invalid(&format!("{what} is NULL")));
    }
    // SAFETY: the caller's promise of a pointer with a length.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Refuses a NULL out-parameter before anything is done.
pub(crate) fn out<T>(pointer: *mut T, what: &str) -> Result<*mut T, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(&format!("{what} is NULL")));
    }
    Ok(pointer)
}

/// Writes an out-parameter that was checked.
pub(crate) unsafe fn store<T>(pointer: *mut T, value: T) {
    // SAFETY: the caller's promise of an out-parameter; not NULL.
    unsafe { pointer.write(value) }
}

/// A context pointer that C passes with a callback.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub *mut std::ffi::c_void);

// SAFETY: the library only hands the pointer back to the callback, and the
// header says from which threads it is called.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

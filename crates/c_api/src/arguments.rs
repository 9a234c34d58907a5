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

/// No object in memory has more bytes.
const BYTES_MAX: usize = isize::MAX.unsigned_abs();

impl teak_slice {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes. NULL without a length is empty, with a length a mistake.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        if self.len == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() || self.len > BYTES_MAX {
            return Err(no_slice());
        }
        // SAFETY: the caller's promise of a pointer with a length.
        Ok(unsafe { std::slice::from_raw_parts(self.data, self.len) })
    }

    /// The bytes; `None` for NULL.
    #[inline]
    pub(crate) unsafe fn optional<'a>(self) -> Result<Option<&'a [u8]>, Failure> {
        // SAFETY: passed on.
        let bytes = unsafe { self.bytes() }?;
        Ok((!self.data.is_null()).then_some(bytes))
    }

    pub(crate) unsafe fn text<'a>(self, what: &str) -> Result<&'a str, Failure> {
        // SAFETY: passed on.
        let bytes = unsafe { self.bytes() }?;
        std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
    }
}

#[cold]
fn no_slice() -> Failure {
    Failure::invalid("a slice has a length but no bytes")
}

#[cold]
fn is_null(what: &str) -> Failure {
    Failure::invalid(format!("{what} is NULL"))
}

/// A handle or struct behind a pointer.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise of a handle or struct.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(what))
}

/// A handle that the call has for itself.
#[inline]
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise of a handle that no other thread uses.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(what))
}

/// An array with a length.
#[inline]
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(is_null(what));
    }
    if count > BYTES_MAX / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("{what} cannot be that many")));
    }
    // SAFETY: the caller's promise of a pointer with a length.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Refuses a NULL out-parameter before anything is done.
pub(crate) fn out<T>(pointer: *mut T, what: &str) -> Result<*mut T, Failure> {
    if pointer.is_null() {
        return Err(is_null(what));
    }
    Ok(pointer)
}

/// Writes an out-parameter that was checked.
pub(crate) unsafe fn store<T>(pointer: *mut T, value: T) {
    // SAFETY: the caller's promise of an out-parameter; not NULL.
    unsafe { pointer.write(value) }
}

/// A handle that is freed when the call ends, however it ends. Until then other
/// threads may use its shared part.
pub(crate) struct GivenUp<T>(*mut T);

impl<T> GivenUp<T> {
    /// Takes a handle that is not NULL from the caller.
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }
}

impl<T> Drop for GivenUp<T> {
    fn drop(&mut self) {
        // SAFETY: `new` was promised a handle; every handle is a box.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// A context pointer that C passes with a callback.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub *mut std::ffi::c_void);

// SAFETY: the library only hands the pointer back to the callback, and the
// header says from which threads it is called.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

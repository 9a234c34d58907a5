//! Handles, arrays and out-parameters behind pointers from C. The contract is
//! that of `boundary`.

use crate::boundary::failure::Failure;
use std::ptr::NonNull;

/// Maximum size of an object in memory, in bytes.
const BYTES_MAX: usize = isize::MAX.unsigned_abs();

#[cold]
pub(crate) fn is_null(name: &str) -> Failure {
    Failure::invalid(format!("{name} is NULL"))
}

#[cold]
fn is_too_long(name: &str) -> Failure {
    Failure::invalid(format!("{name} has more elements than fit into memory"))
}

/// A handle or struct behind a pointer.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the contract of `boundary`.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(name))
}

/// A handle that only this call uses.
#[inline]
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the contract of `boundary`.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(name))
}

/// An array with a length. If the length is 0, the pointer may be NULL.
#[inline]
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(is_null(name));
    }
    if count > BYTES_MAX / size_of::<T>().max(1) {
        return Err(is_too_long(name));
    }
    // SAFETY: the contract of `boundary`.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// An out-parameter that is not NULL.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// `None` for NULL.
    #[inline]
    pub(crate) unsafe fn new(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Writes the value.
    #[inline]
    pub(crate) fn set(self, value: T) {
        // SAFETY: the contract of `boundary`, which the caller of `new` passed on.
        unsafe { self.0.write(value) }
    }
}

/// An array of out-parameters, which is not NULL.
#[derive(Clone, Copy)]
pub(crate) struct OutArray<T> {
    first: NonNull<T>,
    len: usize,
}

impl<T> OutArray<T> {
    /// `None` for NULL.
    #[inline]
    pub(crate) unsafe fn new(pointer: *mut T, len: usize) -> Option<Self> {
        NonNull::new(pointer).map(|first| Self { first, len })
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Writes the values to the elements, as far as there are any.
    #[inline]
    pub(crate) fn set(self, values: impl Iterator<Item = T>) {
        for (index, value) in (0..self.len).zip(values) {
            // SAFETY: the contract of `boundary`, which the caller of `new` passed on; the index is
            // less than the length.
            unsafe { self.first.add(index).write(value) }
        }
    }
}

impl<T> Out<*mut T> {
    /// Passes a new handle to the caller.
    pub(crate) fn set_handle(self, handle: T) {
        self.set(Box::into_raw(Box::new(handle)));
    }
}

/// A handle that the caller transferred. It is freed at the end of the call, even after a panic.
/// Until then other threads may use the shared part of the handle.
pub(crate) struct OwnedHandle<T>(*mut T);

impl<T> OwnedHandle<T> {
    /// Takes ownership of a handle, which must not be NULL.
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }
}

impl<T> Drop for OwnedHandle<T> {
    fn drop(&mut self) {
        // SAFETY: `new` received a handle, and every handle is a box.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

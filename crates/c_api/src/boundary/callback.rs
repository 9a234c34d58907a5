//! Context pointers of callbacks.

use std::ffi::c_void;

/// A context pointer that C passes with a callback.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub *mut c_void);

// SAFETY: the library only passes the pointer to the callback, and the header states from which
// threads that is called.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

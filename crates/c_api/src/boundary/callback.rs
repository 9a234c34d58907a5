//! Context pointers of callbacks.

use std::ffi::c_void;

/// A context pointer that C passes with a callback.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub *mut c_void);

// SAFETY: the library only passes the pointer to the callback, and the header states which threads
// call the callback.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A closure that calls the caller's progress callback, unless that is NULL.
pub(crate) fn progress_report(
    progress: Option<unsafe extern "C" fn(context: *mut c_void, done: u64, total: u64)>,
    context: *mut c_void,
) -> impl FnMut(u64, u64) {
    move |done, total| {
        if let Some(progress) = progress {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { progress(context, done, total) };
        }
    }
}

/// A closure that returns the result of the caller's interrupt callback, or false if the callback
/// is NULL.
pub(crate) fn interruption(
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    context: *mut c_void,
) -> impl Fn() -> bool + Send {
    let context = Context(context);
    move || {
        // Captures the whole context, which is `Send`, and not only its pointer.
        let context = &context;
        match interrupt {
            // SAFETY: the caller's callback, with the caller's context.
            Some(interrupt) => unsafe { interrupt(context.0) },
            None => false,
        }
    }
}

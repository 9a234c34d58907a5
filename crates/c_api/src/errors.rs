//! The message of the last error.

use crate::boundary::LAST_ERROR;
use std::cell::RefCell;
use std::ffi::c_char;

/// Copies the message of the calling thread's last error into `buffer`, followed by a NUL if there
/// is space for it. Returns the length of the whole message without the NUL, so that a second call
/// with a larger buffer gets all of it. `buffer` may be NULL. Successful calls do not change the
/// message; TEAK_NOT_FOUND may clear it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_last_error(buffer: *mut c_char, capacity: usize) -> usize {
    let copy = |last: &RefCell<String>| {
        let last = last.borrow();
        let copied = last.len().min(capacity);
        if !buffer.is_null() {
            // SAFETY: the caller's buffer has `capacity` bytes and does not overlap the stored
            // message.
            unsafe { std::ptr::copy_nonoverlapping(last.as_ptr(), buffer.cast(), copied) };
            if copied < capacity {
                // SAFETY: as above; the byte after the text is in the buffer.
                unsafe { buffer.add(copied).write(0) };
            }
        }
        last.len()
    };
    LAST_ERROR.try_with(copy).unwrap_or(0)
}

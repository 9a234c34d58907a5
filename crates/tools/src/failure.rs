//! Errors with a text.

use std::io;

/// An error that only has a text.
pub(crate) fn failure(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

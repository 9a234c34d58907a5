//! Shared code of all exported functions: it converts arguments from C, reports errors and catches
//! panics.
//!
//! Contract. The caller guarantees the following, which the library cannot check:
//! - a handle came from this library and has not been freed;
//! - a pointer with a length refers to that many initialised elements, which
//!   no thread changes during the call;
//! - an out-parameter is writable and aligned;
//! - only one thread at a time uses a transaction, its cursors or an
//!   alteration, except where the header says otherwise.
//!
//! The library checks for NULL wherever it is not allowed.

mod callback;
mod failure;
mod pointers;
mod run;
mod versioned;

pub(crate) use self::callback::{Context, interruption, progress_report};
pub(crate) use self::failure::{Failure, Outcome};
pub(crate) use self::pointers::{Out, OutArray, OwnedHandle, array, exclusive, is_null, reference};
pub(crate) use self::run::{LAST_ERROR, call, value_or};
pub(crate) use self::versioned::{
    Extensible, Versioned, first_version_bytes, read_elements, read_versioned, size_of_field,
    write_versioned,
};

/// Runs the body of an exported function. Checks and converts the listed arguments (each shadows
/// the raw one), then runs the block. The value of the block is the status, or `()` for `TEAK_OK`.
/// With `or VALUE`, the function returns the block's value, or VALUE after an error.
macro_rules! boundary {
    ([$($kind:ident($($argument:tt)+)),* $(,)?] $body:block) => {
        $crate::boundary::call(|| {
            $($crate::boundary::argument!($kind $($argument)+);)*
            $body
        })
    };
    (or $otherwise:expr, [$($kind:ident($($argument:tt)+)),* $(,)?] $body:block) => {
        $crate::boundary::value_or($otherwise, || {
            $($crate::boundary::argument!($kind $($argument)+);)*
            $body
        })
    };
}
pub(crate) use boundary;

/// Checks and converts one argument of [`boundary`]:
/// - `reference`: a handle or a struct, shared;
/// - `exclusive`: a handle that only this call uses;
/// - `open`: a cursor that is not parked;
/// - `owned`: the part of a transaction that only its owning thread uses;
/// - `bytes`, `optional`, `text`: a slice; `optional` is `None` for NULL, `text` is UTF-8;
/// - `out`: an out-parameter; `maybe_out`: one that may be NULL;
/// - `array(pointer, count)`; `out_array(pointer, count)`: an array of out-parameters;
/// - `callback`: a function pointer that is not NULL.
macro_rules! argument {
    (reference $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::reference($name, stringify!($name)) }?;
    };
    (exclusive $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::exclusive($name, stringify!($name)) }?;
    };
    (open $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::exclusive($name, stringify!($name)) }?.open()?;
    };
    (owned $name:ident) => {
        // SAFETY: the contract of `boundary`; the calling thread is the owner.
        let $name = unsafe { $crate::boundary::reference($name, stringify!($name))?.owned() };
    };
    (bytes $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $name.bytes() }?;
    };
    (optional $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $name.optional() }?;
    };
    (text $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $name.text(stringify!($name)) }?;
    };
    (out $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::Out::new($name) }
            .ok_or_else(|| $crate::boundary::is_null(stringify!($name)))?;
    };
    (maybe_out $name:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::Out::new($name) };
    };
    (out_array $name:ident, $count:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::OutArray::new($name, $count) }
            .ok_or_else(|| $crate::boundary::is_null(stringify!($name)))?;
    };
    (array $name:ident, $count:ident) => {
        // SAFETY: the contract of `boundary`.
        let $name = unsafe { $crate::boundary::array($name, $count, stringify!($name)) }?;
    };
    (callback $name:ident) => {
        let $name = $name.ok_or_else(|| $crate::boundary::is_null(stringify!($name)))?;
    };
}
pub(crate) use argument;

/// Frees a handle; does nothing for NULL.
macro_rules! free {
    ($handle:ident) => {
        $crate::boundary::value_or((), || {
            if !$handle.is_null() {
                // SAFETY: a handle that the caller transfers, see `boundary`.
                drop(unsafe { $crate::boundary::OwnedHandle::new($handle) });
            }
            Ok(())
        })
    };
}
pub(crate) use free;

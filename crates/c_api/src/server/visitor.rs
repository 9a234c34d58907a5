//! The callbacks of reports that read the files of tables.

use crate::boundary::{Failure, is_null};
use crate::slice::teak_slice;
use ::teak_engine::{EngineError, TableVisitor};
use std::ffi::c_void;

/// The callbacks of a report that reads the files of tables. Slices are valid during a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_table_visitor {
    /// Passed to the callbacks.
    pub context: *mut c_void,
    /// Whether the table is to be read.
    pub wants: Option<unsafe extern "C" fn(context: *mut c_void, table: teak_slice) -> bool>,
    /// Called for a table that cannot be read, and is left out.
    pub skips:
        Option<unsafe extern "C" fn(context: *mut c_void, table: teak_slice, reason: teak_slice)>,
    /// Called often. If it returns true, the report ends with TEAK_INTERRUPTED.
    pub interrupts: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
}

/// The checked callbacks.
pub(crate) struct Visitor {
    pub(crate) context: *mut c_void,
    wants: unsafe extern "C" fn(context: *mut c_void, table: teak_slice) -> bool,
    skips: unsafe extern "C" fn(context: *mut c_void, table: teak_slice, reason: teak_slice),
    interrupts: unsafe extern "C" fn(context: *mut c_void) -> bool,
}

impl Visitor {
    pub(crate) fn new(visitor: &teak_table_visitor) -> Result<Self, Failure> {
        Ok(Self {
            context: visitor.context,
            wants: visitor.wants.ok_or_else(|| is_null("wants"))?,
            skips: visitor.skips.ok_or_else(|| is_null("skips"))?,
            interrupts: visitor.interrupts.ok_or_else(|| is_null("interrupts"))?,
        })
    }
}

impl TableVisitor for Visitor {
    fn wants(&mut self, table: &str) -> bool {
        // SAFETY: the caller's callback, with the caller's context.
        unsafe { (self.wants)(self.context, teak_slice::of(table.as_bytes())) }
    }

    fn fails(&mut self, table: &str, error: &EngineError) {
        let (table, reason) = (teak_slice::of(table.as_bytes()), error.to_string());
        // SAFETY: as above.
        unsafe { (self.skips)(self.context, table, teak_slice::of(reason.as_bytes())) };
    }

    fn is_interrupted(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.interrupts)(self.context) }
    }
}

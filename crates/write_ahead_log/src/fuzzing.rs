//! Fuzz targets of the log's decoders. Not part of the interface.
//!
//! The targets write correct checksums into their input, so that a fuzzer also reaches the code
//! behind the checks.
// A target panics when a property does not hold.
#![allow(clippy::expect_used, clippy::panic)]

mod records;
mod segments;

use teak_base::fuzzing::Target;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    Target {
        name: "log_records",
        run: records::records,
        seeds: records::record_seeds,
    },
    Target {
        name: "log_headers",
        run: records::headers,
        seeds: records::header_seeds,
    },
    Target {
        name: "log_segments",
        run: segments::segments,
        seeds: segments::segments_seeds,
    },
];

pub use records::{example_records, headers, records};

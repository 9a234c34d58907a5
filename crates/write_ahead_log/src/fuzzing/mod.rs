//! The decoders of log segments, for fuzz targets. Not part of the interface.
//!
//! Where bytes carry a checksum it is made right again, so that a fuzzer
//! reaches the decoder behind it.
// A target panics when something does not hold: that is its answer.
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

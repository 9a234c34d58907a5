//! How to write runs.

use crate::FilterKeys;
use teak_base::Codec;

/// Options for writing runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWriterOptions {
    /// Maximum raw bytes of a page, approximately; a larger entry gets a page of its own.
    pub page_bytes: usize,
    /// Minimum raw bytes of a page. If it is less than the maximum, each run gets pages of a size
    /// that its first entries determine (see `page_size`).
    pub page_bytes_min: usize,
    /// Codec of the pages.
    pub codec: Codec,
    /// Expected bytes of the run in the file, to choose an extent.
    pub expected_bytes: u64,
    /// The parts of the keys that are in filters.
    pub filter_keys: FilterKeys,
    /// Whether the run is an upper run. Then filters have more bits.
    pub is_upper: bool,
    /// Leading bytes of values that contain columns of fixed width.
    pub value_planes: u32,
    /// How to store values apart from their entries; `None`: never.
    pub separate: Option<SeparateOptions>,
}

/// Options for separate values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeparateOptions {
    /// Minimum bytes of a separate value.
    pub bytes_min: usize,
    /// Codec of the values.
    pub codec: Codec,
}

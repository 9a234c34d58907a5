//! How to write runs.

use crate::page::PageBuilder;
use crate::{FilterKeys, PageColumns};
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
    /// The columns that keys, and the leading bytes of values, consist of.
    pub columns: PageColumns,
    /// How to store values apart from their entries; `None`: never.
    pub separate: Option<SeparateOptions>,
}

/// What the first entries of a run determine about its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageForm {
    /// Maximum raw bytes, approximately.
    pub(super) bytes: usize,
    /// Whether the pages store columns.
    pub(super) has_columns: bool,
}

impl RunWriterOptions {
    /// The form of pages that may have columns.
    pub(super) fn form(&self, bytes: usize) -> PageForm {
        PageForm {
            bytes,
            has_columns: true,
        }
    }

    /// The columns of pages of this form.
    pub(super) fn columns_of(&self, form: PageForm) -> PageColumns {
        match form.has_columns {
            true => self.columns.clone(),
            false => PageColumns::default(),
        }
    }

    /// A builder of pages.
    pub(super) fn page_builder(&self, form: PageForm) -> PageBuilder {
        let mut builder = PageBuilder::with_columns(self.value_planes, self.columns_of(form));
        // The other codecs are chosen for speed, or adapt to the frequencies of each plane.
        builder.set_packing(self.codec == Codec::Zstd);
        builder
    }
}

/// Options for separate values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeparateOptions {
    /// Minimum bytes of a separate value.
    pub bytes_min: usize,
    /// Codec of the values.
    pub codec: Codec,
}

//! Pages: the entries of a run as they are read, checked and cached.

/// Builds the raw bytes of pages of layout 1.
#[derive(Debug, Default)]
pub struct PageBuilder {}

/// A decoded, validated page.
#[derive(Debug)]
pub struct Page {}

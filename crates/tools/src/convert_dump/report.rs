//! What to convert, and what was converted.

/// What a conversion has found and changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) tables: u64,
    pub(super) clustering_keys: u64,
    pub(super) row_formats: u64,
    /// Definitions that Teak refuses: the table, the definition, and whether it was left out.
    pub(super) refused: Vec<(String, String, bool)>,
}

impl Report {
    pub(super) fn print(&self) {
        eprintln!(
            "{} tables converted, {} clustering keys, {} row formats",
            self.tables, self.clustering_keys, self.row_formats
        );
        for (table, definition, is_dropped) in &self.refused {
            let outcome = if *is_dropped {
                "left out"
            } else {
                "Teak will refuse"
            };
            eprintln!("{table}: {outcome}: {definition}");
        }
    }

    pub(super) fn has_refused(&self) -> bool {
        self.refused.iter().any(|(_, _, is_dropped)| !is_dropped)
    }
}

/// What to convert.
pub(super) struct Options {
    pub(super) from: Vec<String>,
    pub(super) drop_foreign_keys: bool,
    pub(super) drop_fulltext_and_spatial_keys: bool,
}

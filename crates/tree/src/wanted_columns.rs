//! The columns that look-ups of different readers need of the pages of a file.
//!
//! Two readers of one statement, for example a query and a subquery on the same table, may need different columns of the
//! same rows. If each page were decoded for the one that comes first, the other would decode it again. So when a page had to
//! be decoded again with the columns of both, the next pages that are missed are decoded with them, too; after some
//! pages this is forgotten, and learnt again if it is still so.

use crate::page::Projection;
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Pages that are decoded with more columns than their reader needs, for each page that was decoded twice.
const PAGES: u32 = 256;

#[derive(Debug, Default)]
pub(crate) struct WantedColumns {
    columns: ArcSwapOption<Projection>,
    /// The number of pages for which they are still used.
    pages: AtomicU32,
}

impl WantedColumns {
    /// Notes that a page was decoded again, with these columns.
    pub(crate) fn decoded_again(&self, columns: &Projection) {
        self.columns.store(Some(Arc::new(columns.clone())));
        self.pages.store(PAGES, Ordering::Relaxed);
    }

    /// The columns for which a page is decoded instead of these, if there are any.
    pub(crate) fn instead_of(&self, columns: Option<&Projection>) -> Option<Arc<Projection>> {
        let pages = self.pages.load(Ordering::Relaxed);
        let columns = columns.filter(|_| pages > 0)?;
        // A lost update costs a few pages.
        self.pages.store(pages - 1, Ordering::Relaxed);
        let wanted = self.columns.load_full()?;
        wanted.covers(columns).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageColumns;

    #[test]
    fn columns_are_wanted_for_some_pages() {
        let columns = |bits: u64| Projection::new(PageColumns::default(), [], [bits]);
        let wanted = WantedColumns::default();
        assert!(wanted.instead_of(Some(&columns(1))).is_none());
        wanted.decoded_again(&columns(0b111));
        assert_eq!(
            wanted.instead_of(Some(&columns(0b101))).as_deref(),
            Some(&columns(0b111))
        );
        assert!(wanted.instead_of(Some(&columns(0b1001))).is_none());
        assert!(wanted.instead_of(None).is_none());
        let is_used = || wanted.instead_of(Some(&columns(0b1))).is_some();
        assert_eq!(
            (0..2 * PAGES).filter(|_| is_used()).count(),
            PAGES as usize - 2
        );
        wanted.decoded_again(&columns(0b11));
        assert!(is_used());
    }
}

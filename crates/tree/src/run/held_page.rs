//! A page as a reader holds it: decoded wholly, or row by row.

use crate::Page;
use crate::page::RowPage;
use std::sync::Arc;
use teak_base::{Operation, WriteId};

#[derive(Clone, Debug)]
pub(super) enum HeldPage {
    Whole(Arc<Page>),
    /// Every entry is a put with its value in the page.
    Rows(Arc<RowPage>),
}

impl HeldPage {
    #[inline]
    pub(super) fn entries(&self) -> usize {
        match self {
            Self::Whole(page) => page.entries(),
            Self::Rows(page) => page.entries(),
        }
    }

    #[inline]
    pub(super) fn key(&self, entry: usize) -> &[u8] {
        match self {
            Self::Whole(page) => page.key(entry),
            Self::Rows(page) => page.key(entry),
        }
    }

    #[inline]
    pub(super) fn write(&self, entry: usize) -> (Operation, WriteId) {
        match self {
            Self::Whole(page) => page.write(entry),
            Self::Rows(page) => page.write(entry),
        }
    }

    #[inline]
    pub(super) fn is_separate(&self, entry: usize) -> bool {
        match self {
            Self::Whole(page) => page.is_separate(entry),
            Self::Rows(_) => false,
        }
    }

    /// The number of the first entry whose key is at or after `key`; the number of entries when there is none.
    #[inline]
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        match self {
            Self::Whole(page) => page.lower_bound(key),
            Self::Rows(page) => page.lower_bound(key),
        }
    }
}

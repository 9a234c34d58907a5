//! Reading a tree of which some blocks are unreadable.
//!
//! [`Tree::open_damaged`](crate::Tree::open_damaged) opens a file whose root may be unreadable: an
//! empty one replaces it. A [`SalvageCursor`] reads all entries that are left, of this or another
//! tree, and skips unreadable nodes and other blocks instead of failing. Both report what they could
//! not read as [`LostPart`](crate::LostPart)s.
//!
//! A lost run or page that is not at the bottom may have contained a newer version of a key, or its
//! deletion. The cursor then returns the newest version that is left, marked as doubtful. So no key
//! with a readable value is omitted, unless its newest readable version is a delete.

mod columns;
mod cursor;
mod pages;
mod run;
mod survey;

pub use cursor::{SalvageCursor, SalvagedEntry};
pub use pages::FoundVersion;

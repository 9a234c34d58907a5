//! The write-optimised tree of one index: entries gather in memtables, are
//! flushed down in sorted runs and settle in leaves. It starts no threads and
//! knows neither transactions nor SQL.

mod cache;
mod filter;
mod memtable;
mod page;
mod range_tombstone;
mod run;
mod version_cursor;

pub use cache::{CacheStatistics, PageCache};
pub use filter::LookupKey;
pub use memtable::{Memtable, MemtableCursor};
pub use page::{Page, PageBuilder};
pub use range_tombstone::RangeTombstone;
pub use run::{FinishedRun, ReadMode, Run, RunCursor, RunDescription, RunWriter, RunWriterOptions};
pub use version_cursor::{VersionCursor, Visit};

//! The write-ahead log: one stream of logical records for all indexes of an
//! instance, kept in segment files, compressed in batches and made durable by
//! group commit. It knows nothing of trees, transactions or the catalogue: it
//! stores records in order and gives them back in order.
//!
//! Reading back is prefix-true: whatever a crash left, what is read is a
//! prefix of what was appended, at least as long as what was made durable;
//! anything else is reported as corruption. See `docs/file_format.md`.

mod field;
mod format;
mod groups;
mod load;
mod log;
mod reader;
mod record;
mod room;
mod segment;
mod writer;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use field::{Operations, OperationsIter, Rest, WriteIds, WriteIdsIter, WriteOperation};
pub use log::{LogOptions, LogStatistics, WriteAheadLog};
pub use reader::{LogEnd, read_log};
pub use record::{RECORD_BYTES_MAX, Record};

//! The write-ahead log: one sequence of logical records for all indexes of an
//! instance. It is stored in segment files, compressed in batches, and made
//! durable by group commit. The log does not depend on trees, transactions or
//! the catalogue: it stores records in order and returns them in order.
//!
//! After a crash, recovery reads a prefix of the appended records that contains every durable
//! record. If that is not possible, it reports corruption. The byte format is in
//! `docs/design/format.md`.

mod append;
mod bound;
mod compression;
mod copy;
mod error;
mod field;
mod format;
mod group_commit;
mod groups;
mod id_list;
mod leader;
mod list;
mod log;
mod log_use;
mod open;
mod options;
mod prepare;
mod reader;
mod record;
mod segment;
mod segment_pool;
mod segments;
mod space;
mod state;
mod statistics;
mod survey;
mod sync_load;
mod waiter;
mod window;
mod writer;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use append::{LogReservation, LogSpace};
pub use bound::LogUse;
pub use copy::LogHold;
pub use field::{Rest, WriteOperation};
pub use id_list::{IdParts, WriteIds, WriteIdsIter};
pub use list::{Operations, OperationsIter};
pub use log::WriteAheadLog;
pub use options::{LogOptions, SegmentCreation};
pub use record::{RECORD_BYTES_MAX, Record};
pub use statistics::LogStatistics;
pub use survey::{LogPart, survey_log};

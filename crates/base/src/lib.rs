//! The shared words of Teak: ids, limits, errors, byte codecs, checksums and
//! page compression. Everything above depends on this crate; it depends on no
//! other floor and touches neither files nor threads.

pub mod bytes;
pub mod checksum;
pub mod codec;
pub mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod ids;
pub mod limits;
pub mod operation;
pub mod stripes;
pub mod visibility;

pub use codec::Codec;
pub use error::{StorageError, StorageResult};
pub use ids::{CommitSequence, FileId, Lsn, TransactionId, WriteId};
pub use operation::Operation;
pub use visibility::{Horizon, Visibility, WriteRangeStatus, WriteStatus};

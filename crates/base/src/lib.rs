//! The basic types of Teak: ids, write status and visibility, limits, errors,
//! byte codecs, checksums and page compression. All other crates depend on this
//! one. It depends on none of them, opens no files and starts no threads.

pub mod byte_size;
pub mod bytes;
pub mod checksum;
pub mod cipher;
pub mod codec;
pub mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod ids;
pub mod latency;
pub mod limits;
pub mod operation;
pub mod pool;
pub mod stripes;
pub mod token_bucket;
pub mod visibility;
pub mod write_id_ranges;

pub use byte_size::ByteSize;
pub use cipher::{Cipher, Encryption, EncryptionState, KeyId, KeyVersion};
pub use codec::Codec;
pub use error::{StorageError, StorageResult};
pub use ids::{CommitSequence, FileId, Lsn, TransactionId, WriteId};
pub use operation::Operation;
pub use visibility::{Horizon, Visibility, WriteRangeStatus, WriteStatus};
pub use write_id_ranges::{WriteIdRange, WriteIdRanges};

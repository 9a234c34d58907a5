//! Which blocks a relocation moves.

use teak_base::cipher::is_current;
use teak_base::{KeyVersion, StorageResult};
use teak_block_file::{BlockAddress, BlockFile};

/// Which blocks a relocation moves, and where to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MovedBlocks {
    /// Those that end after this offset, to holes before it.
    After(u64),
    /// Those that are encrypted with another key, with an older version of it or, if this is a key, not at all; to anywhere.
    OtherKey(Option<KeyVersion>),
}

impl MovedBlocks {
    /// Copies end before this offset.
    pub(crate) fn limit(self) -> Option<u64> {
        match self {
            Self::After(limit) => Some(limit),
            Self::OtherKey(_) => None,
        }
    }

    /// Whether any of several blocks may have to be moved. `end`: where the last of them ends; 0 if there are none.
    pub(crate) fn may_concern(self, end: u64) -> bool {
        end > self.limit().unwrap_or(0)
    }

    /// Whether a block is to be moved. May read its header.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn concerns(self, file: &BlockFile, address: BlockAddress) -> StorageResult<bool> {
        match self {
            Self::After(limit) => Ok(address.end() > limit),
            Self::OtherKey(wanted) => {
                let found = file.block_key(address)?;
                Ok(!is_current(found, wanted))
            }
        }
    }
}

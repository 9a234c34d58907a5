//! The parts of a damaged tree that cannot be read.

use std::fmt;
use teak_base::StorageError;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostKind {
    /// A separate value.
    Value,
    /// A page of a run.
    Page,
    /// Pages of a run, because their index block cannot be read.
    Pages,
    /// A node, with all runs below it.
    Subtree,
    /// A superblock, which may be newer than the one that was used.
    Checkpoint,
}

/// A part of a tree that cannot be read.
#[derive(Clone, Debug)]
pub struct LostPart {
    /// What is lost.
    pub kind: LostKind,
    /// The first key of the affected range.
    pub lower: Vec<u8>,
    /// The end of the affected range, exclusive; `None`: there is no end.
    pub upper: Option<Vec<u8>>,
    /// Number of entries of the part, counting old versions and deletes; `None`: unknown.
    pub entries: Option<u64>,
    /// Whether older versions of its keys may be readable elsewhere.
    pub hides_older: bool,
    /// The error, which names the file, the offset (if it is known) and the reason.
    pub cause: StorageError,
}

impl LostPart {
    pub(crate) fn new(
        kind: LostKind,
        lower: &[u8],
        upper: Option<&[u8]>,
        cause: StorageError,
    ) -> Self {
        Self {
            kind,
            lower: lower.to_vec(),
            upper: upper.map(<[u8]>::to_vec),
            entries: None,
            hides_older: false,
            cause,
        }
    }
}

/// The longest part of a key that a message shows, in bytes.
const SHOWN_KEY_BYTES_MAX: usize = 24;

fn write_key(f: &mut fmt::Formatter<'_>, key: &[u8]) -> fmt::Result {
    f.write_str("0x")?;
    for byte in key.iter().take(SHOWN_KEY_BYTES_MAX) {
        write!(f, "{byte:02x}")?;
    }
    f.write_str(if key.len() > SHOWN_KEY_BYTES_MAX {
        "..."
    } else {
        ""
    })
}

/// The message for a user.
impl fmt::Display for LostPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            LostKind::Value => "a large value",
            LostKind::Page => "a page",
            LostKind::Pages => "the pages of an index block",
            LostKind::Subtree => "a node and everything below it",
            LostKind::Checkpoint => "a superblock, and perhaps newer changes,",
        })?;
        if let Some(entries) = self.entries
            && self.kind != LostKind::Value
        {
            let noun = if entries == 1 { "entry" } else { "entries" };
            write!(f, " with {entries} {noun}")?;
        }
        f.write_str(" cannot be read: keys ")?;
        match (self.lower.is_empty(), &self.upper) {
            (true, None) => f.write_str("of any value")?,
            (true, Some(upper)) => {
                f.write_str("before ")?;
                write_key(f, upper)?;
            }
            (false, upper) => {
                f.write_str("from ")?;
                write_key(f, &self.lower)?;
                if let Some(upper) = upper {
                    f.write_str(" to ")?;
                    write_key(f, upper)?;
                }
            }
        }
        write!(f, ": {}", self.cause)
    }
}

/// Whether a salvage continues after the error, because only the block that was read is lost. Other
/// errors end the salvage.
pub(crate) fn is_loss(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Corrupt { .. } | StorageError::Io { .. }
    )
}

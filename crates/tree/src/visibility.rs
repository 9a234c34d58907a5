//! Update messages: the functions that change a value.

use std::path::Path;
use teak_base::{StorageError, StorageResult};

/// The functions that update messages name.
pub trait UpdateFunctions: Send + Sync {
    /// The new value of a key whose value was `old` (`None`: it had none).
    /// `None` deletes the key. Must be deterministic: it runs again whenever
    /// the message is read before it is merged.
    fn apply(&self, function: u32, old: Option<&[u8]>, argument: &[u8]) -> Option<Vec<u8>>;
}

/// For trees whose owner writes no updates: every update leaves the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUpdates;

impl UpdateFunctions for NoUpdates {
    fn apply(&self, _function: u32, old: Option<&[u8]>, _argument: &[u8]) -> Option<Vec<u8>> {
        old.map(<[u8]>::to_vec)
    }
}

/// The value of an update entry for `function` and `argument`.
#[must_use]
pub fn encode_update(function: u32, argument: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(4 + argument.len());
    value.extend_from_slice(&function.to_le_bytes());
    value.extend_from_slice(argument);
    value
}

/// Applies the value of an update entry to `old`.
///
/// # Errors
/// `Corrupt` of `path` when the value is too short to name a function.
pub(crate) fn apply_update(
    functions: &dyn UpdateFunctions,
    path: &Path,
    old: Option<&[u8]>,
    update: &[u8],
) -> StorageResult<Option<Vec<u8>>> {
    let (function, argument) = update
        .split_first_chunk::<4>()
        .ok_or_else(|| StorageError::corrupt(path, 0, "an update names no function"))?;
    Ok(functions.apply(u32::from_le_bytes(*function), old, argument))
}

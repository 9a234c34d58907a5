//! The interface of encryption, and the form of encrypted payloads. The crates that write files know only
//! this; ciphers and keys are in higher layers.
//!
//! An encrypted payload, of a block or of a batch of the log:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | key id |
//! | 4 | version of the key |
//! | 40 | what the cipher needs to decrypt and verify: nonce and tag |
//! | | the encrypted bytes, as many as the plain ones |

use crate::{StorageError, StorageResult};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Length of a nonce and a tag, in bytes.
pub const SEAL_BYTES: usize = 40;

/// Bytes of an encrypted payload before the encrypted bytes.
pub const ENVELOPE_BYTES: usize = 8 + SEAL_BYTES;

/// The id of a key of the key management; never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyId(std::num::NonZeroU32);

impl KeyId {
    /// The key with this id; `None` for zero.
    #[must_use]
    pub fn new(id: u32) -> Option<Self> {
        std::num::NonZeroU32::new(id).map(Self)
    }

    /// The number of an optional key, as it is stored: zero for none.
    #[must_use]
    pub fn number(key: Option<Self>) -> u32 {
        key.map_or(0, |key| key.0.get())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One version of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyVersion {
    /// The key.
    pub key: KeyId,
    /// The version. The key management counts them.
    pub version: u32,
}

impl fmt::Display for KeyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, version {}", self.key, self.version)
    }
}

/// Whether what is encrypted like `found` need not be encrypted again to be encrypted like `wanted`; `None`: not encrypted.
#[must_use]
pub fn is_current(found: Option<KeyVersion>, wanted: Option<KeyVersion>) -> bool {
    match (found, wanted) {
        (Some(found), Some(wanted)) => found.key == wanted.key && found.version >= wanted.version,
        (found, wanted) => found == wanted,
    }
}

/// How the blocks of a file are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EncryptionState {
    /// The key of the blocks, in this version or a newer one; `None`: they are not encrypted.
    pub with: Option<KeyVersion>,
    /// Whether blocks may be encrypted otherwise: since they were last all written with the same key, blocks with another
    /// one, an older version or none were published.
    pub is_mixed: bool,
}

impl EncryptionState {
    /// Whether no block needs to be encrypted again to be encrypted like `wanted`.
    #[must_use]
    pub fn is_current(self, wanted: Option<KeyVersion>) -> bool {
        !self.is_mixed && is_current(self.with, wanted)
    }
}

/// Why a cipher cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CipherError {
    /// The key management does not have the key.
    Unavailable(String),
    /// The key does not fit to the bytes: it is another one, or they were changed.
    WrongKey,
}

impl fmt::Display for CipherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => f.write_str(reason),
            Self::WrongKey => f.write_str("it is another key, or the data was changed"),
        }
    }
}

/// Encrypts and decrypts with keys of a key management. All functions may be called from several threads.
pub trait Cipher: fmt::Debug + Send + Sync {
    /// The newest version of a key.
    ///
    /// # Errors
    /// `Unavailable`.
    fn newest(&self, key: KeyId) -> Result<KeyVersion, CipherError>;

    /// Encrypts `text` in place, and returns what [`Cipher::decrypt`] needs, in addition to the key. `associated` is
    /// not encrypted, but must be the same for the decryption.
    ///
    /// # Errors
    /// `Unavailable`.
    fn encrypt(
        &self,
        key: KeyVersion,
        associated: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; SEAL_BYTES], CipherError>;

    /// Verifies and decrypts `text` in place.
    ///
    /// # Errors
    /// `Unavailable`, `WrongKey`; then the content of `text` is undefined.
    fn decrypt(
        &self,
        key: KeyVersion,
        associated: &[u8],
        seal: &[u8; SEAL_BYTES],
        text: &mut [u8],
    ) -> Result<(), CipherError>;
}

/// Whether and how an owner of files encrypts what it writes. What it reads names its key.
#[derive(Clone, Default, Debug)]
pub struct Encryption {
    /// The cipher; `None`: encrypted data cannot be read, and none is written.
    pub cipher: Option<Arc<dyn Cipher>>,
    /// The key of what is written; `None`: it is not encrypted.
    pub key: Option<KeyId>,
}

impl Encryption {
    /// The key version with which data is written now; `None`: it is not encrypted.
    ///
    /// # Errors
    /// `Key`: the key is not available.
    pub fn current(&self, path: &Path) -> StorageResult<Option<KeyVersion>> {
        let Some(key) = self.key else {
            return Ok(None);
        };
        let newest = match &self.cipher {
            Some(cipher) => cipher.newest(key),
            None => Err(no_cipher()),
        };
        let failed = |reason| StorageError::key(path, &format_args!("{key}"), &reason);
        newest.map(Some).map_err(failed)
    }

    /// Encrypts the bytes of `payload` after the envelope, and fills the envelope.
    ///
    /// # Errors
    /// `Key`: the key is not available.
    pub fn seal(
        &self,
        path: &Path,
        key: KeyVersion,
        associated: &[u8],
        payload: &mut [u8],
    ) -> StorageResult<()> {
        let failed = |reason| StorageError::key(path, &key, &reason);
        let (envelope, text) = payload.split_at_mut(ENVELOPE_BYTES.min(payload.len()));
        let cipher = self.cipher.as_ref().ok_or_else(|| failed(no_cipher()))?;
        let seal = cipher.encrypt(key, associated, text).map_err(failed)?;
        let fields: [&[u8]; 3] = [
            &KeyId::number(Some(key.key)).to_le_bytes(),
            &key.version.to_le_bytes(),
            &seal,
        ];
        for (slot, byte) in envelope.iter_mut().zip(fields.into_iter().flatten()) {
            *slot = *byte;
        }
        Ok(())
    }

    /// Verifies and decrypts a payload in place. Returns the plain bytes.
    ///
    /// # Errors
    /// `Key`: the key is not available or wrong. `Corrupt` at `offset` if there is no envelope.
    pub fn unseal<'a>(
        &self,
        (path, offset): (&Path, u64),
        associated: &[u8],
        payload: &'a mut [u8],
    ) -> StorageResult<&'a mut [u8]> {
        let key = envelope_key(payload);
        let parts = payload.split_first_chunk_mut::<ENVELOPE_BYTES>();
        let (Some(key), Some((envelope, text))) = (key, parts) else {
            let reason = "the envelope of encrypted bytes is malformed";
            return Err(StorageError::corrupt(path, offset, reason));
        };
        let failed = |reason| StorageError::key(path, &key, &reason);
        let cipher = self.cipher.as_ref().ok_or_else(|| failed(no_cipher()))?;
        let mut seal = [0; SEAL_BYTES];
        for (slot, byte) in seal.iter_mut().zip(envelope.iter().skip(8)) {
            *slot = *byte;
        }
        let decrypted = cipher.decrypt(key, associated, &seal, text);
        decrypted.map_err(failed)?;
        Ok(text)
    }
}

fn no_cipher() -> CipherError {
    CipherError::Unavailable("no encryption plugin is loaded".into())
}

/// The key of an encrypted payload; `None` if it is too short, or names no key.
#[must_use]
pub fn envelope_key(payload: &[u8]) -> Option<KeyVersion> {
    let (key, rest) = payload.split_first_chunk::<4>()?;
    let (version, _) = rest.split_first_chunk::<4>()?;
    Some(KeyVersion {
        key: KeyId::new(u32::from_le_bytes(*key))?,
        version: u32::from_le_bytes(*version),
    })
}

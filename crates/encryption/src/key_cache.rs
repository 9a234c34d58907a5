//! The cipher of an engine: keys of a key management, prepared and kept in memory.

use crate::xaes::{NONCE_BYTES, TAG_BYTES, XaesKey};
use hkdf::Hkdf;
use parking_lot::RwLock;
use sha2::Sha256;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::cipher::{CipherError, SEAL_BYTES};
use teak_base::{Cipher, KeyId, KeyVersion};
use zeroize::Zeroizing;

const _: () = assert!(NONCE_BYTES + TAG_BYTES == SEAL_BYTES);

/// How long the newest version of a key is used before the key management is asked again.
const NEWEST_FOR: Duration = Duration::from_secs(1);

/// Why a key management does not return a key, for a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySourceError(pub String);

/// A key management. Its functions may be called from several threads.
pub trait KeySource: Send + Sync {
    /// The newest version of a key.
    ///
    /// # Errors
    /// There is no such key, or it cannot be asked for.
    fn newest_version(&self, key: KeyId) -> Result<u32, KeySourceError>;

    /// The bytes of a version of a key.
    ///
    /// # Errors
    /// There is no such version, or it cannot be asked for.
    fn key(&self, key: KeyVersion) -> Result<Zeroizing<Vec<u8>>, KeySourceError>;
}

/// Encrypts with the keys of a [`KeySource`]. Keeps every key that it has used in memory: there are as many as a key management
/// has made since the oldest data.
pub struct PluginCipher {
    source: Box<dyn KeySource>,
    keys: RwLock<HashMap<KeyVersion, Arc<XaesKey>>>,
    newest: RwLock<HashMap<KeyId, (u32, Instant)>>,
}

impl fmt::Debug for PluginCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginCipher").finish_non_exhaustive()
    }
}

impl PluginCipher {
    /// A cipher with these keys.
    #[must_use]
    pub fn new(source: Box<dyn KeySource>) -> Self {
        Self {
            source,
            keys: RwLock::default(),
            newest: RwLock::default(),
        }
    }

    fn key(&self, key: KeyVersion) -> Result<Arc<XaesKey>, CipherError> {
        if let Some(found) = self.keys.read().get(&key) {
            return Ok(Arc::clone(found));
        }
        // Not under the lock, because a key management may ask a server.
        let bytes = self.source.key(key).map_err(unavailable)?;
        let prepared = Arc::new(XaesKey::new(&derived(key, &bytes)));
        let mut keys = self.keys.write();
        Ok(Arc::clone(keys.entry(key).or_insert(prepared)))
    }
}

/// The key that Teak uses. The version is part of its derivation, because a key management may return equal bytes for two versions.
fn derived(key: KeyVersion, bytes: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut info = *b"teak XAES-256-GCM         ";
    let numbers = KeyId::number(Some(key.key)).to_le_bytes();
    let numbers = numbers.into_iter().chain(key.version.to_le_bytes());
    for (slot, byte) in info.iter_mut().skip(18).zip(numbers) {
        *slot = byte;
    }
    let mut out = Zeroizing::new([0; 32]);
    // Only longer outputs than 8160 bytes fail.
    let _ = Hkdf::<Sha256>::new(None, bytes).expand(&info, &mut *out);
    out
}

fn unavailable(error: KeySourceError) -> CipherError {
    CipherError::Unavailable(error.0)
}

impl Cipher for PluginCipher {
    fn newest(&self, key: KeyId) -> Result<KeyVersion, CipherError> {
        let known = self.newest.read().get(&key).copied();
        if let Some((version, at)) = known
            && at.elapsed() < NEWEST_FOR
        {
            return Ok(KeyVersion { key, version });
        }
        let version = self.source.newest_version(key).map_err(unavailable)?;
        let newest = KeyVersion { key, version };
        // Every version that is returned can be used.
        self.key(newest)?;
        let mut known = self.newest.write();
        let entry = known.entry(key).or_insert((version, Instant::now()));
        // A call that began earlier may end later.
        *entry = (version.max(entry.0), Instant::now());
        Ok(newest)
    }

    fn encrypt(
        &self,
        key: KeyVersion,
        associated: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; SEAL_BYTES], CipherError> {
        let key = self.key(key)?;
        let failed = |reason: &str| CipherError::Unavailable(reason.into());
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| failed("the system has no random numbers"))?;
        let tag = key.encrypt(&nonce, associated, text);
        let tag = tag.ok_or_else(|| failed("the text is too long"))?;
        let mut seal = [0; SEAL_BYTES];
        for (slot, byte) in seal.iter_mut().zip(nonce.into_iter().chain(tag)) {
            *slot = byte;
        }
        Ok(seal)
    }

    fn decrypt(
        &self,
        key: KeyVersion,
        associated: &[u8],
        seal: &[u8; SEAL_BYTES],
        text: &mut [u8],
    ) -> Result<(), CipherError> {
        let key = self.key(key)?;
        let parts = seal.split_first_chunk::<NONCE_BYTES>();
        let parts = parts.and_then(|(nonce, tag)| Some((nonce, tag.first_chunk::<TAG_BYTES>()?)));
        match parts {
            Some((nonce, tag)) if key.decrypt(nonce, associated, tag, text) => Ok(()),
            _ => Err(CipherError::WrongKey),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Version 2 of its keys is missing, and the bytes of versions 3 and 4 are equal.
    struct Source {
        newest: Arc<AtomicU32>,
        calls: Arc<AtomicU32>,
    }

    impl KeySource for Source {
        fn newest_version(&self, _: KeyId) -> Result<u32, KeySourceError> {
            Ok(self.newest.load(Ordering::Relaxed))
        }

        fn key(&self, key: KeyVersion) -> Result<Zeroizing<Vec<u8>>, KeySourceError> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            match key.version {
                2 => Err(KeySourceError("missing".into())),
                version => Ok(Zeroizing::new(vec![u8::from(version > 2); 16])),
            }
        }
    }

    #[test]
    fn keys_are_asked_for_once_and_differ_between_versions() {
        let (newest, calls) = (Arc::new(AtomicU32::new(1)), Arc::<AtomicU32>::default());
        let cipher = PluginCipher::new(Box::new(Source {
            newest: Arc::clone(&newest),
            calls: Arc::clone(&calls),
        }));
        let key = KeyId::new(5).unwrap();
        let first = cipher.newest(key).unwrap();
        assert_eq!(first, KeyVersion { key, version: 1 });
        let encrypt = |version| {
            let (mut text, key) = (*b"plain", KeyVersion { key, version });
            let seal = cipher.encrypt(key, b"place", &mut text)?;
            Ok::<_, CipherError>((key, seal, text))
        };
        let (found, seal, mut text) = encrypt(1).unwrap();
        assert_ne!(&text, b"plain");
        cipher.decrypt(found, b"place", &seal, &mut text).unwrap();
        assert_eq!((&text, calls.load(Ordering::Relaxed)), (b"plain", 1));
        assert_eq!(encrypt(2), Err(CipherError::Unavailable("missing".into())));
        let (third, seal, mut text) = encrypt(3).unwrap();
        let fourth = KeyVersion {
            version: 4,
            ..third
        };
        let wrong = cipher.decrypt(fourth, b"place", &seal, &mut text);
        assert_eq!(wrong, Err(CipherError::WrongKey));
        // A newest version without bytes is not used.
        newest.store(2, Ordering::Relaxed);
        cipher.newest.write().clear();
        assert!(cipher.newest(key).is_err());
    }
}

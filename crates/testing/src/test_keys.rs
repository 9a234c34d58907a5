//! A key management for tests.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use teak_base::{Cipher, Encryption, KeyId, KeyVersion};
use teak_encryption::{KeySource, KeySourceError, PluginCipher};
use zeroize::Zeroizing;

/// Has every key, of version 1 until it is rotated.
#[derive(Debug, Default)]
pub struct TestKeys {
    newest: Mutex<HashMap<KeyId, u32>>,
    are_lost: AtomicBool,
    /// Older versions are not returned.
    oldest: AtomicU32,
    /// Keys of another seed differ.
    seed: u8,
}

struct Source(Arc<TestKeys>);

impl TestKeys {
    /// Other keys than those of the default.
    #[must_use]
    pub fn other() -> Arc<Self> {
        Arc::new(Self {
            seed: 1,
            ..Self::default()
        })
    }

    /// A cipher with these keys, and no keys in memory.
    #[must_use]
    pub fn cipher(self: &Arc<Self>) -> Arc<dyn Cipher> {
        Arc::new(PluginCipher::new(Box::new(Source(Arc::clone(self)))))
    }

    /// What encrypts with a key of a new cipher.
    #[must_use]
    pub fn encryption(self: &Arc<Self>, key: u32) -> Encryption {
        Encryption {
            cipher: Some(self.cipher()),
            key: KeyId::new(key),
        }
    }

    /// Adds a version to a key.
    pub fn rotate(&self, key: KeyId) {
        *self.newest.lock().entry(key).or_insert(1) += 1;
    }

    /// From now on older versions are not returned.
    pub fn forget_before(&self, version: u32) {
        self.oldest.store(version, Ordering::Relaxed);
    }

    /// From now on no key is returned, or each is again.
    pub fn set_lost(&self, are_lost: bool) {
        self.are_lost.store(are_lost, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), KeySourceError> {
        match self.are_lost.load(Ordering::Relaxed) {
            true => Err(KeySourceError("the keys are lost".into())),
            false => Ok(()),
        }
    }
}

impl KeySource for Source {
    fn newest_version(&self, key: KeyId) -> Result<u32, KeySourceError> {
        self.0.check()?;
        Ok(self.0.newest.lock().get(&key).copied().unwrap_or(1))
    }

    fn key(&self, key: KeyVersion) -> Result<Zeroizing<Vec<u8>>, KeySourceError> {
        self.0.check()?;
        if key.version < self.0.oldest.load(Ordering::Relaxed) {
            return Err(KeySourceError("the version is forgotten".into()));
        }
        let mut bytes = vec![self.0.seed; 8];
        bytes.extend(KeyId::number(Some(key.key)).to_le_bytes());
        bytes.extend(key.version.to_le_bytes());
        Ok(Zeroizing::new(bytes))
    }
}

//! XAES-256-GCM, as specified by C2SP: for each nonce a key of AES-256-GCM is derived from the first half of the nonce, and the
//! second half is the nonce of AES-256-GCM.

use aes::Aes256;
use aes::cipher::{BlockEncrypt, KeyInit};
use aes_gcm::aead::AeadInPlace;
use aes_gcm::{Aes256Gcm, Key, Nonce, Tag};
use zeroize::Zeroizing;

/// Length of a nonce, in bytes.
pub const NONCE_BYTES: usize = 24;
/// Length of a tag, in bytes.
pub const TAG_BYTES: usize = 16;

const HALF: usize = NONCE_BYTES / 2;
const BLOCK: usize = 16;

/// A key of 256 bits.
pub struct XaesKey {
    cipher: Aes256,
    /// The mask of the last block of a message in CMAC.
    mask: [u8; BLOCK],
}

impl XaesKey {
    /// Prepares a key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let cipher = Aes256::new(key.into());
        let mut block = [0; BLOCK].into();
        cipher.encrypt_block(&mut block);
        // A shift by one bit in the field of CMAC.
        let value = u128::from_be_bytes(block.into());
        let reduction = if value >> 127 == 1 { 0x87 } else { 0 };
        Self {
            cipher,
            mask: ((value << 1) ^ reduction).to_be_bytes(),
        }
    }

    /// The key for nonces that begin with these bytes.
    fn derived(&self, prefix: &[u8; HALF]) -> Aes256Gcm {
        let mut key = Zeroizing::new([0; 2 * BLOCK]);
        for (counter, half) in (1..).zip(key.chunks_exact_mut(BLOCK)) {
            let mut block = [0; BLOCK];
            let message = [0, counter, b'X', 0].into_iter().chain(*prefix);
            for ((slot, byte), mask) in block.iter_mut().zip(message).zip(self.mask) {
                *slot = byte ^ mask;
            }
            let mut block = block.into();
            self.cipher.encrypt_block(&mut block);
            half.copy_from_slice(&block);
        }
        Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(&*key))
    }

    /// Encrypts in place, and returns the tag. No nonce may be used twice. `None` if `text` is longer than 64 GiB.
    pub fn encrypt(
        &self,
        nonce: &[u8; NONCE_BYTES],
        associated: &[u8],
        text: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        let (prefix, rest) = nonce.split_first_chunk::<HALF>()?;
        let cipher = self.derived(prefix);
        let tag = cipher.encrypt_in_place_detached(Nonce::from_slice(rest), associated, text);
        tag.ok().map(Into::into)
    }

    /// Verifies and decrypts in place. Returns false if the key, the nonce, `associated` or the text are not those of the tag.
    #[must_use]
    pub fn decrypt(
        &self,
        nonce: &[u8; NONCE_BYTES],
        associated: &[u8],
        tag: &[u8; TAG_BYTES],
        text: &mut [u8],
    ) -> bool {
        let Some((prefix, rest)) = nonce.split_first_chunk::<HALF>() else {
            return false;
        };
        let (nonce, tag) = (Nonce::from_slice(rest), Tag::from_slice(tag));
        let cipher = self.derived(prefix);
        let decrypted = cipher.decrypt_in_place_detached(nonce, associated, text, tag);
        decrypted.is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The vectors of the specification.
    #[test]
    fn the_published_vectors() {
        let nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";
        let cases = [
            (
                1,
                "",
                "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271",
            ),
            (
                3,
                "c2sp.org/XAES-256-GCM",
                "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
            ),
        ];
        for (byte, associated, expected) in cases {
            let key = XaesKey::new(&[byte; 32]);
            let mut text = *b"XAES-256-GCM";
            let tag = key
                .encrypt(nonce, associated.as_bytes(), &mut text)
                .unwrap();
            assert_eq!(hex(&text) + &hex(&tag), expected);
            assert!(key.decrypt(nonce, associated.as_bytes(), &tag, &mut text));
            assert_eq!(&text, b"XAES-256-GCM");
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let key = XaesKey::new(&[7; 32]);
        let (nonce, associated, plain) = ([9; NONCE_BYTES], *b"address", *b"some bytes of a page");
        let mut text = plain;
        let tag = key.encrypt(&nonce, &associated, &mut text).unwrap();
        let opens = |nonce: &_, associated: &[u8], tag: &_, mut text: [u8; 20]| {
            key.decrypt(nonce, associated, tag, &mut text)
        };
        assert!(opens(&nonce, &associated, &tag, text));
        for bit in 0..8 * NONCE_BYTES {
            let mut other = nonce;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&other, &associated, &tag, text));
        }
        for bit in 0..8 * TAG_BYTES {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&nonce, &associated, &other, text));
        }
        for bit in 0..8 * text.len() {
            let mut other = text;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&nonce, &associated, &tag, other));
        }
        assert!(!opens(&nonce, b"addresS", &tag, text));
        let other = XaesKey::new(&[8; 32]);
        assert!(!other.decrypt(&nonce, &associated, &tag, &mut text));
    }
}

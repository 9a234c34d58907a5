//! The encryption keys that `--keys` names.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use teak_base::{Cipher, Encryption, KeyId, KeyVersion};
use teak_encryption::{KeySource, KeySourceError, PluginCipher};
use zeroize::Zeroizing;

static CIPHER: OnceLock<Arc<dyn Cipher>> = OnceLock::new();

/// Keys of a file. Each line is `ID;KEY` or `ID;VERSION;KEY`, the key in hexadecimal digits, as the server's plugin
/// file_key_management reads them. Without a version it is 1.
struct FileKeys(Vec<(KeyVersion, Zeroizing<Vec<u8>>)>);

impl KeySource for FileKeys {
    fn newest_version(&self, key: KeyId) -> Result<u32, KeySourceError> {
        let versions = self.0.iter().filter(|(found, _)| found.key == key);
        let newest = versions.map(|(found, _)| found.version).max();
        newest.ok_or_else(missing)
    }

    fn key(&self, key: KeyVersion) -> Result<Zeroizing<Vec<u8>>, KeySourceError> {
        let found = self.0.iter().find(|(found, _)| *found == key);
        found.map(|(_, bytes)| bytes.clone()).ok_or_else(missing)
    }
}

fn missing() -> KeySourceError {
    KeySourceError("the file of --keys does not have it".into())
}

/// Reads the file; its keys are used from now on.
pub(crate) fn load(path: &Path) -> io::Result<()> {
    let text = Zeroizing::new(std::fs::read_to_string(path)?);
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut keys = Vec::new();
    for (number, line) in lines {
        let key = parse(line).ok_or_else(|| {
            let place = format!("{}, line {}", path.display(), number + 1);
            io::Error::other(format!("{place}: expected ID;KEY with hexadecimal digits"))
        })?;
        keys.push(key);
    }
    let cipher = PluginCipher::new(Box::new(FileKeys(keys)));
    // The command line has the option once.
    let _ = CIPHER.set(Arc::new(cipher));
    Ok(())
}

fn parse(line: &str) -> Option<(KeyVersion, Zeroizing<Vec<u8>>)> {
    let parts: Vec<&str> = line.split(';').collect();
    let (id, version, digits) = match parts.as_slice() {
        [id, digits] => (id, 1, digits),
        [id, version, digits] => (id, version.trim().parse().ok()?, digits),
        _ => return None,
    };
    let key = KeyId::new(id.trim().parse().ok()?)?;
    let digits = digits.trim().as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes = digits.chunks_exact(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    Some((KeyVersion { key, version }, Zeroizing::new(bytes?)))
}

/// For reading files.
pub(crate) fn encryption() -> Encryption {
    Encryption {
        cipher: CIPHER.get().cloned(),
        key: None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_key_file() {
        let (key, bytes) = parse("2;00ffA1").unwrap();
        assert_eq!(
            (key.to_string(), bytes.as_slice()),
            ("2, version 1".into(), &[0, 255, 161][..])
        );
        let (key, _) = parse("7; 3; 0011").unwrap();
        assert_eq!(key.to_string(), "7, version 3");
        for line in [
            "2", "0;00", "x;00", "2;0", "2;", "2;0g", "1;2;3;00", "2;-1;00",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}

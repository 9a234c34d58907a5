//! What the numbers of MariaDB's collations say about the bytes of strings.

/// How the characters of a string are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Binary,
    Utf8,
    Latin1,
    /// Two bytes, big-endian; surrogates in utf16.
    Utf16Big,
    Utf16Little,
    Utf32,
    /// Another one. Those of MariaDB encode ASCII characters as one byte, with few exceptions.
    Other,
}

/// How the key of an index contains a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyText {
    /// Whether the string can be decoded: the weights of the collation are its bytes.
    pub(crate) is_binary: bool,
    /// Whether trailing spaces are not significant.
    pub(crate) pads: bool,
    /// Whether weights have the length of UTF-8 characters; otherwise one byte.
    pub(crate) is_utf8: bool,
}

const NO_PAD: u16 = 1024;
const UCA1400: u16 = 2048;
const BINARY: u16 = 63;

/// The number of the collation with the same characters that pads strings, of those below `UCA1400`.
fn base_of(collation: u16) -> u16 {
    match collation {
        NO_PAD..UCA1400 => collation - NO_PAD,
        _ => collation,
    }
}

pub(crate) fn encoding_of(collation: u16) -> Encoding {
    if collation >= UCA1400 {
        return match collation >> 8 & 7 {
            0 | 1 => Encoding::Utf8,
            2 | 3 => Encoding::Utf16Big,
            4 => Encoding::Utf32,
            _ => Encoding::Other,
        };
    }
    match base_of(collation) {
        BINARY => Encoding::Binary,
        // utf8mb3, utf8mb4, ascii.
        33 | 83 | 192..=215 | 223 | 576..=607 => Encoding::Utf8,
        45 | 46 | 224..=247 | 608..=639 => Encoding::Utf8,
        11 | 65 => Encoding::Utf8,
        5 | 8 | 15 | 31 | 47 | 48 | 49 | 94 => Encoding::Latin1,
        // ucs2, utf16.
        35 | 90 | 128..=151 | 159 | 640..=671 => Encoding::Utf16Big,
        54 | 55 | 101..=124 | 672..=703 => Encoding::Utf16Big,
        56 | 62 => Encoding::Utf16Little,
        60 | 61 | 160..=183 | 736..=767 => Encoding::Utf32,
        _ => Encoding::Other,
    }
}

/// `None` for collations whose keys cannot be read without the server's tables of weights.
pub(crate) fn key_text_of(collation: u16) -> Option<KeyText> {
    if collation == BINARY {
        return Some(KeyText {
            is_binary: true,
            pads: false,
            is_utf8: false,
        });
    }
    let (is_binary, is_utf8) = match base_of(collation) {
        // utf8mb3_general_ci and utf8mb4_general_ci; then the binary ones.
        33 | 45 => (false, true),
        83 | 46 => (true, true),
        // Of ascii and latin1: those with a weight of one byte for each character.
        11 | 8 | 15 | 47 | 48 | 49 => (base_of(collation) == 47, false),
        65 => (true, false),
        // The binary collations of other character sets with one byte for each character.
        43 | 50 | 53 | 64 | 66..=75 | 77..=82 | 93 => (true, false),
        _ => return None,
    };
    if collation >= UCA1400 {
        return None;
    }
    Some(KeyText {
        is_binary,
        pads: collation < NO_PAD,
        is_utf8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_collations_are_known() {
        // latin1_swedish_ci, utf8mb4_general_ci, utf8mb4_uca1400_ai_ci, binary, utf8mb4_nopad_bin.
        assert_eq!(encoding_of(8), Encoding::Latin1);
        assert_eq!(encoding_of(45), Encoding::Utf8);
        assert_eq!(encoding_of(2304), Encoding::Utf8);
        assert_eq!(encoding_of(63), Encoding::Binary);
        assert_eq!(key_text_of(2304), None);
        let text = key_text_of(1070).unwrap();
        assert!(text.is_binary && text.is_utf8 && !text.pads);
        assert!(!key_text_of(8).unwrap().is_binary && key_text_of(47).unwrap().is_binary);
    }
}

//! Names as the server writes them in names of files.
//!
//! Letters and digits of ASCII, and `_`, stand for themselves. Some other letters become `@` and two characters. Every other character
//! becomes `@` and the four hexadecimal digits of its code point.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The letters that become `@` and two characters. A line is a code point, and the characters for it and for the letters after it.
/// They are what the server answers for `CONVERT(letter USING filename)`.
const LETTERS: &str = include_str!("letters.txt");

static CODES: LazyLock<HashMap<char, &'static str>> = LazyLock::new(|| {
    let letters = LETTERS.lines().filter_map(|line| {
        let (first, codes) = line.split_once(' ')?;
        let first = u32::from_str_radix(first, 16).ok()?;
        let codes = (0..codes.len()).step_by(2).map(|at| codes.get(at..at + 2));
        Some((first..).zip(codes))
    });
    letters
        .flatten()
        .filter_map(|(letter, code)| Some((char::from_u32(letter)?, code?)))
        .collect()
});

static LETTERS_OF_CODES: LazyLock<HashMap<&'static str, char>> = LazyLock::new(|| {
    CODES
        .iter()
        .map(|(letter, code)| (*code, *letter))
        .collect()
});

/// The name of the file for the name of a database or table.
pub(super) fn encoded(name: &str) -> String {
    let mut text = String::new();
    for char in name.chars() {
        if char.is_ascii_alphanumeric() || char == '_' {
            text.push(char);
        } else if let Some(code) = CODES.get(&char) {
            text.push('@');
            text.push_str(code);
        } else {
            text += &format!("@{:04x}", u32::from(char));
        }
    }
    text
}

/// The name of the database or table; `None` if the server writes no name like this.
pub(super) fn decoded(file_name: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = file_name;
    while let Some((before, after)) = rest.split_once('@') {
        name.push_str(before);
        let letter = after.get(..2).and_then(|code| LETTERS_OF_CODES.get(code));
        if let Some(letter) = letter {
            name.push(*letter);
            rest = after.get(2..)?;
        } else {
            let digits = after.get(..4)?;
            let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok()?;
            name.push(char::from_u32(code).filter(|_| is_hexadecimal)?);
            rest = after.get(4..)?;
        }
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_by_the_server() {
        for (name, file_name) in [
            ("orders_2", "orders_2"),
            ("a-b", "a@002db"),
            ("é", "@0p"),
            ("a#P#b", "a@0023P@0023b"),
            ("日本", "@65e5@672c"),
            ("@", "@0040"),
        ] {
            assert_eq!(encoded(name), file_name);
            assert_eq!(decoded(file_name).as_deref(), Some(name));
        }
    }

    #[test]
    fn each_letter_has_a_code_of_its_own() {
        assert_eq!(CODES.len(), 1510);
        assert_eq!(LETTERS_OF_CODES.len(), CODES.len());
        for letter in CODES.keys() {
            let name = format!("{letter}0{letter}");
            assert_eq!(decoded(&encoded(&name)), Some(name));
        }
    }

    #[test]
    fn other_names_have_no_decoded_form() {
        for name in ["@", "a@", "@00", "@zzzz", "@+041", "@d800", "@é"] {
            assert_eq!(decoded(name), None, "{name}");
        }
    }
}

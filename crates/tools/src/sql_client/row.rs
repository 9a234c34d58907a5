//! Rows as the client prints them.

/// A row of a result. NULL is the text `NULL`.
pub(crate) type Row = Vec<String>;

/// The value of a column without its escapes.
fn unescaped(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut chars = field.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('t') => text.push('\t'),
                Some('n') => text.push('\n'),
                Some('0') => text.push('\0'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            _ => text.push(char),
        }
    }
    text
}

/// The columns of a line.
pub(super) fn row_of(line: &str) -> Row {
    line.split('\t').map(unescaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_split_before_their_escapes_are_replaced() {
        assert_eq!(row_of("a\\tb\tc\\\\t\\n\t"), ["a\tb", "c\\t\n", ""]);
    }
}

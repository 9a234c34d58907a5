//! Patterns of names: `*` stands for any characters, `?` for one.

/// Whether a name matches one of the patterns, or there are none.
pub(super) fn any_matches(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut in_name) = (0, 0);
    // The last `*`, and the end of what it stands for.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(char) if *char == '?' || name.get(in_name) == Some(char) => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((place, end)) = star else {
                    return false;
                };
                star = Some((place, end + 1));
                at = place + 1;
                in_name = end + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|char| *char == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name) in [
            ("shop", "shop"),
            ("sh*", "shop"),
            ("*", ""),
            ("*o?", "shoop"),
            ("a*b*c", "a--b-b--c"),
            ("?", "é"),
            ("a`%_", "a`%_"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("shop", "shops"),
            ("sh?", "shop"),
            ("a*b", "abc"),
            ("", "a"),
            ("_", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        assert!(any_matches(&[], "x"));
        assert!(any_matches(&["y".to_owned(), "x*".to_owned()], "x"));
    }
}

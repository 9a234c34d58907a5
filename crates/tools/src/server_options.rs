//! Options of the server's programs.

/// Options that must be the first ones.
const DEFAULTS: [&str; 4] = [
    "no-defaults",
    "defaults-file",
    "defaults-extra-file",
    "defaults-group-suffix",
];

/// The name of an option `--name=value`.
pub(crate) fn name_of(option: &str) -> &str {
    let name = option.trim_start_matches("--");
    name.split('=').next().unwrap_or(name)
}

/// Whether an option must be one of the first ones.
pub(crate) fn is_defaults(option: &str) -> bool {
    DEFAULTS.contains(&name_of(option))
}

/// Whether an option that must be one of the first ones has a value.
pub(crate) fn is_defaults_with_value(name: &str) -> bool {
    DEFAULTS.iter().skip(1).any(|of| *of == name)
}

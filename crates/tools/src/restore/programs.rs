//! The programs of MariaDB that a restore runs.

use super::destination::Destination;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the server is if it is not in PATH, which often lacks the directories of system programs.
const SERVER_PLACES: [&str; 4] = [
    "/usr/sbin/mariadbd",
    "/usr/libexec/mariadbd",
    "/usr/local/sbin/mariadbd",
    "/usr/local/mysql/bin/mariadbd",
];

/// How much of the end of a program's output is shown.
const SHOWN_BYTES: u64 = 3000;
const SHOWN_LINES: usize = 12;

/// The last lines of a program's output.
pub(super) fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let shown = lines.len().saturating_sub(SHOWN_LINES);
    lines.get(shown..).unwrap_or_default().join("\n")
}

fn cannot_start(program: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("{} cannot be started: {error}", program.display()))
}

/// What a program prints as its version.
pub(super) fn version(program: &Path) -> io::Result<String> {
    let output = Command::new(program)
        .args(["--no-defaults", "--version"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(program, &error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(format!(
            "{} --version has failed: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// The first two numbers of a version in a text, for example `10.11`.
pub(super) fn series(text: &str) -> Option<String> {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_whitespace().find_map(|word| {
        let mut parts = word.split(['.', '-']);
        let (major, minor) = (parts.next()?, parts.next()?);
        let has_patch = parts.next().as_ref().is_some_and(is_number);
        (has_patch && is_number(&major) && is_number(&minor)).then(|| format!("{major}.{minor}"))
    })
}

/// The server's program.
pub(super) fn server(given: Option<&Path>) -> io::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_path_buf());
    }
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&in_path).map(|directory| directory.join("mariadbd"));
    let mut places = in_path.chain(SERVER_PLACES.iter().map(PathBuf::from));
    places
        .find(|path| path.is_file())
        .ok_or_else(|| io::Error::other("there is no mariadbd; --server names the program"))
}

/// The directory of the server's plugins, which must contain Teak.
pub(super) fn plugin_directory(given: Option<&Path>, server: &Path) -> io::Result<PathBuf> {
    let directory = match given {
        Some(given) => given.to_path_buf(),
        None => {
            let output = Command::new(server)
                .args(["--no-defaults", "--verbose", "--help"])
                .stdin(Stdio::null())
                .output()
                .map_err(|error| cannot_start(server, &error))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let mut lines = text.lines();
            let found = lines.find_map(|line| line.strip_prefix("plugin-dir "));
            PathBuf::from(found.unwrap_or_default().trim())
        }
    };
    match directory.join("ha_teak.so").exists() {
        true => Ok(directory.canonicalize()?),
        false => Err(io::Error::other(format!(
            "there is no ha_teak.so in {}; --plugin-dir names the directory of the server's plugins",
            directory.display()
        ))),
    }
}

/// Runs a command whose output goes to a file of the incomplete restore.
pub(super) fn run(command: &mut Command, place: &Destination, log: &str) -> io::Result<()> {
    let path = place.log(log);
    let output = File::create(&path)?;
    let program = PathBuf::from(command.get_program());
    let status = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .map_err(|error| cannot_start(&program, &error))?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{} has failed ({status}); its output is in {}, and ends with:\n{}",
            program.display(),
            path.display(),
            tail(&path)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_version_is_found() {
        let text =
            "mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(series(text).as_deref(), Some("10.11"));
        assert_eq!(series("11.8.6-MariaDB-log").as_deref(), Some("11.8"));
        assert_eq!(series("mariadbd"), None);
        assert_eq!(series("Ver 3.5 for debian"), None);
    }

    #[test]
    fn the_end_of_an_output_is_shown() {
        let path = std::env::temp_dir().join(format!("teak-tail-{}", std::process::id()));
        let lines: Vec<String> = (0..1000).map(|line| format!("line {line}")).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let text = tail(&path);
        assert!(text.starts_with("line 988\n") && text.ends_with("\nline 999"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(tail(&path), "");
    }
}

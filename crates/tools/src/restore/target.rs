//! What `--to` names: a transaction, a position, or a time.

use std::fmt;
use std::io;
use std::process::Command;
use std::str::FromStr;

/// The global id of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gtid {
    pub domain: u32,
    pub server: u32,
    pub sequence: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl FromStr for Gtid {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let (Some(domain), Some(server), Some(sequence), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        // The server writes no leading zeros, but dates have them.
        let is_padded = |part: &str| part.len() > 1 && part.starts_with('0');
        if [domain, server, sequence].into_iter().any(is_padded) {
            return Err(());
        }
        Ok(Self {
            domain: digits(domain)?,
            server: digits(server)?,
            sequence: digits(sequence)?,
        })
    }
}

/// A number of digits only: `parse` alone accepts a sign.
fn digits<T: FromStr>(text: &str) -> Result<T, ()> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().map_err(|_| ()),
        false => Err(()),
    }
}

/// The name of a file of the binary log: a base and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogName {
    pub base: String,
    pub number: u64,
}

impl LogName {
    /// The next file.
    pub(super) fn next(&self) -> Self {
        Self {
            base: self.base.clone(),
            number: self.number + 1,
        }
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.base, self.number)
    }
}

impl FromStr for LogName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (base, number) = text.rsplit_once('.').ok_or(())?;
        if base.is_empty() || base.contains('/') || number.len() < 6 {
            return Err(());
        }
        Ok(Self {
            base: base.to_owned(),
            number: digits(number)?,
        })
    }
}

/// A position between two transactions of the binary log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogPosition {
    pub file: LogName,
    pub offset: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

/// Where the restored server shall stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// After the transaction.
    Gtid(Gtid),
    /// At the position.
    Position(LogPosition),
    /// Before the first transaction with an event of this second or a later one, in seconds since 1970.
    Time { seconds: u64, text: String },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gtid(gtid) => write!(f, "GTID {gtid}"),
            Self::Position(position) => write!(f, "{position}"),
            Self::Time { text, .. } => write!(f, "{text}"),
        }
    }
}

/// Whether the text is `YYYY-MM-DD HH:MM:SS`.
fn is_time(text: &str) -> bool {
    let pattern = b"0000-00-00 00:00:00";
    let fits = |(byte, of): (u8, &u8)| match of {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *of,
    };
    text.len() == pattern.len() && text.bytes().zip(pattern).all(fits)
}

/// Seconds since 1970 of a time in the local time zone, or with ` UTC` at its end.
fn seconds_of(text: &str) -> io::Result<u64> {
    // The command knows the time zones of the system, and when they change.
    let output = Command::new("date")
        .args(["-d", text, "+%s"])
        .output()
        .map_err(|error| io::Error::other(format!("date cannot be started: {error}")))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim().parse() {
        Ok(seconds) if output.status.success() => Ok(seconds),
        _ => Err(io::Error::other(format!(
            "--to={text}: there is no such time"
        ))),
    }
}

impl Target {
    /// # Errors
    /// If the text has none of the three forms.
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        if let Ok(gtid) = text.parse() {
            return Ok(Self::Gtid(gtid));
        }
        let local = text.strip_suffix(" UTC").unwrap_or(text);
        let local = local.strip_suffix('Z').unwrap_or(local);
        let is_utc = local.len() < text.len();
        let local = local.replacen('T', " ", 1);
        if is_time(&local) {
            let text = if is_utc { local + " UTC" } else { local };
            let seconds = seconds_of(&text)?;
            return Ok(Self::Time { seconds, text });
        }
        let position = text.rsplit_once(':').and_then(|(file, offset)| {
            let (file, offset) = (file.parse().ok()?, digits(offset).ok()?);
            Some(LogPosition { file, offset })
        });
        position.map(Self::Position).ok_or_else(|| {
            io::Error::other(format!(
                "--to={text} is neither a GTID such as 0-1-100, nor a position such as binlog.000003:4711, \
                 nor a time such as '2026-05-31 17:45:00'"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_gtid_a_position_or_a_time() {
        let gtid = Gtid {
            domain: 0,
            server: 1,
            sequence: 100,
        };
        assert_eq!(Target::parse("0-1-100").unwrap(), Target::Gtid(gtid));
        let file = LogName {
            base: "host-bin.log".to_owned(),
            number: 3,
        };
        let position = LogPosition { file, offset: 4711 };
        assert_eq!(
            Target::parse("host-bin.log.000003:4711").unwrap(),
            Target::Position(position)
        );
        for text in [
            "2026-05-31 17:45:00 UTC",
            "2026-05-31T17:45:00Z",
            "2026-05-31 17:45:00Z",
        ] {
            let Target::Time { seconds, text } = Target::parse(text).unwrap() else {
                panic!("{text} is a time");
            };
            assert_eq!(
                (seconds, text.as_str()),
                (1_780_249_500, "2026-05-31 17:45:00 UTC")
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "now",
            "0-1",
            "0-1-2-3",
            "0-1-+2",
            "0-1-1,1-1-1",
            "binlog.000001",
            "binlog.1:4",
            "/var/binlog.000001:4",
            "binlog.000001:-4",
            "0-01-5",
            "2026-05-31",
            "2026-02-30 00:00:00",
            "2026-05-31 25:00:00",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_files_have_six_digits_or_more() {
        let name: LogName = "binlog.999999".parse().unwrap();
        assert_eq!(name.next().to_string(), "binlog.1000000");
        assert_eq!(name.next().to_string().parse(), Ok(name.next()));
    }
}

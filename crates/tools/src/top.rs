//! `teak top`: what the engine of a running server does, again and again.

mod batch;
mod rates;
mod sample;
mod screen;

use self::rates::Rates;
use self::sample::Sample;
use crate::sql_client::{SqlClient, check_connection_options};
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Shows what Teak does in a running server: rows, transactions, reads and writes per second, memory, the log, delays of
/// writers, background jobs and the tables with the most reads and writes.
///
/// On a terminal the view is shown again after each interval; Ctrl-C ends it. With --batch, or if the output is no
/// terminal, lines of `name=value` are printed. The user of the server needs the privilege PROCESS.
///
/// The exit code is 0 after --count intervals, and 1 after an error.
///
/// Examples:
///
///   teak top -- --socket=/run/mysqld/mysqld.sock
///
///   teak top --batch --interval=10 --count=6 | grep ^engine
#[derive(Args)]
#[command(name = "top", verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Seconds of an interval, for example 0.5
    #[arg(long, default_value = "2", value_parser = seconds)]
    interval: Duration,

    /// Number of intervals; 0: until Ctrl-C
    #[arg(long, default_value_t = 0)]
    count: u64,

    /// Print lines of text
    #[arg(long)]
    batch: bool,

    /// The most tables that are shown
    #[arg(long, default_value_t = 10)]
    tables: usize,

    /// The client with which this command connects
    #[arg(long, default_value = "mariadb")]
    client: PathBuf,

    /// Options of the client that say how to connect
    #[arg(last = true)]
    options: Vec<String>,
}

const INTERVAL_MIN: f64 = 0.1;
const INTERVAL_MAX: f64 = 86400.0;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match (INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("write {INTERVAL_MIN} to {INTERVAL_MAX} seconds")),
    }
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    check_connection_options(&arguments.options)?;
    let client = SqlClient::new(&arguments.client, &arguments.options);
    let mut session = client.session()?;
    let is_batch = arguments.batch || !io::stdout().is_terminal();
    let mut output = io::stdout().lock();
    let mut before = Sample::read(&mut session)?;
    let mut shown = 0;
    let mut due = Instant::now();
    while arguments.count == 0 || shown < arguments.count {
        due += arguments.interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let after = Sample::read(&mut session)?;
        let rates = Rates::between(&before, &after);
        let text = match is_batch {
            true => batch::lines(&rates, &after, arguments.tables),
            false => screen::frame(&rates, &after, arguments.tables),
        };
        output.write_all(text.as_bytes())?;
        output.flush()?;
        before = after;
        shown += 1;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_with_fractions() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "x", "NaN", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}

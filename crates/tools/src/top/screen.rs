//! The view on a terminal.

use super::rates::{CAUSES, Latency, Rates};
use super::sample::{Job, Sample};
use crate::sizes::grouped;
use std::process::{Command, Stdio};
use teak_base::ByteSize;

/// To the upper left corner; long lines are cut off instead of continued on the next one.
const BEGIN: &str = "\x1b[H\x1b[?7l";
/// Removes the rest of a line.
const LINE_END: &str = "\x1b[K\n";
/// Removes the rest of the screen.
const END: &str = "\x1b[J\x1b[?7h";

const LINES_DEFAULT: usize = 24;
const JOBS_MAX: usize = 6;
const BAR_CHARACTERS: u64 = 20;

/// A number without digits after the point if they do not matter.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
fn rate(value: f64) -> String {
    match value.abs() < 100.0 {
        true => format!("{value:.1}"),
        false if value < 0.0 => format!("-{}", grouped(-value as u64)),
        false => grouped(value as u64),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
fn bytes(value: f64) -> String {
    ByteSize(value as u64).to_string()
}

fn time(microseconds: f64) -> String {
    match microseconds {
        value if value < 1000.0 => format!("{value:.0} µs"),
        value if value < 1_000_000.0 => format!("{:.1} ms", value / 1000.0),
        value => format!("{:.1} s", value / 1_000_000.0),
    }
}

fn latency(latency: Option<Latency>) -> String {
    let Some(latency) = latency else {
        return "-".to_owned();
    };
    let p99 = match latency.p99 {
        Some(limit) => format!("< {}", time(limit as f64)),
        None => "> 4.2 s".to_owned(),
    };
    format!("average {}, 99 % {p99}", time(latency.average))
}

fn bar(used: u64, limit: u64) -> String {
    let full = (used.saturating_mul(BAR_CHARACTERS) / limit.max(1)).min(BAR_CHARACTERS);
    let characters = (0..BAR_CHARACTERS).map(|place| if place < full { '█' } else { '░' });
    let text: String = characters.collect();
    format!("{text} {} of {}", ByteSize(used), ByteSize(limit))
}

/// A name without characters that a terminal would execute.
fn shown(name: &str) -> String {
    let shown = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    name.chars().map(shown).collect()
}

fn delays(rates: &Rates<'_>) -> String {
    let cause = |cause: &&str| {
        let delayed = rates.delayed_milliseconds(cause);
        (delayed > 0.0).then(|| format!("{cause} {} ms/s", rate(delayed)))
    };
    let causes: Vec<String> = CAUSES.iter().filter_map(cause).collect();
    match causes.is_empty() {
        true => "none".to_owned(),
        false => causes.join(", "),
    }
}

fn job(job: &Job) -> String {
    let mut text = format!("  {:<16} {}", job.kind, job.detail);
    if !job.table.is_empty() {
        text += &format!("  {} {}", shown(&job.table), shown(&job.index));
    }
    if job.is_running {
        text += &format!("  {}", time(job.elapsed_milliseconds as f64 * 1000.0));
    }
    if let Some(percent) = (job.done.saturating_mul(100)).checked_div(job.total) {
        text += &format!("  {percent} %");
    }
    text
}

fn engine_lines(rates: &Rates<'_>, now: &Sample) -> Vec<String> {
    let status = |name| now.status(name);
    let hits = rates
        .cache_hit_percent()
        .map_or("-".to_owned(), |hits| format!("{hits:.1} %"));
    let (jobs, running) = (
        now.jobs.len(),
        now.jobs.iter().filter(|job| job.is_running).count(),
    );
    vec![
        format!(
            "rows/s        inserted {}  updated {}  deleted {}  in bulk loads {}",
            rate(rates.of("rows_inserted")),
            rate(rates.of("rows_updated")),
            rate(rates.of("rows_deleted")),
            rate(rates.of("bulk_load_rows"))
        ),
        format!(
            "transactions  commits/s {}  rollbacks/s {}  active {}  waiting for locks {}",
            rate(rates.of("transactions_committed")),
            rate(rates.of("transactions_rolled_back")),
            status("transactions_active"),
            status("transactions_waiting")
        ),
        format!("commits       {}", latency(rates.latency("commit"))),
        format!(
            "statements    {}/s  {}",
            rate(rates.of("statement_microseconds_count")),
            latency(rates.latency("statement"))
        ),
        format!(
            "files         read {}/s  written {}/s",
            bytes(rates.of("bytes_read")),
            bytes(rates.of("bytes_written"))
        ),
        format!(
            "cache         hits {hits}  misses/s {}",
            rate(rates.of("cache_misses"))
        ),
        format!(
            "memory        {}",
            bar(status("memory_bytes"), status("cache_bytes_limit"))
        ),
        format!(
            "  memtables {}  page cache {}",
            ByteSize(status("memtable_bytes")),
            ByteSize(status("page_cache_bytes"))
        ),
        format!(
            "log           {}",
            bar(status("log_bytes_used"), status("log_bytes_limit"))
        ),
        format!(
            "  written {}/s  syncs/s {}",
            bytes(rates.of("log_bytes_written")),
            rate(rates.of("log_fsyncs"))
        ),
        format!(
            "background    flushes and merges/s {}  pending {}  jobs running {running}, waiting {}",
            rate(rates.of("flushes")),
            ByteSize(status("pending_flush_bytes")),
            jobs - running
        ),
        format!(
            "writers       delays/s {}  stopped now {}  by cause: {}",
            rate(rates.of("writer_stalls")),
            status("writers_stopped"),
            delays(rates)
        ),
    ]
}

fn lines(rates: &Rates<'_>, now: &Sample, tables: usize) -> Vec<String> {
    let mut lines = engine_lines(rates, now);
    lines.push(String::new());
    lines.push(format!(
        "{:>12} {:>12} {:>12} {:>12} {:>12}  TABLE",
        "READ/s", "WRITTEN/s", "ROWS +/s", "IN MEMORY", "FILES"
    ));
    for table in rates.tables.iter().take(tables) {
        lines.push(format!(
            "{:>12} {:>12} {:>12} {:>12} {:>12}  {}",
            bytes(table.read),
            bytes(table.written),
            rate(table.entries),
            ByteSize(table.now.memtable_bytes).to_string(),
            ByteSize(table.now.file_bytes).to_string(),
            shown(&table.name)
        ));
    }
    let running: Vec<&Job> = now.jobs.iter().filter(|job| job.is_running).collect();
    if !running.is_empty() {
        lines.push(String::new());
        lines.push("RUNNING JOBS".to_owned());
        lines.extend(running.into_iter().take(JOBS_MAX).map(job));
    }
    lines
}

/// The lines of the terminal.
fn height() -> usize {
    let output = Command::new("stty")
        .arg("size")
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let lines = text
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok());
    lines.filter(|lines| *lines > 0).unwrap_or(LINES_DEFAULT)
}

pub(super) fn frame(rates: &Rates<'_>, now: &Sample, tables: usize) -> String {
    let hours = now.uptime_seconds / 3600;
    let title = format!(
        "teak top  {}  up {hours}:{:02} h  {:.1} s  (Ctrl-C ends)",
        now.time,
        now.uptime_seconds / 60 % 60,
        rates.seconds
    );
    let mut text = BEGIN.to_owned();
    let lines = [title].into_iter().chain(lines(rates, now, tables));
    // A further line would scroll the view.
    for line in lines.take(height().saturating_sub(1)) {
        text += &line;
        text += LINE_END;
    }
    text + END
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_readable() {
        assert_eq!(rate(0.0), "0.0");
        assert_eq!(rate(12_345.6), "12,345");
        assert_eq!(rate(-12_345.6), "-12,345");
        assert_eq!(time(999.4), "999 µs");
        assert_eq!(time(4096.0), "4.1 ms");
        assert_eq!(time(2_500_000.0), "2.5 s");
        assert_eq!(
            bar(5 << 20, 10 << 20),
            "██████████░░░░░░░░░░ 5.0 MiB of 10.0 MiB"
        );
        assert!(bar(9, 0).contains("████████████████████"));
        assert_eq!(shown("a\x1b[2J"), "a\\u{1b}[2J");
        let p99 = Some(64);
        assert_eq!(
            latency(Some(Latency { average: 40.0, p99 })),
            "average 40 µs, 99 % < 64 µs"
        );
        let running = Job {
            is_running: true,
            kind: "INDEX BUILD".to_owned(),
            table: "d.t".to_owned(),
            index: "k".to_owned(),
            elapsed_milliseconds: 1500,
            done: 1,
            total: 4,
            ..Job::default()
        };
        assert_eq!(job(&running), "  INDEX BUILD        d.t k  1.5 s  25 %");
    }
}

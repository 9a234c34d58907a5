//! What the command prints.

use super::arguments::Arguments;
use super::journal::{Entry, Event, Outcome};
use super::plan::Plan;
use super::planned::Planned;
use super::tables::shown;
use crate::sizes::{grouped, ratio};
use teak_base::ByteSize;

/// Prints lines with columns of equal width; numbers are at the right.
fn print_columns(lines: &[Vec<String>], right_from: usize) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter(|line| line.len() > column + 1);
        cells
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut text = String::new();
        for (column, cell) in line.iter().enumerate() {
            let padding = " ".repeat(
                widths
                    .get(column)
                    .copied()
                    .unwrap_or(0)
                    .saturating_sub(cell.chars().count()),
            );
            let is_last = column + 1 == line.len();
            match (is_last, column >= right_from) {
                (true, _) => text += cell,
                (false, true) => text += &(padding + cell + "  "),
                (false, false) => text += &(cell.clone() + &padding + "  "),
            }
        }
        println!("{}", text.trim_end());
    }
}

fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    let seconds =
        std::time::Duration::try_from_secs_f64(seconds).map_or(u64::MAX, |time| time.as_secs());
    match seconds / 3600 {
        0 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02} h", seconds / 60 % 60),
    }
}

fn strings<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

fn planned_line(planned: &Planned) -> Vec<String> {
    let table = &planned.table;
    let mut line = vec![table.shown(), table.engine.clone()];
    if !planned.refusals.is_empty() {
        line.push(format!("REFUSED: {}", planned.refusals.join("; ")));
        return line;
    }
    let rows = planned
        .estimate
        .map_or(table.rows, |estimate| estimate.rows);
    line.push(format!("~{}", grouped(rows)));
    line.push(ByteSize(table.bytes).to_string());
    match planned.estimate {
        Some(estimate) => {
            line.push(format!("~{}", ByteSize(estimate.bytes)));
            line.push(ratio(table.bytes, estimate.bytes));
            line.push(format!("~{}", duration(estimate.seconds)));
        }
        None => line.extend(strings(["-", "-", "-"])),
    }
    line
}

pub(super) fn print_plan(plan: &Plan, arguments: &Arguments) {
    if plan.tables.is_empty() {
        println!("no table of {} matches", arguments.engines().join(", "));
        return;
    }
    let mut lines = vec![strings([
        "table", "engine", "rows", "size", "as Teak", "ratio", "time",
    ])];
    lines.extend(plan.tables.iter().map(planned_line));
    print_columns(&lines, 2);
    let convertible: Vec<&Planned> = plan.convertible().collect();
    let bytes: u64 = convertible.iter().map(|planned| planned.table.bytes).sum();
    let mut text = format!(
        "{} tables can be converted, {}",
        convertible.len(),
        ByteSize(bytes)
    );
    let estimates: Vec<_> = convertible
        .iter()
        .filter_map(|planned| planned.estimate)
        .collect();
    if !estimates.is_empty() {
        let bytes = estimates.iter().map(|estimate| estimate.bytes).sum();
        let seconds: f64 = estimates.iter().map(|estimate| estimate.seconds).sum();
        text += &format!(
            "; as Teak about {} in about {}",
            ByteSize(bytes),
            duration(seconds)
        );
    }
    println!("{text}; {} are refused", plan.refused().count());
    if estimates.iter().any(|estimate| !estimate.is_complete) {
        println!(
            "~: estimates, from samples of at most {} rows of each table",
            grouped(arguments.sample_rows)
        );
    }
    if !arguments.execute {
        println!("nothing was converted: --execute converts the tables");
    }
}

/// Prints the result of a table, immediately.
pub(super) fn print_outcome(outcome: &Outcome) {
    match outcome {
        Outcome::Converted(entry) => println!(
            "converted {}: {} rows, {}, {} to {}{}",
            shown(&entry.database, &entry.table),
            grouped(entry.rows),
            duration(entry.seconds),
            ByteSize(entry.bytes_before),
            ByteSize(entry.bytes_after),
            if entry.verified {
                ", checksum equal"
            } else {
                ", not compared"
            }
        ),
        Outcome::Skipped(table) => println!(
            "skipped {}: it is no table of {} any more",
            table.shown(),
            table.engine
        ),
        Outcome::Failed(table, error) => eprintln!("teak: {}: {error}", table.shown()),
    }
}

fn summary_line(entry: &Entry, remark: &str) -> Vec<String> {
    vec![
        shown(&entry.database, &entry.table),
        grouped(entry.rows),
        ByteSize(entry.bytes_before).to_string(),
        ByteSize(entry.bytes_after).to_string(),
        ratio(entry.bytes_before, entry.bytes_after),
        duration(entry.seconds),
        remark.to_owned(),
    ]
}

/// Prints the summary of all runs; returns whether all tables of this one were converted. `earlier`: what other runs
/// have converted.
pub(super) fn print_summary(plan: &Plan, earlier: &[Entry], outcomes: &[Outcome]) -> bool {
    let mut lines = vec![strings([
        "table", "rows", "before", "after", "ratio", "time", "",
    ])];
    let (mut before, mut after, mut count, mut failed) = (0, 0, 0, 0);
    let mut unknown = Vec::new();
    for entry in earlier {
        if entry.event == Event::Begun {
            unknown.push(shown(&entry.database, &entry.table));
            continue;
        }
        let remark = if entry.verified {
            "compared, earlier"
        } else {
            "not compared, earlier"
        };
        lines.push(summary_line(entry, remark));
        before += entry.bytes_before;
        after += entry.bytes_after;
        count += 1;
    }
    for outcome in outcomes {
        match outcome {
            Outcome::Converted(entry) => {
                lines.push(summary_line(
                    entry,
                    if entry.verified {
                        "compared"
                    } else {
                        "not compared"
                    },
                ));
                before += entry.bytes_before;
                after += entry.bytes_after;
                count += 1;
            }
            Outcome::Skipped(_) => {}
            Outcome::Failed(..) => failed += 1,
        }
    }
    if count > 0 {
        print_columns(&lines, 1);
    }
    println!(
        "{count} tables converted, {} to {}, ratio {}; {failed} failed, {} refused",
        ByteSize(before),
        ByteSize(after),
        ratio(before, after),
        plan.refused().count()
    );
    for table in &unknown {
        println!(
            "{table} was converted by an interrupted run, and its rows were not compared: use CHECK TABLE ... EXTENDED"
        );
    }
    failed == 0 && outcomes.len() == plan.convertible().count()
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_readable() {
        assert_eq!(duration(0.04), "0.0 s");
        assert_eq!(duration(9.96), "10.0 s");
        assert_eq!(duration(75.9), "1:15 min");
        assert_eq!(duration(7260.0), "2:01 h");
        assert_eq!(
            duration(f64::INFINITY),
            format!("{}:{:02} h", u64::MAX / 3600, u64::MAX / 60 % 60)
        );
    }
}

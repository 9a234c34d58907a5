//! The rows of the benchmark tables. The CREATE TABLE statements are in `bench/sql/shapes.py`.

use crate::calendar::{date_key, timestamp};
use crate::random::{Random, Vocabulary};
use crate::text::RowWriter;
use crate::web_log;
use std::io::{self, Write};

/// A table's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The fact table of the star schema benchmark (O'Neil et al., 2009): its 17 columns, and a
    /// comment of ten words.
    Star,
    /// Readings of 1000 sensors, in order of time.
    Sensor,
    /// Flights, in order of departure.
    Flights,
    /// The purchases of the insert benchmark: the keys of all indexes except the primary one are
    /// random.
    Purchases,
    /// Like `Star`, with a comment of thirty words.
    Phrase,
    /// Four random numbers of 8 bytes and text: about 64 bytes.
    Keys64,
    /// Four random numbers of 8 bytes and text: about 256 bytes.
    Keys256,
    /// The hits of a web analytics service, 105 columns ([`web_log`]).
    WebLog,
}

impl Shape {
    /// All shapes with their names on the command line.
    pub const ALL: [(&'static str, Shape); 8] = [
        ("star", Shape::Star),
        ("sensor", Shape::Sensor),
        ("flights", Shape::Flights),
        ("purchases", Shape::Purchases),
        ("phrase", Shape::Phrase),
        ("keys64", Shape::Keys64),
        ("keys256", Shape::Keys256),
        ("weblog", Shape::WebLog),
    ];

    /// Writes `rows` rows drawn from `seed`.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write<W: Write>(self, rows: u64, seed: u64, out: &mut RowWriter<W>) -> io::Result<()> {
        let mut random = Random::new(seed);
        match self {
            Shape::Star => star(rows, 10, &mut random, out),
            Shape::Phrase => star(rows, 30, &mut random, out),
            Shape::Keys64 => keys(rows, 32, &mut random, out),
            Shape::Keys256 => keys(rows, 224, &mut random, out),
            Shape::Sensor => sensor(rows, &mut random, out),
            Shape::Flights => flights(rows, &mut random, out),
            Shape::Purchases => purchases(rows, &mut random, out),
            Shape::WebLog => web_log::write(rows, seed, out),
        }
    }
}

/// One of `choices`, with equal probability.
fn choose<'a>(choices: &[&'a str], random: &mut Random) -> &'a str {
    usize::try_from(random.below(choices.len() as u64))
        .ok()
        .and_then(|index| choices.get(index).copied())
        .unwrap_or("")
}

/// `words_of_comment`: their number.
fn star<W: Write>(
    rows: u64,
    words_of_comment: u64,
    random: &mut Random,
    out: &mut RowWriter<W>,
) -> io::Result<()> {
    const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
    const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    let words = Vocabulary::new(1000);
    // Sizes of the dimension tables: in proportion to `rows`, as in the benchmark with six million
    // facts, but not below a minimum.
    let customers = (rows / 200).max(1000);
    let parts = (rows / 30).max(5000);
    let suppliers = (rows / 3000).max(200);
    let mut order = 0;
    let mut written = 0;
    let mut comment = String::new();
    while written < rows {
        order += 1;
        let lines = random.between(1, 7).min(rows - written);
        let customer = random.between(1, customers);
        let day = random.below(2406);
        let priority = choose(&PRIORITIES, random);
        let total = random.between(100_000, 40_000_000);
        for line in 1..=lines {
            let quantity = random.between(1, 50);
            let part = random.between(1, parts);
            // The price of a part is a function of the part, as in TPC-H 4.2.3.
            let unit = 90_000 + (part / 10) % 20_001 + 100 * (part % 1000);
            let price = quantity * unit;
            let discount = random.below(11);
            out.number(order);
            out.number(line);
            out.number(customer);
            out.number(part);
            out.number(random.between(1, suppliers));
            out.number(date_key(day));
            out.text(priority);
            out.text("0");
            out.number(quantity);
            out.number(price);
            out.number(total);
            out.number(discount);
            out.number(price * (100 - discount) / 100);
            out.number(unit * 6 / 10);
            out.number(random.below(9));
            out.number(date_key(day + random.between(30, 90)));
            out.text(choose(&MODES, random));
            comment.clear();
            for index in 0..words_of_comment {
                if index > 0 {
                    comment.push(' ');
                }
                comment.push_str(words.word(random));
            }
            out.text(&comment);
            out.end_row()?;
        }
        written += lines;
    }
    Ok(())
}

fn sensor<W: Write>(rows: u64, random: &mut Random, out: &mut RowWriter<W>) -> io::Result<()> {
    const SENSORS: u64 = 1000;
    let mut temperature = vec![20_000_u64; 1000];
    let mut written = 0;
    let mut tick = 0;
    while written < rows {
        for (sensor, reading) in (0..SENSORS).zip(temperature.iter_mut()) {
            if written == rows {
                break;
            }
            // A random walk in steps of up to 0.1 degrees, between 0.1 and 40 degrees.
            *reading = (*reading + random.below(201))
                .saturating_sub(100)
                .clamp(100, 40_000);
            out.number(sensor);
            out.text(&timestamp(tick * 10));
            out.decimal(*reading, 3);
            out.decimal(random.between(30_000, 70_000), 3);
            out.decimal(random.between(330, 420), 2);
            if random.below(100) == 0 {
                out.null();
            } else {
                out.number(random.skewed(8));
            }
            out.end_row()?;
            written += 1;
        }
        tick += 1;
    }
    Ok(())
}

fn flights<W: Write>(rows: u64, random: &mut Random, out: &mut RowWriter<W>) -> io::Result<()> {
    const CARRIERS: [&str; 10] = ["UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN", "VX", "FL"];
    const ORIGINS: [&str; 3] = ["EWR", "JFK", "LGA"];
    let words = Vocabulary::new(100);
    let mut seconds = 0;
    for flight in 1..=rows {
        seconds += random.below(180);
        let destination: String = words
            .word(random)
            .chars()
            .take(3)
            .map(|letter| letter.to_ascii_uppercase())
            .collect();
        out.number(flight);
        out.text(&timestamp(seconds));
        out.text(choose(&CARRIERS, random));
        out.number(random.between(1, 6000));
        out.text(&format!("N{:05}", random.skewed(4000)));
        out.text(choose(&ORIGINS, random));
        out.text(&destination);
        if random.below(40) == 0 {
            out.null();
            out.null();
        } else {
            out.number(random.skewed(180));
            out.number(random.skewed(180));
        }
        out.number(random.between(30, 400));
        out.number(random.between(80, 5000));
        out.end_row()?;
    }
    Ok(())
}

/// Columns: `at, register, customer, product, price, data` (the server assigns the key).
fn purchases<W: Write>(rows: u64, random: &mut Random, out: &mut RowWriter<W>) -> io::Result<()> {
    let words = Vocabulary::new(1000);
    for row in 0..rows {
        out.text(&timestamp(row / 100));
        out.number(random.below(1000));
        out.number(random.below(100_000));
        out.number(random.below(10_000));
        out.decimal(random.between(1, 50_000), 2);
        out.text(&format!("{} {}", words.word(random), words.word(random)));
        out.end_row()?;
    }
    Ok(())
}

/// Columns: four random numbers, and text of this length.
fn keys<W: Write>(
    rows: u64,
    text_bytes: usize,
    random: &mut Random,
    out: &mut RowWriter<W>,
) -> io::Result<()> {
    let words = Vocabulary::new(1000);
    let mut text = String::new();
    for _ in 0..rows {
        for _ in 0..4 {
            out.number(random.bits());
        }
        text.clear();
        while text.len() < text_bytes {
            text.push_str(words.word(random));
            text.push(' ');
        }
        text.truncate(text_bytes);
        out.text(text.trim_end());
        out.end_row()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Form;

    fn lines(shape: Shape, rows: u64, seed: u64) -> Vec<String> {
        let mut out = RowWriter::new(Vec::new(), Form::Load { separator: b'\t' });
        shape.write(rows, seed, &mut out).unwrap();
        let text = String::from_utf8(out.finish().unwrap()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_shape_has_as_many_rows_as_asked_and_one_width() {
        for ((name, shape), width) in Shape::ALL.into_iter().zip([18, 6, 11, 6, 18, 5, 5, 105]) {
            let lines = lines(shape, 1234, 5);
            assert_eq!(lines.len(), 1234, "{name}");
            for line in &lines {
                assert_eq!(line.split('\t').count(), width, "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_seed_repeats_its_rows() {
        for (_, shape) in Shape::ALL {
            assert_eq!(lines(shape, 100, 1), lines(shape, 100, 1));
            assert_ne!(lines(shape, 100, 1), lines(shape, 100, 2));
        }
    }

    #[test]
    fn comments_have_ten_or_thirty_words() {
        for (shape, words) in [(Shape::Star, 10), (Shape::Phrase, 30)] {
            for line in lines(shape, 50, 3) {
                let comment = line.rsplit('\t').next().unwrap();
                assert_eq!(comment.split(' ').count(), words);
            }
        }
    }

    #[test]
    fn rows_of_keys_have_their_size() {
        for (shape, bytes) in [(Shape::Keys64, 32), (Shape::Keys256, 224)] {
            for line in lines(shape, 50, 3) {
                let text = line.rsplit('\t').next().unwrap();
                assert!(text.len() <= bytes && text.len() + 1 >= bytes, "{line}");
            }
        }
    }
}

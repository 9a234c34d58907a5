//! `teak-generate`: writes a benchmark table's rows to a file.

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use teak_bench::shapes::Shape;
use teak_bench::text::{Form, RowWriter};

const USAGE: &str = "\
usage: teak-generate SHAPE --rows N [--seed N] [--output FILE] [--separator C]
                     [--insert TABLE [--batch ROWS]]
  SHAPE          star, sensor, flights, purchases, phrase, keys64, keys256 or weblog
  --separator C  the character between fields of LOAD DATA, a tab when not given
  --output FILE  standard output when not given
  --insert TABLE INSERT statements of --batch rows (1000), one to a line, instead of what LOAD DATA reads;
                 TABLE may name columns: 'purchases (at, price)'";

struct Options {
    shape: Shape,
    rows: u64,
    seed: u64,
    output: Option<String>,
    form: Form,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let name = arguments.next().ok_or("no shape given")?;
    let (_, shape) = Shape::ALL
        .into_iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("unknown shape {name}"))?;
    let (mut rows, mut seed, mut batch) = (None, 1, 1000);
    let (mut output, mut table, mut separator) = (None, None, b'\t');
    while let Some(option) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{option} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|error| format!("{option} {value}: {error}"))
        };
        match option.as_str() {
            "--rows" => rows = Some(number()?),
            "--seed" => seed = number()?,
            "--batch" => batch = number()?,
            "--separator" => match *value.as_bytes() {
                [one @ (b'\t' | b'|')] => separator = one,
                _ => return Err(format!("--separator {value}: not a tab or a bar")),
            },
            "--output" => output = Some(value),
            "--insert" => table = Some(value),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    let form = table.map_or(Form::Load { separator }, |table| Form::Insert {
        table,
        rows: batch,
    });
    let rows = rows.ok_or("--rows is needed")?;
    Ok(Options {
        shape,
        rows,
        seed,
        output,
        form,
    })
}

fn generate(options: Options) -> io::Result<()> {
    let out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(File::create(path)?),
        None => Box::new(io::stdout().lock()),
    };
    let mut rows = RowWriter::new(out, options.form);
    options.shape.write(options.rows, options.seed, &mut rows)?;
    rows.finish()?;
    Ok(())
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("teak-generate: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match generate(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("teak-generate: {error}");
            ExitCode::FAILURE
        }
    }
}

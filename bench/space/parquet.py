"""Writes and reads Parquet files, and files of pco, as a program of its own in build/venv: python -m bench.space.parquet.

Standard input is a JSON object: `format` is parquet or pco, `directory` is for the files, and `tables` has for each table its
name, path and separator of the rows in text, columns ([name, kind, size, nullable]), and `order`, the columns by which rows are sorted.
Standard output has a line of JSON after each part: the load's rows and seconds (read the text, sort, encode, write, sync), then,
after each line of input with the word `scan`, seconds and answers of a scan of all columns.

Parquet: pyarrow's defaults (dictionaries, row groups of up to 1,048,576 rows), zstd at its default level, and decimals as integers, which are
smaller. Columns that are NOT NULL are required ones. pco: each column in a file of the Python package
pcodec, with default options, and a bit for each row of a nullable column, compressed with zstd.
"""

import json
import os
import sys
import time
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path


def arrow_type(arrow, kind, size):
    if kind in ("int", "uint"):
        return getattr(arrow, f"{kind}{size[0]}")()
    if kind == "decimal":
        return arrow.decimal128(*size)
    return {"text": arrow.string(), "date": arrow.date32(), "datetime": arrow.timestamp("s")}[kind]


def read_text(table):
    import pyarrow
    from pyarrow import csv
    names = [name for name, *_ in table["columns"]]
    types = {name: arrow_type(pyarrow, kind, size) for name, kind, size, _ in table["columns"]}
    # A separator may end each row.
    more = ["end_of_row"] if table["ends_with_separator"] else []
    quote = '"' if table["separator"] == "," else False
    found = csv.read_csv(table["path"], csv.ReadOptions(column_names=[*names, *more]), csv.ParseOptions(delimiter=table["separator"], quote_char=quote),
                         csv.ConvertOptions(column_types=types, include_columns=names, null_values=["\\N"], strings_can_be_null=True))
    found = found.cast(pyarrow.schema([pyarrow.field(name, types[name], nullable) for name, _, _, nullable in table["columns"]]))
    return found.sort_by([(name, "ascending") for name in table["order"]]) if table["order"] else found


def sync(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())


class Parquet:
    def __init__(self, directory, table):
        self.path = Path(directory) / f"{table['name']}.parquet"
        self.table = table

    def write(self, rows):
        from pyarrow import parquet
        parquet.write_table(rows, self.path, compression="zstd", store_decimal_as_integer=True)
        sync(self.path)

    def scan(self):
        """Reads the row groups one after another; returns the number of rows and, for each column, what columns.scan selects."""
        from pyarrow import parquet
        file = parquet.ParquetFile(self.path)
        sums = [None] * len(self.table["columns"])
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            for number, (name, kind, *_) in enumerate(self.table["columns"]):
                sums[number] = joined(kind, sums[number], folded(kind, rows[name]))
        return [file.metadata.num_rows, *sums]


def folded(kind, values):
    from pyarrow import compute
    if kind == "text":
        values = compute.binary_length(values)
    return (compute.max if kind in ("date", "datetime") else compute.sum)(values).as_py()


def joined(kind, one, other):
    """The fold of two parts; a part may have no value."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other) if kind in ("date", "datetime") else one + other


class Pco:
    """A file for each column; only numbers and times have one."""

    def __init__(self, directory, table):
        self.directory, self.table = Path(directory), table

    def path(self, name, suffix="pco"):
        return self.directory / f"{self.table['name']}.{name}.{suffix}"

    def write(self, rows):
        import numpy
        import pyarrow
        from pcodec import ChunkConfig, standalone
        for name, kind, size, is_nullable in self.table["columns"]:
            column = rows[name].combine_chunks()
            if is_nullable:
                valid = numpy.packbits(column.is_valid().to_numpy(zero_copy_only=False))
                self.path(name, "valid").write_bytes(pyarrow.compress(valid.tobytes(), "zstd", asbytes=True))
                sync(self.path(name, "valid"))
                column = column.drop_null()
            self.path(name).write_bytes(standalone.simple_compress(numbers(column, kind, size), ChunkConfig()))
            sync(self.path(name))

    def scan(self):
        import numpy
        from pcodec import standalone
        found, rows = [], 0
        for name, kind, size, _ in self.table["columns"]:
            values = standalone.simple_decompress(self.path(name).read_bytes())
            rows = max(rows, len(values))
            if kind == "datetime":
                found.append(datetime.fromtimestamp(int(values.max()), timezone.utc).replace(tzinfo=None))
            else:
                total = int(values.sum(dtype=numpy.int64))
                found.append(Decimal(total).scaleb(-size[1]) if kind == "decimal" else total)
        return [rows, *found]


def numbers(column, kind, size):
    """The column as an array of integers: units of a decimal's last digit, seconds of a time."""
    import numpy
    if kind in ("int", "uint"):
        values = column.to_numpy()
        return values.astype(numpy.uint16) if size[0] == 8 else values
    if kind == "decimal":
        return numpy.rint(column.cast("float64").to_numpy() * 10 ** size[1]).astype(numpy.int32)
    if kind == "datetime":
        return column.cast("int64").to_numpy()
    raise ValueError(f"pco has no type for {kind}")


def main():
    job = json.loads(sys.stdin.readline())
    kind = {"parquet": Parquet, "pco": Pco}[job["format"]]
    # The libraries are loaded before the time begins.
    import pyarrow
    from pyarrow import csv, parquet  # noqa: F401
    pyarrow.set_cpu_count(len(os.sched_getaffinity(0)))
    files = [kind(job["directory"], table) for table in job["tables"]]
    began, rows = time.monotonic(), 0
    for file in files:
        read = read_text(file.table)
        file.write(read)
        rows += len(read)
        del read
    print(json.dumps({"rows": rows, "seconds": time.monotonic() - began}), flush=True)
    for _ in sys.stdin:
        began = time.monotonic()
        answers = [file.scan() for file in files]
        seconds = time.monotonic() - began
        print(json.dumps({"seconds": seconds, "answers": [[str(value) for value in answer] for answer in answers]}), flush=True)


if __name__ == "__main__":
    main()

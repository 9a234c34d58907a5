"""MariaDB's own tests on InnoDB and on Teak, compared.

Every test runs twice on the same server build, with InnoDB and with Teak as the default engine; Teak also replaces
InnoDB where a test names it. Failed statements do not end a test. The output of the two runs must be equal except
for the engine's name; estimated rows and sizes are counted separately. Recorded results are used only to explain
differences (hunks.py) and to find the tests that pass on InnoDB, because distributions ship outdated ones.

    python3 -m tests.server_suites.run                              everything (mtr/suites_accepted.txt lists what may differ, and why)
    python3 -m tests.server_suites.run --suite parts --suite main   some suites
    python3 -m tests.server_suites.run main.join parts.%            some tests (% stands for anything)
    python3 -m tests.server_suites.run --quick                      a part that takes a few minutes
    python3 -m tests.server_suites.run --reuse main.join            Teak only, compared with InnoDB's output of an earlier run
    python3 -m tests.server_suites.run --again main.subselect       InnoDB again: output that it does not repeat is not compared
    python3 -m tests.server_suites.run --report                     run nothing: compare the output of earlier runs
    python3 -m tests.server_suites.run --suite rpl --suite binlog   replication tests that require InnoDB (not part of everything)

Differences are left in build/suites/diff, output in build/suites/output-ENGINE, logs in build/suites/log-ENGINE-*; SUITES_DIR names
another place."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.harness import BUILD, ROOT, finish

from . import compare, copies, hunks
from .copies import OUT

ACCEPTED = ROOT / "mtr/suites_accepted.txt"
QUICK = ["storage_engine.%", "engines/iuds.insert%", "main.insert%", "main.null%", "main.type_d%", "main.key%",
         "main.auto_increment%", "main.partition_mgm", "main.alter_table", "period.%", "handler.%", "json.%"]
KNOWN = copies.SUITES + copies.REPLICATION
EQUAL = ("same", "estimates", "unsteady", "recorded")
# A reason that begins with these words accepts only other plans and, without ORDER BY, another order of lines.
PLANS, PLAN_KINDS = "other plans", ("plan", "order")
VERDICT = re.compile(r"^(\S+)(?: '([^']*)')?\s+(?:w\d+ )?\[ (pass|fail|skipped|disabled|retry-\w+|exp-fail) \]\s*(.*)$")
CRASH = re.compile(r"mariadbd got signal|mysqld got signal|Server .* failed during test run|Lost connection to")
TIMEOUT = re.compile(r"Test case timeout after")  # the runner aborts the server then, which looks like a crash


class Run:
    """One engine's outcome: test -> (verdict, remark)."""

    def __init__(self, engine: str, label: str = ""):
        self.engine = engine
        self.output = OUT / f"output-{engine}{label}"
        self.memory = OUT / f"verdicts-{engine}{label}.json"
        self.verdicts: dict[str, tuple[str, str]] = {}

    def recall(self):
        """Reads the results of earlier runs."""
        if self.memory.exists():
            self.verdicts = {test: tuple(verdict) for test, verdict in json.loads(self.memory.read_text()).items()}

    def remember(self):
        earlier = json.loads(self.memory.read_text()) if self.memory.exists() else {}
        self.memory.write_text(json.dumps(earlier | self.verdicts, indent=0))

    def name(self, test: str, combination: str | None) -> str:
        test = test.replace(f"-{self.engine}.", ".")
        return f"{test},{combination}" if combination else test

    def text(self, test: str) -> bytes | None:
        name, _, combination = test.partition(",")
        suite, _, base = name.partition(".")
        candidates = [suite, f"{suite}-{self.engine}"]
        for candidate in candidates:
            stem = f"{candidate}.{base}".replace("/", "-") + (f",{combination}" if combination else "")
            if (self.output / stem).exists():
                return (self.output / stem).read_bytes()
        return None

    def read(self, log: Path):
        """Reads the runner's report."""
        last = None
        for line in log.read_text(errors="replace").splitlines():
            if match := VERDICT.match(line):
                last = self.name(match[1], match[2])
                self.verdicts[last] = (match[3], match[4].strip())
            elif last and self.verdicts[last][0] == "fail":
                if TIMEOUT.search(line):
                    self.verdicts[last] = ("timeout", line.strip())
                elif CRASH.search(line):
                    self.verdicts[last] = ("crash", line.strip())
                elif self.verdicts[last][0] == "fail" and "Found warnings/errors in server log" in line:
                    self.verdicts[last] = ("warned", line.strip())


def wanted(patterns: list[str], suites: list[str]) -> dict[str, list[str]]:
    """Suite -> patterns of its tests; no patterns: all."""
    if not patterns:
        return {suite: [] for suite in suites}
    chosen: dict[str, list[str]] = {}
    for pattern in patterns:
        suite, _, name = pattern.partition(".")
        home = "storage_engine" if suite.startswith("storage_engine") else suite
        if home not in KNOWN:
            sys.exit(f"error: there is no suite {suite} here; suites: {' '.join(KNOWN)}")
        chosen.setdefault(home, []).append(name or "%")
    return chosen


def named(test: str, chosen: dict[str, list[str]]) -> bool:
    suite, _, name = test.partition(",")[0].partition(".")
    patterns = chosen.get("storage_engine" if suite.startswith("storage_engine") else suite)
    return patterns is not None and (not patterns or any(re.fullmatch(e, name) for e in expressions(patterns)))


def expressions(patterns: list[str]) -> list[str]:
    return [re.escape(pattern).replace("%", ".*") for pattern in patterns]


def run_suite(run: Run, tree: Path, suite: str, patterns: list[str], options: argparse.Namespace):
    suites, tests = copies.tests_of(suite, run.engine)
    log = OUT / f"log-{run.engine}-{suite.replace('/', '-')}"
    var = Path(options.vardir or OUT) / f"var-{run.engine}"
    command = ["perl", "./mariadb-test-run.pl", f"--vardir={var}", f"--parallel={options.parallel}", "--force",
               "--max-test-fail=0", "--retry=0", "--suite-timeout=300", "--testcase-timeout=4", "--verbose-restart",
               "--nocheck-testcases", "--mysqld=--plugin-maturity=experimental", "--mysqld=--plugin-load-add=ha_teak",
               "--mysqld=--loose-teak-cache-size=256M", "--mysqld=--loose-teak-auto-analyze=OFF", f"--mysqld=--default-storage-engine={run.engine}", "--mysqld=--innodb",
               f"--suite={','.join(suites)}"]
    if left_out := copies.left_out(suite):
        command.append(f"--skip-test=^({'|'.join(map(re.escape, left_out))})$")
    expression = expressions(patterns)
    if tests:
        tests = [test for test in tests if not expression or any(re.fullmatch(e, test.split(".", 1)[1]) for e in expression)]
        if not tests:
            return
        command += tests
    elif expression:
        command.append(f"--do-test=^({'|'.join(expression)})$")
    with tempfile.TemporaryDirectory(prefix="teak-suites.") as short, open(log, "w") as sink:
        environment = dict(os.environ, SUITES_OUTPUT=str(run.output), MYSQL_TEST=str(ROOT / "tests/server_suites/mysqltest.sh"))
        subprocess.run(command + [f"--tmpdir={short}"], cwd=tree / copies.SYSTEM.name, env=environment, stdout=sink,
                       stderr=subprocess.STDOUT, check=False)
    run.read(log)
    if not options.keep:
        shutil.rmtree(var, ignore_errors=True)


def accepted() -> dict[str, str]:
    listed = {}
    for line in ACCEPTED.read_text().splitlines():
        if line and not line.startswith("#"):
            test, _, reason = line.partition(" ")
            if not reason.strip():
                sys.exit(f"error: {ACCEPTED.name}: {test} has no reason")
            listed[test] = reason.strip()
    return listed


def judge(test: str, reference: Run, again: Run, subject: Run) -> tuple[str, str]:
    """(class, difference) of a test that ran on InnoDB."""
    verdict, remark = subject.verdicts.get(test, ("missing", ""))
    before = reference.verdicts[test][0]
    if verdict == "crash":
        return "crash", remark
    if verdict == "timeout":
        return "failed", remark
    if verdict in ("skipped", "disabled", "missing"):
        return "skipped", remark
    left, right = reference.text(test), subject.text(test)
    if left is None or right is None:
        return ("same", "") if verdict == before and left == right else ("failed", remark)
    kind, difference = compare.classify(left, right, again.text(test), hunks.recorded_result(test))
    if verdict not in (before, "pass") and kind in EQUAL:
        return "failed", f"{before} became {verdict} {remark}\n"
    return kind, difference


def passes(test: str, reference: Run) -> bool:
    """Whether InnoDB prints the test's recorded result, except for estimates."""
    text, recorded = reference.text(test), hunks.recorded_result(test)
    return None not in (text, recorded) and compare.classify(recorded, text)[0] in ("same", "estimates")


def report(reference: Run, again: Run, subject: Run, listed: dict[str, str]) -> int:
    folder = OUT / "diff"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    counts: Counter[str] = Counter()
    worst, needed, reasons = [], set(), Counter()
    for test in sorted(reference.verdicts):
        verdict = reference.verdicts[test][0]
        if verdict in ("skipped", "disabled"):
            counts["skipped on both"] += 1
            continue
        if verdict in ("crash", "timeout"):
            counts["InnoDB ends badly"] += 1
            continue
        if copies.is_about_innodb(test.partition(",")[0]):
            counts["about InnoDB"] += 1
            continue
        if copies.is_of_other_engines(test.partition(",")[0]):
            counts["of other engines"] += 1
            continue
        kind, difference = judge(test, reference, again, subject)
        if difference:
            (folder / f"{test.replace('/', '-')}.{kind}").write_text(difference, errors="surrogateescape")
        base = test.partition(",")[0]
        reason = listed.get(test) or listed.get(base)
        if passes(test, reference):
            counts["passed"] += 1
            counts["passed, same outcome"] += kind in EQUAL or kind in PLAN_KINDS and (reason or "").startswith(PLANS)
        if kind in EQUAL:
            counts[kind] += 1
        elif reason and kind != "crash" and (kind in PLAN_KINDS or not reason.startswith(PLANS)):
            counts["accepted"] += 1
            reasons[reason] += 1
            needed.add(test if test in listed else base)
        else:
            counts[kind] += 1
            worst.append((kind, test))
    for kind, test in sorted(worst):
        print(f"differs: {test} ({kind})")
    ran = {name for test, verdict in reference.verdicts.items() if verdict[0] not in ("skipped", "disabled")
           for name in (test, test.partition(",")[0])}
    for test in sorted(ran & listed.keys() - needed - {name for _, name in worst}):
        print(f"no longer  {test}: listed in {ACCEPTED.name}, but equal")
    for reason, number in reasons.most_common():
        print(f"accepted   {number:4} {reason}")
    equal = sum(counts[kind] for kind in EQUAL)
    good, bad = equal + counts["accepted"], len(worst)
    compared = good + bad
    plans = sum(number for reason, number in reasons.items() if reason.startswith(PLANS))
    print(f"-- {compared} tests ran on InnoDB. On Teak {counts['same']} print the same, {counts['estimates']} except for estimates "
          f"and ALTER TABLE's method, {counts['unsteady']} except for output that InnoDB does not repeat, "
          f"{counts['recorded']} the recorded result where InnoDB differs from it; {plans} differ in plans as accepted, "
          f"{counts['accepted'] - plans} otherwise as accepted; {counts['plan']} have other plans, {counts['order']} also "
          f"another order of rows, {counts['different']} other differences; {counts['failed']} fail, {counts['skipped']} are "
          f"skipped, {counts['crash']} crash")
    if compared:
        print(f"-- {100 * equal / compared:.1f}% equal, {100 * (equal + plans) / compared:.1f}% equal except for plans, "
              f"{100 * good / compared:.1f}% equal or accepted; {counts['skipped on both']} run on neither engine, "
              f"{counts['InnoDB ends badly']} crash or hang InnoDB, {counts['about InnoDB']} test features that only InnoDB has")
    if counts["passed"]:
        print(f"-- {counts['passed']} pass on InnoDB: it prints what their recorded results say. "
              f"{100 * counts['passed, same outcome'] / counts['passed']:.2f}% of these have the same outcome on Teak, except for plans")
    return finish(good, bad, f"{compared:,} tests of the server")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="SUITE.TEST")
    parser.add_argument("--suite", action="append", choices=KNOWN, help="(may be repeated)")
    parser.add_argument("--parallel", type=int, default=int(os.environ.get("MTR_PARALLEL", "2")))
    parser.add_argument("--quick", action="store_true", help="a part that takes about four minutes")
    parser.add_argument("--reuse", action="store_true", help="use InnoDB's output of earlier runs")
    parser.add_argument("--again", action="store_true", help="run InnoDB again, to find output that it does not repeat")
    parser.add_argument("--report", action="store_true", help="compare the output of earlier runs")
    parser.add_argument("--vardir", default=os.environ.get("MTR_VAR"), help="directory of the servers' data (build/suites)")
    parser.add_argument("--keep", action="store_true", help="keep the servers' data and logs")
    options = parser.parse_args()
    if not (BUILD / "ha_teak.so").exists() and "TEAK_PLUGIN" not in os.environ:
        sys.exit("error: there is no build/ha_teak.so: run make build.")

    patterns = options.tests + (QUICK if options.quick else [])
    chosen = wanted(patterns, options.suite or copies.SUITES)
    OUT.mkdir(parents=True, exist_ok=True)
    reference, again, subject = Run("innodb"), Run("innodb", "-again"), Run("teak")
    if options.reuse or options.report or options.again:
        reference.recall()
    if options.report or options.again:
        subject.recall()
    running = [] if options.report else [again] if options.again else [subject] if options.reuse else [reference, subject]
    trees = {}
    for run in running:
        if not patterns and not options.suite:
            shutil.rmtree(run.output, ignore_errors=True)
        run.output.mkdir(parents=True, exist_ok=True)
        trees[run.engine] = copies.make(run.engine)
    for suite, names in chosen.items():
        for run in running:
            print(f"-- {suite} on {run.engine}", flush=True)
            run_suite(run, trees[run.engine], suite, names, options)
    for run in running:
        run.remember()
    if options.reuse or options.report or options.again:
        reference.verdicts = {test: verdict for test, verdict in reference.verdicts.items()
                              if test in subject.verdicts and named(test, chosen)}
    sys.exit(report(reference, again, subject, accepted()))


if __name__ == "__main__":
    main()

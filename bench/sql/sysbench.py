"""`make sysbench`: sysbench 1.0's OLTP tests on several engines, on empty private servers, alternately; medians and ratios.

Every engine gets the same cache and keeps its default settings, so every engine is durable at commit. A repetition
creates a server, loads the table, and runs all tests one after the other, read-only ones first. The rate is events
(transactions) a second. Results go to build/bench/sysbench.json.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import zlib

from tests.harness import BUILD, Server, wait_for_background_writes

DIRECTORY = BUILD / "bench"
PLUGINS = {"InnoDB": None, "Teak": "ha_teak", "RocksDB": "ha_rocksdb", "Before": "ha_teak"}
TESTS = ["oltp_point_select", "oltp_read_only", "oltp_update_index", "oltp_update_non_index", "oltp_read_write",
         "oltp_write_only", "oltp_insert", "oltp_delete"]
RATE = re.compile(r"^\s*transactions:\s+(\d+)\s+\(([\d.]+) per sec\.\)", re.M)
# Counters of syncs at commit. The server does not count the syncs of InnoDB's log.
SYNCS = {"Binlog_group_commits": "the binary log", "Teak_log_fsyncs": "Teak's log"}
IGNORED = re.compile(r"ignored errors:\s+(\d+)")


def say(text):
    print(f"-- {text}", flush=True)


def sysbench(options, engine, server, test, command, threads, seed):
    done = subprocess.run(
        ["sysbench", test, "--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sbtest",
         f"--mysql-storage-engine={'Teak' if engine == 'Before' else engine}", "--tables=1", f"--table-size={options.rows}", f"--threads={threads}",
         f"--time={options.seconds}", f"--rand-type={options.distribution}", f"--rand-seed={seed}", command],
        check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"sysbench {test} {command} on {engine}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def syncs(connection):
    found = dict(connection.run("SHOW GLOBAL STATUS"))
    return {name: int(found.get(name.encode(), 0)) for name in SYNCS}


def repetition(options, engine, number, results):
    directory = DIRECTORY / "sysbench"
    arguments = [f"--cache={options.cache}", "--performance-schema=OFF", *options.server_option]
    if engine == "Before":
        arguments.append(f"--teak-plugin={options.before}")
    elif engine != "Teak":
        arguments += ["--no-teak", *([f"--plugin={PLUGINS[engine]}"] if PLUGINS[engine] else [])]
    server = Server(directory, arguments)
    server.start_empty()
    try:
        with server.connect() as connection:
            connection.run("CREATE DATABASE sbtest")
            sysbench(options, engine, server, TESTS[0], "prepare", 1, options.seed)
            wait_for_background_writes(connection, "Teak" if engine == "Before" else engine)
            connection.run("ANALYZE TABLE sbtest.sbtest1")
            connection.run("SELECT SUM(LENGTH(c)) FROM sbtest.sbtest1")
            for test in options.tests:
                for threads in options.threads:
                    before = syncs(connection)
                    # All engines use the same seed, but each run has another one. Otherwise updates would not change
                    # rows, and deletes would find no rows.
                    seed = 1 + zlib.crc32(f"{options.seed} {number} {test} {threads}".encode()) % 1_000_000
                    text = sysbench(options, engine, server, test, "run", threads, seed)
                    done, rate = RATE.search(text).groups()
                    rate, ignored = float(rate), int(IGNORED.search(text).group(1))
                    per_commit = [f"{(count - before[name]) / int(done):.2f} of {SYNCS[name]}"
                                  for name, count in syncs(connection).items() if count > before[name]]
                    results.setdefault(f"{test} {threads}", {}).setdefault(engine, []).append(rate)
                    say(f"{engine:8} {test:22} {threads:2} threads: {rate:10,.0f} a second"
                        + (f", {ignored} repeated after an error" if ignored else "")
                        + (f"; syncs per transaction: {', '.join(per_commit)}" if per_commit else ""))
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cache", default="256M")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--distribution", default="uniform", help="sysbench's --rand-type")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["InnoDB", "Teak"])
    parser.add_argument("--threads", type=lambda text: [int(one) for one in text.split(",")], default=[2, 8])
    parser.add_argument("--tests", type=lambda text: text.split(","), default=TESTS)
    parser.add_argument("--before", help="another build of the plugin, measured as engine Before")
    parser.add_argument("--server-option", action="append", default=[])
    options = parser.parse_args()
    if ("Before" in options.engines) != bool(options.before):
        parser.error("--before names the plugin of the engine Before")
    if shutil.which("sysbench") is None:
        sys.exit("error: There is no sysbench: run scripts/setup.sh.")
    results = {}
    for number in range(options.repeat):
        for engine in options.engines:
            repetition(options, engine, number, results)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / "sysbench.json").write_text(json.dumps(results, indent=1))
    base = options.engines[0]
    print(f"\nmedians of {options.repeat}, {options.rows:,} rows, {options.cache} of cache, {options.seconds} s each, "
          f"{options.distribution} ids; events a second")
    print(f"{'test':24}{'threads':>8}" + "".join(f"{engine:>12}" for engine in options.engines)
          + "".join(f"{engine + '/' + base:>16}" for engine in options.engines[1:]))
    for name, rates in results.items():
        test, threads = name.split()
        medians = [statistics.median(rates[engine]) for engine in options.engines]
        print(f"{test:24}{threads:>8}" + "".join(f"{rate:12,.0f}" for rate in medians)
              + "".join(f"{rate / medians[0]:16.2f}" for rate in medians[1:]))


if __name__ == "__main__":
    main()

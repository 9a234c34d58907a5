"""`make sysbench`: sysbench 1.0's OLTP tests on several engines, on empty private servers, alternately; medians and ratios.

Every engine gets the same cache and keeps its default settings, so every engine is durable at commit. A repetition
creates a server, loads the table, and runs all tests one after the other, read-only ones first. With --turns the servers
of all engines run together and take turns in every test, which is more exact on a machine whose speed changes. Use it
only for two builds of one engine, because background work of one server runs in the other's turn. Results go to
build/bench/sysbench.json.
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


def started(options, engine):
    arguments = [f"--cache={options.cache}", "--performance-schema=OFF", *options.server_option]
    if engine == "Before":
        arguments.append(f"--teak-plugin={options.before}")
    elif engine != "Teak":
        arguments += ["--no-teak", *([f"--plugin={PLUGINS[engine]}"] if PLUGINS[engine] else [])]
    server = Server(DIRECTORY / f"sysbench-{engine}", arguments)
    server.start_empty()
    with server.connect() as connection:
        connection.run("CREATE DATABASE sbtest")
        sysbench(options, engine, server, TESTS[0], "prepare", 1, options.seed)
        wait_for_background_writes(connection, "Teak" if engine == "Before" else engine)
        connection.run("ANALYZE TABLE sbtest.sbtest1")
        connection.run("SELECT SUM(LENGTH(c)) FROM sbtest.sbtest1")
    return server


def measure(options, engine, server, test, threads, seed, results):
    with server.connect() as connection:
        before, processor = syncs(connection), server.cpu_seconds()
        text = sysbench(options, engine, server, test, "run", threads, seed)
        done, rate = RATE.search(text).groups()
        done, rate, ignored = int(done), float(rate), int(IGNORED.search(text).group(1))
        processor = (server.cpu_seconds() - processor) / max(done, 1) * 1e6
        per_commit = [f"{(count - before[name]) / max(done, 1):.2f} of {SYNCS[name]}"
                      for name, count in syncs(connection).items() if count > before[name]]
    results.setdefault(f"{test} {threads}", {}).setdefault(engine, []).append((rate, processor))
    say(f"{engine:8} {test:22} {threads:2} threads: {rate:10,.0f} a second, {processor:7,.0f} us of processor time each"
        + (f", {ignored} repeated after an error" if ignored else "")
        + (f"; syncs per transaction: {', '.join(per_commit)}" if per_commit else ""))


def repetition(options, engines, number, results):
    servers = {}
    try:
        for engine in engines:
            servers[engine] = started(options, engine)
        for test in options.tests:
            for threads in options.threads:
                for turn in range(options.turns):
                    # All engines use the same seed, but each run has another one. Otherwise updates would not change
                    # rows, and deletes would find no rows.
                    text = f"{options.seed} {number} {turn} {test} {threads}"
                    seed = 1 + zlib.crc32(text.encode()) % 1_000_000
                    for engine in engines if turn % 2 == 0 else engines[::-1]:
                        measure(options, engine, servers[engine], test, threads, seed, results)
    finally:
        for server in servers.values():
            server.stop()


def report(title, results, engines):
    """Prints the medians, and the median of each turn's ratio to the first engine."""
    base = engines[0]
    print(f"\n{title}\n{'test':24}{'threads':>8}" + "".join(f"{engine:>12}" for engine in engines)
          + "".join(f"{engine + '/' + base:>16}" for engine in engines[1:]))
    for name, found in results.items():
        test, threads = name.split()
        ratios = [statistics.median(mine / theirs for mine, theirs in zip(found[engine], found[base]))
                  for engine in engines[1:]]
        print(f"{test:24}{threads:>8}" + "".join(f"{statistics.median(found[engine]):12,.0f}" for engine in engines)
              + "".join(f"{ratio:16.2f}" for ratio in ratios))


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
    parser.add_argument("--turns", type=int, default=1,
                        help="more than 1: all servers run together, and each figure is measured so many times in turns")
    parser.add_argument("--before", help="another build of the plugin, measured as engine Before")
    parser.add_argument("--server-option", action="append", default=[])
    options = parser.parse_args()
    if ("Before" in options.engines) != bool(options.before):
        parser.error("--before names the plugin of the engine Before")
    if shutil.which("sysbench") is None:
        sys.exit("error: There is no sysbench: run scripts/setup.sh.")
    results = {}
    for number in range(options.repeat):
        for engines in [options.engines] if options.turns > 1 else [[engine] for engine in options.engines]:
            repetition(options, engines, number, results)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    rates = {name: {engine: [rate for rate, _ in pairs] for engine, pairs in found.items()} for name, found in results.items()}
    (DIRECTORY / "sysbench.json").write_text(json.dumps(rates, indent=1))
    print(f"\nmedians of {options.repeat * options.turns}, {options.rows:,} rows, {options.cache} of cache, "
          f"{options.seconds} s each, {options.distribution} ids")
    report("events a second", rates, options.engines)
    times = {name: {engine: [time for _, time in pairs] for engine, pairs in found.items()} for name, found in results.items()}
    report("processor time of the server per event, in us", times, options.engines)


if __name__ == "__main__":
    main()

"""Spider over Teak: one front server whose tables are partitions on two backend servers, all on the loopback interface.

1. The same statements run on sharded tables (by key and by range) and on plain Teak tables on the first backend: reads,
   writes, joins, refused rows, rollbacks. The answers must be equal.
2. Cross-shard transactions are committed by XA (`spider_internal_xa`). Afterwards the sum of the money of both shards
   must be unchanged.
3. A backend is killed between XA PREPARE and XA COMMIT or XA ROLLBACK, and must still have the prepared branch after
   its restart.
4. A backend is killed at random moments while money moves between the shards. Its prepared branches are then
   committed or rolled back as the front server has decided (mysql.spider_xa). Afterwards no money and no
   acknowledged transfer may be lost.

Each of these counts as one test. One that does not end within the time limit has failed.
"""

import argparse
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.harness import BUILD, Server, SqlError, TimeLimit, finish, free_port

DATABASE = "shards"
ACCOUNTS, BALANCE = 60, 1000
USER = "spider"
TABLES = {
    "account": ("id INT PRIMARY KEY, balance BIGINT NOT NULL, owner VARCHAR(30), KEY (owner)", "BY KEY (id)", ("", "")),
    "moved": ("number INT, id INT, amount INT, PRIMARY KEY (id, number)", "BY KEY (id)", ("", "")),
    "event": ("id INT, day DATE, kind VARCHAR(10), amount DECIMAL(10,2), note TEXT, PRIMARY KEY (id), KEY (day), KEY (kind)",
              "BY RANGE (id)", ("VALUES LESS THAN (500)", "VALUES LESS THAN MAXVALUE")),
}


class Cluster:
    """A front server and two empty backends in `directory`."""

    def __init__(self, directory):
        self.directory = Path(directory).absolute()
        common = ["--cache=32M", "--innodb-fast-shutdown=1"]
        # Spider distinguishes the members of a transaction by host, not by port, so each backend has its own address.
        self.backends = [Server(self.directory / f"backend{number}", [*common, "--default-storage-engine=TEAK"], free_port(),
                                f"127.0.0.{number}") for number in (1, 2)]
        self.front = Server(self.directory / "front", [*common, "--no-teak", "--plugin=ha_spider", "--spider-internal-xa=1",
                                                       "--spider-net-read-timeout=20", "--spider-connect-timeout=2",
                                                       "--spider-remote-sql-log-off=0"])

    def servers(self):
        return [self.front, *self.backends]

    def stop(self):
        for server in self.servers():
            server.stop()

    def create(self):
        self.stop()
        self.front.start_empty(self.directory)
        for server in self.backends:
            server.start()
        for server in self.backends:
            with server.connect() as connection:
                connection.run(f"CREATE DATABASE {DATABASE}")
                connection.run(f"CREATE USER {USER}@'127.%' IDENTIFIED BY 'spider'")
                connection.run(f"GRANT ALL ON *.* TO {USER}@'127.%'")
                for table, (columns, *_) in TABLES.items():
                    connection.run(f"CREATE TABLE {DATABASE}.{table} ({columns}) ENGINE=TEAK")
        # The tables that the sharded ones are compared with.
        with self.backends[0].connect() as connection:
            connection.run("CREATE DATABASE plain")
            for table, (columns, *_) in TABLES.items():
                connection.run(f"CREATE TABLE plain.{table} ({columns}) ENGINE=TEAK")
        with self.front.connect() as connection:
            connection.run(f"CREATE DATABASE {DATABASE}")
            for number, server in enumerate(self.backends, 1):
                connection.run(f"CREATE SERVER backend{number} FOREIGN DATA WRAPPER mysql OPTIONS (HOST '{server.address}', "
                               f"PORT {server.port}, USER '{USER}', PASSWORD 'spider', DATABASE '{DATABASE}')")
            for table, (columns, by, limits) in TABLES.items():
                shards = ", ".join(f"PARTITION p{number} {limit} COMMENT = 'srv \"backend{number}\"'"
                                   for number, limit in enumerate(limits, 1))
                connection.run(f"CREATE TABLE {DATABASE}.{table} ({columns}) ENGINE=SPIDER "
                               f"COMMENT = 'wrapper \"mysql\", table \"{table}\"' PARTITION {by} ({shards})")


# ---- the same statements on shards and on plain tables ---------------------------------------------------------------

def statements(rng):
    """A random write or read; a list is a transaction."""
    one, other = rng.randrange(1000), rng.randrange(1000)
    low, high = min(one, other), max(one, other)
    return rng.choice([
        "INSERT IGNORE INTO event VALUES " + ", ".join(
            f"({rng.randrange(1000)}, '2020-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}', '{rng.choice('abc')}', {rng.randint(-99, 99)}.5, "
            f"{rng.choice(['NULL', 'REPEAT(%r, %d)' % (rng.choice('xyz'), rng.randint(0, 500))])})" for _ in range(8)),
        f"INSERT INTO event VALUES ({one}, '2021-01-01', 'dup', 1, NULL)",
        f"REPLACE INTO event VALUES ({one}, '2022-02-02', 'r', 2, 'replaced'), ({other}, '2022-02-02', 'r', 3, NULL)",
        f"INSERT INTO event VALUES ({one}, '2022-02-02', 'u', 2, NULL) ON DUPLICATE KEY UPDATE amount = amount + 1",
        f"UPDATE event SET amount = amount + 1 WHERE id BETWEEN {low} AND {high}",
        "UPDATE event SET note = CONCAT('n', id) WHERE kind = 'b' AND day > '2020-05-01'",
        f"DELETE FROM event WHERE id BETWEEN {low} AND {low + 20}",
        ["BEGIN", f"UPDATE event SET kind = 'gone' WHERE id < {high}", f"DELETE FROM event WHERE id > {low}", "ROLLBACK"],
        ["BEGIN", f"UPDATE event SET kind = 'kept' WHERE id IN ({one}, {other})", f"DELETE FROM event WHERE id = {one}", "COMMIT"],
        f"SELECT id, amount FROM event WHERE id BETWEEN {low} AND {high} ORDER BY id",
        "SELECT kind, COUNT(*), SUM(amount), MIN(day), MAX(note) FROM event GROUP BY kind ORDER BY kind",
        f"SELECT * FROM event WHERE day >= '2020-0{rng.randint(1, 9)}-01' ORDER BY day DESC, id LIMIT 7",
        f"SELECT account.id, owner, SUM(amount) FROM account JOIN event ON account.id = event.id MOD {ACCOUNTS} "
        "GROUP BY account.id, owner ORDER BY account.id",
        f"SELECT e.id, f.id FROM event e JOIN event f ON f.id = e.id + 1 WHERE e.id > {low} ORDER BY e.id",
        f"SELECT id FROM event WHERE kind IN (SELECT kind FROM event WHERE id = {one}) ORDER BY id",
        "SELECT COUNT(*) FROM event WHERE NOT EXISTS (SELECT 1 FROM account WHERE account.id = event.id)"])


def both_ways(cluster, rng, seconds):
    """Creates the cluster, runs statements on the sharded and on the plain tables, and compares the answers. Returns the faults and
    a text."""
    cluster.create()
    faults, ran, rows = [], 0, 0
    until = time.monotonic() + seconds
    with cluster.front.connect(DATABASE) as shards, cluster.backends[0].connect("plain") as plain:
        for connection in (shards, plain):
            connection.run("SET SESSION sql_mode = 'STRICT_TRANS_TABLES'")
            connection.run("INSERT INTO account VALUES " + ", ".join(f"({n}, {BALANCE}, 'o{n % 7}')" for n in range(ACCOUNTS)))
        while time.monotonic() < until and not faults:
            chosen = statements(rng)
            for statement in chosen if isinstance(chosen, list) else [chosen]:
                answers = [answer(connection, statement) for connection in (shards, plain)]
                ran += 1
                if answers[0] != answers[1]:
                    faults.append(f"{statement}: {str(answers[0])[:200]} on shards, {str(answers[1])[:200]} on plain tables")
                elif isinstance(answers[0], list):
                    rows += len(answers[0])
        contents = [sorted(connection.run("SELECT * FROM event")) for connection in (shards, plain)]
        if contents[0] != contents[1]:
            faults.append(f"{len(contents[0])} rows on shards, {len(contents[1])} in the plain table, and not the same")
    parts = []
    for server in cluster.backends:
        with server.connect(DATABASE) as connection:
            parts.append(int(connection.value("SELECT COUNT(*) FROM event")))
    if sum(parts) != len(contents[0]) or min(parts) == 0:
        faults.append(f"the shards hold {parts} rows of {len(contents[0])}")
    return faults, f"{ran} statements, {rows} rows equal, shards of {parts[0]} and {parts[1]} rows"


def answer(connection, statement):
    """Rows, or the error's number. The counts of affected rows differ: each backend counts its own."""
    try:
        found = connection.run(statement)
    except SqlError as error:
        return error.number
    return found if isinstance(found, list) else None


# ---- transfers between the shards ------------------------------------------------------------------------------------

class Mover(threading.Thread):
    """Moves money between accounts of both shards through the front, until stopped."""

    def __init__(self, cluster, seed, first, stop):
        super().__init__(daemon=True)
        self.cluster, self.random, self.number, self.stop = cluster, random.Random(seed), first, stop
        self.acknowledged, self.doubtful, self.refused, self.faults = [], [], 0, []

    def run(self):
        connection = None
        while not self.stop.is_set():
            number = self.number = self.number + 1
            committing = False
            try:
                connection = connection or self.cluster.front.connect(DATABASE)
                payer, payee = self.random.sample(range(ACCOUNTS), 2)
                amount = self.random.randint(1, 50)
                connection.run("BEGIN")
                for key, change in ((payer, -amount), (payee, amount)):
                    connection.run(f"UPDATE account SET balance = balance + {change} WHERE id = {key}")
                    connection.run(f"INSERT INTO moved VALUES ({number}, {key}, {change})")
                if self.random.random() < 0.1:
                    connection.run("ROLLBACK")
                    continue
                committing = True
                connection.run("COMMIT")
                self.acknowledged.append(number)
            except SqlError as error:
                if committing:
                    self.doubtful.append(number)
                self.refused += 1
                if not error.lost and not error.conflict and error.number not in AWAY:
                    self.faults.append(f"transfer {number}: {error}")
                    return
                if connection:
                    connection.close()
                    connection = None
                time.sleep(0.05)
        if connection:
            connection.close()


def end(movers, stop):
    """Stops the movers; returns their faults."""
    stop.set()
    faults = []
    for mover in movers:
        mover.join(60)
        if mover.is_alive():
            faults.append("a transfer hangs")
        faults += mover.faults
    return faults


# Errors of Spider, the network layer and the client library if a backend cannot be reached or stops during a statement.
AWAY = (1429, 12701, 1158, 1159, 1160, 1161, 2002, 2003, 2006, 2013)


def totals(cluster):
    """(sum of money, sum of moved amounts, {transfer number: number of its rows}) over both backends, read directly."""
    money = moved = 0
    numbers = {}
    for server in cluster.backends:
        with server.connect(DATABASE) as connection:
            money += int(connection.value("SELECT COALESCE(SUM(balance), 0) FROM account"))
            moved += int(connection.value("SELECT COALESCE(SUM(amount), 0) FROM moved"))
            for (number,) in connection.run("SELECT number FROM moved"):
                numbers[int(number)] = numbers.get(int(number), 0) + 1
    return money, moved, numbers


def check_transfers(cluster, acknowledged, doubtful):
    """Checks that every transfer is complete or absent, that all acknowledged ones and no others except those in doubt
    exist, and that the sum of money is correct."""
    money, moved, numbers = totals(cluster)
    faults = []
    if money != ACCOUNTS * BALANCE or moved != 0:
        faults.append(f"the accounts hold {money}, not {ACCOUNTS * BALANCE}; the moves add up to {moved}")
    halves = [number for number, count in numbers.items() if count != 2]
    lost, extra = set(acknowledged) - set(numbers), set(numbers) - set(acknowledged) - set(doubtful)
    for what, found in (("complete on one shard only", halves), ("acknowledged and not there", lost), ("there and never committed", extra)):
        if found:
            faults.append(f"{len(found)} transfers are {what}: {sorted(found)[:5]}")
    return faults


def decide(cluster):
    """Ends the backends' prepared branches: COMMIT if the front server has logged this decision, otherwise ROLLBACK."""
    ended = {"COMMIT": 0, "ROLLBACK": 0}
    with cluster.front.connect() as front:
        decisions = {(int(form), data[:int(gtrid) + int(bqual)]): status.decode() for form, gtrid, bqual, data, status in
                     front.run("SELECT format_id, gtrid_length, bqual_length, data, status FROM mysql.spider_xa")}
    for server in cluster.backends:
        with server.connect() as connection:
            for form, gtrid, bqual, data in connection.run("XA RECOVER"):
                form, gtrid = int(form), int(gtrid)
                verb = "COMMIT" if decisions.get((form, data), "").startswith("COMMIT") else "ROLLBACK"
                connection.run(f"XA {verb} X'{data[:gtrid].hex()}', X'{data[gtrid:].hex()}', {form}")
                ended[verb] += 1
    return ended


def transfers(cluster, rng, seconds):
    """Two threads transfer money between the shards. Afterwards the sums must be correct."""
    stop = threading.Event()
    movers = [Mover(cluster, rng.random(), number * 1_000_000, stop) for number in (1, 2)]
    for mover in movers:
        mover.start()
    time.sleep(seconds)
    faults = end(movers, stop)
    acknowledged = [number for mover in movers for number in mover.acknowledged]
    faults += check_transfers(cluster, acknowledged, [])
    if not acknowledged:
        faults.append("nothing was moved")
    return faults, f"{len(acknowledged)} transfers between the shards, {sum(mover.refused for mover in movers)} refused"


def prepared_and_killed(cluster, rng):
    """kill -9 of a backend between XA PREPARE and XA COMMIT or XA ROLLBACK, which is sent through the front server or
    directly to the backends."""
    faults = []
    number = 50_000_000
    for way in ("COMMIT through the front", "ROLLBACK through the front", "COMMIT by hand"):
        number += 1
        name = f"branch{number}"
        with cluster.front.connect(DATABASE) as front:
            front.run(f"XA START '{name}'")
            # Updates every account, so that the transaction includes both shards.
            front.run("UPDATE account SET balance = balance + 1")
            front.run("UPDATE account SET balance = balance - 1")
            front.run("INSERT INTO moved VALUES " + ", ".join(f"({number}, {key}, 0)" for key in range(ACCOUNTS)))
            front.run(f"XA END '{name}'")
            front.run(f"XA PREPARE '{name}'")
            victim = rng.choice(cluster.backends)
            victim.kill()
            victim.start()
            with victim.connect(DATABASE) as connection:
                if not any(name.encode() in row[3] for row in connection.run("XA RECOVER")):
                    faults.append(f"{way}: {victim.directory.name} lost its prepared branch")
                if int(connection.value(f"SELECT COUNT(*) FROM moved WHERE number = {number}")):
                    faults.append(f"{way}: the prepared rows are visible")
                connection.run("SET SESSION teak_lock_timeout = 50")
                if answer(connection, "UPDATE account SET balance = 0") != 1205:
                    faults.append(f"{way}: the prepared rows are not locked")
            if way.endswith("front"):
                for _ in range(3):
                    # The first attempt may use the connection that the kill has closed.
                    if answer(front, f"XA {way.split()[0]} '{name}'") is None:
                        break
        if way.endswith("hand"):
            cluster.front.kill()
        for server in cluster.backends:
            with server.connect() as connection:
                for form, gtrid, bqual, data in connection.run("XA RECOVER"):
                    gtrid = int(gtrid)
                    connection.run(f"XA {way.split()[0]} X'{data[:gtrid].hex()}', X'{data[gtrid:].hex()}', {int(form)}")
        if way.endswith("hand"):
            cluster.front.start()
        there = totals(cluster)[2].get(number, 0)
        if there != (ACCOUNTS if way.startswith("COMMIT") else 0):
            faults.append(f"{way}: {there} rows are there afterwards")
    for server in cluster.backends:
        with server.connect(DATABASE) as connection:
            connection.run("DELETE FROM moved WHERE number > 50000000")
    return faults, "a branch survives, invisible and locked, and is ended through the front server and directly"


def kills(cluster, rng, number):
    """kill -9 of a backend at random moments while money moves."""
    faults, acknowledged, doubtful, ended = [], [], [], {"COMMIT": 0, "ROLLBACK": 0}
    for server in cluster.backends:
        with server.connect(DATABASE) as connection:
            connection.run("DELETE FROM moved")
    for round_number in range(1, number + 1):
        stop = threading.Event()
        movers = [Mover(cluster, rng.random(), (round_number * 10 + mover) * 100_000, stop) for mover in (1, 2, 3)]
        for mover in movers:
            mover.start()
        time.sleep(rng.uniform(0.1, 1))
        victim = rng.choice(cluster.backends)
        victim.kill()
        victim.start()
        time.sleep(rng.uniform(0.1, 0.5))
        faults += end(movers, stop)
        for mover in movers:
            acknowledged += mover.acknowledged
            doubtful += mover.doubtful
        for verb, count in decide(cluster).items():
            ended[verb] += count
        faults += check_transfers(cluster, acknowledged, doubtful)
        if faults:
            break
    return faults, (f"{number} kills, {len(acknowledged)} acknowledged transfers hold, {len(doubtful)} were in doubt, branches found "
                    f"prepared: {ended['COMMIT']} committed, {ended['ROLLBACK']} rolled back")


def main():
    arguments = argparse.ArgumentParser(description="Shards Teak tables over two servers with Spider.")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=4, help="seconds of each load")
    arguments.add_argument("--kills", type=int, default=3)
    arguments.add_argument("--time-limit", type=float, default=600, help="seconds, of each scenario")
    arguments.add_argument("--directory", default=str(BUILD / "spider-test"))
    options = arguments.parse_args()
    subprocess.run([str(Path(__file__).parent / "plugin.sh")], check=True)
    cluster, rng = Cluster(options.directory), random.Random(options.seed)
    passed = failed = 0
    for name, check in (("shards", lambda: both_ways(cluster, rng, options.seconds)),
                        ("transfers", lambda: transfers(cluster, rng, options.seconds)),
                        ("prepared", lambda: prepared_and_killed(cluster, rng)),
                        ("kills", lambda: kills(cluster, rng, options.kills))):
        with TimeLimit(options.time_limit, cluster.servers()) as limit:
            try:
                faults, text = check()
            except (SqlError, RuntimeError) as error:
                faults, text = [str(error)], ""
        faults = limit.faults + faults
        if faults:
            failed += 1
            print(f"{name}: FAILED (seed {options.seed}) {text}")
            for fault in faults[:8]:
                print(f"   {fault}")
            print(f"   the servers' directories are kept in {cluster.directory}", flush=True)
            break
        passed += 1
        print(f"{name}: {text}", flush=True)
    cluster.stop()
    if not failed:
        cluster.front.remove(cluster.directory)
    return finish(passed, failed, "4 scenarios")


if __name__ == "__main__":
    sys.exit(main())

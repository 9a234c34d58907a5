"""Conflicting transactions on few rows, for a replica with parallel workers.

On the primary, row locks serialise them. The replica cannot know that they conflict, so in the optimistic and
aggressive modes its workers wait for each other's row locks. The engine reports each wait to the server, which rolls
back and retries the worker that must commit later. The result must equal the primary's, whatever the order of
attempts.
"""

import random
import threading

from tests.harness import SqlError, create_tables

DATABASE = "hot"
ROWS = 12
CREATE = {
    "hot": "id INT PRIMARY KEY, n INT NOT NULL, k INT, s VARCHAR(60), UNIQUE (k), KEY (n)",
    "bag": "n INT, s VARCHAR(10)",
    "done": "id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20), n INT",
}
MODES = [("conservative", 4), ("optimistic", 8), ("aggressive", 8), ("minimal", 4)]


def create(server):
    with server.connect() as connection:
        create_tables(connection, DATABASE, CREATE)
        connection.run("INSERT INTO hot VALUES " + ", ".join(f"({n}, 0, {n}, 'row')" for n in range(ROWS)))


def statements(rng):
    """The statements of one random transaction."""
    one, other = rng.sample(range(ROWS), 2)
    kinds = [
        [f"UPDATE hot SET n = n + 1 WHERE id IN ({one}, {other})"],
        [f"UPDATE hot SET n = n * 2 MOD 1000 WHERE id >= {one}"],
        [f"DELETE FROM hot WHERE id = {one}", f"INSERT INTO hot VALUES ({one}, 1, NULL, 'again')"],
        [f"UPDATE hot SET k = NULL WHERE k = {one}", f"UPDATE hot SET k = {one} WHERE id = {other}"],
        [f"REPLACE INTO hot VALUES ({one}, {other}, {other}, 'replaced')"],
        [f"INSERT INTO hot VALUES ({one}, 5, {one}, NULL) ON DUPLICATE KEY UPDATE n = n + 5, s = CONCAT(LEFT(COALESCE(s, ''), 40), 'u')"],
        [f"UPDATE hot SET s = 'low' WHERE n < {rng.randrange(20)}", f"UPDATE hot SET n = n + 3 WHERE id = {one}"],
        [f"INSERT INTO bag VALUES ({one}, 'a'), ({one}, 'a'), ({other}, 'b')", f"UPDATE bag SET n = {other} WHERE n = {one} LIMIT 1"],
        [f"DELETE FROM bag WHERE n = {one} LIMIT 3"],
    ]
    steps = [step for kind in rng.sample(kinds, rng.randint(1, 2)) for step in kind]
    steps.insert(rng.randrange(len(steps) + 1), f"INSERT INTO done (what, n) SELECT 'sum', SUM(n) FROM hot WHERE id <= {one}")
    return steps


def write(server, seed, transactions):
    """One session's transactions; conflicts with other sessions are rolled back."""
    rng = random.Random(seed)
    with server.connect(DATABASE) as connection:
        connection.run("SET SESSION teak_lock_timeout = 2000")
        for _ in range(transactions):
            statement = "BEGIN"
            try:
                for statement in ["BEGIN", *statements(rng), "COMMIT"]:
                    connection.run(statement)
            except SqlError as error:
                if not error.conflict:
                    raise
                connection.run("ROLLBACK")


class Background(threading.Thread):
    """Runs `write` in a thread and stores its error."""

    def __init__(self, *arguments):
        super().__init__(daemon=True)
        self.arguments, self.error = arguments, None

    def run(self):
        try:
            write(*self.arguments)
        except SqlError as error:
            self.error = str(error)


def set_mode(pair, mode, threads):
    with pair.replica.connect() as connection:
        connection.run("STOP SLAVE")
        connection.run(f"SET GLOBAL slave_parallel_threads = {threads}")
        connection.run(f"SET GLOBAL slave_parallel_mode = '{mode}'")


def retried(pair):
    with pair.replica.connect() as connection:
        return int(connection.run("SHOW GLOBAL STATUS LIKE 'Slave_retried_transactions'")[0][1])


def one_mode(pair, mode, threads, seed, transactions):
    """Runs load while the replica is stopped, lets the replica apply it, then runs more load while the replica runs.
    Returns (retries, faults)."""
    set_mode(pair, mode, threads)
    before = retried(pair)
    write(pair.primary, f"{seed}-{mode}", transactions)
    with pair.replica.connect() as connection:
        connection.run("START SLAVE")
    sessions = [Background(pair.primary, f"{seed}-{mode}-{number}", transactions // 4) for number in range(4)]
    for session in sessions:
        session.start()
    for session in sessions:
        session.join()
    pair.catch_up()
    return retried(pair) - before, [session.error for session in sessions if session.error]

"""A seeded load of all kinds of statements for a primary: changes of many kinds of tables, transactions with every kind
of end, and DDL. Each writer is a thread with its own random numbers; writers share the tables.

A kind of statement is a function of (session, random). It may be refused because of a conflict with another writer; it
must not fail for another reason.
"""

import random
import threading
import time

from tests.harness import SqlError

DATABASE = "shop"
KEYS = 400
DUPLICATE = 1062
XA_ROLLED_BACK = (1402, 1613, 1614)

CREATE = {
    "account": "id INT PRIMARY KEY, owner VARCHAR(40) COLLATE utf8mb4_unicode_ci, balance DECIMAL(12,2) NOT NULL, "
               "note TEXT, changed TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), "
               "KEY (owner), KEY (balance, id)",
    "item": "id INT AUTO_INCREMENT PRIMARY KEY, code CHAR(12) NOT NULL, shelf INT, amount BIGINT, UNIQUE (code), "
            "UNIQUE (shelf), KEY (amount)",
    "loose": "a INT, b VARCHAR(30), c DOUBLE",
    "document": "id INT PRIMARY KEY, body LONGBLOB, summary MEDIUMTEXT, tag VARBINARY(300), KEY (tag), KEY (summary(20))",
    "derived": "id INT PRIMARY KEY, a INT, b INT, total INT AS (a + b) STORED, label VARCHAR(40) AS (CONCAT('n', a)) VIRTUAL, "
               "later DATE AS (DATE_ADD('2020-01-01', INTERVAL a DAY)) VIRTUAL, KEY (total), KEY (label), KEY (later)",
    "parted": "id INT, day DATE, n INT, PRIMARY KEY (id, day), KEY (n)) PARTITION BY RANGE (YEAR(day)) ("
              "PARTITION p0 VALUES LESS THAN (2021), PARTITION p1 VALUES LESS THAN (2022), "
              "PARTITION p2 VALUES LESS THAN (2023), PARTITION p3 VALUES LESS THAN MAXVALUE",
    "hashed": "id INT PRIMARY KEY, n INT, s VARCHAR(20)) PARTITION BY KEY (id) PARTITIONS 3 (PARTITION h0, "
              "PARTITION h1, PARTITION h2",
    "typed": "id INT PRIMARY KEY, t TINYINT UNSIGNED, m MEDIUMINT, f FLOAT, d DOUBLE, n DECIMAL(30,10), y YEAR, "
             "dt DATETIME(6), ti TIME(3), da DATE, e ENUM('a','b','c'), s SET('x','y','z'), bi BIT(13), "
             "u UUID, i INET6, j JSON, c CHAR(10) CHARACTER SET latin1, KEY (dt), KEY (d), KEY (e, bi)",
    "journal": "id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(60), key_of INT, at DATETIME(6)",
    "copied": "id INT AUTO_INCREMENT PRIMARY KEY, n INT, s VARCHAR(40), KEY (n)",
    "ledger": "id INT PRIMARY KEY, n INT",
    "ticket": "id BIGINT PRIMARY KEY DEFAULT (NEXTVAL(numbers)), n INT",
}
AFTER = [
    "CREATE TRIGGER item_added AFTER INSERT ON item FOR EACH ROW "
    "INSERT INTO journal (what, key_of, at) VALUES ('item', NEW.id, NOW(6))",
    "CREATE TRIGGER account_gone BEFORE DELETE ON account FOR EACH ROW "
    "INSERT INTO journal (what, key_of, at) VALUES (CONCAT('gone ', OLD.owner), OLD.id, SYSDATE(6))",
    "CREATE FUNCTION noted(k INT) RETURNS INT MODIFIES SQL DATA BEGIN "
    "INSERT INTO journal (what, key_of, at) VALUES ('noted', k, NOW(6)); RETURN k + 1; END",
    "CREATE PROCEDURE move(a INT, b INT, n DECIMAL(12,2)) BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END; "
    "START TRANSACTION; UPDATE account SET balance = balance - n WHERE id = a; "
    "UPDATE account SET balance = balance + n WHERE id = b; COMMIT; END",
]


class Refused(Exception):
    """A conflict with another writer."""


class Session:
    """One writer's connection."""

    def __init__(self, server, number, kinds):
        self.connection = server.connect(DATABASE)
        self.number = number
        self.rows, self.prepared_rows, levels = kinds["rows"], kinds["prepared"], kinds["levels"]
        self.serial = 0
        self.connection.run("SET SESSION teak_lock_timeout = 2000, sql_mode = 'STRICT_TRANS_TABLES'")
        self.connection.run(f"SET SESSION TRANSACTION ISOLATION LEVEL {levels[number % len(levels)]}")

    def run(self, statement, *accepted):
        """Runs a statement; returns None after one of the accepted errors. Raises Refused after a conflict."""
        try:
            return self.connection.run(statement)
        except SqlError as error:
            if error.conflict:
                raise Refused(str(error)) from error
            if error.number in accepted:
                return None
            raise

    def name(self):
        self.serial += 1
        return f"w{self.number}_{self.serial}"


def text(rng, length_max):
    return "".join(rng.choice("abcdefgh ijklmno äß€ 0123") for _ in range(rng.randint(0, length_max)))


def key(rng):
    return rng.randrange(KEYS)


# ---- kinds of statements ---------------------------------------------------------------------------------------------

def insert_account(session, rng):
    rows = ", ".join(f"({key(rng)}, '{text(rng, 12)}', {rng.randint(0, 9999)}.25, {rng.choice(['NULL', repr(text(rng, 200))])})"
                     for _ in range(rng.randint(1, 6)))
    session.run(f"INSERT {rng.choice(['', 'IGNORE '])}INTO account (id, owner, balance, note) VALUES {rows}", DUPLICATE)


def upsert(session, rng):
    rows = ", ".join(f"({key(rng)}, 'upsert', 1, NULL)" for _ in range(rng.randint(1, 4)))
    session.run(f"INSERT INTO account (id, owner, balance, note) VALUES {rows} "
                f"ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance), note = CONCAT('u', {rng.randint(0, 9)})")


def replace(session, rng):
    rows = ", ".join(f"('c{key(rng)}', {rng.choice(['NULL', key(rng)])}, {rng.randint(-9, 9)})" for _ in range(rng.randint(1, 4)))
    session.run(f"REPLACE INTO item (code, shelf, amount) VALUES {rows}")


def update(session, rng):
    first = key(rng)
    statement = rng.choice([
        f"UPDATE account SET balance = balance + 1.5, owner = UPPER(owner) WHERE id BETWEEN {first} AND {first + 15}",
        f"UPDATE item SET amount = amount + 1 WHERE amount < {rng.randint(-9, 9)} ORDER BY id LIMIT 5",
        f"UPDATE account SET id = id + {KEYS * 10} WHERE id = {first}",
        f"UPDATE account, item SET account.note = 'joined', item.amount = 0 WHERE account.id = item.shelf AND item.shelf < {first}",
        "UPDATE account SET note = UUID() WHERE balance > 5000 LIMIT 3",
        f"UPDATE account SET note = CONNECTION_ID(), balance = RAND() * 1000 WHERE id = {first}"])
    session.run(statement, DUPLICATE)


def delete(session, rng):
    first = key(rng)
    session.run(rng.choice([
        f"DELETE FROM account WHERE id BETWEEN {first} AND {first + 5}",
        f"DELETE FROM account WHERE id = {first} RETURNING id, owner",
        f"DELETE FROM item WHERE amount = {rng.randint(-9, 9)} LIMIT 3",
        f"DELETE account, item FROM account JOIN item ON account.id = item.shelf WHERE item.shelf = {first}"]))


def without_key(session, rng):
    """Changes one of several identical rows: the replica may change any of them."""
    value = rng.randint(0, 6)
    session.run(rng.choice([
        "INSERT INTO loose VALUES " + ", ".join(f"({rng.choice([value, 'NULL'])}, '{text(rng, 3)}', {value}.5)" for _ in range(3)),
        f"UPDATE loose SET c = c + 1 WHERE a = {value} LIMIT 2",
        f"DELETE FROM loose WHERE a = {value} LIMIT 1",
        f"INSERT INTO loose SELECT a, b, c FROM loose WHERE a = {value} LIMIT 2"]))


def blobs(session, rng):
    number, size = rng.randrange(40), rng.choice([0, 10, 3000, 70_000, 300_000])
    session.run(rng.choice([
        f"REPLACE INTO document VALUES ({number}, REPEAT(x'00ff{rng.randrange(256):02x}', {size}), REPEAT('{text(rng, 5)}.', {size // 50}), "
        f"x'{rng.randbytes(rng.randint(0, 200)).hex()}')",
        f"UPDATE document SET body = CONCAT(body, 'more') WHERE id = {number}",
        f"UPDATE document SET summary = NULL, tag = RANDOM_BYTES(20) WHERE id = {number}",
        f"DELETE FROM document WHERE id = {number}"]))


def generated(session, rng):
    number = rng.randrange(200)
    session.run(rng.choice([
        f"INSERT INTO derived (id, a, b) VALUES ({number}, {rng.randint(0, 900)}, NULL) ON DUPLICATE KEY UPDATE a = VALUES(a), b = 7",
        f"UPDATE derived SET b = a * 2 WHERE id BETWEEN {number} AND {number + 20}",
        f"DELETE FROM derived WHERE label = 'n{rng.randint(0, 900)}'",
        f"DELETE FROM derived WHERE total BETWEEN {number} AND {number + 5}"]))


def partitions(session, rng):
    number, year = rng.randrange(150), rng.randint(2019, 2024)
    session.run(rng.choice([
        f"REPLACE INTO parted VALUES ({number}, '{year}-0{rng.randint(1, 9)}-01', {number}), ({number}, '{year}-12-31', NULL)",
        f"UPDATE parted SET day = DATE_ADD(day, INTERVAL 1 YEAR) WHERE id = {number}",
        f"DELETE FROM parted WHERE n = {number}",
        f"INSERT INTO hashed VALUES ({number}, 1, '{text(rng, 8)}') ON DUPLICATE KEY UPDATE n = n + 1",
        f"UPDATE hashed SET id = id + 1000 WHERE id = {number}",
        f"DELETE FROM hashed WHERE id BETWEEN {number} AND {number + 3}"]), DUPLICATE)


def types(session, rng):
    number = rng.randrange(120)
    session.run(
        f"REPLACE INTO typed VALUES ({number}, {rng.randrange(256)}, {rng.randint(-2**23, 2**23 - 1)}, {rng.uniform(-1, 1)}, "
        f"{rng.uniform(-1e300, 1e300)}, {rng.randint(-10**15, 10**15)}.{rng.randint(0, 10**9)}, {rng.randint(1901, 2155)}, "
        f"'{rng.randint(1000, 9999)}-02-03 04:05:06.{rng.randrange(10**6):06}', '{rng.randint(-800, 800)}:10:10.123', "
        f"'{rng.randint(1000, 9999)}-11-30', '{rng.choice('abc')}', '{rng.choice(['', 'x', 'x,z'])}', {rng.randrange(8192)}, UUID(), "
        f"'{rng.choice(['::1', '2001:db8::7', 'fe80::9'])}', JSON_OBJECT('k', {number}), '{rng.choice(['é', 'z', ''])}')")


def routines(session, rng):
    session.run(rng.choice([
        f"SELECT noted({key(rng)})",
        f"INSERT INTO ticket (n) VALUES ({key(rng)}), ({key(rng)})",
        f"UPDATE account SET balance = noted({key(rng)}) WHERE id = {key(rng)}",
        "SELECT NEXTVAL(numbers)"]))


def as_text(session, rng):
    """Deterministic statements: their text may be logged, because a replica that runs them in the same order gets the
    same rows."""
    one, other = key(rng), key(rng)
    low, high = min(one, other), max(one, other)
    session.run(rng.choice([
        f"UPDATE account SET balance = balance + 1.5, owner = UPPER(owner) WHERE id BETWEEN {one} AND {one + 15}",
        f"UPDATE account SET note = CONCAT('low ', id) WHERE balance < {rng.randint(0, 9999)}",
        f"UPDATE account SET id = id + {KEYS * 10} WHERE id = {one}",
        f"UPDATE account JOIN hashed USING (id) SET account.note = hashed.s, hashed.n = account.balance WHERE id < {one}",
        f"INSERT INTO copied (n, s) SELECT balance, owner FROM account WHERE id BETWEEN {low} AND {high} ORDER BY id",
        f"INSERT IGNORE INTO copied (id, n) SELECT id, n FROM hashed WHERE n < {one} ORDER BY id",
        f"INSERT INTO copied (n, s) VALUES (1, 'a'), ({one}, 'b'), (3, 'c')",
        f"DELETE FROM copied WHERE n BETWEEN {low} AND {high}",
        f"UPDATE copied SET n = (SELECT COUNT(*) FROM account WHERE balance > {one}) WHERE id MOD 7 = {one % 7}",
        f"DELETE hashed FROM hashed JOIN account USING (id) WHERE account.balance < {one}",
        f"REPLACE INTO hashed SELECT id, balance, 'taken' FROM account WHERE id < {one} ORDER BY id"]), DUPLICATE)


def as_text_without_key(session, rng):
    one, other = key(rng), key(rng)
    low, high = min(one, other), max(one, other)
    session.run(rng.choice([
        f"INSERT INTO loose SELECT id, LEFT(owner, 5), balance FROM account WHERE id BETWEEN {low} AND {low + 5}",
        f"UPDATE loose SET c = c + 1 WHERE a = {one}",
        f"DELETE FROM loose WHERE a BETWEEN {low} AND {high}"]))


def by_key(session, rng):
    session.run(rng.choice([
        f"INSERT INTO ledger VALUES ({key(rng)}, 1) ON DUPLICATE KEY UPDATE n = n + 1",
        f"UPDATE ledger SET n = n * 2 WHERE id = {key(rng)}",
        f"REPLACE INTO ledger VALUES ({key(rng)}, {rng.randrange(100)})",
        f"DELETE FROM ledger WHERE id = {key(rng)}"]))


def procedure(session, rng):
    session.run(f"CALL move({key(rng)}, {key(rng)}, {rng.randint(1, 50)})")


def transaction(session, rng):
    """Several statements with savepoints, committed or rolled back."""
    session.run(rng.choice(["BEGIN", "START TRANSACTION", "START TRANSACTION WITH CONSISTENT SNAPSHOT"]))
    marks = 0
    for _ in range(rng.randint(1, 8)):
        step = rng.random()
        if step < 0.15:
            marks += 1
            session.run(f"SAVEPOINT s{marks}")
        elif step < 0.25 and marks:
            session.run(f"ROLLBACK TO SAVEPOINT s{rng.randint(1, marks)}", 1305)
        elif step < 0.3 and marks:
            session.run(f"RELEASE SAVEPOINT s{rng.randint(1, marks)}", 1305)
        elif step < 0.35:
            session.run(f"INSERT INTO account VALUES ({KEYS * 20}, 'a', 0, NULL, NOW()), ({key(rng)}, 'b', 0, NULL, NOW()), "
                        f"({KEYS * 20}, 'c', 0, NULL, NOW())", DUPLICATE)
        else:
            rng.choice(session.rows)(session, rng)
    session.run(rng.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))


def distributed(session, rng):
    name = session.name()
    session.run(f"XA START '{name}'")
    try:
        for _ in range(rng.randint(1, 4)):
            rng.choice(session.prepared_rows)(session, rng)
        session.run(f"XA END '{name}'")
        end = rng.random()
        if end < 0.2:
            session.run(f"XA COMMIT '{name}' ONE PHASE")
        elif end < 0.3:
            session.run(f"XA ROLLBACK '{name}'")
        else:
            session.run(f"XA PREPARE '{name}'")
            time.sleep(rng.choice([0, 0, 0.02]))
            session.run(f"XA {rng.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} '{name}'")
    except Refused:
        session.run(f"XA END '{name}'", 1398, 1399, *XA_ROLLED_BACK)
        session.run(f"XA ROLLBACK '{name}'", 1397, *XA_ROLLED_BACK)
        raise


def temporary(session, rng):
    session.run("CREATE TEMPORARY TABLE picked (id INT PRIMARY KEY, n INT) ENGINE=TEAK")
    session.run(f"INSERT INTO picked SELECT id, balance FROM account WHERE id < {key(rng)} ORDER BY id LIMIT 20")
    session.run("UPDATE account JOIN picked USING (id) SET account.note = CONCAT('picked ', picked.n)")
    session.run("DROP TEMPORARY TABLE picked")


def own_table(session, rng):
    """Creates, changes and drops a table."""
    name, other = session.name(), session.name()
    session.run(rng.choice([
        f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT, s VARCHAR(20)) ENGINE=TEAK",
        f"CREATE TABLE {name} (PRIMARY KEY (id)) ENGINE=TEAK SELECT id, id * 2 AS n, 'made' AS s FROM hashed",
        f"CREATE TABLE {name} LIKE hashed"]))
    session.run(f"INSERT IGNORE INTO {name} (id, n, s) SELECT id, n, s FROM hashed")
    for _ in range(rng.randint(1, 5)):
        column = session.name()
        session.run(rng.choice([
            f"ALTER TABLE {name} ADD COLUMN {column} INT DEFAULT 5",
            f"ALTER TABLE {name} ADD COLUMN {column} VARCHAR(30) NOT NULL DEFAULT 'é' FIRST",
            f"ALTER TABLE {name} ADD KEY {column} (n, s)",
            f"ALTER TABLE {name} MODIFY n BIGINT, COMMENT='{column}'",
            f"ALTER TABLE {name} ADD UNIQUE {column} (id, n), ALGORITHM=COPY",
            f"ALTER TABLE {name} FORCE",
            f"CREATE INDEX {column} ON {name} (s)",
            f"OPTIMIZE TABLE {name}", f"ANALYZE TABLE {name}", f"TRUNCATE TABLE {name}"]))
        session.run(f"INSERT IGNORE INTO {name} (id, n, s) VALUES ({key(rng)}, {key(rng)}, '{column}')")
        session.run(f"UPDATE {name} SET n = n + 1 WHERE id < {key(rng)}")
    if rng.random() < 0.5:
        # Rows remain in the versions of their types; the replica converts them at another time.
        members = ", ".join(f"'m{number}'" for number in range(300))
        session.run(f"ALTER TABLE {name} ADD COLUMN e ENUM('m0', 'm1') DEFAULT 'm1', ADD COLUMN d DECIMAL(5,2) DEFAULT -1.25, ADD COLUMN t TIME(1) DEFAULT '-00:00:00.5'")
        session.run(f"INSERT IGNORE INTO {name} (id, n, s, e, d) VALUES ({key(rng)}, {key(rng)}, 'early', 'm0', 9.99)")
        session.run(f"ALTER TABLE {name} MODIFY e ENUM({members}), MODIFY d DECIMAL(9,4), MODIFY t TIME(6)")
        session.run(f"UPDATE {name} SET e = 'm299', d = d / 3, t = '-00:00:00.000001' WHERE id < {key(rng)}")
    session.run(f"RENAME TABLE {name} TO {other}")
    if rng.random() < 0.7:
        session.run(f"DROP TABLE {other}")


def shared_ddl(session, rng):
    """Changes of a table while others write to it."""
    name = session.name()
    session.run(rng.choice([
        f"ALTER TABLE hashed ADD KEY {name} (n)", f"ALTER TABLE typed ADD KEY {name} (da)",
        "ALTER TABLE parted REORGANIZE PARTITION p3 INTO (PARTITION p3 VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE parted TRUNCATE PARTITION p0", "ALTER TABLE loose FORCE",
        f"ALTER TABLE derived COMMENT = '{name}'", f"CREATE OR REPLACE VIEW seen AS SELECT id, '{name}' AS v FROM item",
        "FLUSH TABLES account", "CREATE OR REPLACE TABLE remade (id INT PRIMARY KEY) ENGINE=TEAK SELECT id FROM hashed"]), 1061)


ROWS = [insert_account, upsert, replace, update, delete, without_key, blobs, generated, partitions, types, routines]
KINDS = ROWS + [by_key, transaction, transaction, transaction, distributed, procedure, temporary]
RARE_KINDS = [own_table, shared_ddl]
# `prepared`: statements of XA transactions. On the replica a prepared transaction holds its locks until its XA COMMIT
# or XA ROLLBACK, a later event of the binary log. So no transaction between the two may scan the rows that it wrote.
# The replica scans tables that have no key, and the tables of some statements that are logged as text.
ROW_KINDS = {"rows": ROWS, "prepared": [kind for kind in ROWS + [by_key] if kind is not without_key], "kinds": KINDS,
             "rare": RARE_KINDS, "levels": ["REPEATABLE READ", "READ COMMITTED"], "without": []}
BOTH = [as_text, as_text_without_key]
MIXED_KINDS = {**ROW_KINDS, "rows": ROWS + BOTH, "kinds": KINDS + BOTH, "prepared": [by_key, blobs, types]}
# Statements that may be logged as text, and the isolation levels under which this is possible. The server logs statements
# that use a sequence only as rows.
TEXT_ROWS = [as_text, as_text, as_text_without_key, insert_account, upsert, generated, partitions]
TEXT_KINDS = {"rows": TEXT_ROWS, "prepared": [by_key], "rare": [own_table], "levels": ["REPEATABLE READ", "SERIALIZABLE"],
              "kinds": TEXT_ROWS + [transaction, transaction, transaction, distributed, temporary], "without": ["ticket"]}


# ---- the load --------------------------------------------------------------------------------------------------------

def create(server, kinds):
    with server.connect() as connection:
        connection.run(f"CREATE DATABASE {DATABASE} DEFAULT CHARSET utf8mb4")
        connection.run(f"USE {DATABASE}")
        connection.run("CREATE SEQUENCE numbers ENGINE=TEAK")
        for table, columns in CREATE.items():
            if table in kinds["without"]:
                continue
            connection.run(f"CREATE TABLE {table} ({columns}) ENGINE=TEAK" if "PARTITION" not in columns else
                           "CREATE TABLE {} ({}) ENGINE=TEAK {}".format(table, *_parted(columns)))
        for statement in AFTER:
            connection.run(statement)


def _parted(columns):
    head, clause = columns.split(") PARTITION BY", 1)
    return head, f"PARTITION BY{clause})"


class Load:
    """Writers that run kinds of statements until `seconds` have passed. `counts`: number of runs of each kind.
    `refused`: number of refused runs. `errors`: unexpected failures."""

    def __init__(self, server, seed, writers, seconds, kinds):
        self.server, self.seed, self.writers, self.seconds, self.kinds = server, seed, writers, seconds, kinds
        self.counts, self.refused, self.errors = {}, 0, []
        self.lock = threading.Lock()

    def _write(self, number):
        rng = random.Random(f"{self.seed}-{number}")
        try:
            session = Session(self.server, number, self.kinds)
        except SqlError as error:
            self.errors.append(str(error))
            return
        until = time.monotonic() + self.seconds
        # Each kind is run once, in random order; then kinds are chosen at random.
        kinds, rare = self.kinds["kinds"], self.kinds["rare"]
        todo = [*kinds, *rare]
        rng.shuffle(todo)
        while time.monotonic() < until or todo:
            kind = todo.pop() if todo else rng.choice(kinds if rng.random() < 0.97 else rare)
            refused = False
            try:
                kind(session, rng)
            except Refused:
                refused = True
            except SqlError as error:
                self.errors.append(f"{kind.__name__}: {error}")
                session.connection.close()
                return
            self._tidy(session)
            with self.lock:
                self.refused += refused
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
        session.connection.close()

    @staticmethod
    def _tidy(session):
        for statement in ("ROLLBACK", "DROP TEMPORARY TABLE IF EXISTS picked"):
            try:
                session.connection.run(statement)
            except SqlError:
                pass

    def run(self):
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(self.writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self

"""PyMySQL: every type read, written back and described; streaming cursors, executemany, transactions, errors."""

import datetime
import decimal
import threading

import pymysql
import pymysql.cursors

from .common import DATABASES, SOCKET, TYPE_TABLES, Checks, Connection, checksum, quoted

DUPLICATE, LOCK_TIMEOUT, CHECK_FAILED, DEADLOCK = 1062, 1205, 4025, 1213


def connect(engine, **options):
    return pymysql.connect(
        unix_socket=SOCKET,
        user="root",
        database=DATABASES[engine],
        charset="utf8mb4",
        init_command="SET time_zone = '+00:00'",
        **options,
    )


def described(cursor):
    """The server's description of each column, with flags and character sets."""
    return [
        (
            field.name,
            field.org_name,
            field.table_name,
            field.type_code,
            field.charsetnr,
            field.length,
            field.scale,
            field.flags,
        )
        for field in cursor._result.fields
    ]


def ordered(rows):
    return sorted(rows, key=repr)


def read(engine, statement, cursor_class=pymysql.cursors.Cursor):
    with connect(engine) as connection, connection.cursor(cursor_class) as cursor:
        cursor.execute(statement)
        return described(cursor), list(cursor.fetchall())


def columns(engine, table):
    """The names of the columns that are not generated."""
    _, rows = read(
        engine,
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{DATABASES[engine]}' "
        f"AND table_name = '{table}' AND generation_expression IS NULL ORDER BY ordinal_position",
    )
    return [row[0] for row in rows]


def types(checks):
    for table in TYPE_TABLES:
        statement = f"SELECT * FROM {quoted(table)}"
        (teak_fields, teak), (innodb_fields, innodb) = read("TEAK", statement), read("InnoDB", statement)
        checks.same(f"pymysql: {table}: rows", ordered(teak), ordered(innodb))
        checks.same(f"pymysql: {table}: metadata", teak_fields, innodb_fields)
    _, values = read("TEAK", "SELECT exact, big_u, bit_17 FROM numbers WHERE big_u = 18446744073709551615")
    checks.same(
        "pymysql: types of Python",
        values,
        [
            (
                decimal.Decimal("99999999999999999999999999999999999.999999999999999999999999999999"),
                18446744073709551615,
                b"\x01\xff\xff",
            )
        ],
    )
    _, values = read("TEAK", "SELECT time_6, datetime_6 FROM moments WHERE id = 2")
    checks.same(
        "pymysql: times of Python",
        values,
        [
            (
                datetime.timedelta(hours=838, minutes=59, seconds=59, microseconds=999999),
                datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
            )
        ],
    )


def as_parameter(value):
    """The value; a negative timedelta as text, because PyMySQL writes it with a sign in each part."""
    return "-" + clock(-value) if isinstance(value, datetime.timedelta) and value.days < 0 else value


def clock(value):
    seconds = value.days * 86400 + value.seconds
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{value.microseconds:06}"


def round_trip(checks):
    """Writes the rows of InnoDB's tables into both engines by executemany, and compares the results."""
    for table in TYPE_TABLES:
        names = columns("InnoDB", table)
        listed = ", ".join(map(quoted, names))
        _, rows = read("InnoDB", f"SELECT {listed} FROM {quoted(table)}")
        found = {}
        for engine in DATABASES:
            with connect(engine) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE written LIKE {quoted(table)}")
                statement = f"INSERT INTO written ({listed}) VALUES ({', '.join(['%s'] * len(names))})"
                count = cursor.executemany(statement, [tuple(map(as_parameter, row)) for row in rows])
                connection.commit()
                checks.check(f"pymysql: {table}: executemany into {engine}", count == len(rows), str(count))
                cursor.execute("SELECT * FROM written")
                with Connection(SOCKET, DATABASES[engine]) as other:
                    found[engine] = ordered(cursor.fetchall()), checksum(other, DATABASES[engine], "written")
                cursor.execute("DROP TABLE written")
        checks.same(f"pymysql: {table}: rows written", found["TEAK"], found["InnoDB"])


def streaming(checks):
    for cursor_class in (pymysql.cursors.SSCursor, pymysql.cursors.SSDictCursor):
        found = {}
        for engine in DATABASES:
            with connect(engine) as connection, connection.cursor(cursor_class) as cursor:
                cursor.execute("SELECT * FROM many ORDER BY grp, id DESC")
                rows = [cursor.fetchone()]
                # Concurrent changes of another client are not visible.
                with connect(engine, autocommit=True) as other, other.cursor() as writer:
                    writer.execute("DELETE FROM many WHERE id > 10000")
                rows += list(cursor.fetchall_unbuffered())
                found[engine] = rows
            with connect(engine, autocommit=True) as other, other.cursor() as writer:
                writer.execute(
                    "INSERT INTO many SELECT seq, seq MOD 97, REPEAT(CHAR(97 + seq MOD 26), seq MOD 100) "
                    "FROM seq_10001_to_20000"
                )
        checks.check(
            f"pymysql: {cursor_class.__name__}: all rows", len(found["TEAK"]) == 20000, str(len(found["TEAK"]))
        )
        checks.same(f"pymysql: {cursor_class.__name__}: rows", found["TEAK"], found["InnoDB"])


def one(connection, statement, *arguments):
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        row = cursor.fetchone()
        return row[0] if row else None


def transactions(checks, engine):
    name = f"pymysql: {engine}"
    amount = "SELECT amount FROM account WHERE owner = %s"
    with connect(engine) as first, connect(engine) as second:
        with first.cursor() as cursor:
            count = cursor.executemany(
                "INSERT INTO account (owner, amount) VALUES (%s, %s)", [("dora", 1), ("eve", 2), ("fred", 3)]
            )
            checks.same(f"{name}: keys given", (count, cursor.lastrowid), (3, 103))
        checks.check(f"{name}: not visible to others", one(second, amount, "eve") is None)
        first.rollback()
        checks.check(f"{name}: nor anybody after ROLLBACK", one(first, amount, "eve") is None)

        one(first, "UPDATE account SET amount = amount - 10 WHERE owner = 'ann'")
        one(first, "SAVEPOINT half")
        one(first, "UPDATE account SET amount = amount + 10 WHERE owner = 'bob'")
        one(first, "ROLLBACK TO SAVEPOINT half")
        one(second, "SET innodb_lock_wait_timeout = 1, teak_lock_timeout = 1000")
        checks.raises(
            f"{name}: a written row is locked",
            LOCK_TIMEOUT,
            lambda: one(second, "UPDATE account SET amount = 0 WHERE owner = 'ann'"),
        )
        first.commit()
        second.rollback()
        checks.same(
            f"{name}: COMMIT after ROLLBACK TO SAVEPOINT",
            (one(second, amount, "ann"), one(second, amount, "bob")),
            (decimal.Decimal("990.00"), decimal.Decimal("1000.00")),
        )
        one(first, "UPDATE account SET amount = 5 WHERE owner = 'ann'")
        first.commit()
        checks.same(f"{name}: REPEATABLE READ", one(second, amount, "ann"), decimal.Decimal("990.00"))
        second.rollback()
        one(second, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        checks.same(f"{name}: READ COMMITTED, before", one(second, amount, "ann"), decimal.Decimal("5.00"))
        one(first, "UPDATE account SET amount = 990 WHERE owner = 'ann'")
        first.commit()
        checks.same(f"{name}: READ COMMITTED, after", one(second, amount, "ann"), decimal.Decimal("990.00"))
        second.rollback()

        checks.raises(f"{name}: duplicate", DUPLICATE, lambda: one(first, "INSERT INTO account VALUES (1, 'ann', 1)"))
        checks.raises(
            f"{name}: CHECK constraint",
            CHECK_FAILED,
            lambda: one(first, "UPDATE account SET amount = -2000000 WHERE owner = 'ann'"),
        )
        one(
            first,
            "INSERT INTO account (owner, amount) VALUES ('ann', 7) ON DUPLICATE KEY UPDATE amount = VALUES(amount)",
        )
        one(first, "REPLACE INTO account (id, owner, amount) VALUES (101, 'bob', 8)")
        checks.same(
            f"{name}: upsert and REPLACE",
            (one(first, amount, "ann"), one(first, amount, "bob")),
            (decimal.Decimal("7.00"), decimal.Decimal("8.00")),
        )
        first.rollback()
        deadlock(checks, name, first, second)


def deadlock(checks, name, first, second):
    """Two transactions wait for each other's row. One gets the deadlock error immediately, the other continues."""
    one(second, "SET innodb_lock_wait_timeout = 50, teak_lock_timeout = 50000")
    one(first, "SET innodb_lock_wait_timeout = 50, teak_lock_timeout = 50000")
    one(first, "UPDATE account SET amount = 1 WHERE owner = 'ann'")
    one(second, "UPDATE account SET amount = 2 WHERE owner = 'bob'")
    outcomes = {}

    def want(connection, owner):
        try:
            one(connection, "UPDATE account SET amount = 3 WHERE owner = %s", owner)
            outcomes[owner] = 0
        except pymysql.err.OperationalError as error:
            outcomes[owner] = error.args[0]
            connection.rollback()

    threads = [threading.Thread(target=want, args=arguments) for arguments in ((first, "bob"), (second, "ann"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    checks.same(f"{name}: deadlock", sorted(outcomes.values()), [0, DEADLOCK])
    first.rollback()
    second.rollback()


def main():
    checks = Checks()
    print(f"-- PyMySQL {pymysql.VERSION_STRING}")
    with checks.part("pymysql: types"):
        types(checks)
    with checks.part("pymysql: round trip"):
        round_trip(checks)
    with checks.part("pymysql: streaming"):
        streaming(checks)
    for engine in DATABASES:
        with checks.part(f"pymysql: {engine}: transactions"):
            transactions(checks, engine)
    checks.end()


if __name__ == "__main__":
    main()

"""Private servers and connections for the demo, the benchmarks and the kill test. Standard library only.

`Server` drives scripts/server.sh; `Connection` speaks to it through libmariadb, which the server's packages bring.
"""

import ctypes
import ctypes.util
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SCRIPT = ROOT / "scripts" / "server.sh"

# Numbers of the client library's interface (errmsg.h, mysql.h).
CR_SERVER_GONE_ERROR, CR_SERVER_LOST, CR_CONNECTION_ERROR = 2006, 2013, 2002
LOST = (CR_SERVER_GONE_ERROR, CR_SERVER_LOST, CR_CONNECTION_ERROR, 2003, 2027, 2055, 1053, 1927)
UNKNOWN_VARIABLE = 1193
# A lock timeout, a deadlock, a row that changed since the snapshot.
CONFLICTS = (1205, 1213, 1020)


class SqlError(Exception):
    """The server's error to a statement, or the loss of the server (`lost`)."""

    def __init__(self, number, message, statement=""):
        super().__init__(f"error {number}: {message}" + (f" in: {statement[:200]}" if statement else ""))
        self.number = number
        self.message = message

    @property
    def lost(self):
        return self.number in LOST

    @property
    def conflict(self):
        """Whether the transaction was refused for another's sake and may be tried again."""
        return self.number in CONFLICTS


def _library():
    name = ctypes.util.find_library("mariadb") or "libmariadb.so.3"
    library = ctypes.CDLL(name)
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for function, result, arguments in (
            ("mysql_init", pointer, [pointer]),
            ("mysql_real_connect", pointer, [pointer, text, text, text, text, ctypes.c_uint, text, ctypes.c_ulong]),
            ("mysql_options", ctypes.c_int, [pointer, ctypes.c_int, pointer]),
            ("mysql_real_query", ctypes.c_int, [pointer, text, ctypes.c_ulong]),
            ("mysql_store_result", pointer, [pointer]),
            ("mysql_use_result", pointer, [pointer]),
            ("mysql_fetch_row", ctypes.POINTER(pointer), [pointer]),
            ("mysql_fetch_lengths", ctypes.POINTER(ctypes.c_ulong), [pointer]),
            ("mysql_num_fields", ctypes.c_uint, [pointer]),
            ("mysql_fetch_field_direct", pointer, [pointer, ctypes.c_uint]),
            ("mysql_field_count", ctypes.c_uint, [pointer]),
            ("mysql_free_result", None, [pointer]),
            ("mysql_affected_rows", ctypes.c_ulonglong, [pointer]),
            ("mysql_insert_id", ctypes.c_ulonglong, [pointer]),
            ("mysql_errno", ctypes.c_uint, [pointer]),
            ("mysql_error", text, [pointer]),
            ("mysql_close", None, [pointer])):
        entry = getattr(library, function)
        entry.restype, entry.argtypes = result, arguments
    return library


class Connection:
    """One session. Rows come as tuples of bytes, or None for NULL."""

    _shared = None

    def __init__(self, socket, database="", charset="utf8mb4"):
        if Connection._shared is None:
            Connection._shared = _library()
        self.library = Connection._shared
        self.handle = self.library.mysql_init(None)
        if not self.library.mysql_real_connect(self.handle, None, b"root", b"", database.encode(), 0,
                                               os.fsencode(socket), 0):
            error = self._error("")
            self.close()
            raise error
        if charset:
            self.run(f"SET NAMES {charset}")

    def _error(self, statement):
        message = (self.library.mysql_error(self.handle) or b"").decode(errors="replace")
        return SqlError(self.library.mysql_errno(self.handle), message, statement)

    def run(self, statement):
        """Runs one statement; returns its rows, or the number of rows that it affected."""
        return self._run(statement)[0]

    def run_named(self, statement):
        """Runs a statement that has rows; returns them and the names of their columns."""
        return self._run(statement, named=True)

    def _run(self, statement, named=False):
        data = statement if isinstance(statement, bytes) else statement.encode()
        if self.library.mysql_real_query(self.handle, data, len(data)):
            raise self._error(statement if isinstance(statement, str) else "")
        result = self.library.mysql_store_result(self.handle)
        if not result:
            if self.library.mysql_errno(self.handle):
                raise self._error(statement if isinstance(statement, str) else "")
            return self.library.mysql_affected_rows(self.handle), None
        fields = self.library.mysql_num_fields(result)
        # A MYSQL_FIELD begins with its name.
        names = [ctypes.cast(self.library.mysql_fetch_field_direct(result, i), ctypes.POINTER(ctypes.c_char_p))[0].decode()
                 for i in range(fields if named else 0)]
        rows = []
        while True:
            row = self.library.mysql_fetch_row(result)
            if not row:
                break
            lengths = self.library.mysql_fetch_lengths(result)
            rows.append(tuple(ctypes.string_at(row[i], lengths[i]) if row[i] else None for i in range(fields)))
        self.library.mysql_free_result(result)
        return rows, names

    def value(self, statement):
        """The first column of the only row, as text."""
        rows = self.run(statement)
        return rows[0][0].decode() if rows and rows[0][0] is not None else None

    def insert_id(self):
        return self.library.mysql_insert_id(self.handle)

    def close(self):
        if self.handle:
            self.library.mysql_close(self.handle)
            self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def alive(pid):
    """False once the process has ended, also where nobody collects it and it stays as a zombie."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not (status.get("State", "").strip().startswith("Z") and int(status.get("Threads", "1")) <= 1)


def free_port():
    """A port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A private server in `directory`; options are those of scripts/server.sh. With a port it listens on an
    address of the loopback interface too, for other servers."""

    def __init__(self, directory, options=(), port=None, address="127.0.0.1"):
        self.directory = Path(directory).absolute()
        self.options = list(options)
        self.port, self.address = port, address
        if port:
            self.options += ["--skip-networking=0", f"--bind-address={address}", f"--port={port}"]

    def _script(self, command, *arguments, check=True, **environment):
        done = subprocess.run([str(SCRIPT), command, str(self.directory), *arguments], text=True,
                              capture_output=True, env={**os.environ, **environment}, check=False)
        if check and done.returncode:
            raise RuntimeError(done.stderr.strip() or f"server.sh {command} failed")
        return done.stdout.strip()

    def start(self, *options, timeout=120):
        self._script("start", *self.options, *options, SERVER_TIMEOUT=str(timeout))
        self.socket = self._script("socket")

    def stop(self):
        self._script("stop")

    def remove(self, around=None):
        """Stops it and removes its directory, or the one `around` it that holds a test's other files too."""
        self.stop()
        shutil.rmtree(around or self.directory, ignore_errors=True)

    def start_anew(self, around=None):
        """Removes what was there, and starts with empty databases."""
        self.remove(around)
        self.directory.mkdir(parents=True)
        self.start()

    def pid(self):
        found = self._script("pid", check=False)
        return int(found) if found else None

    def kill(self):
        """kill -9, and waits until the process is gone."""
        pid = self.pid()
        if pid is None:
            return
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        while alive(pid):
            time.sleep(0.002)

    def kill_while_recovering(self, draw, kills_max):
        """Now and then starts a server that was killed and kills it again before it is up; returns how often."""
        kills = 0
        while kills < kills_max and draw.random() < 0.2:
            kills += 1
            starting = subprocess.Popen([str(SCRIPT), "start", str(self.directory), *self.options],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0.05, 0.6))
            self.kill()
            starting.wait()
            self.kill()
        return kills

    def connect(self, database=""):
        return Connection(self.socket, database)

    def bytes_written(self):
        """What the server's process has had written to disk so far (/proc/PID/io)."""
        for line in Path(f"/proc/{self.pid()}/io").read_text().splitlines():
            if line.startswith("write_bytes:"):
                return int(line.split()[1])
        raise RuntimeError("no write_bytes")

    def cpu_seconds(self):
        """Processor time that the server has used so far, in all its threads."""
        fields = Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Resident memory that it has, in bytes."""
        for line in Path(f"/proc/{self.pid()}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")

    def files(self, *patterns):
        """Total size of the data directory's files that match, in bytes as allocated on disk."""
        data = self.directory / "data"
        found = {path for pattern in patterns for path in data.glob(pattern) if path.is_file()}
        return sum(path.stat().st_blocks * 512 for path in found)

    def log_tail(self, lines=30):
        try:
            text = (self.directory / "error.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def create_tables(connection, database, tables, engine="TEAK"):
    """Makes the database, uses it, and makes the tables (name to columns) in it."""
    connection.run(f"CREATE DATABASE IF NOT EXISTS {database} DEFAULT CHARSET utf8mb4")
    connection.run(f"USE {database}")
    for table, columns in tables.items():
        connection.run(f"CREATE TABLE {table} ({columns}) ENGINE={engine}")


def settle(server, connection, engine, timeout=600):
    """Waits until the engine has written what it was given: what a size on disk or a written byte count needs."""
    deadline = time.monotonic() + timeout
    engine = engine.upper()
    if engine == "INNODB":
        # Its background writer otherwise takes 200 pages a second.
        connection.run("SET GLOBAL innodb_io_capacity_max = 40000, GLOBAL innodb_io_capacity = 20000")
        connection.run("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0")
        while time.monotonic() < deadline:
            if int(connection.run("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")[0][1]) == 0:
                return
            time.sleep(0.1)
    elif engine == "ROCKSDB":
        connection.run("SET GLOBAL rocksdb_force_flush_memtable_now = 1")
    elif engine == "TEAK":
        try:
            connection.run("SET GLOBAL teak_checkpoint_now = 1")
        except SqlError as error:
            if error.number != UNKNOWN_VARIABLE:
                raise
            connection.run("FLUSH ENGINE LOGS")
        while time.monotonic() < deadline:
            rows = connection.run("SHOW GLOBAL STATUS LIKE 'Teak\\_pending\\_flush\\_bytes'")
            if not rows or int(rows[0][1]) == 0:
                return
            time.sleep(0.1)

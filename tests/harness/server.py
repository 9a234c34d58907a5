"""A private MariaDB server in its own directory. It has no network port unless one is given, is no system service, and
has no files outside of the directory, except links to plugins under build/, and the socket in /tmp if the directory's
path is too long.

--cache among the options gives each engine's cache the same size; --no-teak and --plugin=NAME select the plugins.
The plugin is build/ha_teak.so, or the file named by TEAK_PLUGIN or by --teak-plugin=FILE. SERVER_TIMEOUT is the
timeout of a start or stop, in seconds (default 120). SERVER_PRELOAD is a library to preload into the
server, such as a sanitizer's runtime.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
import zlib
from pathlib import Path

from .connection import Connection, SqlError
from .disk_use import bytes_dirtied_by, disk_bytes_written, disk_reads
from .places import BUILD

SYSTEM_PLUGINS = Path("/usr/lib/mysql/plugin")
SPIDER = BUILD / "spider"  # where tests/spider/plugin.sh unpacks Spider's plugin
SOCKET_PATH_MAX = 100      # the system's limit is 107 bytes


def teak_plugin():
    return Path(os.environ.get("TEAK_PLUGIN") or BUILD / "ha_teak.so")


def plugin_directory(teak):
    """The directory of links for the plugin `teak`: each build of the plugin has one."""
    is_default = teak == BUILD / "ha_teak.so"
    return BUILD / ("plugins" if is_default else f"plugins-{zlib.crc32(str(teak).encode()):08x}")


def link_plugins(teak, directory):
    """Fills a directory with links to all plugins, `teak` among them, because a server takes a single plugin directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for plugin in [*SYSTEM_PLUGINS.iterdir(), *SPIDER.glob("*.so")]:
        link = directory / plugin.name
        if not link.exists():
            replace_link(link, plugin)
    link = directory / "ha_teak.so"
    if not link.is_symlink() or link.readlink() != teak:
        replace_link(link, teak)


def replace_link(link, target):
    """Makes a link in one step: other servers may be starting from the same directory."""
    new = link.with_name(f"{link.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)


def alive(pid):
    """Whether the process runs. A zombie process without other threads has ended."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not (status.get("State", "").strip().startswith("Z") and int(status.get("Threads", "1")) <= 1)


def free_port():
    """A port of the loopback interface that no process listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A private server in `directory`; options are command-line options of mariadbd. With a port it also listens on an
    address of the loopback interface, for other servers and clients."""

    def __init__(self, directory, options=(), port=None, address="127.0.0.1"):
        self.directory = Path(directory).absolute()
        self.options = list(options)
        self.prefix = []  # a command that executes the server, which follows as arguments
        self.port, self.address = port, address
        if port:
            self.options += ["--skip-networking=0", f"--bind-address={address}", f"--port={port}"]
        self.socket = str(self.directory / "server.sock")
        if len(self.socket) > SOCKET_PATH_MAX:
            self.socket = f"/tmp/teak-{zlib.crc32(str(self.directory).encode())}.sock"

    # ---- start -------------------------------------------------------------------------------------------------------

    def start(self, *options, timeout=None):
        """Starts the server, on the data of an earlier run if there is any, and waits until it answers."""
        if self.pid():
            raise RuntimeError(f"A server already runs in {self.directory}.")
        timeout = timeout or int(os.environ.get("SERVER_TIMEOUT", "120"))
        process = self._launch(options)
        deadline = time.monotonic() + timeout
        while not self._answers():
            if process.poll() is not None:
                raise RuntimeError(f"The server in {self.directory} ended while it started.\n{self._end_of_log()}")
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise RuntimeError(f"The server in {self.directory} was not ready after {timeout} s.\n{self._end_of_log()}")
            time.sleep(0.05)

    def start_empty(self, around=None):
        """Removes the data of earlier runs, and starts with empty databases."""
        self.remove(around)
        self.start()

    def _launch(self, options):
        """Starts the server's process and returns it without waiting until the server is ready."""
        if not shutil.which("mariadbd"):
            raise RuntimeError("There is no mariadbd: run scripts/setup.sh.")
        given, plugins, with_teak, teak = [], [], True, teak_plugin()
        for option in [*self.options, *options]:
            name, _, value = option.partition("=")
            if option == "--no-teak":
                with_teak = False
            elif name == "--plugin":
                plugins.append(value)
            elif name == "--teak-plugin":
                teak = Path(value)
            elif name == "--cache":
                given += [f"--innodb-buffer-pool-size={value}", f"--loose-teak-cache-size={value}",
                          f"--loose-rocksdb-block-cache-size={value}"]
            else:
                given.append(option)
        if with_teak:
            if not teak.exists():
                raise RuntimeError(f"There is no {teak}: run make build.")
            plugins.append("ha_teak")
        directory = plugin_directory(teak)
        link_plugins(teak, directory)
        self.install_system_tables()
        Path(self.socket).unlink(missing_ok=True)
        command = [*self.prefix, "mariadbd", "--no-defaults", f"--datadir={self.directory}/data", f"--socket={self.socket}", "--skip-networking",
                   f"--pid-file={self._pid_file()}", f"--tmpdir={self.directory}/tmp", "--plugin-maturity=experimental",
                   f"--plugin-dir={directory}", "--secure-file-priv=", "--skip-log-bin",
                   *(f"--plugin-load-add={plugin}" for plugin in plugins), *user_option(), *given]
        (self.directory / "command").write_text(" ".join(command) + "\n")
        with open(self.directory / "error.log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                       env={**os.environ, "LD_PRELOAD": os.environ.get("SERVER_PRELOAD", "")})
        self._pid_file().write_text(f"{process.pid}\n")
        return process

    def install_system_tables(self):
        """Creates the data directory, if there is none, and the directory of temporary files."""
        data, new = self.directory / "data", self.directory / "data.new"
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
        if (data / "mysql").is_dir():
            return
        shutil.rmtree(new, ignore_errors=True)
        # Uses a separate TMPDIR, because a server removes the files in its temporary directory at start.
        done = subprocess.run(["mariadb-install-db", "--no-defaults", *user_option(), f"--datadir={new}", "--skip-test-db",
                               "--auth-root-authentication-method=normal", "--innodb-buffer-pool-size=16M"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": f"{self.directory}/tmp"})
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db failed:\n{done.stdout[-2000:]}")
        new.rename(data)

    def _answers(self):
        try:
            with self.connect() as connection:
                connection.run("DO 1")
            return True
        except SqlError:
            return False

    # ---- stop --------------------------------------------------------------------------------------------------------

    def stop(self):
        """Shuts the server down and waits for its end; does nothing when none runs."""
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        timeout = int(os.environ.get("SERVER_TIMEOUT", "120"))
        if not self._wait_for_end(pid, timeout):
            log = self._end_of_log()
            self.kill()
            raise RuntimeError(f"The server in {self.directory} did not stop within {timeout} s and was killed.\n{log}")
        self._pid_file().unlink(missing_ok=True)

    def kill(self):
        """kill -9; returns when the process has ended."""
        pid = self.pid()
        if pid is None:
            return
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._wait_for_end(pid)

    def kill_while_recovering(self, draw, kills_max):
        """At random, starts a killed server and soon kills it again, up to `kills_max` times. Returns how often."""
        kills = 0
        while kills < kills_max and draw.random() < 0.2:
            kills += 1
            process = self._launch(())
            time.sleep(draw.uniform(0.05, 0.6))
            process.kill()
            process.wait()
        return kills

    def remove(self, around=None):
        """Stops the server and removes its directory, or the directory `around` it with other files of the test."""
        self.stop()
        shutil.rmtree(around or self.directory, ignore_errors=True)

    @staticmethod
    def _wait_for_end(pid, timeout=None):
        deadline = time.monotonic() + timeout if timeout else None
        while alive(pid):
            if deadline and time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    # ---- the running server ------------------------------------------------------------------------------------------

    def _pid_file(self):
        return self.directory / "server.pid"

    def pid(self):
        """The id of the server's process, or None when no server runs in the directory."""
        try:
            pid = int(self._pid_file().read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if f"--datadir={self.directory}/data".encode() in command.split(b"\0") and alive(pid) else None

    def connect(self, database=""):
        return Connection(self.socket, database)

    def bytes_written(self):
        """Bytes that the disk of the server's directory has written so far."""
        return disk_bytes_written(self.directory)

    def bytes_dirtied(self):
        """A count that remains the same while the server's process writes nothing."""
        return bytes_dirtied_by(self.pid())

    def disk_reads(self):
        """(reads, bytes) that the disk of the server's directory has read so far."""
        return disk_reads(self.directory)

    def processor_seconds(self):
        """Processor time that the server has used so far, in all its threads: (outside of the kernel, in it)."""
        fields = Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")", 1)[1].split()
        return tuple(int(fields[field]) / os.sysconf("SC_CLK_TCK") for field in (11, 12))

    def cpu_seconds(self):
        """Processor time that the server has used so far, in all its threads."""
        return sum(self.processor_seconds())

    def memory(self):
        """Resident memory of the server's process, in bytes."""
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

    def _end_of_log(self):
        return f"The last lines of {self.directory}/error.log:\n{self.log_tail()}"


def user_option():
    return ["--user=root"] if os.geteuid() == 0 else []


def wait_for_background_writes(connection, engine, timeout=600):
    """Waits until the engine has written its dirty pages or memtables: required before sizes on disk and written bytes
    are measured. Raises TimeoutError after `timeout` seconds."""
    engine = engine.upper()
    if engine == "INNODB":
        # By default InnoDB's background thread writes only 200 pages per second.
        connection.run("SET GLOBAL innodb_io_capacity_max = 40000, GLOBAL innodb_io_capacity = 20000")
        connection.run("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0")
        wait_for_zero(connection, "Innodb_buffer_pool_pages_dirty", timeout)
    elif engine == "ROCKSDB":
        connection.run("SET GLOBAL rocksdb_force_flush_memtable_now = 1")
    elif engine == "TEAK":
        connection.run("FLUSH ENGINE LOGS")
        wait_for_zero(connection, "Teak_pending_flush_bytes", timeout)


def wait_until_quiet(written, quiet_seconds=6, timeout=600, sleep=time.sleep):
    """Waits until written(), a count of bytes, has not changed for the time. Returns False after the timeout."""
    last, quiet, waited = written(), 0, 0
    while quiet < quiet_seconds:
        if waited >= timeout:
            return False
        sleep(1)
        waited += 1
        now = written()
        quiet, last = (quiet + 1 if now == last else 0), now
    return True


def wait_for_zero(connection, status, timeout):
    """Waits until a status variable of the server is 0."""
    deadline = time.monotonic() + timeout
    while True:
        value = int(connection.run(f"SHOW GLOBAL STATUS LIKE '{status}'")[0][1])
        if value == 0:
            return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{status} is {value} after {timeout} s")
        time.sleep(0.1)

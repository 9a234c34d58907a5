"""A new Debian system in a directory: installed by debootstrap from the archives that apt uses here, entered by chroot.
It is of this machine's release of Debian, or of another one from the same archives."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SETTINGS = """[mysqld_safe]
skip_syslog
log_error = /var/lib/mysql/error.log
[mariadbd]
skip-networking
log_error = /var/lib/mysql/error.log
innodb_buffer_pool_size = 32M
loose_teak_cache_size = 64M
"""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def offers(package):
    """(version, archive, suite) for each offer of a package by the archives."""
    found = []
    for line in output("apt-cache", "madison", package).splitlines():
        fields = [field.strip() for field in line.split("|")]
        if fields[2].endswith("Packages"):
            archive, suite = fields[2].split()[:2]
            found.append((fields[1], archive, suite.split("/")[0]))
    return found


def release_of(version):
    """1:10.11.18-0+deb12u1 -> 10.11.18, 1:11.8.9+ds-0+deb13u1 -> 11.8.9"""
    return re.split(r"[-+]", version.split(":")[-1])[0]


def enter_namespaces(module, *arguments):
    """Replaces this program by `python3 -m MODULE --inside ARGUMENT...` in its own namespaces of mounts and processes: what
    it mounts and starts ends with it."""
    if os.geteuid() != 0:
        sys.exit("error: run it as root: it installs a system with debootstrap")
    if not shutil.which("debootstrap"):
        sys.exit("error: debootstrap is missing: apt-get install debootstrap")
    command = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.execvp(command[0], [*command, sys.executable, "-m", module, "--inside", *arguments])


class Root:
    def __init__(self, directory, log, suite=None):
        """`suite` is the name of a release of Debian, by default this machine's."""
        self.directory, self.log = Path(directory), log
        _, self.archive, self.own_suite = offers("base-files")[-1]
        self.suite = suite or self.own_suite
        self.output = ""  # of the last command

    # ---- the system ----

    def bootstrap(self, directory):
        """Installs a minimal system, unless the directory has one."""
        if directory.exists():
            return
        print(f"-- installing a minimal Debian {self.suite} with debootstrap", flush=True)
        partial = directory.with_suffix(".new")
        shutil.rmtree(partial, ignore_errors=True)
        with self.log.open("a") as log:
            subprocess.run(["debootstrap", "--variant=minbase", self.suite, partial, self.archive], check=True, stdout=log, stderr=log)
        partial.rename(directory)

    def create(self, base):
        """Copies the directory `base`, in which a minimal system is installed first if it does not exist."""
        self.bootstrap(base)
        shutil.rmtree(self.directory, ignore_errors=True)
        subprocess.run(["cp", "-a", base, self.directory], check=True)
        self.prepare()
        self.write("etc/mysql/mariadb.conf.d/zz-test.cnf", SETTINGS)

    def prepare(self):
        """Mounts the system's file systems, and reads the package lists."""
        for name, kind in (("proc", "proc"), ("sys", "sysfs")):
            subprocess.run(["mount", "-t", kind, kind, self.directory / name], check=True)
        subprocess.run(["mount", "--bind", "/dev", self.directory / "dev"], check=True)
        self.copy_sources()
        # There is no init system; without this, packages do not start and stop their services.
        self.write("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 0\n")
        self.path("usr/sbin/policy-rc.d").chmod(0o755)
        self.must("apt-get", "update")

    def copy_sources(self):
        """Copies the archives that have the server, and adds their source packages."""
        archives = {archive.rstrip("/") for _, archive, _ in offers("mariadb-server")}
        (self.directory / "etc/apt/sources.list").unlink(missing_ok=True)
        for file in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
            if not file.is_file() or not any(archive in file.read_text() for archive in archives):
                continue
            text = re.sub(rf"\b{self.own_suite}\b", self.suite, file.read_text())
            if file.suffix == ".sources":
                text = re.sub(r"(?m)^Types:.*", "Types: deb deb-src", text)
            else:
                text += "".join(re.sub(r"^deb\b", "deb-src", line) + "\n" for line in text.splitlines() if line.startswith("deb "))
            self.write(f"etc/apt/sources.list.d/{file.stem}{file.suffix}", text)
        for file in Path("/etc/apt/apt.conf.d").glob("*"):
            if re.search(r"(?i)proxy", file.read_text()):
                self.write(f"etc/apt/apt.conf.d/{file.name}", file.read_text())
        for name in ("etc/resolv.conf", "etc/hosts"):
            shutil.copy(Path("/") / name, self.directory / name)

    def write(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def path(self, name):
        return self.directory / name.lstrip("/")

    # ---- commands ----

    def run(self, *command):
        """Whether a command in the system succeeds; `output` has what it wrote."""
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
            log.flush()
            # A file, because a started server keeps a pipe open.
            result = self.log.with_name("command.log")
            with result.open("w") as written:
                ended = subprocess.run(["chroot", self.directory, *map(str, command)], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                       stdout=written, stderr=subprocess.STDOUT, check=False)
            self.output = result.read_text(errors="replace")
            log.write(f"{self.output}[status {ended.returncode}]\n")
        return ended.returncode == 0

    def must(self, *command):
        if not self.run(*command):
            sys.exit(f"FAILED: {' '.join(map(str, command))}\n{self.output[-3000:]}\nsee {self.log}")
        return self.output

    def install(self, *packages):
        self.must("apt-get", "install", "-y", "-q", "--no-install-recommends", "--allow-downgrades", *packages)

    def version(self, package):
        """The installed version of a package, or None."""
        known = self.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}|${Version}", package)
        state, _, version = self.output.partition("|")
        return version if known and state.strip() == "ii" else None

    # ---- the server ----

    def pin_server(self, version):
        """apt prefers a version of the server, older or newer than the installed one."""
        self.write("etc/apt/preferences.d/server", f"Package: src:mariadb\nPin: version {version}\nPin-Priority: 1001\n")

    def update_server(self, version):
        """As an update of the system does."""
        self.pin_server(version)
        self.must("apt-get", "dist-upgrade", "-y", "-q", "--allow-downgrades", "-o", "Dpkg::Options::=--force-confold")

    def restart(self):
        self.must("service", "mariadb", "restart")

    def sql(self, *statements):
        """Whether the statements succeed; `output` has the rows or the error."""
        return self.run("mariadb", "--batch", "--skip-column-names", "-e", ";".join(statements))

    def error_log(self):
        return self.path("var/lib/mysql/error.log").read_text(errors="replace")

    def forget_error_log(self):
        self.path("var/lib/mysql/error.log").write_text("")

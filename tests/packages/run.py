"""Installs the packages of `make deb` into a new Debian system, and uses, upgrades, removes and purges them. The server
is updated to another release, if the archives have one, and back. Needs root.

The system is in build/deb-test/root, in its own namespaces of mounts and processes: what it started ends with this program.
build/deb-test/log has the output of all commands. Each check counts as one test.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness import BUILD, ROOT, finish

from .root import Root, enter_namespaces, offers, release_of

DIRECTORY = BUILD / "deb-test"
PACKAGES, NEXT = BUILD / "deb", DIRECTORY / "next"
ROWS = "1\tone\n2\ttwo\n"
LOCAL_SHIM = "/var/lib/mariadb-plugin-teak/{}/teak_shim.so"


def build_next():
    """The same packages with a higher version."""
    newest = max((path.stat().st_mtime for path in PACKAGES.glob("*.deb")), default=None)
    if newest is None:
        sys.exit("error: there are no packages in build/deb: make deb")
    if NEXT.exists() and any(path.stat().st_mtime > newest for path in NEXT.glob("*.deb")):
        return
    print("-- building packages of the next version", flush=True)
    subprocess.run([ROOT / "scripts/deb/build.sh"], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"VERSION_SUFFIX": "+next", "OUT": str(NEXT)})


class Test:
    def __init__(self):
        self.passed = self.failed = 0
        self.root = Root(DIRECTORY / "root", DIRECTORY / "log")
        self.server = offers("mariadb-server")
        known = {path.name for path in self.known_releases()}
        self.versions = {release_of(version): version for version, _, _ in self.server}
        self.release = next((release for release in self.versions if release in known), None)
        self.other = next((release for release in self.versions if release not in known), None)

    @staticmethod
    def known_releases():
        """The releases that the packages support."""
        plugin = next(PACKAGES.glob("mariadb-plugin-teak_*.deb"))
        listing = subprocess.run(["dpkg-deb", "-c", plugin], check=True, capture_output=True, text=True).stdout
        return {Path(line.split()[-1]).parent for line in listing.splitlines() if line.endswith("/teak_shim.so")}

    def check(self, holds, what):
        print(f"{'passed' if holds else 'FAILED'}: {what}", flush=True)
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print("    " + self.root.output[-1500:].replace("\n", "\n    "), flush=True)

    # ---- helpers ----

    def packages(self, directory, *names):
        """Copies packages into the system, and returns their paths there."""
        (self.root.directory / "packages").mkdir(exist_ok=True)
        paths = []
        for name in names:
            file = next(directory.glob(f"{name}_*.deb"))
            shutil.copy(file, self.root.directory / "packages")
            paths.append(f"/packages/{file.name}")
        return paths

    def check_rows(self, when):
        self.check(self.root.sql("SELECT * FROM d.t ORDER BY a") and self.root.output == ROWS, f"the rows are read {when}")

    def files(self):
        return sorted(path.name for path in self.root.path("var/lib/mysql").rglob("*teak*") if path.suffix == ".teak")

    def check_unavailable(self, when, *messages):
        root = self.root
        root.output = log = root.error_log()
        if messages:
            self.check(all(message in log for message in messages), f"the error log says what to do {when}")
        self.check(root.sql("SELECT COUNT(*) FROM d.i") and root.output == "1\n", f"the server runs {when}, other engines work")
        self.check(not root.sql("SELECT * FROM d.t"), f"a table of Teak is not available {when}")
        self.check(bool(self.files()), f"the files remain {when}")

    # ---- the steps ----

    def install(self):
        root = self.root
        root.pin_server(self.versions[self.release])
        root.install("mariadb-server")
        root.install(*self.packages(PACKAGES, "mariadb-plugin-teak", "teak-tools"))
        self.check("restart the MariaDB server" in root.output, "the installation says that the server must be restarted")
        root.restart()
        self.check(root.sql("SELECT SUPPORT, TRANSACTIONS, XA FROM information_schema.ENGINES WHERE ENGINE = 'TEAK'") and
                   root.output == "YES\tYES\tYES\n", "the server loads Teak at its start")
        self.check(root.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(9), KEY (b)) ENGINE=TEAK",
                            "INSERT INTO d.t VALUES (1, 'one'), (2, 'two')", "CREATE TABLE d.i (a INT) ENGINE=InnoDB",
                            "INSERT INTO d.i VALUES (1)"), "a table is created and filled")
        root.restart()
        self.check_rows("after a restart")
        self.check(root.sql("UNINSTALL SONAME 'ha_teak'") and root.sql("INSTALL SONAME 'ha_teak'"),
                   "the plugin is unloaded and loaded by statements")
        self.check_rows("after that")
        # The statements were recorded in mysql.plugin; the configuration alone must load it.
        self.check(root.sql("DELETE FROM mysql.plugin WHERE dl = 'ha_teak'"), "mysql.plugin is empty")

    def use_tools(self):
        root = self.root
        root.must("service", "mariadb", "stop")
        self.check(root.run("teak", "verify", "/var/lib/mysql"), "teak verify checks the files")
        root.must("service", "mariadb", "start")

    def build_programs(self):
        root = self.root
        root.install("gcc", "libc6-dev", "make", "pkg-config", *self.packages(PACKAGES, "libteak1", "libteak-dev"))
        root.path("tmp/examples").mkdir()
        self.check(root.run("make", "-C", "/usr/share/doc/libteak-dev/examples", "OUT=/tmp/examples"), "programs are built with libteak-dev")
        for program in ("basic", "basic-static"):
            self.check(root.run(f"/tmp/examples/{program}", f"/tmp/{program}") and "pear: green" in root.output, f"{program} runs")

    def upgrade(self):
        root = self.root
        before = root.version("mariadb-plugin-teak")
        root.install(*self.packages(NEXT, "mariadb-plugin-teak", "teak-tools", "libteak1", "libteak-dev"))
        self.check(root.version("mariadb-plugin-teak") == f"{before}+next", "the package is upgraded")
        self.check_rows("while the old version is loaded")
        root.restart()
        self.check_rows("with the new version")
        self.check(root.sql("INSERT INTO d.t VALUES (3, 'three')", "DELETE FROM d.t WHERE a = 3"), "the new version writes")

    def remove(self):
        root = self.root
        root.must("apt-get", "remove", "-y", "-q", "mariadb-plugin-teak")
        self.check("Their files remain" in root.output, "the removal says that the files remain")
        root.forget_error_log()
        root.restart()
        self.check_unavailable("after the removal")
        root.install(*self.packages(NEXT, "mariadb-plugin-teak"))
        root.restart()
        self.check_rows("after the package is installed again")

    def purge(self):
        root = self.root
        root.must("apt-get", "purge", "-y", "-q", "mariadb-plugin-teak")
        self.check(not root.path("etc/mysql/mariadb.conf.d/teak.cnf").exists() and not root.path("usr/lib/mysql/teak").exists() and
                   not root.path("var/lib/mariadb-plugin-teak").exists(), "purge removes the configuration and the plugin")
        root.restart()
        self.check_unavailable("after purge")
        root.install(*self.packages(PACKAGES, "mariadb-plugin-teak"))
        root.restart()
        self.check_rows("after the package is installed again")

    def update_server(self):
        """To a release that the package does not know, and back."""
        root = self.root
        root.forget_error_log()
        root.update_server(self.versions[self.other])
        self.check(f"this version does not support MariaDB {self.other}" in root.output, "the update says that Teak does not know the release")
        self.check(root.version("mariadb-server") == self.versions[self.other] and root.version("mariadb-plugin-teak") is not None,
                   f"the update to {self.other} is neither held back nor removes the plugin")
        self.check_unavailable(f"with MariaDB {self.other}", f"does not support MariaDB {self.other}", f"It supports: {self.release}.",
                               "sudo teak-build-shim --download")
        self.check(not root.sql("INSTALL SONAME 'ha_teak'"), "INSTALL SONAME fails there, too")
        root.update_server(self.versions[self.release])
        self.check_rows("after the return to the known release")

    def hide_packaged_shims(self):
        """From here on the known release is an unknown one, because dpkg does not unpack the shims of the package."""
        root = self.root
        root.write("etc/dpkg/dpkg.cfg.d/no-shims", "path-exclude=/usr/lib/mysql/teak/*\n")
        shutil.rmtree(root.path("usr/lib/mysql/teak"))
        root.forget_error_log()
        root.restart()
        self.check_unavailable("without a shim", f"does not support MariaDB {self.release}")

    def build_shim(self):
        root = self.root
        root.install(*self.packages(PACKAGES, "mariadb-plugin-teak-source"))
        self.check(f"teak-build-shim: The headers of MariaDB {self.release} are missing" in root.output,
                   "without headers the installation says what is missing")
        self.check(not root.run("teak-build-shim", "11.8.6") and "written for MariaDB 10.11" in root.output, "another series is refused")
        self.check(root.run("teak-build-shim", "--download") and root.path(LOCAL_SHIM.format(self.release)).exists(),
                   "teak-build-shim downloads what it needs and compiles the shim")
        root.restart()
        self.check_rows("with the compiled shim")
        if self.other and not self.available(self.other):
            self.check(not root.run("teak-build-shim", "--download", self.other) and "cannot be downloaded" in root.output,
                       f"the shim for {self.other}, whose source the archive lacks, is refused with a message")

    def available(self, release):
        """Whether the archive has the source package that it lists."""
        return self.root.run("sh", "-c", "cd /tmp && apt-get source -q --download-only --dsc-only mariadb=" + self.versions[release])

    def build_shim_in_update(self):
        """The update compiles the shim before the new server starts."""
        root = self.root
        root.update_server(self.versions[self.other])
        self.check(root.version("mariadb-server") == self.versions[self.other], "an update without a shim succeeds")
        shutil.rmtree(root.path("var/lib/mariadb-plugin-teak"))
        root.write("etc/default/mariadb-plugin-teak-source", "DOWNLOAD=yes\n")
        root.update_server(self.versions[self.release])
        self.check(f"Installed {LOCAL_SHIM.format(self.release)}" in root.output, "an update of the server compiles the shim")
        self.check_rows("after the update, without another restart")

    def upgrade_with_compiled_shim(self):
        """The headers and the source are installed, and nothing is downloaded."""
        root = self.root
        root.write("etc/default/mariadb-plugin-teak-source", "DOWNLOAD=no\n")
        root.install("libmariadbd-dev")
        root.must("sh", "-c", f"cd /usr/src && apt-get source -q mariadb={self.versions[self.release]}")
        local = root.path(LOCAL_SHIM.format(self.release))
        old = local.read_bytes()
        root.install(*self.packages(NEXT, "mariadb-plugin-teak", "mariadb-plugin-teak-source"))
        self.check(f"Installed {LOCAL_SHIM.format(self.release)}" in root.output, "an upgrade of Teak compiles the shim again")
        root.restart()
        self.check_rows("with it")
        local.unlink()  # The server has mapped it.
        local.write_bytes(old)
        root.forget_error_log()
        root.restart()
        self.check_unavailable("with a shim of another version of Teak", "was compiled for version", "sudo teak-build-shim --download")
        root.must("apt-get", "purge", "-y", "-q", "mariadb-plugin-teak-source", "mariadb-plugin-teak")
        self.check(not root.path("var/lib/mariadb-plugin-teak").exists() and bool(self.files()), "purge removes compiled shims, and no data")

    def run(self):
        if self.release is None:
            sys.exit(f"error: apt offers no release that the packages support; it offers {', '.join(self.versions)}")
        self.root.create(DIRECTORY / "base")
        self.install()
        self.use_tools()
        self.build_programs()
        self.upgrade()
        self.remove()
        self.purge()
        if self.other:
            self.update_server()
        else:
            print("-- the archives have no other release of the server: its update is not tested")
        self.hide_packaged_shims()
        self.build_shim()
        if self.other:
            self.build_shim_in_update()
        self.upgrade_with_compiled_shim()
        return finish(self.passed, self.failed, f"MariaDB {', '.join(filter(None, (self.release, self.other)))}")


def main():
    if sys.argv[1:] != ["--inside"]:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        build_next()
        enter_namespaces("tests.packages.run")
    (DIRECTORY / "log").write_text("")
    return Test().run()


if __name__ == "__main__":
    sys.exit(main())

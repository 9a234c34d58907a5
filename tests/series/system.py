"""A system of Debian that has another series of MariaDB than this machine, with this checkout in it.

The system is in build/server-SERIES/root and remains there between runs. Inside, the checkout has its usual path, but its
directory `build` is build/server-SERIES/build: scripts, tests and make run there as they do here. Only the core is compiled on
this machine, because the system's Rust may be too old.
"""

import subprocess
import sys

from tests.harness import BUILD, ROOT
from tests.packages.root import ENVIRONMENT, Root

from . import pool

SUITES = {"11.8": "trixie"}  # the release of Debian that has the series


def directory(series):
    return BUILD / f"server-{series}"


def inner_build(series):
    """The directory that is `build` in the system."""
    return directory(series) / "build"


class System:
    """Must be used in own namespaces (tests.packages.root.enter_namespaces)."""

    def __init__(self, series):
        self.series = series
        self.root = Root(directory(series) / "root", directory(series) / "log", SUITES[series])

    def enter(self):
        """Installs the system if it does not exist, and mounts it."""
        root = self.root
        root.bootstrap(root.directory)
        root.prepare()
        # Packages do not start services.
        root.write("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")
        root.path("usr/sbin/policy-rc.d").chmod(0o755)
        if root.version("mariadb-server") is None:
            self.choose_release()
        self.mount_checkout()

    def choose_release(self):
        """Adds an archive with a release of which there is the source."""
        root = self.root
        root.must("apt-get", "update")
        if not pool.source_is_available(root):
            pool.add_local_archive(root, self.series)

    def mount_checkout(self):
        inside = self.root.path(str(ROOT))
        inside.mkdir(parents=True, exist_ok=True)
        for source, target in ((ROOT, inside), (inner_build(self.series), inside / "build")):
            subprocess.run(["mount", "--bind", source, target], check=True)

    def call(self, *command, environment):
        """Runs a command in the checkout inside the system; returns its exit status."""
        sys.stdout.flush()
        return subprocess.run(["chroot", self.root.directory, "env", "-C", ROOT, *command], env=ENVIRONMENT | environment,
                              stdin=subprocess.DEVNULL, check=False).returncode

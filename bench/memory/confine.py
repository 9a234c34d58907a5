"""Control groups that limit a server's memory and the speed of its disk, in both versions of the kernel's interface.

Version 1: a group is created in the benchmark's own group of each controller, so the limits of that one hold, too. Its
limits of the disk hold for reads and direct writes only: dirty pages of the kernel's cache are written outside of the
group, even if the process waits for a sync. Version 2: a group with processes cannot have limited groups below it, so the group is created in the nearest
group above the benchmark's own that passes both controllers on.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

REMOVE_SECONDS = 10
# The shell joins the groups, whose files are its arguments up to "--", and becomes the command after it.
ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; exec "$@"'


class NoControlGroup(Exception):
    """This machine or user cannot have such a group."""


@dataclass
class Limits:
    """Limits of a group: of the memory in bytes and, unless `operations` is 0, of the reads and of the writes of the disk,
    in operations and bytes per second."""
    memory: int
    operations: int = 0
    bytes: int = 0


def mount_of(mounts, controller):
    """(version, directory) of the mounted hierarchy of a controller, from the text of /proc/self/mounts."""
    unified = None
    for line in mounts.splitlines():
        _, directory, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            return 1, Path(directory)
        if kind == "cgroup2":
            unified = Path(directory)
    if unified is None:
        raise NoControlGroup(f"no control groups of {controller} are mounted")
    return 2, unified


def own_group(groups, controller):
    """The own group's path in the hierarchy of a controller ("" for version 2), from the text of /proc/self/cgroup."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    raise NoControlGroup(f"this process is in no control group of {controller or 'version 2'}")


def device_of(path):
    """The number MAJOR:MINOR of the whole disk that stores the path."""
    number = os.stat(path).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    block = Path(f"/sys/dev/block/{name}").resolve()
    if not block.exists():
        raise NoControlGroup(f"the file system of {path} is not on one block device")
    if (block / "partition").exists():
        name = (block.parent / "dev").read_text().strip()
    return name


def settings(version, limits, device):
    """Pairs of a file of the group and what is written to it, by controller."""
    if version == 1:
        memory = [("memory.limit_in_bytes", limits.memory), ("memory.swappiness", 0)]
        disk = [(f"blkio.throttle.{way}_{unit}_device", f"{device} {count}") for way in ("read", "write")
                for unit, count in (("iops", limits.operations), ("bps", limits.bytes))]
        return {"memory": memory, "blkio": disk if limits.operations else []}
    memory = [("memory.max", limits.memory), ("memory.swap.max", 0)]
    disk = [("io.max", f"{device} riops={limits.operations} wiops={limits.operations} rbps={limits.bytes} wbps={limits.bytes}")]
    return {"memory": memory, "io": disk if limits.operations else []}


def place_of_unified(mount, own, controllers):
    """The nearest group above the own one that passes the controllers on to the groups in it."""
    place = mount / own
    while place != mount:
        place = place.parent
        if set(controllers) <= set((place / "cgroup.subtree_control").read_text().split()):
            return place
    raise NoControlGroup(f"no group above this process passes {', '.join(controllers)} on")


class Group:
    """A group with limits, one directory for each hierarchy. `prefix` is a command that starts its arguments in the group."""

    def __init__(self, limits, data):
        self.directories = []
        self.limits_buffered_writes = True
        try:
            device = device_of(data) if limits.operations else ""
            mounts, groups = Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()
            version, mount = mount_of(mounts, "memory")
            wanted = {controller: pairs for controller, pairs in settings(version, limits, device).items() if pairs}
            if version == 2:
                place = place_of_unified(mount, own_group(groups, ""), wanted)
                self._create(place, [pair for pairs in wanted.values() for pair in pairs])
            else:
                self.limits_buffered_writes = not limits.operations
                for controller, pairs in wanted.items():
                    self._create(mount_of(mounts, controller)[1] / own_group(groups, controller), pairs)
        except (OSError, NoControlGroup) as error:
            self.remove()
            raise NoControlGroup(str(error)) from error

    def _create(self, place, pairs):
        directory = place / f"teak-bench-{os.getpid()}"
        directory.mkdir()
        self.directories.append(directory)
        for file, value in pairs:
            (directory / file).write_text(str(value))

    def prefix(self):
        return ["sh", "-c", ENTER, "sh", *(str(directory / "cgroup.procs") for directory in self.directories), "--"]

    def contains(self, pid):
        """Whether the process is in all directories of the group."""
        return all(str(pid) in (directory / "cgroup.procs").read_text().split() for directory in self.directories)

    def remove(self):
        """Removes the group after its processes have ended. The kernel may need a moment until it has none."""
        deadline = time.monotonic() + REMOVE_SECONDS
        for directory in self.directories:
            while True:
                try:
                    directory.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        self.directories = []

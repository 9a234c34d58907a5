"""Tests of the parts of `make bench-memory` that need no server."""

import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path
from types import SimpleNamespace

from tests.harness import BUILD, wait_until_quiet
from tests.harness.disk_use import disk_bytes_written, disk_reads

from .__main__ import parse, settings, size
from .confine import Group, Limits, NoControlGroup, mount_of, own_group, place_of_unified
from .confine import settings as group_settings
from .figures import medians, rate_points, ratios, write_runs
from .plot import line_chart, nice_step
from .series import Series, quantile
from .workloads import WORKLOADS, batches

MOUNTS_1 = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
MOUNTS_2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"


def series_of(*statements):
    series = Series()
    for statement in statements:
        series.add(*statement)
    return series


class Rates(unittest.TestCase):
    def test_tenths_are_tenths_of_the_rows(self):
        # The first half takes 5 s, the second half 45 s.
        series = series_of(*((number + 1, 1, 100) for number in range(5)), *((5 + 9 * (number + 1), 9, 100) for number in range(5)))
        rates = series.tenths()
        self.assertEqual(len(rates), 10)
        self.assertEqual(rates[:5], [100.0] * 5)
        self.assertAlmostEqual(rates[9], 100 / 9)
        found = series.result()
        self.assertEqual((found["rows"], found["seconds"], found["rows_per_second"]), (1000, 50, 20))
        self.assertAlmostEqual(found["last_to_second"], 1 / 9)

    def test_fewer_than_ten_statements_have_no_tenths(self):
        self.assertNotIn("first_tenth", series_of((1, 1, 10), (2, 1, 10)).result())

    def test_statements_of_other_threads_may_be_recorded_out_of_order(self):
        self.assertEqual(series_of((2, 2, 1), (1, 1, 1)).by_end()[0], (1, 1, 1))

    def test_a_gap_is_between_ends_of_any_threads(self):
        series = series_of((0.5, 0.5, 1), (0.9, 0.9, 1), (3.2, 2.7, 1), (3.4, 0.2, 1))
        self.assertAlmostEqual(series.longest_gap(), 2.3)
        self.assertEqual(series.seconds_without_progress(), 2)
        self.assertEqual(series.per_second()[0], [0, 2, 2, 0.9])
        self.assertEqual(series.per_second()[1], [1, 0, 0, 0.0])

    def test_quantiles(self):
        values = list(range(1, 1001))
        self.assertEqual(quantile(values, 0.5), 501)
        self.assertEqual(quantile(values, 0.999), 1000)
        self.assertEqual(quantile([7], 0.999), 7)
        self.assertIsNone(quantile([], 0.5))


class ControlGroups(unittest.TestCase):
    def test_the_hierarchy_of_a_controller_is_found(self):
        self.assertEqual(mount_of(MOUNTS_1, "memory"), (1, Path("/sys/fs/cgroup/memory")))
        self.assertEqual(mount_of(MOUNTS_2, "memory"), (2, Path("/sys/fs/cgroup")))
        with self.assertRaises(NoControlGroup):
            mount_of("proc /proc proc rw 0 0\n", "memory")

    def test_the_own_group_is_found(self):
        self.assertEqual(own_group("4:cpu,cpuacct:/a\n3:memory:/b/c\n0::/d\n", "memory"), "b/c")
        self.assertEqual(own_group("0::/user.slice/session\n", ""), "user.slice/session")
        with self.assertRaises(NoControlGroup):
            own_group("3:memory:/b\n", "blkio")

    def test_version_2_uses_a_group_that_passes_the_controllers_on(self):
        with tempfile.TemporaryDirectory() as directory:
            mount = Path(directory)
            (mount / "user/session").mkdir(parents=True)
            (mount / "cgroup.subtree_control").write_text("cpu io memory\n")
            (mount / "user/cgroup.subtree_control").write_text("memory\n")
            self.assertEqual(place_of_unified(mount, "user/session", ["memory"]), mount / "user")
            self.assertEqual(place_of_unified(mount, "user/session", ["memory", "io"]), mount)
            with self.assertRaises(NoControlGroup):
                place_of_unified(mount, "user/session", ["memory", "cpuset"])

    def test_a_process_in_a_group_is_killed_beyond_its_memory(self):
        try:
            group = Group(Limits(64 << 20), tempfile.gettempdir())
        except NoControlGroup as error:
            self.skipTest(str(error))
        try:
            for megabytes, status in ((20, 0), (200, -9)):
                done = subprocess.run([*group.prefix(), sys.executable, "-c", f"len(bytearray({megabytes} << 20))"], check=False)
                self.assertEqual(done.returncode, status)
        finally:
            group.remove()
        self.assertEqual(group.directories, [])

    def test_both_versions_get_the_same_limits(self):
        limits = Limits(1 << 20, 3000, 125_000_000)
        first = group_settings(1, limits, "254:0")
        self.assertIn(("memory.limit_in_bytes", 1 << 20), first["memory"])
        self.assertIn(("blkio.throttle.write_iops_device", "254:0 3000"), first["blkio"])
        self.assertEqual(group_settings(2, limits, "254:0")["io"], [("io.max", "254:0 riops=3000 wiops=3000 rbps=125000000 wbps=125000000")])
        self.assertEqual(group_settings(1, Limits(1), "")["blkio"], [])


class Options(unittest.TestCase):
    def test_sizes_have_units(self):
        self.assertEqual([size(text) for text in ("1GiB", "256M", "4096", "0.5g")], [1 << 30, 256 << 20, 4096, 1 << 29])

    def test_a_table_has_five_times_the_memory_by_default(self):
        one, slow = settings(parse(["--slow"]))
        self.assertGreaterEqual(one.rows * 200, 5 << 30)
        self.assertEqual((slow.limits.memory, slow.cache, slow.limits.operations), (512 << 20, 64 << 20, 3000))
        self.assertGreaterEqual(slow.rows * 200, 5 * slow.limits.memory)
        self.assertEqual([setting.rows for setting in settings(parse(["--slow", "--rows=1000"]))], [1000, 1000])


class Workloads(unittest.TestCase):
    def test_batches_cover_all_numbers_once(self):
        take = batches(450, 200)
        self.assertEqual([take(), take(), take(), take()], [(1, 200), (201, 200), (401, 50), None])

    def test_upserts_stay_within_the_partitions(self):
        workload = WORKLOADS["upsert"](SimpleNamespace(seed=1), 1000)
        a_day = -(-workload.total() // workload.DAYS)
        self.assertLess((workload.total() - 1) // a_day, workload.DAYS)

    def test_updates_depend_on_the_seed_and_the_place_only(self):
        def statement(seed):
            return WORKLOADS["updates"](SimpleNamespace(seed=seed), 1000).statement(51, 50)
        self.assertEqual(statement(1), statement(1))
        self.assertNotEqual(statement(1), statement(2))

    def test_needed_workloads_exist(self):
        for workload in WORKLOADS.values():
            self.assertIn(workload.needs, [None, *WORKLOADS])


class Settling(unittest.TestCase):
    def test_waits_until_nothing_was_written_for_the_time(self):
        counts = iter([1, 2, 2, 3, 3, 3, 3, 3])
        self.assertTrue(wait_until_quiet(lambda: next(counts), 3, 100, sleep=lambda _: None))
        self.assertEqual(list(counts), [3])

    def test_the_disk_counts_what_was_written(self):
        with tempfile.NamedTemporaryFile(dir=BUILD) as file:
            try:
                before = disk_bytes_written(BUILD)
            except RuntimeError as error:
                self.skipTest(str(error))
            file.write(os.urandom(4 << 20))
            file.flush()
            self.assertGreaterEqual(disk_bytes_written(BUILD) - before, 4 << 20)

    def test_the_disk_counts_what_was_read(self):
        with tempfile.NamedTemporaryFile(dir=BUILD) as file:
            file.write(os.urandom(4 << 20))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            try:
                reads, read = disk_reads(BUILD)
            except RuntimeError as error:
                self.skipTest(str(error))
            self.assertEqual(len(os.pread(file.fileno(), 4 << 20, 0)), 4 << 20)
            now = disk_reads(BUILD)
            self.assertGreater(now[0], reads)
            self.assertGreaterEqual(now[1] - read, 4 << 20)

    def test_ends_after_the_timeout(self):
        counts = iter(range(1000))
        self.assertFalse(wait_until_quiet(lambda: next(counts), 3, 10, sleep=lambda _: None))


class Figures(unittest.TestCase):
    def test_medians_leave_failed_runs_out(self):
        runs = [{"setting": "memory", "workload": "insert", "engine": engine, **run} for engine, run in (
            ("Teak", {"rows_per_second": 30}), ("Teak", {"rows_per_second": 10}), ("Teak", {"rows_per_second": 20}),
            ("InnoDB", {"rows_per_second": 5}), ("RocksDB", {"error": "killed"}))]
        engines = ["InnoDB", "RocksDB", "Teak"]
        found = medians(runs, "memory", "insert", engines)
        self.assertEqual(found, {"rows_per_second": {"InnoDB": 5, "RocksDB": None, "Teak": 20}})
        self.assertEqual(ratios(found["rows_per_second"], engines), [4, None])
        self.assertEqual(medians(runs, "slow disk", "insert", engines), {})

    def test_a_table_of_runs_has_the_columns_of_all(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "runs.csv"
            write_runs(path, [{"a": 1, "notes": ["x", "y"]}, {"b": 2}])
            self.assertEqual(path.read_text().split(), ["a,notes,b", "1,x;", "y,", ",,2"])


class Plots(unittest.TestCase):
    def test_steps_are_round_and_reach_the_maximum(self):
        for highest in (0.04, 1, 7, 99, 100, 101, 1_234_567):
            step = nice_step(highest)
            self.assertGreaterEqual(step * 5, highest)
            self.assertLess(step * 5, highest * 2.6)

    def test_a_chart_is_xml_with_a_line_for_each_engine(self):
        series = series_of(*((number + 1, 1, 100) for number in range(50)))
        self.assertEqual(len(rate_points(series)), 50)
        self.assertEqual(rate_points(series, 10)[0], (500, 100.0))
        chart = xml.etree.ElementTree.fromstring(line_chart("inserts & more", "rows", "rows/s", {"Teak": rate_points(series), "InnoDB": []}))
        self.assertEqual(len(chart.findall("{http://www.w3.org/2000/svg}polyline")), 2)


if __name__ == "__main__":
    unittest.main()

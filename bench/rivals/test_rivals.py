"""Tests of the report of `make bench-rivals`."""

import unittest

from .run import WORKLOADS, parse, summary, table, with_rates


def run(engine, workload, rows, seconds, **more):
    return {"engine": engine, **with_rates({"workload": workload, "operations": rows, "seconds": seconds, **more})}


class Report(unittest.TestCase):
    RUNS = [run("Teak", "random", 100, 1, written=1000), run("Teak", "random", 100, 2, written=3000), run("Teak", "random", 100, 4, written=2000),
            run("LMDB", "random", 100, 5, written=8000), run("Teak", "scan", 100, 1), {"engine": "redb", "workload": "", "error": "ended"}]

    def test_rates_and_bytes_are_those_of_a_row(self):
        found = summary(self.RUNS, "random", ["Teak", "LMDB", "redb"])
        self.assertEqual(found["rate"], {"Teak": 50, "LMDB": 20, "redb": None})
        self.assertEqual(found["written_per_row"], {"Teak": 20, "LMDB": 80, "redb": None})

    def test_the_table_has_ratios_to_each_other_engine(self):
        header, lines = table(self.RUNS, ["random", "scan"], ["Teak", "LMDB", "redb"])
        self.assertEqual(header[-2:], ["Teak/LMDB", "Teak/redb"])
        self.assertEqual(lines[0], ["random inserts: rate", "rows/s", "50.0", "20.0", "-", "2.50", "-"])
        self.assertTrue(all(len(line) == len(header) for line in lines))

    def test_without_teak_there_are_no_ratios(self):
        header, lines = table(self.RUNS, ["random"], ["LMDB"])
        self.assertTrue(all(len(line) == len(header) == 3 for line in lines))


class Options(unittest.TestCase):
    def test_names_of_engines_are_found_in_any_case(self):
        options = parse(["--engines=teak,LMDB,RocksDb", "--cache=64M"])
        self.assertEqual(options.engines, ["Teak", "LMDB", "RocksDB"])
        self.assertEqual(options.memory, 128 << 20)
        self.assertEqual(options.workloads, list(WORKLOADS))


if __name__ == "__main__":
    unittest.main()

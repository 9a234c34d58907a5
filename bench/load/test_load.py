import unittest

from . import figures
from .__main__ import can_run, parse
from .cases import CASES


def run(engine, seconds, repeat=0, case="star"):
    return {"cores": 2, "case": case, "engine": engine, "repeat": repeat, "seconds": seconds, "rows_per_second": 1000 / seconds}


class Figures(unittest.TestCase):
    RUNS = [run("BLACKHOLE", 10), run("Teak", 11), run("Teak", 15, 1), run("Teak", 12, 2), run("InnoDB", 24), {**run("Aria", 1), "error": "lost"}]

    def test_medians_and_ratios_to_the_floor(self):
        found = figures.medians(self.RUNS, 2, "star", ["BLACKHOLE", "Teak", "InnoDB", "Aria"])
        self.assertEqual(found["seconds"], {"BLACKHOLE": 10, "Teak": 12, "InnoDB": 24})
        self.assertEqual(found["to_floor"], {"BLACKHOLE": 1, "Teak": 1.2, "InnoDB": 2.4})

    def test_bars_are_met_or_missed(self):
        found = figures.medians(self.RUNS, 2, "star", ["BLACKHOLE", "Teak", "InnoDB"])
        self.assertEqual(figures.bars(CASES["star"], found), ["time 1.20 of BLACKHOLE's, at most 1.2: met"])
        met = figures.bars(CASES["sensor"], found)
        self.assertIn("2.00 times the fastest rival, at least 2.5: MISSED", met)


class Options(unittest.TestCase):
    def test_names_are_checked(self):
        options = parse(["--engines=teak,innodb BULK", "--cases=star,tpch", "--cores=1"])
        self.assertEqual(options.engines, ["Teak", "InnoDB bulk"])
        self.assertEqual([case.name for case in options.cases], ["star", "tpch"])

    def test_some_engines_lack_cases(self):
        self.assertFalse(can_run(CASES["star_keys"], "ARCHIVE"))
        self.assertTrue(can_run(CASES["star"], "ARCHIVE"))
        self.assertFalse(can_run(CASES["star_add_keys"], "BLACKHOLE"))

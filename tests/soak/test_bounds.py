"""Tests of the bounds of a soak run."""

import unittest

from .bounds import MIB, Bound, Watch, file_values, index_files

STATUS = """INDEXES
tables 2, open 2, open indexes 3
soak/event main: 100.0 MiB on disk, 60.0 MiB live, 30.5 MiB free, 9.5 MiB pinned, 0 bytes moved, 1.0 GiB uncompressed
soak/event at: 8.0 KiB on disk, 17 bytes live, 0 bytes free, 0 bytes pinned, 0 bytes moved, 0 bytes uncompressed, NOT FLUSHED: no space
and 1 more
"""


def sample(second, **files):
    return {"second": second, "index_files": {name: (length * MIB, needed * MIB) for name, (length, needed) in files.items()}}


class Bounds(unittest.TestCase):
    def test_sizes_of_indexes_are_read_from_the_status(self):
        found = index_files(STATUS)
        self.assertEqual(list(found), ["soak/event main", "soak/event at"])
        length, needed = found["soak/event main"]
        self.assertEqual(length, 100 * MIB)
        # Up to a tenth of a unit is cut off from each number.
        self.assertAlmostEqual(needed, 69.7 * MIB)
        self.assertEqual(found["soak/event at"], (8192, 17))

    def test_each_file_has_a_bound_of_its_own(self):
        watch = Watch([Bound("index file", "MiB", file_values, lasting=1)])
        # The bound of 40 MiB of blocks is 62 MiB.
        watch.check(sample(1, one=(63, 40), other=(20, 8)))
        watch.check(sample(2, one=(62, 40), other=(23, 8)))
        watch.check(sample(3, one=(63, 40), other=(20, 8)))
        self.assertEqual(watch.faults, [])
        watch.check(sample(4, one=(63, 40), other=(20, 8)))
        self.assertEqual(watch.faults, ["second 4: index file one: 63 MiB, the bound is 62"])
        self.assertEqual(watch.worst["index file"][-1], "other")

    def test_samples_before_and_after_a_restart_are_not_in_a_row(self):
        watch = Watch([Bound("index file", "MiB", file_values, lasting=1)])
        watch.check(sample(1, one=(63, 40)))
        watch.restarted()
        watch.check(sample(2, one=(63, 40)))
        self.assertEqual(watch.faults, [])


if __name__ == "__main__":
    unittest.main()

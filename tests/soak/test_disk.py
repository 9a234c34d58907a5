"""Tests of the stalls of the disk."""

import unittest

from .disk import KEPT_SECONDS, Polls, covered


class DiskStalls(unittest.TestCase):
    def test_a_stall_is_a_time_with_requests_of_which_none_is_finished(self):
        polls = Polls()
        for now, finished, in_flight in ((1.0, 10, 0), (2.0, 10, 0), (3.0, 10, 1), (3.5, 10, 1), (4.0, 10, 2), (4.5, 11, 1), (5.0, 12, 1)):
            polls.poll(now, finished, in_flight)
        self.assertEqual(list(polls.found), [(3.0, 4.0)])

    def test_the_next_request_begins_a_new_stall(self):
        polls = Polls()
        for now, finished, in_flight in ((1.0, 0, 1), (2.0, 0, 1), (3.0, 1, 1), (3.25, 1, 1), (4.0, 1, 0), (5.0, 1, 1), (5.5, 1, 1)):
            polls.poll(now, finished, in_flight)
        self.assertEqual(list(polls.found), [(1.0, 2.0), (3.0, 3.25), (5.0, 5.5)])

    def test_old_stalls_are_forgotten(self):
        polls = Polls()
        for now, finished in ((0.0, 0), (1.0, 0), (KEPT_SECONDS + 2.0, 1)):
            polls.poll(now, finished, 1)
        self.assertEqual(list(polls.found), [])

    def test_the_time_within_several_stalls_counts_once(self):
        stalls = [(1.0, 3.0), (2.0, 4.0), (2.25, 2.5), (6.0, 7.0)]
        self.assertEqual(covered(stalls, 0, 9), 4.0)
        self.assertEqual(covered(stalls, 2.0, 6.25), 2.25)
        self.assertEqual(covered([], 0, 9), 0.0)


if __name__ == "__main__":
    unittest.main()

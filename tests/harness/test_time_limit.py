"""Tests of the time limit."""

import threading
import unittest
from pathlib import Path

from .time_limit import TimeLimit


class FakeServer:
    """A server whose statements end only if it is killed."""

    directory = Path("fake")

    def __init__(self):
        self.killed = threading.Event()

    def kill(self):
        self.killed.set()

    def log_tail(self, _lines):
        return "the last line"


class Limits(unittest.TestCase):
    def test_servers_of_a_block_that_does_not_end_are_killed(self):
        servers = [FakeServer(), FakeServer()]
        with TimeLimit(0.01, servers) as limit:
            for server in servers:
                server.killed.wait()
        self.assertEqual(len(limit.faults), 1)
        self.assertIn("not finished after 0.01 s", limit.faults[0])
        self.assertIn("fake's log: the last line", limit.faults[0])

    def test_a_block_that_ends_in_time_has_no_fault(self):
        server = FakeServer()
        with TimeLimit(600, [server]) as limit:
            pass
        self.assertEqual(limit.faults, [])
        self.assertFalse(server.killed.is_set())


if __name__ == "__main__":
    unittest.main()

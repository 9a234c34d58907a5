"""Tests of waiting for background writes, against a connection that answers from a list."""

import unittest

from .server import wait_for_background_writes


class Answers:
    """Returns the next of `values` for each status variable; the last one repeatedly."""

    def __init__(self, *values):
        self.values = list(values)

    def run(self, statement):
        if not statement.startswith("SHOW GLOBAL STATUS"):
            return []
        return [["variable", self.values.pop(0) if len(self.values) > 1 else self.values[0]]]


class WaitForBackgroundWrites(unittest.TestCase):
    def test_ends_when_nothing_is_pending(self):
        for engine in ("Teak", "InnoDB"):
            connection = Answers("70", "3", "0")
            wait_for_background_writes(connection, engine)
            self.assertEqual(connection.values, ["0"])

    def test_a_timeout_is_an_error(self):
        for engine in ("Teak", "InnoDB"):
            with self.assertRaisesRegex(TimeoutError, " is 3 after 0 s"):
                wait_for_background_writes(Answers("3"), engine, timeout=0)


if __name__ == "__main__":
    unittest.main()

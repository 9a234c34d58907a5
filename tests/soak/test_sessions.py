"""Unit tests of the soak's sessions, without a server."""

import queue
import threading
import unittest

from tests.harness import SqlError

from . import sessions


class FakeConnection:
    """Returns the errors of a list one by one, and remembers the statements."""

    def __init__(self, errors):
        self.errors, self.statements = errors, []

    def run(self, statement):
        self.statements.append(statement)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise SqlError(error, "injected", statement)
        return []


class Stepping(sessions.Session):
    """Runs one statement in each step, and stops after the first that succeeds."""

    def __init__(self, connections, reports):
        super().__init__("", reports, "stepping", 1)
        self.connections = iter(connections)
        self.open = lambda: next(self.connections)
        self.stopped = threading.Event()

    def step(self):
        self.connection.run("STEP")
        self.stopped.set()


def run(*errors_of_connections):
    """The statements of each connection, and the faults that the session reported."""
    connections = [FakeConnection(list(errors)) for errors in errors_of_connections]
    reports = queue.Queue()
    session = Stepping(connections, reports)
    session.work_until(session.stopped)
    faults = [text for _, counts, text in list(reports.queue) if counts is None]
    return [connection.statements for connection in connections], faults


class SessionTest(unittest.TestCase):
    def test_an_expected_error_is_followed_by_a_rollback(self):
        self.assertEqual(run([1213]), ([["STEP", "ROLLBACK", "STEP"]], []))

    def test_a_rollback_that_was_killed_is_repeated(self):
        self.assertEqual(run([1213, 1317]), ([["STEP", "ROLLBACK", "ROLLBACK", "STEP"]], []))

    def test_a_connection_lost_in_a_rollback_is_opened_again(self):
        self.assertEqual(run([1213, 2006], []), ([["STEP", "ROLLBACK"], ["STEP"]], []))

    def test_an_unexpected_error_of_a_rollback_is_reported(self):
        statements, faults = run([1213, 1030], [])
        self.assertEqual(statements, [["STEP", "ROLLBACK"], ["STEP"]])
        self.assertEqual(len(faults), 1)


if __name__ == "__main__":
    unittest.main()

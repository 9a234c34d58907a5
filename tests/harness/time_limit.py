"""A limit for the time of a part of a test: a statement that never ends fails the test, and does not block it forever."""

import threading


class TimeLimit:
    """Kills the servers if the `with` block has not ended after `seconds`. Statements that wait for an answer, and later ones, then fail."""

    def __init__(self, seconds, servers):
        self.seconds, self.servers = seconds, servers
        self.faults = []
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self):
        self._timer.start()
        return self

    def __exit__(self, *_):
        self._timer.cancel()
        self._timer.join()

    def _expire(self):
        logs = "".join(f"\n   {server.directory.name}'s log: {line}" for server in self.servers for line in server.log_tail(3).splitlines())
        self.faults.append(f"not finished after {self.seconds} s; the servers were killed{logs}")
        for server in self.servers:
            server.kill()

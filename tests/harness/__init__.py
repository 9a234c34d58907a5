"""The base of the tests that need servers, of the demo and of the benchmarks: private servers, connections, the bank.

- `Server` starts, kills and stops a private MariaDB server (`server.py`; `scripts/server.sh` is its command line).
- `Connection` is a session with one statement at a time (`connection.py`), on top of the protocol client (`wire.py`).
- `Bank` is a load of the crash, replication, soak and dump tests (`bank.py`).
- `TimeLimit` kills the servers of a test that does not end (`time_limit.py`).
- `finish` prints a summary of a test program (`report.py`).
"""

from .connection import Connection, SqlError, create_tables, quoted_name
from .places import BUILD, ROOT, SERVER_TESTS
from .report import finish
from .server import Server, free_port, wait_for_background_writes, wait_until_quiet
from .time_limit import TimeLimit

__all__ = ["BUILD", "ROOT", "SERVER_TESTS", "Connection", "Server", "SqlError", "TimeLimit", "create_tables", "finish", "free_port",
           "quoted_name", "wait_for_background_writes", "wait_until_quiet"]

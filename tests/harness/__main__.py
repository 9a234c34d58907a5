"""The command line of `Server`, called by scripts/server.sh: a private MariaDB server in its own directory.

  scripts/server.sh start DIR [--cache=256M] [--no-teak] [--plugin=ha_rocksdb]... [any option of mariadbd]...
  scripts/server.sh stop DIR | kill DIR | status DIR | socket DIR | pid DIR
  scripts/server.sh client DIR [options of the mariadb client]...
  scripts/server.sh plugins DIR            fills DIR with links to the server's plugins and Teak's
"""

import os
import sys
from pathlib import Path

from .connection import SqlError
from .server import Server, link_plugins, teak_plugin


def main(arguments):
    commands = ("start", "stop", "kill", "status", "socket", "pid", "client", "plugins")
    if len(arguments) < 2 or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    command, directory, *options = arguments
    server = Server(directory, options if command == "start" else ())
    pid = server.pid()
    if command == "start":
        server.start()
    elif command == "stop":
        server.stop()
    elif command == "kill":
        server.kill()
    elif command == "status":
        print(f"running, pid {pid}, socket {server.socket}" if pid else "not running")
        return 0 if pid else 1
    elif command == "socket":
        print(server.socket)
    elif command == "pid":
        print(pid or "")
    elif command == "plugins":
        link_plugins(teak_plugin(), Path(directory))
    elif pid is None:
        raise RuntimeError(f"No server runs in {directory}.")
    else:
        os.execvp("mariadb", ["mariadb", "--no-defaults", f"--socket={server.socket}", "-uroot", *options])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (RuntimeError, SqlError) as error:
        sys.exit(f"error: {error}")

#!/usr/bin/env bash
# Controls a private MariaDB server in its own directory. Without arguments it lists the commands.
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) exec python3 -m tests.harness "$@"

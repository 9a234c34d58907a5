#!/usr/bin/env bash
# A private MariaDB server in a directory of its own; without arguments it lists the commands.
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) exec python3 -m tests.harness "$@"

"""The root of the checkout, the directory for all build output and test data, and the server's own tests."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
_NAMES = (Path("/usr/share/mysql/mysql-test"), Path("/usr/share/mariadb/mariadb-test"))  # of 10.11 and 11.8
SERVER_TESTS = next((path for path in _NAMES if path.exists()), _NAMES[0])

"""The programs that the tests run."""

import os
import shutil
from pathlib import Path

from tests.harness import ROOT


def tool():
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    path = target / "release" / "teak"
    if not path.exists():
        raise RuntimeError(f"There is no {path}: run make tools.")
    return path


def mariadb_backup():
    return os.environ.get("MARIADB_BACKUP") or shutil.which("mariadb-backup")

"""Python packages that some benchmarks need, in a virtual environment under build/."""

import functools
import subprocess
import sys

from tests.harness import BUILD

VENV = BUILD / "venv"


def python():
    return VENV / "bin" / "python"


@functools.cache
def install(*requirements):
    """Installs those of the packages, each NAME==VERSION, that are not there with this version."""
    # pip comes last: without it, an earlier run was interrupted.
    if not python().with_name("pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    listing = subprocess.run([str(python()), "-m", "pip", "freeze", "--disable-pip-version-check"], check=True, capture_output=True, text=True)
    missing = [one for one in requirements if one not in listing.stdout.split()]
    if missing:
        print(f"-- installing {', '.join(missing)}", flush=True)
        subprocess.run([str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *missing], check=True)

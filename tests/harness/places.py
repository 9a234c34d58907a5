"""Where the checkout is, and the folder for all that is built and run."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

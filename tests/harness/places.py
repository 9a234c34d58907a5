"""The root of the checkout, and the folder for everything that is built and run."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

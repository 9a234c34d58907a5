"""The root of the checkout, and the directory for all build output and test data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

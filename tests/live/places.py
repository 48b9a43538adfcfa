"""Where things are. ``make`` puts beside the environment what the servers need and the rest of the tests does not."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(sys.prefix) / "live-packages"
"""What ``vllm serve`` needs beyond the scheduler."""
NIXL = Path(sys.prefix) / "live-nixl"
"""NIXL, if pip has it for this machine."""

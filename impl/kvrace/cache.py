"""Where kvrace keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``KVRACE_CACHE``, else ``kvrace`` in the user's folder for such things (``XDG_CACHE_HOME``, by default ``~/.cache``)."""
    own = os.environ.get("KVRACE_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kvrace")

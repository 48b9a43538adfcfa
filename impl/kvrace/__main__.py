"""``python -m kvrace``."""

from kvrace.cli import main

main()

"""``python -m kvrace``, and what the ``kvrace`` script runs."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C is quiet from the first import on."""
    try:
        from kvrace.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("kvrace: interrupted; there is no verdict\n")
        sys.exit(3)
    run()


if __name__ == "__main__":
    main()

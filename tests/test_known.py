"""What is known as data is what the releases say now."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path

import pytest
from spec.known_orders import with_digests_of_now
from spec.read_sources import DISTRIBUTION, digests, folders

from kvmodel.errors import KvraceError
from kvrace.known.connectors import READ
from kvrace.known.orders import ORDERS, known_releases
from kvrace.known.sources import scheduler_digests, symbol_digest
from kvrace.lab.catalogue import Release, checked
from kvrace.lab.store import kept, releases_folder

_SYMBOL = "@first\n@second(1)\ndef moves(n):\n    if n:\n        go()\n    return 0\n"
_CHANGED = {
    "a decorator less": _SYMBOL.replace("@first\n", ""),
    "another decorator": _SYMBOL.replace("second(1)", "second(2)"),
    "out of its block": _SYMBOL.replace("        go()", "    go()").replace("if n:", "if n: pass"),
    "into a block": _SYMBOL.replace("    return", "        return"),
}


def _digest_of(folder: Path, text: str, symbol: str = "moves") -> str | None:
    folder.mkdir()
    (folder / "file.py").write_text(text)
    return symbol_digest(folder, f"file.py:{symbol}")


@pytest.mark.parametrize("changed", _CHANGED.values(), ids=_CHANGED.keys())
def test_the_digest_of_a_symbol_sees_decorators_and_indentation(tmp_path: Path, changed: str) -> None:
    read = _digest_of(tmp_path / "read", _SYMBOL)
    assert read is not None and _digest_of(tmp_path / "changed", changed) not in (None, read)


def test_the_digest_of_a_symbol_does_not_see_where_it_stands(tmp_path: Path) -> None:
    inside = "separator = '\x0c'\n\nclass Outer:\n" + "".join(f"    {line}  \n\n" for line in _SYMBOL.splitlines())
    assert _digest_of(tmp_path / "inside", inside, "Outer.moves") == _digest_of(tmp_path / "alone", _SYMBOL)


def test_the_digests_are_taken_again_without_playing() -> None:
    """The file as it stands comes out again, results and all."""
    if not {release.version for release in checked()} <= {one.version for one in kept()}:
        pytest.skip("not every checked release is in the lab: make check-releases")
    assert with_digests_of_now() == ORDERS.read_text()


def _read() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(READ.read_text())
    return found


@pytest.mark.vllm
def test_the_facts_name_symbols_that_are_there_with_the_text_that_was_read() -> None:
    for release, folder in folders(pinned_too=False).items():
        assert digests(release, folder) == _read()[release], "read what has changed, then python -m spec.read_sources"


@pytest.mark.vllm
def test_the_scheduler_that_was_checked_is_the_one_that_is_installed() -> None:
    installed = distribution(DISTRIBUTION)
    known = next(known for known in known_releases() if known.release == installed.version)
    assert scheduler_digests(Path(str(installed.locate_file("vllm")))) == dict(known.sources)


@pytest.mark.slow
@pytest.mark.parametrize("release", checked(), ids=lambda release: release.version)
def test_so_are_the_other_releases(release: Release) -> None:
    folder = releases_folder() / f"{release.distribution}-{release.version}" / "vllm"
    if not folder.is_dir():
        pytest.skip(f"vLLM {release.version} is not in the lab: make check-releases")
    known = next(known for known in known_releases() if known.release == release.version)
    assert scheduler_digests(folder) == dict(known.sources)
    assert digests(release.version, folder) == _read()[release.version]


def test_what_is_known_has_every_pinned_release_and_every_result_is_exhausted() -> None:
    assert {release.version for release in checked()} <= {known.release for known in known_releases()}
    assert all(result.exhausted for known in known_releases() for result in known.results)


def _broken(change: str, into: str) -> str:
    whole = ORDERS.read_text()
    assert change in whole
    return whole.replace(change, into, 1)


@pytest.mark.parametrize(
    ("change", "into"),
    [
        ('"version": 1', '"version": 2'),
        ('"scheduling": "sync"', '"scheduling": "both"'),
        ('"exhausted": true', '"exhausted": 1'),
        ('"release": "', '"release": "\\u0007'),
        ('"events": [', '"events": [3, '),
        ('"loop": -1', '"loop": -1, "more": 0'),
        ('"contract": "exactly-once"', '"contract": "polite"'),
        ('{"format"', '{{"format"'),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, change: str, into: str) -> None:
    broken = tmp_path / "orders.json"
    broken.write_text(_broken(change, into))
    with pytest.raises(KvraceError, match=str(broken)):
        known_releases(broken)

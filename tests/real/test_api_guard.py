"""A vLLM that the adapter does not know is refused in one line; it never gets a verdict."""

from __future__ import annotations

import pytest

from kvmodel.port import UnknownSubject
from kvmodel.scope import Scope
from kvrace.vllm import api as api_module
from kvrace.vllm.api import Api, load_api
from kvrace.vllm.subject import VllmSubject

pytestmark = pytest.mark.vllm


def _refusal() -> str:
    with pytest.raises(UnknownSubject) as refusal:
        Api()
    text = str(refusal.value)
    assert text.startswith("the adapter does not know this vLLM (") and "\n" not in text
    return text


def test_the_installed_vllm_is_known() -> None:
    assert load_api().version


def test_a_missing_method_is_named(monkeypatch) -> None:
    monkeypatch.delattr(load_api().scheduler, "_update_from_kv_xfer_finished")
    assert "no Scheduler._update_from_kv_xfer_finished" in _refusal()


def test_a_changed_signature_is_named(monkeypatch) -> None:
    monkeypatch.setattr(load_api().scheduler, "finish_requests", lambda self, names: None)
    assert "Scheduler.finish_requests has no parameter 'request_ids'" in _refusal()


def test_a_missing_status_is_named(monkeypatch) -> None:
    monkeypatch.setattr(api_module, "_STATUSES", ("WAITING", "DOZING"))
    assert "RequestStatus has no DOZING" in _refusal()


@pytest.mark.parametrize(
    ("fields", "owner"),
    [("_SCHEDULER_FIELDS", "Scheduler"), ("_POOL_FIELDS", "BlockPool"), ("_OUTPUT_FIELDS", "SchedulerOutput"),
     ("_BLOCK_FIELDS", "KVCacheBlock"), ("_REQUEST_FIELDS", "Request")],
)  # fmt: skip
def test_a_missing_field_is_named(monkeypatch, fields: str, owner: str) -> None:
    monkeypatch.setattr(api_module, fields, ("no_such_field",))
    assert f"{owner} has no no_such_field" in _refusal()


@pytest.mark.parametrize("error", [ImportError("no module"), AttributeError("no name"), SyntaxError("no Python")])
def test_what_cannot_be_imported_is_named(monkeypatch, error: Exception) -> None:
    """A later vLLM may be written for a later Python."""

    def importing(self: Api) -> None:
        raise error

    monkeypatch.setattr(Api, "_import", importing)
    assert str(error) in _refusal()


def test_state_that_cannot_be_copied_is_refused(monkeypatch) -> None:
    """An iterator moves on and cannot be put back: merging on it would be guessing."""

    class Counts(load_api().scheduler):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            self.ticket = iter(range(1000))

    subject = VllmSubject(Scope(("local",)), Counts)
    subject.start()
    with pytest.raises(UnknownSubject, match="cannot copy Counts.ticket: it is a builtins.range_iterator"):
        subject.capture({block: block for block in range(3)})

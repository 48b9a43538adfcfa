"""Scopes and contracts: what they accept, and how they refuse."""

from __future__ import annotations

import pytest

from kvmodel.contract import ALL_MEANINGS, Contract
from kvmodel.errors import KvraceError
from kvmodel.named_scopes import NAMED_SCOPES, named_scope
from kvmodel.scope import Scope


def test_small_is_every_combination_of_up_to_two_requests_of_four_kinds_both_ways() -> None:
    cases = named_scope("small")
    assert len(cases) == 2 * (4 + 10)
    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize("name", NAMED_SCOPES)
def test_every_named_scope_fits_and_survives_a_round_trip(name: str) -> None:
    for scope in named_scope(name):
        assert all(scope.blocks >= scope.blocks_needed(index) for index in range(len(scope.requests)))
        assert Scope.from_dict(scope.as_dict()) == scope


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"requests": ()}, "1 to 26 requests"),
        ({"requests": ("local",) * 27}, "1 to 26 requests"),
        ({"requests": ("loud",)}, "unknown request kind"),
        ({"requests": ("local",), "scheduling": "often"}, "unknown scheduler"),
        ({"requests": ("local",), "blocks": 1}, "cannot fit"),
        ({"requests": ("local",), "blocks": 1000}, "outside"),
        ({"requests": ("local",), "block_size": -1}, "outside"),
        ({"requests": ("local",), "token_budget": -1}, "outside"),
        ({"requests": ("local",), "prompts": ("a", "b")}, "2 for 1 requests"),
        ({"requests": ("local",), "prompts": ("A",)}, "small letters"),
        ({"requests": ("local",), "prompts": ("",)}, "small letters"),
        ({"requests": ("local",), "prompts": ("ab",), "prompt_blocks": 2}, "exclude each other"),
        ({"requests": ("local",), "priorities": (0, 1)}, "2 for 1 requests"),
        ({"requests": ("local",), "priorities": (10,)}, "outside"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(fields: dict, words: str) -> None:
    with pytest.raises(KvraceError, match=words):
        Scope(**fields)


@pytest.mark.parametrize(
    "change",
    [
        {"requests": "load"},
        {"requests": [1]},
        {"requests": None},
        {"blocks": "4"},
        {"blocks": True},
        {"blocks": 10**30},
        {"early_stop": 1},
        {"scheduling": ["sync"]},
        {"surprise": 1},
        {"surprise" * 10_000: 1},
        {"requests": ["loud" * 10_000]},
        {"engine_order": 1},
        {"prompts": "ab"},
        {"prompts": [1]},
        {"prompts": ["a" * 10_000]},
        {"priorities": [True]},
        {"priorities": [10**30]},
        {"token_budget": 10**30},
        *(
            {name: value}
            for name in ("blocks", "block_size", "prompt_blocks", "output_tokens")
            for value in (-1, 10**4000)
        ),
        *({name: 0} for name in ("block_size", "prompt_blocks", "output_tokens")),
    ],
)
def test_a_hostile_scope_is_refused(change: dict) -> None:
    with pytest.raises(KvraceError) as refused:
        Scope.from_dict({**Scope(("load",)).as_dict(), **change})
    assert len(str(refused.value)) < 300


def test_a_scope_says_which_switches_are_on_and_reads_older_ones() -> None:
    assert str(Scope(("local",), engine_order=True)).endswith(" · engine order")
    older = Scope(("local",)).as_dict()
    del older["engine_order"]
    assert Scope.from_dict(older) == Scope(("local",))


def test_prompts_with_a_common_beginning_have_equal_blocks_there_and_only_there() -> None:
    scope = Scope(("local",) * 3, block_size=2, prompts=("ab", "ac", "b"), prefix_sharing=True)
    one, two, three = (scope.prompt(index) for index in range(3))
    assert (len(one), len(three)) == (5, 3)
    assert one[:2] == two[:2] != three[:2]
    assert one[2:4] != two[2:4]
    assert scope.blocks == 3 + 3 + 2


def test_without_words_all_prompts_are_one_with_the_prefix_cache_and_else_none_begins_like_another() -> None:
    def prompts(sharing: bool) -> set[tuple[int, ...]]:
        scope = Scope(("local",) * 4, prompt_blocks=2, prefix_sharing=sharing)
        return {tuple(scope.prompt(index)[: scope.block_size]) for index in range(4)}

    assert (len(prompts(True)), len(prompts(False))) == (1, 4)


def test_a_scope_that_is_no_table_is_refused() -> None:
    with pytest.raises(KvraceError):
        Scope.from_dict([1, 2])


@pytest.mark.parametrize("name", ALL_MEANINGS)
def test_every_contract_reads_back(name: str) -> None:
    assert str(Contract.parse(name)) == name


def test_contracts_combine_and_print_in_a_fixed_order() -> None:
    assert str(Contract.parse("lossy, duplicate")) == "duplicate,lossy"
    assert Contract.parse("exactly-once,single") == Contract(frozenset({"single"}))


@pytest.mark.parametrize("text", ["", "sometimes", "lossy,", "exactly-once,never"])
def test_an_unknown_contract_is_refused(text: str) -> None:
    with pytest.raises(KvraceError):
        Contract.parse(text)

"""What an adapter tells the walk over a scheduler's state, and what the walk works out from it for each class."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvrace.capture import StateWalk

Rule = Callable[["StateWalk", Any, dict[str, Any]], Hashable]
"""Encodes one attribute: (walk, value, the owner's attributes) -> plain value."""

ATOMS = frozenset({int, float, bool, str, bytes, type(None), complex})
CONTAINERS = frozenset({list, dict, set, deque, defaultdict, OrderedDict})


LEFT_OUT = "kvrace_left_out"
"""A scheduler class may name, in an attribute of this name, what it keeps and never decides by (statistics, say)."""
LIKE_STOCK = "kvrace_compared_like_stock"
"""A scheduler class may set an attribute of this name to True: it keeps no block ids, does not look into steps in flight, and
decides by no order and no counter of vLLM's. Its schedulers are then compared like vLLM's own, up to a renaming of blocks."""


def leave_out(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    """The rule for state that cannot influence the future: it is copied and restored, but not compared."""
    walk.encode(value)
    return None


@dataclass
class CaptureRules:
    """What an adapter knows about its scheduler's state.

    ``opaque``: classes that hold configuration or services and do not change after construction; neither copied nor compared.
    ``opaque_modules``: the same by prefix of the defining module. ``attributes``: (class, attribute) -> (rule, reason).
    ``unordered``: (class, attribute) -> reason, for dicts that are only looked up by key. ``block``: the class of KV-cache blocks.
    ``known``: class -> attributes it has in the stock release; anything else came from a subclass.
    ``trusted_modules``: prefixes of modules whose classes and functions are the stock ones. ``exact_blocks``: blocks are compared
    by id, since somebody else's code may keep ids in a place and a form of its own.
    """

    opaque: tuple[type, ...] = ()
    opaque_modules: tuple[str, ...] = ()
    attributes: dict[tuple[type, str], tuple[Rule, str]] = field(default_factory=dict)
    unordered: dict[tuple[type, str], str] = field(default_factory=dict)
    block: type = type(None)
    known: dict[type, frozenset[str]] = field(default_factory=dict)
    trusted_modules: tuple[str, ...] = ()
    exact_blocks: bool = False


class ClassPlan:
    """What the rules mean for one class, worked out once."""

    __slots__ = ("known", "layouts", "left_out", "name", "rules", "short_name", "slots", "unordered")

    def __init__(self, kind: type, rules: CaptureRules) -> None:
        self.name = f"{kind.__module__}.{kind.__qualname__}"
        self.short_name = kind.__name__
        self.layouts: dict[tuple[Any, ...], Layout] = {}
        self.rules: dict[str, Rule] = {}
        self.unordered: set[str] = set()
        for base in reversed(kind.__mro__):
            self.rules.update({name: rule for (owner, name), (rule, _) in rules.attributes.items() if owner is base})
            self.unordered.update(name for owner, name in rules.unordered if owner is base)
        self.left_out = tuple(getattr(kind, LEFT_OUT, ()))
        self.slots = tuple(slot for base in kind.__mro__ for slot in _slots_of(base))
        stock = [rules.known[base] for base in kind.__mro__ if base in rules.known]
        if stock:
            self.known: frozenset[str] | None = stock[0]
        else:
            self.known = None if kind.__module__.startswith(rules.trusted_modules) else frozenset()


def _slots_of(kind: type) -> list[str]:
    """The slots a class itself declares, under the names their contents are found by (private ones are mangled)."""
    declared = vars(kind).get("__slots__", ())
    names = [declared] if isinstance(declared, str) else list(declared)
    owner = kind.__name__.lstrip("_")
    return [
        f"_{owner}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]


class Layout:
    """How the attributes of one class are treated while they have certain types: the many plain ones cost one look together.

    ``plain`` gets all attributes that hold atoms; constants hold code or configuration and are left alone; ``ruled`` have a
    rule of the adapter; ``nested`` are walked one by one; ``added`` came from a subclass; ``left_out`` are copied and not compared,
    at the word of the class. ``name`` stands for the class and for
    which attribute is which, and depends on nothing else: a key must not depend on what was seen before.
    """

    __slots__ = ("added", "left_out", "name", "nested", "plain", "ruled")

    def __init__(self, attributes: dict[str, Any], plan: ClassPlan, is_constant: Callable[[Any], bool]) -> None:
        groups: dict[str, list[str]] = {"plain": [], "constant": [], "ruled": [], "nested": [], "added": []}
        self.left_out = tuple(name for name in plan.left_out if name in attributes)
        for name, value in attributes.items():
            if name in self.left_out:
                continue
            if name in plan.rules:
                groups["ruled"].append(name)
            elif plan.known is not None and name not in plan.known:
                groups["added"].append(name)
            elif type(value) in ATOMS:
                groups["plain"].append(name)
            else:
                groups["constant" if is_constant(value) else "nested"].append(name)
        kinds = [type(attributes[name]).__qualname__ for name in groups["nested"]]
        self.name = blake2b(repr((plan.name, groups, kinds)).encode(), digest_size=8).hexdigest()
        self.ruled, self.nested, self.added = tuple(groups["ruled"]), tuple(groups["nested"]), tuple(groups["added"])
        self.plain: Callable[[dict[str, Any]], tuple[Any, ...]] = _getter(tuple(groups["plain"]))


def _getter(names: tuple[str, ...]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda attributes: tuple(attributes[name] for name in names)

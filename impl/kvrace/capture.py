"""Exact copies of a scheduler's state, and keys to compare two states by.

One walk over everything reachable from the scheduler does both. The copy remembers each mutable object together with a shallow
copy of its contents, so restoring puts the contents back into the *same* objects and costs no construction. The key is built
from *all* state the walk meets, except what :class:`CaptureRules` leaves out with a reason: a field that a subclass adds is
in the key without anybody having to know of it.
"""

from __future__ import annotations

import logging
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from typing import Any

from kvmodel.port import Capture, UnknownSubject

Rule = Callable[["StateWalk", Any, dict[str, Any]], Hashable]
"""Encodes one attribute: (walk, value, the owner's attributes) -> plain value."""

_ATOMS = frozenset({int, float, bool, str, bytes, type(None), complex})
_CONTAINERS = frozenset({list, dict, set, deque, defaultdict, OrderedDict})
_CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    property,
)


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
    ``trusted_modules``: prefixes of modules whose classes have no attributes beyond ``known`` or all known.
    """

    opaque: tuple[type, ...] = ()
    opaque_modules: tuple[str, ...] = ()
    attributes: dict[tuple[type, str], tuple[Rule, str]] = field(default_factory=dict)
    unordered: dict[tuple[type, str], str] = field(default_factory=dict)
    block: type = type(None)
    known: dict[type, frozenset[str]] = field(default_factory=dict)
    trusted_modules: tuple[str, ...] = ()


class _Plan:
    """What the rules mean for one class, worked out once."""

    __slots__ = ("known", "layout", "name", "rules", "slots", "unordered")

    def __init__(self, kind: type, rules: CaptureRules) -> None:
        self.name = kind.__qualname__
        self.layout: _Layout | None = None
        self.rules: dict[str, Rule] = {}
        self.unordered: set[str] = set()
        for base in reversed(kind.__mro__):
            self.rules.update({name: rule for (owner, name), (rule, _) in rules.attributes.items() if owner is base})
            self.unordered.update(name for owner, name in rules.unordered if owner is base)
        self.slots = tuple(
            s for base in kind.__mro__ for s in getattr(base, "__slots__", ()) if s not in ("__dict__", "__weakref__")
        )
        stock = [rules.known[base] for base in kind.__mro__ if base in rules.known]
        if stock:
            self.known: frozenset[str] | None = stock[0]
        else:
            self.known = None if kind.__module__.startswith(rules.trusted_modules) else frozenset()


class _Layout:
    """How the attributes of one class are treated, so that the many plain ones cost one look together.

    ``plain`` gets all attributes that hold atoms; constants hold code or configuration; ``ruled`` have a rule of the adapter;
    ``nested`` are walked one by one; ``added`` came from a subclass.
    """

    __slots__ = ("_constant_types", "_constants", "_plain", "added", "nested", "ruled", "size")

    def __init__(self, attributes: dict[str, Any], plan: _Plan, is_constant: Callable[[Any], bool]) -> None:
        self.size = len(attributes)
        plain: list[str] = []
        constants: list[str] = []
        nested: list[str] = []
        added: list[str] = []
        ruled: list[str] = []
        for name, value in attributes.items():
            if name in plan.rules:
                ruled.append(name)
            elif plan.known is not None and name not in plan.known:
                added.append(name)
            elif type(value) in _ATOMS:
                plain.append(name)
            else:
                (constants if is_constant(value) else nested).append(name)
        self.ruled, self.nested, self.added = tuple(ruled), tuple(nested), tuple(added)
        # Two names at least, so that itemgetter gives a tuple; size is never 0 here.
        self._plain = itemgetter(*plain) if len(plain) > 1 else lambda got: tuple(got[name] for name in plain)
        self._constants = itemgetter(*constants) if len(constants) > 1 else lambda got: tuple(got[n] for n in constants)
        self._constant_types = tuple(map(type, self._constants(attributes)))

    def plain(self, attributes: dict[str, Any]) -> tuple[Any, ...] | None:
        """The atoms of an object; None when the layout does not fit it any more."""
        if len(attributes) != self.size:
            return None
        try:
            values: tuple[Any, ...] = self._plain(attributes)
            types = tuple(map(type, self._constants(attributes)))
        except KeyError:
            return None
        return values if types == self._constant_types and _ATOMS.issuperset(map(type, values)) else None


class StateWalk:
    """One walk, reused for every capture of one subject. Not thread-safe."""

    def __init__(self, rules: CaptureRules) -> None:
        self._rules = rules
        self._plans: dict[type, _Plan] = {}
        self._handlers: dict[type, Callable[[Any], Hashable]] = {
            list: self._list,
            tuple: self._tuple,
            dict: self._dict,
            defaultdict: self._dict,
            OrderedDict: self._dict,
            set: self._set,
            frozenset: self._frozenset,
            deque: self._deque,
        }
        self._seen: dict[int, int] = {}
        self._saved: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self._empty: list[Any] = []
        self.names: dict[int, int] = {}
        self.context: dict[str, Any] = {}
        self._exact = False

    def capture(self, root: Any, names: dict[int, int], extra: Hashable = None, kept: Any = None) -> Capture:
        """Copy everything reachable from ``root``. ``extra`` joins the fingerprint, ``kept`` rides in the snapshot."""
        self._exact = False
        fingerprint = (self._walk(root, names), extra)
        if self._exact and any(block != name for block, name in names.items()):
            fingerprint = (self._walk(root, {block: block for block in names}), extra)
        return Capture((self._saved, self._empty, kept), fingerprint, self._exact)

    def _walk(self, root: Any, names: dict[int, int]) -> Hashable:
        self._seen, self._saved, self._empty, self.names = {}, [], [], names
        encoded = self.encode(root)
        # Empty containers were only collected, since most containers are empty most of the time. That none of them is
        # reachable twice has to be true for that, and is looked at here.
        identities = set(map(id, self._empty))
        if len(identities) < len(self._empty) or not identities.isdisjoint(self._seen):
            shared = [self._seen.get(id(container), -1) for container in self._empty]
            encoded = (encoded, tuple(shared), len(identities))
        return encoded

    @staticmethod
    def restore(snapshot: Any) -> Any:
        """Put the contents back, and return what was ``kept``."""
        saved, empty, kept = snapshot
        for container in empty:
            if container:
                container.clear()
        for put_back, target, contents in saved:
            put_back(target, contents)
        return kept

    def encode(self, value: Any) -> Hashable:
        """The plain, comparable form of ``value``; everything mutable in it is copied on the way."""
        kind = type(value)
        if kind in _ATOMS:
            return value  # type: ignore[no-any-return]
        handler = self._handlers.get(kind)
        if handler is None:
            handler = self._handlers[kind] = self._handler_for(kind)
        return handler(value)

    def save(self, put_back: Callable[[Any, Any], None], target: Any, contents: Any) -> None:
        """Remember how to undo changes to ``target``."""
        self._saved.append((put_back, target, contents))

    def _handler_for(self, kind: type) -> Callable[[Any], Hashable]:
        rules = self._rules
        if issubclass(kind, rules.block):
            return lambda block: ("block", self.names.get(block.block_id, -1))
        if issubclass(kind, Enum):
            return lambda member: (kind.__name__, member.name)
        if issubclass(kind, rules.opaque + _CODE) or kind.__module__.startswith(rules.opaque_modules):
            return _nothing
        if issubclass(kind, tuple):
            return self._tuple
        for base, handler in ((dict, self._dict), (list, self._list), (set, self._set), (deque, self._deque)):
            if issubclass(kind, base):
                return handler
        plan = self._plans.setdefault(kind, _Plan(kind, rules))
        if plan.slots and not hasattr(kind, "__dict__"):
            return lambda value: self._slotted(value, plan)
        if kind.__flags__ & (1 << 9) or "__dict__" in dir(kind):  # a class made by Python code
            return lambda value: self._instance(value, plan)
        raise UnknownSubject(
            f"cannot copy state of type {kind.__module__}.{kind.__qualname__}: kvrace does not know whether it changes; "
            "keep it out of the scheduler or hold plain Python values instead"
        )

    # The walkers of the mutable kinds begin alike: an object met before is a mark with its number, so that two states differ
    # when they share objects differently; else it is counted and its contents are copied. Written out, for speed.

    def _items(self, values: Any) -> tuple[Hashable, ...]:
        if _ATOMS.issuperset(map(type, values)):
            return tuple(values)
        encode = self.encode
        return tuple([value if type(value) in _ATOMS else encode(value) for value in values])

    def _list(self, value: list[Any]) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return f"#{number}"
        seen[id(value)] = len(seen)
        if not value:
            self._saved.append((_put_list, value, ()))
            return ()
        self._saved.append((_put_list, value, value.copy()))
        return self._items(value)

    def _tuple(self, value: tuple[Any, ...]) -> Hashable:
        return self._items(value)

    def _deque(self, value: deque[Any]) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return f"#{number}"
        seen[id(value)] = len(seen)
        self._saved.append((_put_deque, value, value.copy()))
        attributes = getattr(value, "__dict__", None)
        return self._items(value) + ((self._dict(attributes),) if attributes else ())

    def _set(self, value: set[Any]) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return f"#{number}"
        seen[id(value)] = len(seen)
        if not value:
            self._saved.append((_put_set, value, ()))
            return ()
        self._saved.append((_put_set, value, value.copy()))
        return self._frozenset(value)

    def _frozenset(self, value: Any) -> Hashable:
        members = list(value)
        if len(members) < 2:
            return self._items(members)
        if not _ATOMS.issuperset(map(type, members)):
            members.sort(key=lambda member: str(getattr(member, "request_id", "")) or repr(member))
            return self._items(members)
        return tuple(sorted(members, key=lambda member: (str(type(member)), member)))

    def _dict(self, value: dict[Any, Any], unordered: bool = False) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return f"#{number}"
        seen[id(value)] = len(seen)
        if not value:
            self._saved.append((_put_dict, value, ()))
            return ()
        self._saved.append((_put_dict, value, value.copy()))
        pairs = value.items()
        if unordered:
            pairs = sorted(pairs, key=lambda pair: str(pair[0]))  # type: ignore[assignment]
        encode = self.encode
        return tuple([(encode(k), v if type(v) in _ATOMS else encode(v)) for k, v in pairs])

    def _instance(self, value: Any, plan: _Plan) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return f"#{number}"
        seen[id(value)] = len(seen)
        attributes = value.__dict__
        self._saved.append((_put_dict, attributes, attributes.copy()))
        layout = plan.layout
        plain = layout.plain(attributes) if layout else None
        if layout is None or plain is None:
            layout = plan.layout = _Layout(attributes, plan, self._is_constant)
            plain = layout.plain(attributes)
        encode = self.encode
        out: list[Hashable] = [plan.name, plain]
        for name in layout.ruled:
            out.append(plan.rules[name](self, attributes[name], attributes))
        for name in layout.nested:
            item = attributes[name]
            if not item and type(item) in _CONTAINERS:
                self._empty.append(item)
            elif name in plan.unordered:
                out.append(self._dict(item, unordered=True))
            else:
                out.append(encode(item))
        for name in layout.added:
            out.append((name, self._added(encode(attributes[name]))))
        return tuple(out)

    def _is_constant(self, value: Any) -> bool:
        """Whether the walk leaves values of this type alone: code, configuration, services."""
        return self._handlers.setdefault(type(value), self._handler_for(type(value))) is _nothing

    def _slotted(self, value: Any, plan: _Plan) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return f"#{number}"
        seen[id(value)] = len(seen)
        contents = tuple((slot, getattr(value, slot)) for slot in plan.slots if hasattr(value, slot))
        self._saved.append((_put_slots, value, contents))
        return (plan.name, *self._items(item for _, item in contents))

    def _added(self, encoded: Hashable) -> Hashable:
        """State that a subclass added. A number in it may be a block id, and then blocks cannot be renamed."""
        if not self._exact and _has_number(encoded):
            self._exact = True
        return encoded


def _nothing(_value: Any) -> Hashable:
    """The encoding of what is left alone."""
    return None


def _has_number(encoded: Any) -> bool:
    if isinstance(encoded, tuple):
        return encoded[:1] != ("block",) and any(_has_number(item) for item in encoded)
    return isinstance(encoded, int) and not isinstance(encoded, bool)


def _put_list(target: list[Any], contents: Any) -> None:
    target[:] = contents


def _put_deque(target: deque[Any], contents: deque[Any]) -> None:
    target.clear()
    target.extend(contents)


def _put_set(target: set[Any], contents: Any) -> None:
    target.clear()
    target.update(contents)


def _put_dict(target: dict[Any, Any], contents: Any) -> None:
    target.clear()
    target.update(contents)


def _put_slots(target: Any, contents: tuple[tuple[str, Any], ...]) -> None:
    for slot, item in contents:
        setattr(target, slot, item)

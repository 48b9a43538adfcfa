"""Exact copies of a scheduler's state, and keys to compare two states by.

One walk over everything reachable from the scheduler does both. The copy remembers each mutable object together with a shallow
copy of its contents, so restoring puts the contents back into the *same* objects and costs no construction. The key is built
from *all* state the walk meets, except what :class:`~kvrace.capture_rules.CaptureRules` leaves out with a reason: a field that
a subclass adds is in the key without anybody having to know of it.
"""

from __future__ import annotations

import logging
import re
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import partial
from typing import Any

from kvmodel.port import Capture, UnknownSubject
from kvrace.capture_rules import ATOMS, CONTAINERS, LEFT_OUT, CaptureRules, ClassPlan, Layout

_CONSTANT = (
    types.ModuleType,
    type,
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    property,
    re.Pattern,
)
_PYTHON_CLASS = 1 << 9  # Py_TPFLAGS_HEAPTYPE


class _CannotCopy(Exception):
    """Raised inside a walk; ``path`` grows on the way out, innermost attribute first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[str] = []


_UNSET = "(unset)"
_MANY_VALUES = 100
"""An attribute with as many values in one exploration looks like a counter or a log, which makes states without end."""


class StateWalk:
    """One walk, reused for every capture of one subject. Not thread-safe."""

    def __init__(self, rules: CaptureRules) -> None:
        self._rules = rules
        self._plans: dict[type, ClassPlan] = {}
        self._handlers: dict[type, Callable[[Any], Hashable]] = {
            list: self._list,
            tuple: self._tuple,
            dict: self._dict,
            defaultdict: self._dict,
            OrderedDict: self._dict,
            set: self._set,
            frozenset: self._frozenset,
            deque: self._deque,
            types.FunctionType: self._function,
            types.MethodType: self._method,
            types.BuiltinFunctionType: self._method,
            partial: self._partial,
        }
        self._seen: dict[int, int] = {}
        self._saved: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self._empty: list[Any] = []
        self._added_values: dict[str, set[Hashable]] = {}
        self.names: dict[int, int] = {}
        self.context: dict[str, Any] = {}

    def capture(
        self,
        root: Any,
        names: dict[int, int],
        extra: Hashable = None,
        kept: Any = None,
        classes: Sequence[type] = (),
    ) -> Capture:
        """Copy everything reachable from ``root`` and what ``classes`` keep themselves. ``extra`` joins the fingerprint,
        ``kept`` rides in the snapshot.

        Raises UnknownSubject, with the path to it, for state that cannot be put back.
        """
        exact = self._rules.exact_blocks
        try:
            fingerprint = (self._walk(root, {block: block for block in names} if exact else names, classes), extra)
        except _CannotCopy as error:
            raise UnknownSubject(f"cannot copy {'.'.join(reversed(error.path)) or 'the scheduler'}: {error}") from error
        except RecursionError as error:
            raise UnknownSubject("cannot copy the scheduler: its state is nested too deeply") from error
        return Capture((self._saved, self._empty, kept), fingerprint, exact)

    def _walk(self, root: Any, names: dict[int, int], classes: Sequence[type]) -> Hashable:
        self._seen, self._saved, self._empty, self.names = {}, [], [], names
        encoded: Hashable = self.encode(root)
        if classes:
            encoded = (encoded, tuple([self.class_state(kind) for kind in classes]))
        # Empty containers were only collected, since most containers are empty most of the time. That none of them is
        # reachable twice has to be true for that, and is looked at here: else each is named by the first that is the same.
        identities = set(map(id, self._empty))
        if len(identities) < len(self._empty) or not identities.isdisjoint(self._seen):
            first: dict[int, int] = {}
            shared = [first.setdefault(id(container), -1 - place) for place, container in enumerate(self._empty)]
            encoded = (encoded, tuple([self._seen.get(id(c), s) for c, s in zip(self._empty, shared, strict=True)]))
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

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        """What a user should know of how states were compared: what a class left out, and, unless the scope was exhausted,
        what may have kept it from that."""
        left_out = {f"{plan.short_name}.{name}" for plan in self._plans.values() for name in plan.left_out}
        notes = [f"not compared, at the word of its class: {', '.join(sorted(left_out))}"] if left_out else []
        many = [] if exhausted else [n for n, values in self._added_values.items() if len(values) >= _MANY_VALUES]
        notes += [
            f"{name} took {_MANY_VALUES} values and more, and each keeps states apart; if the scheduler never decides by it, "
            f"name it in the class: {LEFT_OUT} = ({name.rpartition('.')[2]!r},)"
            for name in sorted(many)
        ]
        return tuple(notes)

    def encode(self, value: Any) -> Hashable:
        """The plain, comparable form of ``value``; everything mutable in it is copied on the way."""
        kind = type(value)
        if kind in ATOMS:
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
        if kind.__name__ == "Tensor":
            raise _CannotCopy("it is a tensor, and kvrace does not copy what is in it; keep plain Python values")
        if issubclass(kind, rules.opaque + _CONSTANT) or kind.__module__.startswith(rules.opaque_modules):
            return _nothing
        if issubclass(kind, tuple):
            return self._tuple
        plan = self._plans.setdefault(kind, ClassPlan(kind, rules))
        for base, walk in ((dict, self._dict), (list, self._list), (set, self._set), (deque, self._deque)):
            if issubclass(kind, base):
                return partial(self._container, walk=walk, plan=plan)
        if issubclass(kind, frozenset):
            return partial(self._container, walk=self._frozenset, plan=plan)
        for atom in (int, float, str, bytes):
            if issubclass(kind, atom):
                return partial(self._container, walk=atom, plan=plan)
        written_in_c = [base for base in kind.__mro__ if not base.__flags__ & _PYTHON_CLASS and base is not object]
        if not written_in_c and kind.__dictoffset__ != 0:
            return partial(self._instance, plan=plan)
        if not written_in_c and plan.slots:
            return partial(self._slotted, plan=plan)
        if not written_in_c:
            return lambda _: plan.name  # a plain object(), or one of a class without any state
        raise _CannotCopy(
            f"it is a {kind.__module__}.{kind.__qualname__}, and kvrace does not know how to put such a thing back; "
            "keep it out of the scheduler or hold plain Python values instead"
        )

    # The walkers of the mutable kinds begin alike: an object met before is a mark with its number, so that two states differ
    # when they share objects differently; else it is counted and its contents are copied. Written out, for speed.

    def _items(self, values: Any) -> tuple[Hashable, ...]:
        if ATOMS.issuperset(map(type, values)):
            return tuple(values)
        encode = self.encode
        return tuple([value if type(value) in ATOMS else encode(value) for value in values])

    def _list(self, value: list[Any]) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        if not value:
            self._saved.append((_put_list, value, ()))
            return "[]"
        self._saved.append((_put_list, value, value.copy()))
        return ("[]", *self._items(value))

    def _tuple(self, value: tuple[Any, ...]) -> Hashable:
        return self._items(value)

    def _deque(self, value: deque[Any]) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        self._saved.append((_put_deque, value, value.copy()))
        return ("deque", *self._items(value))

    def _set(self, value: set[Any]) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        if not value:
            self._saved.append((_put_set, value, ()))
            return "set"
        self._saved.append((_put_set, value, value.copy()))
        return self._frozenset(value)

    def _frozenset(self, value: Any) -> Hashable:
        members = list(value)
        if ATOMS.issuperset(map(type, members)):
            return ("set", *sorted(members, key=lambda member: (type(member).__name__, member)))
        if all(hasattr(member, "request_id") for member in members):
            return ("set", *self._items(sorted(members, key=lambda member: str(member.request_id))))
        met = len(self._seen)
        encoded = sorted(map(self.encode, members), key=repr)
        if len(self._seen) > met:  # the order of such a set is chance, and the numbers of what it holds would be too
            raise _CannotCopy(
                "it is, or holds, a set of objects that have no request_id, whose order is chance; use a dict or a list"
            )
        return ("set", *encoded)

    def _dict(self, value: dict[Any, Any], unordered: bool = False) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        if not value:
            self._saved.append((_put_dict, value, ()))
            return "{}"
        self._saved.append((_put_dict, value, value.copy()))
        pairs = value.items()
        if unordered:
            pairs = sorted(pairs, key=lambda pair: str(pair[0]))  # type: ignore[assignment]
        encode = self.encode
        return ("{}", *[(encode(k), v if type(v) in ATOMS else encode(v)) for k, v in pairs])

    def _function(self, value: Any) -> Hashable:
        """Code has no state, but what it closes over and its defaults have. vLLM's own functions are taken to keep none."""
        module = str(getattr(value, "__module__", ""))
        if module.startswith(self._rules.trusted_modules):
            return None
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        out: list[Hashable] = [module, value.__qualname__]
        for cell in value.__closure__ or ():
            contents = _cell_contents(cell)
            self._saved.append((_put_cell, cell, contents))
            out.append(self.encode(contents))
        out += [self.encode(value.__defaults__), self.encode(value.__kwdefaults__), self._dict(value.__dict__)]
        return tuple(out)

    def _method(self, value: Any) -> Hashable:
        """A bound method: the object it is bound to, and which method of it. A built-in function is bound to its module."""
        return ("method", value.__name__, self.encode(value.__self__))

    def _partial(self, value: Any) -> Hashable:
        return ("partial", self.encode(value.func), self.encode(value.args), self.encode(value.keywords))

    def class_state(self, kind: type) -> Hashable:
        """What a class itself keeps, beside what its instances keep: attributes, and what its methods close over."""
        out: list[Hashable] = [f"{kind.__module__}.{kind.__qualname__}"]
        kept = {n: v for n, v in vars(kind).items() if not n.startswith("__") and n not in _NOT_STATE}
        plain = {n: v for n, v in kept.items() if not isinstance(v, _DESCRIPTORS)}
        self._saved.append((_put_class, kind, plain))
        for name, value in kept.items():
            function = getattr(value, "__func__", getattr(value, "fget", value))
            out.append((name, self.encode(function)))
        return tuple(out)

    def _container(self, value: Any, walk: Callable[[Any], Hashable], plan: ClassPlan) -> Hashable:
        """A subclass of a built-in container: its items, and the attributes it may have beside them."""
        attributes = getattr(value, "__dict__", None)
        return (plan.name, walk(value), self._dict(attributes) if attributes else None)

    def _instance(self, value: Any, plan: ClassPlan) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        attributes = value.__dict__
        slots = self._slots(value, plan) if plan.slots else ()
        self._saved.append((_put_dict, attributes, attributes.copy()))
        shape = (*attributes, *map(type, attributes.values()))
        layout = plan.layouts.get(shape)
        if layout is None:
            layout = plan.layouts[shape] = Layout(attributes, plan, self._is_constant)
        encode = self.encode
        out: list[Hashable] = [layout.name, layout.plain(attributes)]
        name = ""
        try:
            for name in layout.ruled:
                out.append(plan.rules[name](self, attributes[name], attributes))
            for name in layout.nested:
                item = attributes[name]
                if not item and type(item) in CONTAINERS:
                    self._empty.append(item)
                    out.append(())
                elif name in plan.unordered:
                    out.append(self._dict(item, unordered=True))
                else:
                    out.append(encode(item))
            for name in layout.left_out:
                encode(attributes[name])  # copied all the same: what is put back has to be whole
            for name in layout.added:
                out.append((name, self._added(f"{plan.short_name}.{name}", encode(attributes[name]))))
        except _CannotCopy as error:
            error.path.append(f"{plan.short_name}.{name}" if not error.path else name)
            raise
        return (*out, *slots)

    def _is_constant(self, value: Any) -> bool:
        """Whether the walk leaves values of this type alone: code, configuration, services."""
        kind = type(value)
        try:
            handler = self._handlers.get(kind) or self._handlers.setdefault(kind, self._handler_for(kind))
        except _CannotCopy:  # raised again by the walk, which knows the path to it
            return False
        return handler is _nothing

    def _slotted(self, value: Any, plan: ClassPlan) -> Hashable:
        seen = self._seen
        if (number := seen.get(id(value))) is not None:
            return ("#", number)
        seen[id(value)] = len(seen)
        return (plan.name, *self._slots(value, plan))

    def _slots(self, value: Any, plan: ClassPlan) -> tuple[Hashable, ...]:
        contents = tuple([(slot, getattr(value, slot, _UNSET)) for slot in plan.slots])
        self._saved.append((_put_slots, value, contents))
        return self._items([item for _, item in contents])

    def _added(self, name: str, encoded: Hashable) -> Hashable:
        """State that a subclass added; how many values it takes is remembered, to tell the user of counters."""
        values = self._added_values.setdefault(name, set())
        if len(values) < _MANY_VALUES:
            values.add(encoded)
        return encoded


def _nothing(_value: Any) -> Hashable:
    """The encoding of what is left alone."""
    return None


_NOT_STATE = (LEFT_OUT, "_abc_impl")
_DESCRIPTORS = (types.FunctionType, classmethod, staticmethod, property, types.MemberDescriptorType, type)


def _cell_contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that the enclosing function has not bound yet
        return _UNSET


def _put_cell(target: Any, contents: Any) -> None:
    if contents is not _UNSET:
        target.cell_contents = contents


def _put_class(target: type, contents: dict[str, Any]) -> None:
    now = vars(target)
    for name, value in contents.items():
        if now.get(name, _UNSET) is not value:
            setattr(target, name, value)
    added = [
        n for n, v in now.items() if not n.startswith("__") and n not in contents and not isinstance(v, _DESCRIPTORS)
    ]
    for name in added:
        if name not in _NOT_STATE:
            delattr(target, name)


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
        if item is not _UNSET:
            object.__setattr__(target, slot, item)  # also in a frozen dataclass
        elif hasattr(target, slot):
            object.__delattr__(target, slot)

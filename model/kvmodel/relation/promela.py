"""A finite instance as Promela, so that Spin counts its states and judges them: a second explorer for the same relation.

One process makes one move at a time, each of them in a ``d_step``, so a state of Spin is a state of the instance and nothing in
between. One more ``d_step`` judges: it can be made in every state and leads back to it. A move that would crash the engine is not
made, as in :mod:`kvmodel.relation.exhaust`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvmodel.relation.finite import NO_CRASH, Effect, FiniteInstance, Move
from kvmodel.relation.ground import (
    All,
    Any_,
    Bit,
    Cell,
    Ground,
    Is,
    Layout,
    Negation,
    all_of,
    any_of,
    cells_in,
    negation,
)
from kvmodel.relation.terms import Element, Named, Sort

SPIN_FLAGS = ("-o2", "-a")
"""``-o2``: what is written and never read belongs to the state, as it does here."""
COMPILER_FLAGS = ("-O1", "-DSAFETY", "-DNOREDUCE", "-DBFS")
"""No search for cycles and no partial-order reduction, breadth first: every state is counted, shortest orders come first."""
EVERY_ERROR = "-c0"
"""For ``pan``: do not stop at an error."""
UNJUDGED = 1
"""How many more states ``pan`` has matched than moves were made: each state is matched when it is judged, and each but the first
was stored by a move."""
_NAME = re.compile(r"[A-Za-z]\w*")


def promela(instance: FiniteInstance, about: str) -> str:
    """The text of a model. ``about`` says in its head what it is a model of."""
    layout = instance.layout
    properties = tuple(dict.fromkeys(rule.name for rule in _judged(instance)))
    made = [(move, *_made(move)) for move in instance.moves]
    waiting = {cell for _, _, cells in made for cell in cells}
    lines = [
        f"/* kvrace, the relation of requests, blocks, steps and transfers: {about}",
        "",
        "   Count all states and name every property that does not hold:",
        f"     spin {' '.join(SPIN_FLAGS)} FILE && gcc {' '.join(COMPILER_FLAGS)} -o pan pan.c && ./pan {EVERY_ERROR}",
        "   A shortest order to the first of them:",
        "     ./pan && spin -t FILE",
        "",
        "   'at depth N' is the number of moves before the property is broken; a property can also be broken by a move that is",
        "   about to be made. Of the matched states, one a state comes from judging it.",
        "*/",
        "",
        *_constants(layout),
        "",
        *_variables(instance),
        "",
        *(_declaration(layout, cell, f"new_{_name(cell)}") for cell in layout.places if cell in waiting),
        "/* Each is true but for a moment: while a state is judged in which it is broken. */",
        *(f"bit {_identifier(name)} = 1;" for name in properties),
        "",
        "init {",
        "  do",
        "  :: d_step {",
        *(f"      {line}" for line in _judging(instance, properties)),
        "    }",
    ]
    for move, statements, _ in made:
        lines += [f"  :: d_step {{ /* {move} */", *(f"      {line}" for line in statements), "    }"]
    return "\n".join([*lines, "  od", "}", ""])


def _judged(instance: FiniteInstance) -> Iterator[Named]:
    yield from instance.properties
    for move in instance.moves:
        yield from (check for check, _ in move.grounded_checks)


def _identifier(name: str) -> str:
    made = name.replace("-", "_")
    assert _NAME.fullmatch(made), f"{name} is no name in Promela"
    return made


def property_named(identifier: str) -> str:
    """The property that has this name in the text."""
    return identifier.replace("_", "-")


def _name(cell: Cell) -> str:
    return _identifier("_".join((cell[0].name, *(element.name for element in cell[1]))))


def _constants(layout: Layout) -> list[str]:
    """The elements of the sorts that functions of the state have as values."""
    sorts: list[Sort] = list(dict.fromkeys(symbol.result for symbol in layout.symbols if symbol.result is not None))
    elements = [element for sort in sorts for element in layout.universe.of(sort)]
    assert len({element.name for element in elements}) == len(elements), "two constants would have one name"
    return [f"#define {_constant(element)} {layout.number(element)}" for element in elements]


def _constant(element: Element) -> str:
    return _identifier(element.name.upper())


def _variables(instance: FiniteInstance) -> list[str]:
    layout, lines = instance.layout, []
    values = layout.values(instance.start)
    true = set(layout.true_cells(instance.start))
    for symbol in layout.symbols:
        lines.append(f"/* {symbol.meaning} */")
        for cell in layout.universe.cells(symbol):
            start = _constant(values[cell]) if cell in values else "1" if cell in true else ""
            lines.append(_declaration(layout, cell, _name(cell), start))
    return lines


def _declaration(layout: Layout, cell: Cell, name: str, start: str = "") -> str:
    width = layout.places[cell].width
    declared = f"bit {name}" if width == 1 else f"unsigned {name} : {width}"
    return f"{declared} = {start};" if start else f"{declared};"


def _judging(instance: FiniteInstance, properties: tuple[str, ...]) -> list[str]:
    universe, lines = instance.layout.universe, []
    for rule in instance.properties:
        lines.append(f"/* {rule.why} */")
        lines.append(_also(rule.name, universe.ground(rule.formula, {})))
    for move in instance.moves:
        for check, ground in move.grounded_checks:
            lines.append(f"/* {move} */")
            lines.append(_also(check.name, any_of([negation(move.guard), ground])))
    for name in properties:
        lines.append(f"assert({_identifier(name)}); {_identifier(name)} = 1;")
    return lines


def _also(name: str, ground: Ground) -> str:
    return f"{_identifier(name)} = {_identifier(name)} && {_expression(ground)};"


def _made(move: Move) -> tuple[list[str], list[Cell]]:
    """Its guard, its name (which ``spin -t`` shows) and its effects; and the cells whose new value has to wait."""
    survives = [ground for check, ground in move.grounded_checks if check.name == NO_CRASH]
    ready, waiting = _in_order(move.effects)
    lines = [f"{_expression(all_of([move.guard, *survives]))} ->", f'printf("{move}\\n");']
    lines += [f"{_name(effect.cell)} = {_new(effect)};" for effect in ready]
    lines += [f"new_{_name(effect.cell)} = {_new(effect)};" for effect in waiting]
    lines += [f"{_name(cell)} = new_{_name(cell)}; new_{_name(cell)} = 0;" for cell, _ in waiting]
    return lines, [cell for cell, _ in waiting]


def _in_order(effects: tuple[Effect, ...]) -> tuple[list[Effect], list[Effect]]:
    """All effects happen at once, so a cell is assigned after those that are computed from it. Those for which there is no such
    order are the second list."""
    read = {effect.cell: {cell for ground in effect.values.values() for cell in cells_in(ground)} for effect in effects}
    ready: list[Effect] = []
    left = list(effects)
    while True:
        free = [one for one in left if not any(one.cell in read[other.cell] for other in left if other is not one)]
        if not free:
            return ready, left
        ready += free
        left = [effect for effect in left if effect not in free]


def _new(effect: Effect) -> str:
    if None in effect.values:
        return _expression(effect.values[None])
    possible = [(_constant(value), when) for value, when in effect.values.items() if value and when is not False]
    *others, (text, _) = possible  # exactly one of the conditions holds, so the last needs none
    for constant, when in reversed(others):
        text = f"({_expression(when)} -> {constant} : {text})"
    return text


def _expression(ground: Ground) -> str:
    match ground:
        case bool():
            return "true" if ground else "false"
        case Bit(cell):
            return _name(cell)
        case Is(cell, value):
            return f"({_name(cell)} == {_constant(value)})"
        case Negation(part):
            return f"!{_expression(part)}"
        case All(parts):
            return "(" + " && ".join(map(_expression, parts)) + ")"
        case Any_(parts):
            return "(" + " || ".join(map(_expression, parts)) + ")"
    raise TypeError(f"{ground!r} is not grounded")

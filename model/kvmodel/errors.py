"""The one error a user of kvmodel or kvrace has to catch."""


class KvraceError(Exception):
    """Something the user can put right: a bad scope, an unreadable trace, an unknown class.

    The message is one line that says what was wrong and what to do. Command lines print it and exit with status 2.
    """


_QUOTED_LENGTH = 60


def quoted(word: object) -> str:
    """A word of the user or of a trace as an error line may show it: quoted, on one line and not longer than a line has room for.

    A number is shown without quotes.
    """
    if type(word) in (int, float, bool, type(None)):
        text = str(word)
        return text if len(text) <= _QUOTED_LENGTH else text[: _QUOTED_LENGTH - 1] + "…"
    text = word if isinstance(word, str) else repr(word)
    return repr(text if len(text) <= _QUOTED_LENGTH else text[: _QUOTED_LENGTH - 1] + "…")

"""The one error a user of kvmodel or kvrace has to catch."""


class KvraceError(Exception):
    """Something the user can put right: a bad scope, an unreadable trace, an unknown class.

    The message is one line that says what was wrong and what to do. Command lines print it and exit with status 2.
    """


_WORD_LENGTH = 60
_NUMBER_BITS = 1000


def shortened(word: object) -> str:
    """A word of the user or of a trace, not longer than an error line has room for."""
    text = str(word)
    return text if len(text) <= _WORD_LENGTH else f"{text[: _WORD_LENGTH - 1]}…"


def quoted(word: object) -> str:
    """The same in quotes and on one line. A number is shown without quotes."""
    if isinstance(word, int) and word.bit_length() > _NUMBER_BITS:  # Python refuses to write the longest ones out
        return "a number of hundreds of digits"
    if word is None or isinstance(word, (int, float)):
        return shortened(word)
    return repr(shortened(word))

"""The one error a user of kvmodel or kvrace has to catch."""


class KvraceError(Exception):
    """Something the user can put right: a bad scope, an unreadable trace, an unknown class.

    The message is one line that says what was wrong and what to do. Command lines print it and exit with status 2.
    """

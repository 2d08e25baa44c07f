"""Makes text of others harmless: a terminal obeys characters that a model, a tool or a server can write."""

from __future__ import annotations

__all__ = ("cleaned", "cut", "in_known_characters", "one_line")

_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
#: C1 holds one-character escapes; the others change the direction in which all that follows is read
_OTHERS = dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
_SIGNS = {"✓": "+", "✗": "x", "●": "*", "…": "...", "→": "->", "█": "#", "░": "."}
_TABLE = {**_CONTROLS, **_OTHERS, ord("\n"): "\n", ord("\t"): "\t", ord("\r"): None}


def cleaned(text: str) -> str:
    """The text with its control characters made visible; line ends and tabs stay.

    >>> cleaned("\\x1b[31mred\\x07")
    '␛[31mred␇'
    """
    return text if text.isprintable() else text.translate(_TABLE)


def one_line(text: str) -> str:
    """The text in one harmless line.

    >>> one_line("two\\n  lines")
    'two lines'
    """
    return cleaned(" ".join(text.split()))


def cut(text: str, length: int) -> str:
    """The text in one harmless line of at most `length` characters.

    >>> cut("a long story", 8)
    'a long …'
    """
    short = one_line(text[: 4 * length])
    return short if len(short) <= length and len(text) <= 4 * length else f"{short[: length - 1]}…"


def in_known_characters(problem: UnicodeError) -> tuple[str, int]:
    """For `codecs.register_error`: our own signs in ASCII, where an encoding has no others; a `?` for the rest.

    >>> import codecs
    >>> codecs.register_error("known", in_known_characters)
    >>> "✓ naïve".encode("ascii", "known")
    b'+ na?ve'
    """
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(_SIGNS.get(character, "?") for character in text), problem.end

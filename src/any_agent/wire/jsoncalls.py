"""Reads what a prompted model writes: calls and answers as JSON objects, while they come.

Rules:
- `{"tool": …, "arguments": …}` is a call and `{"answer": …}` an answer, at the beginning of the output and after
  each other; several calls are parallel calls. The arguments, and the answer, are passed on as they come.
- Among words an object is a call only if it names a declared tool. Whatever is neither call nor answer is text,
  and shown as it was written; keys beside ours, in an object of ours, are not.
- A call whose end never came is an error, not a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from any_agent.wire.repair import read_values
from any_agent.wire.toolcalls import CallPiece, clean_name
from any_agent.wire.values import as_object, as_word

if TYPE_CHECKING:
    from any_agent.wire.textcalls import TextCallScanner

__all__ = ("PromptedReader",)

Found: TypeAlias = tuple[Literal["text"], str] | CallPiece

#: an object shows what it is within so many characters, and no more stands between two objects
_MAX_HEAD = 500
_BETWEEN = re.compile(r"(?:[\s,;\]}]|```\w{0,20})*+")
_NAME = r'"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"'
_OPENS_CALL = re.compile(rf'\{{\s*"(?:tool|name)"\s*:\s*{_NAME}\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{{)')
_OPENS_ANSWER = re.compile(r'\{\s*"answer"\s*:\s*(?=["{\[])')
_CUT_CALL = re.compile(rf'\{{\s*"tool"\s*:\s*(?:{_NAME}|"|\Z)')
#: an object in prose, with the fence that may open before it, and how one begins that is a call
_IN_PROSE = re.compile(r"(?:```\w{0,20}\s{0,100})?\{")
_MAY_BE_FENCE = re.compile(r"(?:`{1,2}|```\w{0,20}\s{0,100})\Z")
_CALLS_BEGIN = ('{"tool":"', '{"name":"')
_MAX_BEGIN = 100
#: the keys that an object may have that names a tool and nothing to call it with
_WITHOUT_ARGUMENTS = {"tool", "name", "answer"}

_PLAIN = re.compile(
    r'(?:[^"\\]++|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
_HALF_CHARACTER = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_MAY_BE_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?\Z"
)
#: the quote that ends a string; before anything else it is one that the model did not escape
_ENDS = re.compile(r'"(?:\s{200}|\s{0,199}(?:\}|,\s{0,200}(?:\}|"[^"]{0,50}"\s{0,200}:)))')
_MAY_END = re.compile(r'"\s{0,199}(?:,\s{0,200}(?:"[^"]{0,50}(?:"\s{0,200})?)?)?\Z')
_MARK = re.compile(r'["\\{}\[\]]')
_BEFORE_KEY = ", \r\n\t"


class _Value:
    """Finds the end of a JSON object or array that comes in pieces; of one that is open already, with `depth`."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._in_string = False
        self._escaped = False

    def end(self, text: str, start: int) -> int | None:
        """Where in `text` the value ends; `None` if it goes on."""
        position = start + self._escaped
        self._escaped = False
        while (mark := _MARK.search(text, position)) is not None:
            position = mark.end()
            match mark.group():
                case "\\" if self._in_string:
                    self._escaped = position == len(text)
                    position += 1
                case '"':
                    self._in_string = not self._in_string
                case "{" | "[" if not self._in_string:
                    self._depth += 1
                case "}" | "]" if not self._in_string:
                    self._depth -= 1
                    if not self._depth:
                        return position
                case _:
                    pass
        return None


class PromptedReader:
    """Feed it text; it returns the words of an answer, and the pieces of calls. What is neither goes to `scanner`.

    It is in one of these states:
    - `start`: nothing has come yet, or an object of ours has ended;
    - `object`: an object is held until its head shows what it is, or else to its end;
    - `arguments`, `words`, `value`: what is passed on as it comes: the arguments of a call, the answer as a string,
      the answer as another value;
    - `rest`: what follows these in their object is held to its end;
    - `prose`: the model writes as it likes; calls of declared tools are still found.

    >>> reader = PromptedReader({"search": {}})
    >>> reader.feed('{"answer": "It is ')
    [('text', 'It is ')]
    """

    def __init__(self, tools: Mapping[str, Any], scanner: TextCallScanner | None = None) -> None:
        self._tools = tools
        self._scanner = scanner
        self._state: Literal["start", "object", "arguments", "words", "value", "rest", "prose"] = "start"
        #: what has come and is not read beyond `_at`
        self._text = ""
        self._at: int = 0
        #: what stands before an object, and what is held of the object
        self._lead = ""
        self._object: list[str] = []
        self._size = 0
        self._in_prose = False
        self._value = _Value()
        self._is_first = False
        self._calls = 0
        self._has_begun = False

    def feed(self, text: str) -> list[Found]:
        """What of the text so far can be told now."""
        self._text, self._at = self._text[self._at :] + text, 0
        found: list[Found] = []
        while self._at < len(self._text) and self._step(found):
            pass
        return found

    def close(self) -> list[Found]:
        """What was held back; no more text follows."""
        held, self._text, self._at = self._text[self._at :], "", 0
        state, self._state = self._state, "prose"
        if state == "object":
            whole = "".join(self._object)
            return self._cut(whole, self._lead + whole)
        if state in ("rest", "words"):
            rest = "".join(self._object) if state == "rest" else held[1:] if held.startswith('"') else ""
            return self._cut("{" + rest.lstrip(_BEFORE_KEY), rest) if rest.strip(_BEFORE_KEY) else []
        if state == "start" and self._has_begun and _BETWEEN.fullmatch(held.rstrip("`")):
            return []
        return self._other(held)

    def _step(self, found: list[Found]) -> bool:
        """Go from one state to the next; whether there is more to do with what is held."""
        match self._state:
            case "start":
                return self._at_start()
            case "object":
                return self._in_object(found)
            case "arguments" | "value":
                return self._in_value(found)
            case "words":
                return self._in_words(found)
            case "rest":
                return self._in_rest(found)
            case "prose":
                return self._read_prose(found)

    def _at_start(self) -> bool:
        end = _past(_BETWEEN, self._text, self._at)
        next_ = self._text[end : end + 3]
        if end - self._at <= _MAX_HEAD and next_ in ("", "`", "``"):
            return False
        if end - self._at <= _MAX_HEAD and next_.startswith("{"):
            self._begin_object(end, in_prose=False)
            return True
        # the fence that was opened before an object is closed after it
        fence = self._text.find("```", self._at, end) if "```" in self._lead else -1
        self._at = fence + 3 if fence >= 0 else self._at
        self._state = "prose"
        return True

    def _begin_object(self, start: int, *, in_prose: bool) -> None:
        self._lead, self._at = self._text[self._at : start], start
        self._object, self._size, self._value = [], 0, _Value()
        self._in_prose = in_prose
        self._state = "object"

    def _in_object(self, found: list[Found]) -> bool:
        if self._size < _MAX_HEAD:
            more = self._text[self._at : self._at + _MAX_HEAD - self._size]
            head = "".join(self._object) + more
            opened = self._opened(head, found)
            if opened is not None:
                self._at += opened - self._size
                return True
            if self._in_prose and not _may_be_call(head):
                # all that was held so far could begin a call, so no other object begins in it
                self._at += 1 if not self._object else 0
                found += self._other(self._lead + ("".join(self._object) or "{"))
                self._state = "prose"
                return True
        if self._hold():
            self._read_object(found)
            return True
        return False

    def _opened(self, head: str, found: list[Found]) -> int | None:
        """Where in the head of an object something begins that is passed on as it comes."""
        call = _OPENS_CALL.match(head)
        if call is not None and self._knows(name := _unescaped(call.group(1))):
            found.append(self._call(name))
            self._state, self._value, self._is_first = "arguments", _Value(), True
            return call.end()
        answer = None if self._in_prose else _OPENS_ANSWER.match(head)
        if answer is None:
            return None
        self._has_begun = True
        is_string = head[answer.end()] == '"'
        self._state, self._value = "words" if is_string else "value", _Value()
        return answer.end() + is_string

    def _read_object(self, found: list[Found]) -> None:
        """An object whose head did not show what it is: its keys come in another order, or it is none of ours."""
        whole = "".join(self._object)
        told = self._told(_object_in(whole) or {})
        if told is None:
            found += self._other(self._lead + whole)
            self._state = "prose"
        else:
            found += told
            self._state, self._has_begun = "start", True

    def _in_value(self, found: list[Found]) -> bool:
        start = self._at
        end = self._value.end(self._text, start)
        self._at = len(self._text) if end is None else end
        piece = self._text[start : self._at]
        if self._state == "value":
            found.append(("text", piece))
        else:
            # only the first piece begins with `{`, and with more after it: otherwise it could be taken for all
            # the arguments so far, sent once more
            lead = 0 if self._is_first else len(piece) - len(piece.lstrip("{"))
            self._is_first = False
            parts = [*piece[:lead], piece[lead:]]
            found += [CallPiece(self._index, arguments=part) for part in parts if part]
        if end is not None:
            self._begin_rest()
        return end is not None

    def _in_words(self, found: list[Found]) -> bool:
        end = _past(_PLAIN, self._text, self._at)
        if end > self._at:
            found.append(("text", _unescaped(self._text[self._at : end])))
        self._at = end
        if end == len(self._text) or _MAY_BE_ESCAPE.match(self._text, end) or _MAY_END.match(self._text, end):
            return False
        if _ENDS.match(self._text, end):
            self._at += 1
            self._begin_rest()
        elif half := _HALF_CHARACTER.match(self._text, end):
            self._at = half.end()
            found.append(("text", "\ufffd"))
        else:
            # no escape of JSON, or a quote without one: the model wrote it as it stands
            self._at += 1
            found.append(("text", self._text[end]))
        return True

    def _begin_rest(self) -> None:
        self._object, self._value = [], _Value(depth=1)
        self._in_prose = False
        self._state = "rest"

    def _in_rest(self, found: list[Found]) -> bool:
        if not self._hold():
            return False
        rest = "".join(self._object)
        data = _object_in("{" + rest.lstrip(_BEFORE_KEY))
        found += self._other(rest) if data is None else self._told(data) or ()
        self._state = "start"
        return True

    def _hold(self) -> bool:
        """Hold what belongs to an object; whether it has ended."""
        start = self._at
        end = self._value.end(self._text, start)
        self._at = len(self._text) if end is None else end
        self._object.append(self._text[start : self._at])
        self._size += self._at - start
        return end is not None

    def _told(self, data: dict[str, Any]) -> list[Found] | None:
        """The answer and the call in an object, or in the rest of one; `None` if it has neither."""
        name = as_word(data.get("tool")) or as_word(data.get("name")) or ""
        given = [data[key] for key in ("arguments", "parameters") if key in data]
        answer = data.get("answer")
        says_so = "tool" in data and not self._in_prose and not answer
        is_call = bool(name) and (self._knows(name) or says_so) and (bool(given) or data.keys() <= _WITHOUT_ARGUMENTS)
        if not is_call and (self._in_prose or "answer" not in data):
            return None
        told: list[Found] = []
        if answer not in (None, "") or data.keys() == {"answer"}:
            told.append(("text", answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)))
        if is_call:
            told.append(self._call(name, json.dumps(given[0], ensure_ascii=False) if given else None))
        return told

    def _cut(self, written: str, shown: str) -> list[Found]:
        """An object that never ended: a call in it will be an error, since it cannot be read; the rest is text."""
        cut = None if self._in_prose else _CUT_CALL.match(written)
        if cut is None:
            return self._other(shown)
        return [self._call(_unescaped(cut.group(1)) if cut.group(1) else None, written)]

    def _call(self, name: str | None, arguments: str | None = None) -> CallPiece:
        self._calls += 1
        self._has_begun = True
        return CallPiece(self._index, None, name, arguments)

    @property
    def _index(self) -> str:
        return f"prompted {self._calls}"  # no server numbers its calls like this

    def _knows(self, name: str) -> bool:
        return clean_name(name, self._tools) in self._tools

    def _read_prose(self, found: list[Found]) -> bool:
        begun = _IN_PROSE.search(self._text, self._at)
        if begun is None:
            fence = _MAY_BE_FENCE.search(self._text, self._at)
            end = fence.start() if fence else len(self._text)
            found += self._other(self._text[self._at : end])
            self._at = end
            return False
        found += self._other(self._text[self._at : begun.start()])
        self._at = begun.start()
        if self._scanner is not None and self._scanner.is_holding:
            found += self._other(begun.group())  # a part of the markup around it
            self._at = begun.end()
        else:
            self._begin_object(begun.end() - 1, in_prose=True)
        return True

    def _other(self, text: str) -> list[Found]:
        shown = self._scanner.feed(text) if text and self._scanner is not None else text
        return [("text", shown)] if shown else []


def _past(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Where what `pattern` matches ends."""
    match = pattern.match(text, start)
    return match.end() if match else start


def _may_be_call(head: str) -> bool:
    compact = re.sub(r"\s+", "", head[:_MAX_BEGIN])
    is_whole = len(head) >= _MAX_BEGIN
    return any(compact.startswith(begin) or (begin.startswith(compact) and not is_whole) for begin in _CALLS_BEGIN)


def _object_in(text: str) -> dict[str, Any] | None:
    """The object that stands in `text` alone, if it is sound JSON."""
    try:
        values, _ = read_values(text, lenient=False)
    except ValueError:
        return None
    return as_object(values[0]) if len(values) == 1 else None


def _unescaped(text: str) -> str:
    """The characters that the inside of a JSON string stands for."""
    decoded: str = json.loads(f'"{text}"', strict=False)
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

"""Where the lines of a chat come from: a terminal with editing, history and completion, or a pipe."""

from __future__ import annotations

import asyncio
import codecs
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.defaults import create_output

from any_agent.folders import user_folder

__all__ = ("Input", "PipeInput", "Stopped", "TerminalInput")


class Stopped(Exception):
    """Ctrl-C, while something was going on or at an empty prompt. A `KeyboardInterrupt` would end the event loop."""


class Input(Protocol):
    """Gives what the user says, one prompt after the other."""

    async def read(self, label: str, draft: str = "") -> str:
        """The next prompt; `EOFError` at the end, `Stopped` for Ctrl-C when there is nothing to clear."""
        ...


class TerminalInput:
    """Reads from a terminal: Enter sends; Alt-Enter, or a backslash at the end, begins a new line."""

    def __init__(self, commands: Sequence[str], with_paths: Sequence[str]) -> None:
        self._session = PromptSession[str](
            history=_history(),
            completer=_SlashCompleter(commands, with_paths),
            key_bindings=_bindings(),
            multiline=True,
            prompt_continuation="  ",
            reserve_space_for_menu=4,
            output=create_output(always_prefer_tty=True),
        )

    async def read(self, label: str, draft: str = "") -> str:
        return await self._session.prompt_async(label, default=draft, handle_sigint=False)


class PipeInput:
    """Reads lines from a pipe or a file; a backslash at the end of a line goes on in the next."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._ended = False

    async def read(self, label: str, draft: str = "") -> str:
        lines: list[str] = []
        while True:
            line = await self._line()
            if line is None and not lines:
                raise EOFError
            lines.append((line or "").removesuffix("\\"))
            if line is None or not line.endswith("\\"):
                return "\n".join(lines)

    async def _line(self) -> str | None:
        while "\n" not in self._text and not self._ended:
            data = await _read_in_thread()
            self._ended = not data
            self._text += self._decoder.decode(data, final=self._ended)
        if not self._text:
            return None
        line, _, self._text = self._text.partition("\n")
        return line.removesuffix("\r")


async def _read_in_thread() -> bytes:
    """Some bytes of standard input. The thread does not hold the end of the program, nor a lock of `sys.stdin`."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        data = os.read(0, 65536)
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(data))

    threading.Thread(target=read, daemon=True).start()
    return await done


class _SlashCompleter(Completer):
    """Completes commands, and the paths of files after those that take one."""

    def __init__(self, commands: Sequence[str], with_paths: Sequence[str]) -> None:
        self._commands = commands
        self._with_paths = with_paths
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        command, space, rest = document.text_before_cursor.partition(" ")
        if space and command in self._with_paths:
            yield from self._paths.get_completions(Document(rest, len(rest)), complete_event)
        elif not space and command.startswith("/"):
            for name in self._commands:
                if name.startswith(command):
                    yield Completion(name, start_position=-len(command))


def _bindings() -> KeyBindings:
    bindings = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    def clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=Stopped())

    bindings.add("enter", filter=typing)(send)
    bindings.add("escape", "enter", filter=typing)(new_line)
    bindings.add("c-c", filter=typing)(clear)
    return bindings


def _history() -> History:
    """What was typed in earlier chats: in a file that only the user can read, or nowhere."""
    file = user_folder("state") / "chat_history"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        file.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)

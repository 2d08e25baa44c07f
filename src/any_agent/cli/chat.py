"""`any-agent chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from any_agent.agent.client import Client
from any_agent.cli.clean import one_line
from any_agent.cli.connect import Connection, connect_options, connected
from any_agent.cli.prompt import Input, PipeInput, Stopped, TerminalInput
from any_agent.cli.screen import Screen
from any_agent.cli.slash import COMMANDS, WITH_PATHS, Session, is_command, run_slash
from any_agent.cli.view import View, watch
from any_agent.errors import AgentSDKError
from any_agent.events import Failed
from any_agent.types import TextBlock

__all__ = ("chat_command",)

_T = TypeVar("_T")
_INTERRUPTED = 130


@click.command("chat")
@connect_options
@click.option("--show-thinking", is_flag=True, help="Show what the model thinks before it answers.")
def chat_command(connection: Connection, show_thinking: bool) -> int:
    """Talk with a model. /help in the chat lists its commands."""
    return asyncio.run(_chat(connection, show_thinking=show_thinking))


async def _chat(connection: Connection, *, show_thinking: bool) -> int:
    screen = Screen()
    async with connected(connection, screen, max_turns=sys.maxsize) as options:
        session = Session(Client(options), screen)
        try:
            return await _Chat(session, show_thinking=show_thinking).run()
        finally:
            await session.client.aclose()


class _Chat:
    def __init__(self, session: Session, *, show_thinking: bool) -> None:
        self._session = session
        self._show_thinking = show_thinking
        self._has_terminal = sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())
        self._input: Input = TerminalInput(COMMANDS, WITH_PATHS) if self._has_terminal else PipeInput()
        self._work: asyncio.Task[Any] | None = None
        self._is_stopped = False
        self._failed = False

    async def run(self) -> int:
        """Read and answer until the end; the exit code."""
        with suppress(NotImplementedError):  # there, Ctrl-C leaves
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop)
        session = self._session
        options = session.client.options
        if self._has_terminal:
            session.screen.line(f"{options.model} at {options.base_url}: /help lists the commands, Ctrl-D leaves")
        warned = False
        while not session.leaves:
            label = f"({len(session.images)} image) > " if session.images else "> "
            draft, session.draft = session.draft, ""
            try:
                text = await self._stoppable(self._input.read(label, draft))
            except EOFError:
                break
            except Stopped:
                if not self._has_terminal:
                    return _INTERRUPTED
                if warned:
                    return 0
                session.screen.line("Ctrl-C once more leaves, and so does Ctrl-D")
                warned = True
                continue
            warned = False
            is_stopped = await self._turn(text)
            if is_stopped and not self._has_terminal:
                return _INTERRUPTED
        return int(self._failed and not self._has_terminal)

    async def _turn(self, text: str) -> bool:
        """Do what a line says, whatever goes wrong; whether it was stopped."""
        session = self._session
        before = len(session.client.message_history)
        is_stopped = False
        try:
            await self._stoppable(run_slash(session, text) if is_command(text) else self._answer(text))
            return False
        except Stopped:
            is_stopped = True
            session.screen.line("stopped")
        except (AgentSDKError, ValueError, OSError) as problem:
            self._failed = True
            session.draft = text
            session.screen.line(one_line(str(problem)), "red")
        if len(session.client.message_history) > before:
            session.draft = ""
            session.screen.line("what the tools did is kept: Enter goes on from there")
        return is_stopped

    async def _answer(self, text: str) -> None:
        session = self._session
        client, images = session.client, session.images
        if text.strip() or images:
            await client.query([*images, TextBlock(text)] if images else text)
        elif client.message_history and client.message_history[-1].role == "tool":
            await client.resume()
        else:
            return
        with _no_echo():
            last = await watch(client.events(), View(session.screen, show_thinking=self._show_thinking))
        if isinstance(last, Failed):
            raise last.error
        images.clear()

    async def _stoppable(self, work: Coroutine[Any, Any, _T]) -> _T:
        self._work = task = asyncio.create_task(work)
        if self._is_stopped:
            self._stop()
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise Stopped from None
        finally:
            self._work = None

    def _stop(self) -> None:
        # between two works it is the next that does not begin
        self._is_stopped = self._work is None or not self._work.cancel()


@contextmanager
def _no_echo() -> Generator[None]:
    """What is typed while an answer comes would be shown amidst it; it is there at the next prompt."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(0)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)

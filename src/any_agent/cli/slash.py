"""The commands inside a chat: `/model`, `/undo`, `/save`, …"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any_agent.adapters.create import create_adapter
from any_agent.agent.client import Client
from any_agent.cli.clean import one_line
from any_agent.cli.inputs import read_image
from any_agent.types import ImageBlock, Message, TextBlock

if TYPE_CHECKING:
    from any_agent.cli.screen import Screen

__all__ = ("COMMANDS", "WITH_PATHS", "Session", "is_command", "run_slash")


@dataclass(slots=True)
class Session:
    """A chat: its conversation, and what the next prompt begins with."""

    client: Client
    screen: Screen
    #: they go with the next prompt
    images: list[ImageBlock] = field(default_factory=list[ImageBlock])
    #: offered for editing at the next prompt
    draft: str = ""
    #: the file that the conversation was saved in or loaded from: it may be overwritten
    file: Path | None = None
    leaves: bool = False


def is_command(text: str) -> bool:
    """Whether a line is a command: `/name`, but not a path such as `/etc/hosts`.

    >>> is_command("/help"), is_command("/etc/hosts is what?"), is_command("hello")
    (True, False, False)
    """
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    return first.startswith("/") and first[1:].isalpha()


async def run_slash(session: Session, text: str) -> None:
    """Carry out a command; what is wrong with it is raised."""
    name, _, rest = text.strip().partition(" ")
    if name not in _COMMANDS:
        raise ValueError(f"there is no command {name}: see /help")
    await _COMMANDS[name][1](session, rest.strip())


async def _model(session: Session, name: str) -> None:
    options = session.client.options
    if not name:
        async with create_adapter(options) as adapter:
            models = await adapter.list_models()
        for model in models:
            session.screen.line(f"{model.id}{'  (this one)' if model.id == options.model else ''}")
        return
    old, session.client = session.client, Client(replace(options, model=name))
    session.client.message_history = old.message_history
    await old.aclose()
    session.screen.line(f"from now on {name} answers")


async def _tools(session: Session, _: str) -> None:
    tools = session.client.options.tools
    for tool in tools:
        session.screen.line(f"{tool.name}  {one_line(tool.description)}")
    if not tools:
        session.screen.line("no tools: start the chat with --tool module:function")


async def _undo(session: Session, _: str) -> None:
    history = session.client.message_history
    start = next((at for at in range(len(history) - 1, -1, -1) if history[at].role == "user"), None)
    if start is None:
        raise ValueError("there is nothing to undo")
    session.draft = _words(history[start])
    session.client.message_history = history[:start]
    session.screen.line("the last question and its answer are forgotten")


async def _save(session: Session, name: str) -> None:
    file = _file("/save", name)
    if file.exists() and file != session.file:
        raise ValueError(f"{file} exists already: choose another name")
    history = session.client.history
    data = {"model": session.client.options.model, "messages": history}
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps(data, ensure_ascii=False, indent=1), "utf-8")
    part.replace(file)
    session.file = file
    session.screen.line(f"{len(history)} messages are saved in {file}")


async def _load(session: Session, name: str) -> None:
    file = _file("/load", name)
    try:
        data: Any = json.loads(file.read_text("utf-8"))
    except ValueError:
        raise ValueError(f"{file} holds no conversation: it is no JSON") from None
    messages = data.get("messages") if isinstance(data, dict) else data  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):  # pyright: ignore[reportUnknownVariableType]
        raise ValueError(f"{file} holds no conversation: a list of messages is expected")
    session.client.message_history = messages
    session.file = file
    session.screen.line(f"{len(session.client.message_history)} messages are loaded from {file}")


async def _image(session: Session, name: str) -> None:
    if not name:
        raise ValueError("which image? /image FILE")
    session.images.append(read_image(_unquoted(name)))
    session.screen.line("the image goes with the next prompt")


async def _context(session: Session, _: str) -> None:
    used, window = session.client.context_tokens, await session.client.context_window()
    share = f" of {window:,} ({used / window:.0%})" if window else "; the server does not say how many fit"
    session.screen.line(f"about {used:,} tokens{share}")


async def _clear(session: Session, _: str) -> None:
    session.client.message_history = []
    session.images.clear()
    session.screen.line("the conversation begins anew")


async def _help(session: Session, _: str) -> None:
    for name, (words, _function) in _COMMANDS.items():
        session.screen.line(f"{name:9} {words}")
    session.screen.line("Enter sends; Alt-Enter or a backslash at the end begins a new line")
    session.screen.line("Ctrl-C stops an answer; Ctrl-D leaves")


async def _exit(session: Session, _: str) -> None:
    session.leaves = True


def _words(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _file(command: str, name: str) -> Path:
    if not name:
        raise ValueError(f"which file? {command} FILE")
    return Path(_unquoted(name)).expanduser().absolute()


def _unquoted(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" else name


_COMMANDS: dict[str, tuple[str, Callable[[Session, str], Awaitable[None]]]] = {
    "/help": ("this list", _help),
    "/model": ("the models of the server; with a name: change to it", _model),
    "/tools": ("what the model may call", _tools),
    "/image": ("show the model an image with the next prompt", _image),
    "/undo": ("forget the last question and its answer", _undo),
    "/save": ("write the conversation to a file", _save),
    "/load": ("go on with a conversation from a file", _load),
    "/context": ("how much of the model's window is used", _context),
    "/clear": ("forget the conversation", _clear),
    "/exit": ("leave", _exit),
}
COMMANDS = tuple(_COMMANDS)
#: those that a path follows
WITH_PATHS = ("/image", "/save", "/load")

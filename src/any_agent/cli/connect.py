"""The options that say which model to ask, and how; what is left out is looked for on this machine."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from any_agent.adapters.create import create_adapter
from any_agent.agent.compaction import POLICIES
from any_agent.agent.options import AgentOptions
from any_agent.cli.embed import embedded_model
from any_agent.cli.inputs import find_named, load_tool, read_key
from any_agent.orchestration.registry import get_provider
from any_agent.orchestration.settings import ProviderAlias, resolve
from any_agent.profiles import get_profile

if TYPE_CHECKING:
    from any_agent.adapters.probe import FoundServer
    from any_agent.cli.screen import Screen
    from any_agent.orchestration.types import AgentConfig

__all__ = ("Connection", "connect_options", "connected", "settled")

_ASK_S = 5.0
_LISTED = 8

_OPTIONS = (
    click.option("-m", "--model", help="The model to ask, an alias of providers.toml, or a GGUF file."),
    click.option("--profile", metavar="NAME", help="An alias, or a kind of server: lmstudio, ollama, embedded, …"),
    click.option("--base-url", metavar="URL", help="Where the server is; else the first one that runs here."),
    click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key."),
    click.option("--system", "system_prompt", metavar="TEXT", help="What the model is told before the conversation."),
    click.option(
        "--tool", "tools", multiple=True, metavar="MODULE:FUNCTION", help="A function that the model may call."
    ),
    click.option("--temperature", type=float, metavar="NUMBER", help="How freely the model chooses its words."),
    click.option("--max-tokens", type=int, metavar="NUMBER", help="How long an answer may be."),
    click.option("--thinking/--no-thinking", default=None, help="Ask the model to think first, or not to."),
    click.option(
        "--compaction",
        type=click.Choice(["drop-oldest", "summarise"]),
        help="What to do when the conversation fills the model's window; else that is an error.",
    ),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """What a command line says of the model."""

    model: str | None = None
    profile: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    system_prompt: str | None = None
    tools: tuple[str, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    thinking: bool | None = None
    compaction: str | None = None


def connect_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command, which gets them together as `connection`."""
    names = tuple(Connection.__dataclass_fields__)

    @functools.wraps(command)
    def with_connection(**values: Any) -> Any:
        connection = Connection(**{name: values.pop(name) for name in names})
        return command(connection=connection, **values)

    for option in reversed(_OPTIONS):
        with_connection = option(with_connection)
    return with_connection


@asynccontextmanager
async def connected(
    connection: Connection, screen: Screen, *, max_turns: int = 1
) -> AsyncGenerator[AgentOptions, None]:
    """The options to talk with; an embedded model, if it comes to that, runs as long as they are used."""
    config = settled(connection)
    options = replace(_options(config), max_turns=max_turns)
    if options.base_url:
        yield options if options.model else await _with_model(options, screen)
        return
    is_file = Path(options.model).is_file()  # noqa: ASYNC240 - there is nothing yet that it could hold up
    is_embedded = config.provider == "embedded" or is_file
    server = None if is_embedded else await _running(options.model)
    if server is not None:
        choice = server.choice()
        model = options.model or (choice.id if choice else "")
        screen.line(f"asking {model} of {server.profile} at {server.base_url}")
        yield replace(options, model=model, base_url=server.base_url, protocol=server.protocol, profile=server.profile)
        return
    if not is_embedded:
        if options.model:
            file = f"there is no file {options.model!r} here, and " if options.model.endswith(".gguf") else ""
            raise ValueError(
                f"{file}no model server runs here that could have {options.model!r}: start one, or say --base-url"
            )
        screen.line("no model server runs here: asking the small model that comes with any_agent")
    async with embedded_model(options.model or None, screen) as lease:
        said = {name: value for name in ("temperature", "max_tokens") if (value := getattr(config, name)) is not None}
        yield replace(options, **{**lease.settings, **said})


def settled(connection: Connection) -> AgentConfig:
    """What the command line says, and where it is silent what the settings say; without a provider any will do."""
    given = asdict(connection)
    alias = find_named(connection.model, given.pop("profile"))
    return resolve({"name": "nobody", **given}, alias or ProviderAlias("", provider=""))


def _options(config: AgentConfig) -> AgentOptions:
    """All that can be said without asking anybody."""
    if config.provider not in ("", "embedded"):
        options = get_provider(config.provider).options(replace(config, model=config.model or "?"))
        return replace(options, model=config.model or "")
    given = {name: getattr(config, name) for name in ("temperature", "max_tokens", "thinking")}
    return AgentOptions(
        system_prompt=config.system_prompt or "",
        model=config.model or "",
        base_url=config.base_url or "",
        profile=config.provider or None,
        api_key=read_key(config.api_key_env) if config.api_key_env else "not-needed",
        tools=[load_tool(name) for name in config.tools],
        auto_execute_tools=True,
        compaction=POLICIES[config.compaction],
        **{name: value for name, value in given.items() if value is not None},
    )


async def _running(model: str) -> FoundServer | None:
    """The first server on this machine that has the model, or any model to talk with."""
    from any_agent.adapters.probe import find_servers

    usable = [server for server in await find_servers() if server.choice() is not None]
    having = (server for server in usable if model in [found.id for found in server.models])
    return next(having, usable[0] if usable else None)


async def _with_model(options: AgentOptions, screen: Screen) -> AgentOptions:
    """The options with the model that the server has, if that is clear."""
    server = await _server_at(options)
    choice = server.choice()
    if choice is None:
        raise ValueError(f"{server.base_url} has no model to talk with: load one there, or name it with --model")
    # on a server of one's own any answer is welcome; elsewhere the choice is one of money, too
    if len(server.models) > 1 and not get_profile(server.profile).local:
        names = ", ".join(model.id for model in server.models[:_LISTED])
        more = ", …" if len(server.models) > _LISTED else ""
        raise ValueError(f"{server.base_url} has {len(server.models)} models: say --model with one of {names}{more}")
    screen.line(f"asking {choice.id} at {server.base_url}")
    return replace(options, model=choice.id)


async def _server_at(options: AgentOptions) -> FoundServer:
    """What the server at an address says of its models."""
    from any_agent.adapters.probe import FoundModel, FoundServer, find_servers

    key = None if options.api_key == "not-needed" else options.api_key
    found = await find_servers([options.base_url], api_key=key, limit=_ASK_S)
    if found and found[0].models:
        return found[0]
    # asked as it will be for an answer: with the key of the profile, and with an error that says what is wrong
    async with create_adapter(replace(options, model="?")) as adapter:
        listed = await adapter.list_models()
        models = [FoundModel(model.id) for model in listed]
        return FoundServer(adapter.profile.name, adapter.base_url, options.protocol, models)

"""The command `any-agent`: finds the command that was asked for, and says in one line what went wrong.

A command's module is imported when the command is invoked, so that `--help` costs next to nothing.
"""

from __future__ import annotations

import codecs
import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import cast

from any_agent.cli.clean import in_known_characters, one_line
from any_agent.embedded.errors import EmbeddedError
from any_agent.errors import AgentSDKError

try:
    import click
except ModuleNotFoundError:
    raise SystemExit('any-agent: the command line needs some more packages: pip install "any-agent-sdk[cli]"') from None

__all__ = ("main",)

#: by what they are for; the module and the function are called like the command
_SECTIONS = {
    "Ask": {
        "run": "Ask a model, and see the answer as it comes.",
        "chat": "Talk with a model.",
    },
    "Agents with a name": {
        "spawn": "Make an agent that has a name, and remembers.",
        "task": "Ask an agent something, or all, or many things.",
        "list": "List the agents, and what they are doing.",
        "show": "Show an agent, and its last tasks.",
        "history": "Show the conversation with an agent.",
        "attach": "Read along with a task.",
        "cancel": "Stop a task.",
        "stop": "End an agent.",
        "worker": "Do the tasks of all agents.",
    },
    "Servers": {
        "models": "List the models of a server, or of all that run here.",
        "doctor": "Check what works on this machine, and say what does not.",
        "profiles": "List the names of models in your settings, and the providers.",
    },
}
_COMMANDS = [name for commands in _SECTIONS.values() for name in commands]
_EXTRA = ("click", "rich", "prompt_toolkit")
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point; it ends the program: 0 if all is well, 1 if not, 130 after Ctrl-C."""
    codecs.register_error("any-agent", in_known_characters)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # it was closed by whoever started this
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="any-agent")  # a terminal that cannot show a character shows another
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return _group.main(arguments, prog_name="any-agent", standalone_mode=False) or 0
    except click.Abort:
        return _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as problem:
        click.echo(problem.format_message())
        return 0
    except click.ClickException as problem:
        context = getattr(problem, "ctx", None)
        usage = f" (see {context.command_path} --help)" if context is not None else ""
        return _failed(f"{problem.format_message()}{usage}")
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as problem:
        if _debugs() or (problem.name or "").partition(".")[0] not in _EXTRA:
            raise
        return _failed(f'{problem.name} is not installed: pip install "any-agent-sdk[cli]"')
    except (AgentSDKError, ValueError, OSError) as problem:
        if _debugs():
            raise
        return _failed(_words(problem))


def _words(problem: Exception) -> str:
    if isinstance(problem, EmbeddedError):  # the log of llama.cpp follows
        first, _, more = str(problem).partition("\n")
        return f"{first} (--debug shows the end of its log)" if more else first
    return str(problem) or type(problem).__name__


def _failed(message: str) -> int:
    click.echo(f"any-agent: {one_line(message)}", err=True)
    return 1


def _debugs() -> bool:
    return bool(os.environ.get("ANY_AGENT_DEBUG"))


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        os.environ["ANY_AGENT_DEBUG"] = "1"


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"any-agent {version('any-agent-sdk')}")
        context.exit()


class _LazyGroup(click.Group):
    """Knows its commands by name; each is imported when it is invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"any_agent.cli.{cmd_name}")
        command = cast("click.Command", getattr(module, f"{cmd_name}_command"))
        if _DEBUG not in command.params:
            command.params.append(_DEBUG)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for section, commands in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), words) for name, words in commands.items()])


_DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show where an error came from (or set ANY_AGENT_DEBUG).",
)
_VERSION = click.Option(
    ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version."
)
_group = _LazyGroup(
    "any-agent",
    params=[_VERSION, _DEBUG],
    help="Agents on models that you run yourself.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

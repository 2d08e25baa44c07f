"""The notations in which models write calls as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from any_agent.wire.assembly import DecodeSettings

Call: TypeAlias = tuple[str, dict[str, Any]]

SETTINGS = DecodeSettings(
    tools={
        "get_weather": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        "search": {"properties": {"q": {"type": "string"}}},
    }
)
WEATHER: Call = ("get_weather", {"city": "Oslo", "days": 2})
SEARCH: Call = ("search", {"q": "fjords & <b>"})
UNDECLARED: Call = ("get_wealth", {"city": "Oslo"})


def as_json(call: Call, arguments: str = "arguments") -> str:
    return json.dumps({"name": call[0], arguments: call[1]})


def each(write: Callable[[Call], str], between: str = "\n") -> Callable[[list[Call]], str]:
    return lambda calls: between.join(map(write, calls))


def inside(opener: str, write: Callable[[Call], str], closer: str, between: str = "") -> Callable[[list[Call]], str]:
    return lambda calls: opener + between.join(map(write, calls)) + closer


def pairs(template: str) -> Callable[[Call], str]:
    return lambda call: "\n".join(template.format(key, value) for key, value in call[1].items())


def xml(call: Call) -> str:
    return f"<function={call[0]}>\n{pairs('<parameter={}>{}</parameter>')(call)}\n</function>"


def invoke(call: Call) -> str:
    return f'<invoke name="{call[0]}">\n{pairs("""<parameter name="{}">{}</parameter>""")(call)}\n</invoke>'


def dsml(call: Call) -> str:
    parameters = pairs('<｜DSML｜parameter name="{}" string="true">{}</｜DSML｜parameter>')(call)
    return f'<｜DSML｜invoke name="{call[0]}">\n{parameters}\n</｜DSML｜invoke>'


def glm(call: Call) -> str:
    arguments = pairs("<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>")(call)
    return f"<tool_call>{call[0]}\n{arguments}\n</tool_call>"


def kimi(call: Call) -> str:
    text = json.dumps(call[1])
    return f"<|tool_call_begin|>functions.{call[0]}:0<|tool_call_argument_begin|>{text}<|tool_call_end|>"


def deepseek(call: Call) -> str:
    return f"<｜tool▁call▁begin｜>{call[0]}<｜tool▁sep｜>{json.dumps(call[1])}<｜tool▁call▁end｜>"


def deepseek_v3(call: Call) -> str:
    text = json.dumps(call[1])
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call[0]}\n```json\n{text}\n```<｜tool▁call▁end｜>"


def harmony(call: Call) -> str:
    header = f"<|start|>assistant<|channel|>commentary to=functions.{call[0]} <|constrain|>json"
    return f"{header}<|message|>{json.dumps(call[1])}<|call|>"


@dataclass(frozen=True)
class Notation:
    """How calls are written. Some notations have no end of their own, and some must be the whole output."""

    write: Callable[[list[Call]], str]
    has_end: bool = True
    anywhere: bool = True


NOTATIONS: dict[str, Notation] = {
    "hermes": Notation(each(lambda call: f"<tool_call>\n{as_json(call)}\n</tool_call>")),
    "hermes, glued": Notation(each(lambda call: f"<tool_call>{as_json(call)}</tool_call>", "")),
    "qwen coder": Notation(each(lambda call: f"<tool_call>\n{xml(call)}\n</tool_call>")),
    "qwen coder without its first tag": Notation(each(lambda call: f"{xml(call)}\n</tool_call>")),
    "function": Notation(each(xml)),
    "llama function": Notation(each(lambda call: f"<function={call[0]}>{json.dumps(call[1])}</function>")),
    "glm": Notation(each(glm)),
    "minimax": Notation(inside("<minimax:tool_call>\n", invoke, "\n</minimax:tool_call>", "\n")),
    "minimax m1": Notation(inside("<tool_calls>\n", as_json, "\n</tool_calls>", "\n")),
    "function calls": Notation(inside("<function_calls>\n", invoke, "\n</function_calls>", "\n")),
    "deepseek dsml": Notation(inside("<｜DSML｜function_calls>\n", dsml, "\n</｜DSML｜function_calls>", "\n")),
    "deepseek v3.1": Notation(inside("<｜tool▁calls▁begin｜>", deepseek, "<｜tool▁calls▁end｜>")),
    "deepseek v3": Notation(inside("<｜tool▁calls▁begin｜>", deepseek_v3, "<｜tool▁calls▁end｜>", "\n")),
    "kimi": Notation(inside("<|tool_calls_section_begin|>", kimi, "<|tool_calls_section_end|>")),
    "kimi without its section": Notation(each(kimi, "")),
    "nemotron": Notation(inside("<TOOLCALL>[", as_json, "]</TOOLCALL>", ", ")),
    "phi": Notation(inside("<|tool_call|>[", as_json, "]<|/tool_call|>", ", ")),
    "cohere": Notation(inside("<|START_ACTION|>[", lambda call: as_json(call, "parameters"), "]<|END_ACTION|>", ", ")),
    "lm studio": Notation(each(lambda call: f"[TOOL_REQUEST]{as_json(call)}[END_TOOL_REQUEST]")),
    "gemma": Notation(each(lambda call: f"<|tool_call>call:{call[0]}{json.dumps(call[1])}<tool_call|>", "")),
    "mistral": Notation(inside("[TOOL_CALLS] [", as_json, "]", ", "), has_end=False),
    "mistral v11": Notation(each(lambda call: f"[TOOL_CALLS]{call[0]}[ARGS]{json.dumps(call[1])}", ""), has_end=False),
    "python tag": Notation(inside("<|python_tag|>", lambda call: as_json(call, "parameters"), "", "; "), has_end=False),
    "bare JSON": Notation(each(lambda call: as_json(call, "parameters")), has_end=False, anywhere=False),
    "bare JSON, semicolons": Notation(
        each(lambda call: as_json(call, "parameters"), "; "), has_end=False, anywhere=False
    ),
    "bare array": Notation(inside("[", as_json, "]", ", "), has_end=False, anywhere=False),
    "fenced JSON": Notation(inside("```json\n[", as_json, "]\n```", ", "), has_end=False, anywhere=False),
    "harmony": Notation(each(harmony, ""), has_end=False, anywhere=False),
}

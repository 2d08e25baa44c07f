"""The fixtures that the list of quirks names and that are in no folder: their bodies rebuilt from their rows.

Where a row is ambiguous, `also` names what may come out as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.failures import classify_body, retry_after

from .support import SETTINGS, Told, call, chat, chunk, decode, done, merged, named, ndjson, pieces, sse, told

OSLO = ("get_weather", {"city": "Oslo"})
ARGUMENTS = '{"city": "Oslo"}'
PART = chunk({"role": "assistant", "content": "Part"})


@dataclass
class Case:
    """One body, and what must come out of it; calls are (id or `None` for any, name, input)."""

    name: str
    rows: str
    body: bytes
    text: str = ""
    thinking: str = ""
    calls: list[tuple[str | None, str, dict[str, Any]]] = field(
        default_factory=list[tuple[str | None, str, dict[str, Any]]]
    )
    tool_errors: int = 0
    stop_reason: str = "end_turn"
    usage: dict[str, int] | None = None
    error: str | None = None
    says: str = ""
    protocol: str = "openai"
    settings: DecodeSettings = SETTINGS
    also: tuple[dict[str, Any], ...] = ()


def weather(id: str | None = "c1", city: str = "Oslo") -> tuple[str | None, str, dict[str, Any]]:
    return (id, "get_weather", {"city": city})


def an_start(**usage: int) -> dict[str, Any]:
    counts = usage or {"input_tokens": 25, "output_tokens": 1}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": counts}
    return {"type": "message_start", "message": message}


def an_block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def an_text(text: str, index: int = 0) -> list[dict[str, Any]]:
    return an_block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def an_end(reason: str | None = "end_turn", sequence: str | None = None) -> list[dict[str, Any]]:
    delta = {"stop_sequence": sequence} | ({} if reason is None else {"stop_reason": reason})
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15}}, {"type": "message_stop"}]


AN_USAGE = {"input": 25, "output": 15}


def an_json(*parts: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": part} for part in parts]


def an_tool(**more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "get_weather", **more}


def re_end(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 12, "output_tokens": 6, "total_tokens": 18}
    response = {"id": "resp_1", "status": "completed", "output": list(output), "usage": usage, "error": None, **more}
    return {"type": "response.completed", "response": response}


RE_USAGE = {"input": 12, "output": 6}
RE_MESSAGE = {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
RE_CALL = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": ARGUMENTS}
RE_CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
RE_DELTAS = [
    {"type": "response.output_item.added", "output_index": 0, "item": {**RE_MESSAGE, "content": []}},
    {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "delta": "Hel"},
    {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "delta": "lo"},
]

OL_END: dict[str, Any] = {
    "model": "qwen3:8b",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 26,
    "eval_count": 9,
}
OL_USAGE = {"input": 26, "output": 9}


def ol(content: str = "", **message: Any) -> dict[str, Any]:
    return {"model": "qwen3:8b", "message": {"role": "assistant", "content": content, **message}, "done": False}


OL_CALL = {"id": "call_a", "function": {"index": 0, "name": "get_weather", "arguments": {"city": "Oslo"}}}


def arguments(text: str) -> bytes:
    """A stream with one call whose arguments are `text`."""
    return chat(call("", "get_weather", "c1"), call(text), finish="tool_calls")


def content(*texts: str, finish: str = "stop") -> bytes:
    return chat({"role": "assistant", "content": ""}, *({"content": text} for text in texts), finish=finish)


FRAMING = [
    Case(
        "sse_deepseek_keep_alive",
        "1 100",
        b": keep-alive\n\n: keep-alive\n\n"
        + sse(
            {**chunk({"role": "assistant", "content": "Hel"}), "usage": None},
            {
                **chunk({"content": "lo"}, "stop"),
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            },
        ),
        text="Hello",
        usage={"input": 10, "output": 5},
    ),
    Case(
        "sse_llamacpp_bare_colon_ping",
        "1 24",
        sse(chunk({"role": "assistant", "content": None}), done=False) + b":\n\n:\n\n" + chat({"content": "Hello"}),
        text="Hello",
    ),
    Case(
        "err_tabbyapi_generator",
        "3 107",
        sse(
            PART, {"error": {"message": "Chat completion aborted. Please check the server console.", "trace": None}}
        ).replace(b"\n", b"\r\n"),
        text="Part",
        error="server_error",
        stop_reason="error",
        says="Chat completion aborted",
        also=({"error": "aborted"},),
    ),
    Case(
        "sse_multiline_data",
        "5",
        b'data: {"choices": [\ndata: {"index": 0, "delta": {"content":\ndata: "Hello"}}]}\n\n' + chat(),
        text="Hello",
    ),
    Case(
        "sse_ascii_escaped_surrogates",
        "7",
        sse(r'{"choices":[{"index":0,"delta":{"content":"\ud83d\ude42 \u00e9"},"finish_reason":"stop"}]}'),
        text="🙂 é",
    ),
    Case("sse_empty_data_and_empty_object", "9", b"data:\n\ndata: {}\n\n" + chat({"content": "Hello"}), text="Hello"),
    Case(
        "sse_missing_done_with_finish",
        "11",
        sse(chunk({"content": "Hello"}), chunk({}, "stop"), done=False),
        text="Hello",
    ),
    Case(
        "sse_eof_no_finish_no_done",
        "13",
        sse(PART, done=False),
        text="Part",
        error="stream_truncated",
        stop_reason="error",
    ),
    Case(
        "sse_one_bad_json_event",
        "14",
        sse(PART, '{"choices":[{"index":0,"delta":{"content":"B"', chunk({"content": "C"}, "stop")),
        text="Part",
        error="invalid_response",
        stop_reason="error",
    ),
    Case(
        "nonsse_json_error_status_200",
        "16",
        b'{"error":{"code":502,"message":"Provider returned error","metadata":{"provider_name":"x"}},"user_id":"u"}',
        error="server_error",
        stop_reason="error",
        says="Provider returned error",
    ),
    Case(
        "ct_azure_prompt_filter_first",
        "20 99",
        sse(
            {"choices": [], "id": "", "model": "", "prompt_filter_results": [{"prompt_index": 0}], "usage": None},
            chunk({"role": "assistant", "content": "Hello"}),
            chunk({}, "stop"),
            {"choices": [], "id": "x", "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}},
        ),
        text="Hello",
        usage={"input": 9, "output": 2},
    ),
]

CALLS = [
    Case(
        "openai_parallel_tools_baseline",
        "28",
        chat(
            {"role": "assistant", "content": None, "tool_calls": call("", "get_weather", "c1")["tool_calls"]},
            call('{"city":'),
            call(' "Oslo"}'),
            call("", "search", "c2", index=1),
            call('{"q": "x"}', index=1),
            finish="tool_calls",
        ),
        calls=[weather(), ("c2", "search", {"q": "x"})],
        stop_reason="tool_use",
    ),
    Case(
        "tc_index_null",
        "30",
        chat(
            {"tool_calls": [{"index": None, "id": "c1", "function": {"name": "get_weather", "arguments": ARGUMENTS}}]},
            {"tool_calls": [{"index": None, "id": "c2", "function": {"name": "get_weather", "arguments": '{"city":'}}]},
            {"tool_calls": [{"index": None, "function": {"arguments": ' "Rome"}'}}]},
            finish="tool_calls",
        ),
        calls=[weather(), weather("c2", "Rome")],
        stop_reason="tool_use",
    ),
    Case(
        "tc_index_starts_at_one",
        "31",
        chat(call("", "get_weather", "c1", index=1), call(ARGUMENTS, index=1), call("{}", "search", "c2", index=3)),
        calls=[weather(), ("c2", "search", {})],
        stop_reason="tool_use",
    ),
    Case(
        "tc_sglang_second_call_no_id",
        "32 42",
        chat(
            call("", "get_weather", "c1"),
            {"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": ARGUMENTS}}]},
            {"tool_calls": [{"index": 1, "id": None, "function": {"name": "search", "arguments": ""}}]},
            {"tool_calls": [{"index": 1, "id": None, "function": {"name": None, "arguments": '{"q": "x"}'}}]},
            finish="tool_calls",
        ),
        calls=[weather(), (None, "search", {"q": "x"})],
        stop_reason="tool_use",
    ),
    Case(
        "tc_dashscope_empty_id_later",
        "33",
        chat(
            call('{"city": ', "get_weather", "c1"),
            {"tool_calls": [{"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": '"Os'}}]},
            {"tool_calls": [{"index": 0, "id": "", "type": "function", "function": {"arguments": 'lo"}'}}]},
            finish="tool_calls",
        ),
        calls=[weather()],
        stop_reason="tool_use",
    ),
    Case(
        "tc_tgi_repeat_id_null_name_finish_stop",
        "42 65 70",
        sse(
            chunk(call("", "get_weather", "c1")),
            chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": None, "arguments": '{"city": "O'}}]}),
            chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": None, "arguments": 'slo"}'}}]}, "stop"),
        ),
        calls=[weather()],
        stop_reason="tool_use",
    ),
    Case(
        "tc_mistral_no_type_no_index_in_finish_chunk",
        "30 43 70",
        sse(
            chunk({"role": "assistant", "content": ""}),
            {
                **chunk(
                    {
                        "content": "",
                        "tool_calls": [
                            {"id": "gSIMJiOkT", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
                        ],
                    },
                    "tool_calls",
                ),
                "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
            },
        ),
        calls=[weather("gSIMJiOkT")],
        stop_reason="tool_use",
        usage={"input": 9, "output": 2},
    ),
    Case(
        "tc_xai_whole_chunk_missing_finish_keys",
        "43 68 106",
        sse(
            {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm."}}]},
            {"choices": [{"index": 0, "delta": call(ARGUMENTS, "get_weather", "c1")}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 100,
                    "completion_tokens": 10,
                    "total_tokens": 130,
                    "completion_tokens_details": {"reasoning_tokens": 20},
                },
            },
        ),
        thinking="Hm.",
        calls=[weather()],
        stop_reason="tool_use",
        usage={"input": 100, "output": 30},
    ),
    Case(
        "tc_args_null_then_real",
        "47",
        chat(
            {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": None}}]},
            call('{"city": '),
            call('"Oslo"}'),
            finish="tool_calls",
        ),
        calls=[weather()],
        stop_reason="tool_use",
    ),
    Case(
        "tc_args_braces_prefix",
        "50",
        chat(call("{}", "get_weather", "c1"), call('{"city": '), call('"Oslo"}'), finish="tool_calls"),
        calls=[weather()],
        stop_reason="tool_use",
    ),
    Case(
        "tc_args_two_objects_one_call",
        "51",
        arguments('{"city": "Oslo"}{"city": "Rome"}'),
        calls=[weather(), weather(None, "Rome")],
        stop_reason="tool_use",
        also=({"calls": [], "tool_errors": 1},),
    ),
    Case(
        "tc_args_single_quotes_python", "53", arguments("{'city': 'Oslo'}"), calls=[weather()], stop_reason="tool_use"
    ),
    Case("tc_args_trailing_comma", "54", arguments('{"city": "Oslo",}'), calls=[weather()], stop_reason="tool_use"),
    Case(
        "tc_args_fenced", "55", arguments('```json\n{"city": "Oslo"}\n```'), calls=[weather()], stop_reason="tool_use"
    ),
    Case(
        "tc_args_garbage_one_of_two",
        "57",
        chat(
            call("city is Oslo", "get_weather", "c0"),
            call(ARGUMENTS, "get_weather", "c1", index=1),
            finish="tool_calls",
        ),
        calls=[weather()],
        tool_errors=1,
        stop_reason="tool_use",
    ),
    Case(
        "tc_truncated_length",
        "58",
        chat(call("", "read_file", "c1"), call('{"path": "a.md", "content": "# Ti'), finish="length"),
        tool_errors=1,
        stop_reason="max_tokens",
    ),
    Case(
        "tc_phantom_empty_call",
        "61",
        chat(
            call(ARGUMENTS, "get_weather", "c1"),
            {"tool_calls": [{"index": 1, "id": "", "type": "function"}]},
            {"tool_calls": [{"index": 2, "id": "", "type": "function", "function": {"name": "", "arguments": ""}}]},
            finish="tool_calls",
        ),
        calls=[weather()],
        stop_reason="tool_use",
    ),
    Case(
        "tc_kimi_empty_deltas",
        "61",
        chat({"tool_calls": [{"index": 0}]}, {"tool_calls": [{"index": 0}]}, {"content": "Hello"}, finish="tool_calls"),
        text="Hello",
    ),
    Case(
        "tc_harmony_name_contaminated",
        "62",
        chat(call(ARGUMENTS, "get_weather<|channel|>commentary", "c1"), finish="tool_calls"),
        calls=[weather()],
        stop_reason="tool_use",
    ),
    Case(
        "tc_think_block_then_tool",
        "83 93",
        chat({"content": "<think>\n\n</think>\n\n"}, call(ARGUMENTS, "get_weather", "c1"), finish="tool_calls"),
        calls=[weather()],
        stop_reason="tool_use",
        also=({"thinking": "\n\n"},),
    ),
]

ENDINGS = [
    Case("finish_eos_token", "73", content("Hello", finish="eos_token"), text="Hello"),
    Case(
        "finish_camelcase",
        "73",
        sse({"choices": [{"index": 0, "delta": {"content": "Hello"}, "finishReason": "STOP"}]}),
        text="Hello",
    ),
    Case(
        "err_openrouter_finish_error",
        "74 107",
        sse(
            PART,
            {**chunk({"content": ""}, "error"), "error": {"code": "server_error", "message": "Provider disconnected"}},
        ),
        text="Part",
        error="server_error",
        stop_reason="error",
        says="Provider disconnected",
    ),
    Case(
        "err_openrouter_native_network_error",
        "74",
        sse(PART, chunk({"content": ""}, "stop", native_finish_reason="network_error")),
        text="Part",
        error="server_error",
        stop_reason="error",
    ),
    Case(
        "finish_stop_token_int_vllm",
        "75",
        sse(chunk({"content": "Hello"}), chunk({}, "stop", stop_reason=151645)),
        text="Hello",
    ),
]

WORDS = [
    Case(
        "rs_reasoning_content_deepseek",
        "78 100",
        sse(
            chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
            chunk({"content": None, "reasoning_content": "Let me "}),
            chunk({"content": None, "reasoning_content": "see."}),
            chunk({"content": "It is 4.", "reasoning_content": None}),
            {
                **chunk({"content": "", "reasoning_content": None}, "stop"),
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 7,
                    "completion_tokens_details": {"reasoning_tokens": 3},
                },
            },
        ),
        text="It is 4.",
        thinking="Let me see.",
        usage={"input": 9, "output": 7},
    ),
    Case(
        "rs_delta_thinking_field",
        "79",
        chat({"thinking_content": "Let me "}, {"thinking_content": "see."}, {"content": "Hello"}),
        text="Hello",
        thinking="Let me see.",
    ),
    Case(
        "rs_both_fields_duplicate",
        "81",
        chat(
            {"reasoning": "Let me ", "reasoning_content": "Let me "},
            {"reasoning": "see.", "reasoning_content": "see."},
            {"content": "Hello"},
        ),
        text="Hello",
        thinking="Let me see.",
    ),
    Case("rs_reasoning_only_empty_content", "82", chat({"content": "", "reasoning_content": "Hm."}), thinking="Hm."),
    Case(
        "rs_think_missing_open",
        "84",
        content("Let me see.", "</th", "ink>\n\n", "It is 4."),
        text="It is 4.",
        thinking="Let me see.",
        settings=replace(SETTINGS, think_open=True),
    ),
    Case(
        "rs_think_literal_later_in_text",
        "86",
        content("Put it between <think>", " and </think> tags."),
        text="Put it between <think> and </think> tags.",
    ),
    Case(
        "ct_cumulative_content", "91", content("Hello", "Hello wor", "Hello world", "Hello world!"), text="Hello world!"
    ),
    Case("ct_repeated_prefix_not_cumulative", "91", content("ha", "ha", "haha", "!"), text="hahahaha!"),
    Case(
        "ct_message_only_single_event",
        "92",
        sse({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}),
        text="Hello",
    ),
    Case(
        "ct_delta_plus_cumulative_message",
        "92 101",
        sse(
            *(
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"content": text},
                            "message": {"content": so_far},
                            "finish_reason": finish,
                        }
                    ],
                    "usage": {"prompt_tokens": 5, "completion_tokens": count, "total_tokens": 5 + count},
                }
                for text, so_far, finish, count in (
                    ("Hel", "Hel", None, 1),
                    ("lo", "Hello", None, 2),
                    ("", "Hello", "stop", 2),
                )
            )
        ),
        text="Hello",
        usage={"input": 5, "output": 2},
    ),
    Case(
        "ct_logprobs",
        "94",
        sse(
            chunk({"content": "Hello"}, logprobs={"content": [{"token": "Hello", "logprob": -0.1}]}),
            chunk({}, "stop", logprobs=None),
        ),
        text="Hello",
    ),
]

TEXT_CALLS = [
    Case(
        "tx_hermes_split",
        "97",
        content(
            "Let me look.\n",
            "<tool",
            '_call>\n{"name": "get_',
            'weather", "arguments": {"city": "Os',
            'lo"}}\n</tool_',
            "call>",
        ),
        text="Let me look.\n",
        calls=[weather(None)],
        stop_reason="tool_use",
        also=({"text": "Let me look."},),
    ),
    Case(
        "tx_hermes_two",
        "97",
        content(
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n',
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
        ),
        calls=[weather(None), weather(None, "Rome")],
        stop_reason="tool_use",
    ),
    Case(
        "tx_literal_example_undeclared",
        "98",
        content('Write <tool_call>{"name": "my_tool", "arguments": {}}</tool_call> like this.'),
        text='Write <tool_call>{"name": "my_tool", "arguments": {}}</tool_call> like this.',
    ),
    Case(
        "tx_kimi_in_reasoning",
        "97",
        chat(
            {"reasoning_content": "I will look. "},
            {"reasoning_content": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"},
            {"reasoning_content": '<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|>'},
            {"reasoning_content": "<|tool_calls_section_end|>"},
        ),
        thinking="I will look. ",
        calls=[weather(None)],
        stop_reason="tool_use",
        also=({"thinking": "I will look."},),
    ),
]

USAGE_AND_ERRORS = [
    Case(
        "us_every_chunk_nulls_databricks",
        "101",
        sse(
            {
                **chunk({"content": "Hel"}),
                "usage": {"prompt_tokens": 9, "completion_tokens": None, "total_tokens": None},
            },
            {**chunk({"content": "lo"}), "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}},
            {**chunk({}, "stop"), "usage": {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}},
        ),
        text="Hello",
        usage={"input": 9, "output": 2},
    ),
    Case(
        "us_null_everywhere",
        "103",
        sse(
            {**chunk({"content": "Hello"}), "usage": None},
            {**chunk({}, "stop"), "usage": None},
            {"choices": [], "usage": None},
        ),
        text="Hello",
    ),
    Case(
        "err_vllm_legacy_flat",
        "107",
        sse(PART, {"object": "error", "message": "bad request", "type": "BadRequestError", "param": None, "code": 400}),
        text="Part",
        error="invalid_request",
        stop_reason="error",
        says="bad request",
    ),
    Case(
        "err_groq_tool_use_failed",
        "109",
        sse(chunk({"role": "assistant", "content": ""}), done=False)
        + b'event: error\ndata: {"error":{"message":"Failed to call a function. Please adjust your prompt.","type":'
        b'"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=get_weather>","status_code":400}}\n\n',
        error="tool_use_failed",
        stop_reason="error",
        says="Failed to call a function",
    ),
]

OLLAMA = [
    Case(
        "ol_tool_call_id_index",
        "123 124",
        ndjson(ol(tool_calls=[OL_CALL]), OL_END),
        calls=[weather("call_a")],
        stop_reason="tool_use",
        usage=OL_USAGE,
        protocol="ollama",
    ),
    Case(
        "ol_error_parse_tool_call",
        "127 128",
        ndjson(ol("Part"), {"error": "error parsing tool call: raw='{\"city\": ', err=unexpected end of JSON input"}),
        text="Part",
        error="tool_use_failed",
        stop_reason="error",
        says="error parsing tool call",
        protocol="ollama",
    ),
    Case(
        "ol_error_odd_key",
        "128",
        ndjson({"error parsing tool call: raw='{\"city\": ', err=unexpected end of JSON input": None}),
        error="tool_use_failed",
        stop_reason="error",
        says="error parsing tool call",
        protocol="ollama",
    ),
    Case(
        "ol_done_length_with_tools",
        "129",
        ndjson(ol(tool_calls=[OL_CALL]), {**OL_END, "done_reason": "length"}),
        calls=[weather("call_a")],
        stop_reason="max_tokens",
        usage=OL_USAGE,
        protocol="ollama",
    ),
    Case(
        "ol_no_trailing_newline",
        "130",
        ndjson(ol("Hello"), OL_END).rstrip(),
        text="Hello",
        usage=OL_USAGE,
        protocol="ollama",
    ),
    Case(
        "ol_crlf_and_blank_lines",
        "130",
        b"\r\n" + ndjson(ol("Hel"), ol("lo"), OL_END).replace(b"\n", b"\r\n\r\n"),
        text="Hello",
        usage=OL_USAGE,
        protocol="ollama",
    ),
    Case(
        "ol_usage_missing_prompt_eval",
        "131",
        ndjson(ol("Hello"), {key: value for key, value in OL_END.items() if key != "prompt_eval_count"}),
        text="Hello",
        usage={"input": 0, "output": 9},
        protocol="ollama",
        also=({"usage": {"output": 9}},),
    ),
]

ANTHROPIC = [
    Case(
        "an_max_tokens_truncated_tool",
        "58",
        named(an_start(), *an_block(0, an_tool(input={}), *an_json("", '{"city": "Os'))[:-1], *an_end("max_tokens")),
        tool_errors=1,
        stop_reason="max_tokens",
        usage=AN_USAGE,
    ),
    Case(
        "an_refusal_no_content",
        "77",
        named(an_start(), *an_end("refusal")),
        stop_reason="refusal",
        usage=AN_USAGE,
    ),
    Case(
        "an_tool_no_args",
        "135",
        named(an_start(), *an_block(0, an_tool(input={}), *an_json("")), *an_end("tool_use")),
        calls=[("toolu_1", "get_weather", {})],
        stop_reason="tool_use",
        usage=AN_USAGE,
    ),
    Case(
        "an_tool_input_in_start_only",
        "136",
        named(an_start(), *an_block(0, an_tool(input={"city": "Oslo"}, caller={"type": "code"})), *an_end("tool_use")),
        calls=[weather("toolu_1")],
        stop_reason="tool_use",
        usage=AN_USAGE,
    ),
    Case(
        "an_llamacpp_tool_without_input_key",
        "137 138 140",
        named(
            an_start(),
            *an_block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "Hm."})[:-1],
            *an_text("Look.", 1)[:-1],
            *an_block(2, an_tool(), *an_json('{"city":', ' "Oslo"}'))[:-1],
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": ""}},
            *({"type": "content_block_stop", "index": index} for index in range(3)),
            *an_end("tool_use"),
        ),
        text="Look.",
        thinking="Hm.",
        calls=[weather("toolu_1")],
        stop_reason="tool_use",
        usage=AN_USAGE,
    ),
    Case(
        "an_thinking_signature",
        "139",
        named(
            an_start(),
            *an_block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hm."},
                {"type": "signature_delta", "signature": "c2ln"},
            ),
            *an_text("Hello", 1),
            *an_end(),
        ),
        text="Hello",
        thinking="Hm.",
        usage=AN_USAGE,
    ),
    Case(
        "an_server_tool_use_web_search",
        "142",
        named(
            an_start(),
            *an_block(
                0,
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                *an_json('{"q": 1}'),
            ),
            *an_block(1, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "x"}]}),
            *an_text("Hello", 2),
            *an_end(),
        ),
        text="Hello",
        usage=AN_USAGE,
    ),
    Case(
        "an_usage_cache_fields",
        "145",
        named(
            an_start(input_tokens=25, cache_creation_input_tokens=100, cache_read_input_tokens=50, output_tokens=1),
            *an_text("Hello"),
            *an_end(),
        ),
        text="Hello",
        usage=AN_USAGE,
    ),
    Case(
        "an_stop_sequence",
        "146",
        named(an_start(), *an_text("one"), *an_end("stop_sequence", "END")),
        text="one",
        stop_reason="stop_sequence",
        usage=AN_USAGE,
    ),
    Case(
        "an_ollama_stop_reason_omitted",
        "146",
        named(an_start(), *an_text("Hello"), *an_end(None)),
        text="Hello",
        usage=AN_USAGE,
    ),
]

RESPONSES = [
    Case("re_text", "150", named(RE_CREATED, *RE_DELTAS, re_end(RE_MESSAGE)), text="Hello", usage=RE_USAGE),
    Case(
        "re_data_only_no_event_lines_done",
        "149",
        sse(RE_CREATED, *RE_DELTAS, re_end(RE_MESSAGE)),
        text="Hello",
        usage=RE_USAGE,
    ),
    Case(
        "re_args_only_in_item_done",
        "151",
        named(
            RE_CREATED,
            {"type": "response.output_item.added", "output_index": 0, "item": {**RE_CALL, "arguments": ""}},
            {"type": "response.output_item.done", "output_index": 0, "item": RE_CALL},
            re_end(RE_CALL),
        ),
        calls=[weather()],
        stop_reason="tool_use",
        usage=RE_USAGE,
    ),
    Case(
        "re_output_only_in_completed",
        "152",
        named(RE_CREATED, re_end(RE_MESSAGE, RE_CALL)),
        text="Hello",
        calls=[weather()],
        stop_reason="tool_use",
        usage=RE_USAGE,
    ),
    Case(
        "re_llamacpp_completed_though_length",
        "155",
        named(RE_CREATED, *RE_DELTAS, re_end(RE_MESSAGE)),
        text="Hello",
        stop_reason="max_tokens",
        usage=RE_USAGE,
        settings=replace(SETTINGS, max_tokens=6),
        also=({"stop_reason": "end_turn"},),
    ),
    Case(
        "re_error_flat",
        "156",
        named(
            RE_CREATED,
            *RE_DELTAS,
            {"type": "error", "code": "server_error", "message": "Something broke", "param": None},
        ),
        text="Hello",
        error="server_error",
        stop_reason="error",
        says="Something broke",
    ),
    Case(
        "re_unknown_events_ignored",
        "158",
        named(
            RE_CREATED,
            {"type": "response.web_search_call.in_progress", "output_index": 5, "item_id": "ws_1"},
            {"type": "keepalive", "sequence_number": 3},
            *RE_DELTAS,
            {"type": "response.brand_new", "delta": "x"},
            re_end(RE_MESSAGE),
        ),
        text="Hello",
        usage=RE_USAGE,
    ),
]

CASES = [
    *(FRAMING + CALLS + ENDINGS + WORDS + TEXT_CALLS + USAGE_AND_ERRORS + OLLAMA),
    *(replace(case, protocol="anthropic") for case in ANTHROPIC),
    *(replace(case, protocol="responses") for case in RESPONSES),
]


def facts(found: Told) -> dict[str, Any]:
    names = ("text", "thinking", "calls", "tool_errors", "stop_reason", "usage", "error")
    return {name: getattr(found, name) for name in names}


def expected(case: Case, **other: Any) -> dict[str, Any]:
    names = ("text", "thinking", "tool_errors", "stop_reason", "usage", "error")
    wanted = {**{name: getattr(case, name) for name in names}, "calls": case.calls, **other}
    return {**wanted, "calls": [(name, given) for _, name, given in wanted["calls"]]}


def rows_of(cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters, each marked with the numbers of its rows."""
    return [pytest.param(case, id=case.name, marks=pytest.mark.row(*case.rows.split())) for case in cases]


@pytest.mark.parametrize("case", rows_of(CASES))
def test_a_body_gives_what_its_row_demands_however_it_is_cut(case: Case) -> None:
    whole = decode(case.protocol, case.body, case.settings)
    found = told(case.protocol, case.body, case.settings)
    readings = [expected(case, **other) for other in ({}, *case.also)]
    assert facts(found) == next((reading for reading in readings if reading == facts(found)), readings[0])
    assert case.says in found.message
    if found.calls == readings[0]["calls"]:
        known = [(wanted, given) for (wanted, _, _), given in zip(case.calls, found.ids, strict=True) if wanted]
        assert [wanted for wanted, _ in known] == [given for _, given in known]
    for size in (1, 2, 3, 17):
        assert merged(decode(case.protocol, pieces(case.body, size), case.settings)) == merged(whole)


def test_the_names_are_those_of_the_list() -> None:
    names = [case.name for case in CASES] + [error.name for error in ERRORS]
    assert len(set(names)) == len(names) == 93


def test_azure_gives_the_id_and_model_of_its_answer() -> None:
    (case,) = (case for case in CASES if case.name == "ct_azure_prompt_filter_first")
    answer = done(decode(case.protocol, case.body))
    assert (answer.id, answer.model) == ("chatcmpl-1", "m")


@pytest.mark.row("reasoning_only", "tc_none")
@pytest.mark.parametrize(
    ("name", "notice"),
    [("rs_reasoning_only_empty_content", "empty_response"), ("tc_kimi_empty_deltas", "lost_tool_call")],
)
def test_what_is_odd_is_flagged(name: str, notice: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    assert notice in told(case.protocol, case.body).notices


@dataclass
class Refused:
    """A reply with a status that is no success; a body that is no text is JSON."""

    name: str
    rows: str
    status: int
    body: Any
    kinds: tuple[str, ...]
    says: str
    again: bool = False


def page(title: str) -> str:
    return (
        f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>"
    )


def complaint(message: str, type: str, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


ERRORS = [
    Refused("html_502_gateway", "17", 502, page("502 Bad Gateway"), ("server_error",), "502 Bad Gateway", again=True),
    Refused(
        "http_413_nginx_html",
        "17",
        413,
        page("413 Request Entity Too Large"),
        ("context_length", "invalid_request"),
        "413 Request Entity Too Large",
    ),
    Refused(
        "http_429_retry_after",
        "111",
        429,
        complaint("Rate limit reached on tokens per minute (TPM).", "tokens", "rate_limit_exceeded"),
        ("rate_limit",),
        "Rate limit reached",
        again=True,
    ),
    Refused(
        "http_402_openrouter",
        "111",
        402,
        {"error": {"code": 402, "message": "Insufficient credits. Add more using https://openrouter.ai/credits"}},
        ("quota",),
        "Insufficient credits",
    ),
    Refused("http_404_ollama_native", "113", 404, {"error": "model 'qwen9' not found"}, ("model_not_found",), "qwen9"),
    Refused(
        "http_404_ollama_pull_hint_v1",
        "113",
        404,
        complaint('model "qwen9" not found, try pulling it first', "api_error"),
        ("model_not_found",),
        "try pulling it first",
    ),
    Refused(
        "http_401_ollama_cloud_signin",
        "114",
        401,
        {"error": "unauthorized", "signin_url": "https://ollama.com/connect?name=box"},
        ("auth",),
        "unauthorized",
    ),
    Refused(
        "http_400_ctx_sglang_flat",
        "117 121",
        400,
        {
            "object": "error",
            "message": "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        ("context_length",),
        "longer than the model's context",
    ),
    Refused(
        "http_400_ctx_lmstudio",
        "118 121",
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
        ("context_length",),
        "greater than the context length",
    ),
    Refused(
        "http_400_ctx_xai",
        "118 121",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        ("context_length",),
        "maximum prompt length",
    ),
    Refused(
        "http_400_ctx_vllm",
        "121",
        400,
        complaint(
            "This model's maximum context length is 4096 tokens. Please reduce the length.", "BadRequestError", 400
        ),
        ("context_length",),
        "maximum context length",
    ),
    Refused(
        "http_500_jinja_system_first",
        "160",
        500,
        complaint(
            "\n------------\nError: Jinja Exception: System message must be at the beginning.", "server_error", 500
        ),
        ("invalid_request",),
        "System message must be at the beginning",
    ),
    Refused(
        "http_400_ollama_invalid_history_args",
        "162",
        400,
        complaint("invalid tool call arguments", "invalid_request_error"),
        ("invalid_request",),
        "invalid tool call arguments",
    ),
    Refused(
        "http_400_deepseek_reasoning_missing",
        "163",
        400,
        complaint(
            "The reasoning_content in the thinking mode must be passed back to the API.", "invalid_request_error"
        ),
        ("invalid_request",),
        "reasoning_content",
    ),
]


@pytest.mark.parametrize("error", rows_of(ERRORS))
def test_a_refusal_has_its_kind_and_its_words(error: Refused) -> None:
    body = error.body if isinstance(error.body, str) else json.dumps(error.body)
    found = classify_body(error.status, body.encode())
    assert found.kind in error.kinds
    assert error.says in found.message
    assert found.retryable is error.again
    assert found.status_code == error.status


@pytest.mark.row("http_429")
def test_the_wait_of_a_refusal_is_read() -> None:
    assert retry_after({"retry-after": "7", "x-ratelimit-reset-tokens": "1m0s"}, 0.0) == 7.0
    assert classify_body(429, json.dumps({"error": {"message": "x"}}).encode(), wait=7.0).retry_after == 7.0

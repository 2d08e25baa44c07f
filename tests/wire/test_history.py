"""Conversations made acceptable: nothing unanswered, nothing orphaned, nothing empty, and the order servers want."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest

from any_agent.profiles import get_profile
from any_agent.types import (
    ImageBlock,
    Message,
    Profile,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from any_agent.wire.history import MessageLike, parse_message, prepare, result_text

from .support import seconds

GENERIC = Profile("generic")
ALTERNATING = Profile("alternating", alternate_roles=True, bridge_turns=True)
IMAGE = ImageBlock.from_bytes(b"GIF89a")
HI = Message("user", "hi")


def asks(*ids: str, text: str = "") -> Message:
    """The model calls `search` under each of the ids."""
    words = [TextBlock(text)] if text else []
    return Message("assistant", [*words, *(ToolUseBlock(identifier, "search", {}) for identifier in ids)])


def results(*ids: str) -> Message:
    return Message("tool", [ToolResultBlock(identifier, f"result of {identifier}") for identifier in ids])


def ready(*messages: MessageLike, profile: Profile = GENERIC) -> list[Message]:
    return prepare(messages, profile).messages


def roles(*messages: MessageLike, profile: Profile = GENERIC) -> list[str]:
    return [message.role for message in ready(*messages, profile=profile)]


def answers(messages: list[Message]) -> list[tuple[str, bool]]:
    """The ids that are answered, and whether with an error."""
    blocks = [block for message in messages for block in message.content]
    return [(block.tool_use_id, block.is_error) for block in blocks if isinstance(block, ToolResultBlock)]


def test_a_sound_conversation_stays_as_it_is() -> None:
    messages = [Message("system", "s"), HI, asks("a", text="Look."), results("a"), Message("assistant", "Done.")]
    history = prepare(messages, GENERIC)
    assert history.messages == messages
    assert history.notices == []


@pytest.mark.row("A24", "req_unanswered_calls")
@pytest.mark.parametrize("after", [[], [HI], [Message("assistant", "well")], [asks("z"), results("z")]])
def test_missing_results_are_filled_in_as_errors_that_say_why(after: list[Message]) -> None:
    history = prepare([HI, asks("a", "b"), *after], GENERIC)
    filled = history.messages[2]
    assert filled.role == "tool"
    assert answers([filled]) == [("a", True), ("b", True)]
    assert all(isinstance(block, ToolResultBlock) and "no result" in str(block.content) for block in filled.content)
    assert [notice.kind for notice in history.notices] == ["missing_results"]
    assert "search" in history.notices[0].message
    assert history.messages[3:] == after


@pytest.mark.row("A24", "req_unanswered_calls")
def test_a_missing_result_joins_those_that_came() -> None:
    messages = ready(HI, asks("a", "b", "c"), results("b"), HI)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert answers(messages) == [("b", False), ("a", True), ("c", True)]


@pytest.mark.row("A24")
def test_results_in_several_messages_answer_one_turn() -> None:
    history = prepare([HI, asks("a", "b"), results("a"), results("b"), HI], GENERIC)
    assert answers(history.messages) == [("a", False), ("b", False)]
    assert history.notices == []


@pytest.mark.row("A24")
def test_every_unanswered_turn_is_answered_in_its_place() -> None:
    messages = ready(HI, asks("a"), asks("b"), HI, asks("c"))
    assert [message.role for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "user",
        *("assistant", "tool"),
    ]
    assert answers(messages) == [("a", True), ("b", True), ("c", True)]


@pytest.mark.row("A24")
@pytest.mark.parametrize(
    "messages",
    [
        [results("x"), HI],
        [HI, results("x")],
        [HI, asks("a"), results("a"), results("a"), HI],
        [HI, asks("a"), results("a", "x")],
        [HI, asks("a"), HI, results("a")],
    ],
)
def test_orphan_results_are_dropped_and_told(messages: list[Message]) -> None:
    history = prepare(messages, GENERIC)
    calls = sum(isinstance(block, ToolUseBlock) for message in history.messages for block in message.content)
    assert len(answers(history.messages)) == calls
    assert "orphan_results" in [notice.kind for notice in history.notices]
    assert all(message.content for message in history.messages)


@pytest.mark.row("A22", "A24", "tc_dup_ids")
def test_ids_that_repeat_over_turns_are_answered_in_their_turn() -> None:
    history = prepare([HI, asks("call_0"), results("call_0"), HI, asks("call_0"), results("call_0")], GENERIC)
    assert answers(history.messages) == [("call_0", False), ("call_0", False)]
    assert history.notices == []


@pytest.mark.row("req_tool_name")
def test_the_name_of_a_result_is_that_of_its_call() -> None:
    history = prepare([HI, asks("a"), results("a")], GENERIC)
    [result] = [
        block for message in history.messages for block in message.content if isinstance(block, ToolResultBlock)
    ]
    assert history.tool_name(result) == "search"
    assert history.tool_name(ToolResultBlock("x", "")) == ""


@pytest.mark.row("A3", "A21")
@pytest.mark.parametrize(
    "content",
    [
        "",
        [],
        [TextBlock("")],
        [ThinkingBlock("hm")],
        [ToolUseError("x")],
        [TextBlock(""), ThinkingBlock("hm"), ToolUseError("x")],
    ],
)
def test_empty_turns_are_dropped(content: Any) -> None:
    assert ready(HI, Message("assistant", content), HI) == [HI, HI]


@pytest.mark.row("req_empty_text_part")
def test_empty_parts_are_dropped() -> None:
    given = Message("user", [TextBlock(""), TextBlock("a"), TextBlock("")])
    assert ready(given) == [Message("user", [TextBlock("a")])]


@pytest.mark.row("D6")
def test_words_beside_results_follow_them_as_a_user_message() -> None:
    given = Message("user", [TextBlock("and now?"), ToolResultBlock("a", "1"), IMAGE, ToolResultBlock("b", "2")])
    messages = ready(HI, asks("a", "b"), given)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "user"]
    assert answers(messages) == [("a", False), ("b", False)]
    assert messages[-1].content == [TextBlock("and now?"), IMAGE]


@pytest.mark.row("D6", "req_image_url")
def test_images_in_results_move_to_a_user_message_after_the_results() -> None:
    pictures = Message("tool", [ToolResultBlock("a", [TextBlock("see"), IMAGE]), ToolResultBlock("b", IMAGE)])
    messages = ready(HI, asks("a", "b"), pictures)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[-1].content == [IMAGE, IMAGE]


@pytest.mark.row("D6", "A24")
def test_images_of_a_result_do_not_separate_it_from_the_other_results() -> None:
    picture = Message("tool", [ToolResultBlock("a", IMAGE)])
    history = prepare([HI, asks("a", "b"), picture, results("b"), Message("assistant", "Nice.")], GENERIC)
    assert [message.role for message in history.messages] == ["user", "assistant", "tool", "user", "assistant"]
    assert answers(history.messages) == [("a", False), ("b", False)]
    assert history.notices == []


@pytest.mark.row("req_system_first", "D7")
def test_system_texts_become_one_at_the_front() -> None:
    one = Message("system", [TextBlock("b"), TextBlock("c")])
    assert ready(Message("system", "a"), HI, one, Message("system", "")) == [Message("system", "a\n\nb\n\nc"), HI]
    assert ready(HI, Message("system", "a")) == [Message("system", "a"), HI]
    assert ready(HI) == [HI]


@pytest.mark.row("req_system_first")
def test_system_texts_stay_in_place_where_that_is_allowed() -> None:
    messages = [Message("system", "a"), HI, Message("system", "b")]
    assert ready(*messages, profile=Profile("x", system_first=False)) == messages


def alternation(messages: list[Message]) -> list[str]:
    """The roles that must take turns: rounds of tools count as part of the answer that follows them."""
    calls = [any(isinstance(block, ToolUseBlock) for block in message.content) for message in messages]
    plain = [message.role for message, has_calls in zip(messages, calls, strict=True) if not has_calls]
    return [role for role in plain if role in ("user", "assistant")]


@pytest.mark.row("req_alternation")
def test_neighbours_of_one_role_become_one_message() -> None:
    messages = ready(HI, HI, Message("assistant", "a"), Message("assistant", [TextBlock("b")]), profile=ALTERNATING)
    assert messages == [Message("user", "hi\n\nhi"), Message("assistant", [TextBlock("a"), TextBlock("b")])]


@pytest.mark.row("req_alternation")
def test_a_call_joins_the_words_before_it_and_ends_their_message() -> None:
    messages = ready(HI, Message("assistant", "a"), asks("x"), results("x"), asks("y"), profile=ALTERNATING)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert messages[1].content == [TextBlock("a"), ToolUseBlock("x", "search", {})]


@pytest.mark.row("req_alternation", "A24")
@pytest.mark.parametrize(
    "messages",
    [
        [HI, asks("a"), results("a"), HI],
        [HI, asks("a"), HI],
        [HI, asks("a"), results("a"), HI, Message("assistant", "x"), HI, HI],
        [HI, asks("a"), Message("tool", [ToolResultBlock("a", IMAGE)]), Message("assistant", "Nice.")],
        [HI, Message("user", [IMAGE]), Message("system", "late"), HI, Message("assistant", "x")],
    ],
    ids=["aborted after the results", "aborted call", "twice", "image in a result", "several prompts"],
)
def test_roles_take_turns_whatever_happened_before(messages: list[Message]) -> None:
    """Templates of Mistral count only what is neither a result nor a call, and raise if the rest does not alternate."""
    turns = alternation(ready(*messages, profile=ALTERNATING))
    assert turns == ["user", "assistant"] * (len(turns) // 2) + ["user"] * (len(turns) % 2)


@pytest.mark.row("req_alternation")
def test_roles_are_left_alone_where_that_is_allowed() -> None:
    assert ready(HI, HI) == [HI, HI]


@pytest.mark.row("req_mistral_ids", "tc_id_format")
def test_ids_become_nine_letters_and_digits_the_same_for_the_same_id() -> None:
    profile = replace(GENERIC, tool_call_id="nine_alphanumeric")
    history = prepare(
        [HI, asks("functions.search:0", "abcDEF123"), results("functions.search:0", "abcDEF123")], profile
    )
    ids = [block.id for message in history.messages for block in message.content if isinstance(block, ToolUseBlock)]
    assert [identifier for identifier, _ in answers(history.messages)] == ids
    assert ids[1] == "abcDEF123"
    assert all(len(identifier) == 9 and identifier.isascii() and identifier.isalnum() for identifier in ids)
    again = prepare([HI, asks("functions.search:0")], profile)
    assert answers(again.messages)[0][0] == ids[0]
    results_there = [block for message in history.messages for block in message.content]
    assert history.tool_name(next(block for block in results_there if isinstance(block, ToolResultBlock))) == "search"


@pytest.mark.row("req_mistral_ids")
@pytest.mark.parametrize("odd", ["ünïcödé12", "call_0", "a" * 10, "", "abc-12345"])
def test_only_nine_ascii_letters_and_digits_stay(odd: str) -> None:
    (identifier, _), *_ = answers(ready(HI, asks(odd), profile=get_profile("mistral")))
    assert len(identifier) == 9
    assert identifier.isascii()
    assert identifier.isalnum()


@pytest.mark.row("tc_id_format")
@pytest.mark.parametrize(
    ("given", "sent"), [("functions.search:0", r"functions_search_0_\w{8}"), ("a-b_C9", "a-b_C9"), ("ü", r"\w+")]
)
def test_ids_become_words_the_same_for_the_same_id_and_others_for_others(given: str, sent: str) -> None:
    history = prepare([HI, asks(given), results(given)], replace(GENERIC, tool_call_id="word"))
    ids = [block.id for message in history.messages for block in message.content if isinstance(block, ToolUseBlock)]
    assert re.fullmatch(sent, ids[0])
    assert answers(history.messages) == [(ids[0], False)]
    other = prepare([HI, asks(f"{given}.")], replace(GENERIC, tool_call_id="word"))
    assert answers(other.messages)[0][0] != ids[0]


def test_the_messages_that_were_given_are_not_touched() -> None:
    messages = [
        Message("system", "s"),
        HI,
        HI,
        asks("a b"),
        Message("tool", [ToolResultBlock("a b", [IMAGE])]),
        HI,
        asks("c"),
    ]
    before = copy.deepcopy(messages)
    for name in ("mistral", "llamacpp", "anthropic", "openai"):
        prepare(messages, get_profile(name))
    assert messages == before


@pytest.mark.row("A18")
def test_messages_may_be_in_the_format_of_openai() -> None:
    assert parse_message({"role": "user", "content": "hi"}) == HI
    assert parse_message(HI) is HI
    assert parse_message({"role": "assistant", "content": None}) == Message("assistant", "")
    assert parse_message({"role": "developer", "content": "s"}) == Message("system", "s")
    assert parse_message({"role": "tool", "tool_call_id": "a", "content": "x"}) == Message(
        "tool", [ToolResultBlock("a", "x")]
    )
    assert parse_message({"role": "function", "content": "x"}) == Message("tool", [ToolResultBlock("", "x")])
    with pytest.raises(ValueError, match="role"):
        parse_message({"role": "nobody", "content": "x"})
    with pytest.raises(ValueError, match="role"):
        parse_message({"content": "x"})


@pytest.mark.row("A18")
def test_content_parts_are_blocks() -> None:
    data = IMAGE.as_url()
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": data}},
        {"type": "image_url", "image_url": data},
    ]
    assert parse_message({"role": "user", "content": parts}) == Message("user", [TextBlock("a"), IMAGE, IMAGE])


@pytest.mark.row("A18", "D6", "req_tool_content_list")
def test_content_parts_of_a_result_are_its_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    (block,) = parse_message({"role": "tool", "tool_call_id": "x", "content": parts}).content
    assert isinstance(block, ToolResultBlock)
    assert result_text(block.content) == ("a\nb", [])


@pytest.mark.row("A18", "A21", "req_thought_signature")
def test_calls_and_thoughts_are_blocks() -> None:
    function = {"name": "search", "arguments": '{"q": "ü"}'}
    message = parse_message(
        {
            "role": "assistant",
            "content": "Look.",
            "reasoning_content": "hm",
            "tool_calls": [{"id": "a", "type": "function", "function": function, "extra_content": {"google": 1}}],
        }
    )
    assert message.content == [ThinkingBlock("hm"), TextBlock("Look."), ToolUseBlock("a", "search", {"q": "ü"})]
    call = message.content[-1]
    assert isinstance(call, ToolUseBlock)
    assert call.extra == {"extra_content": {"google": 1}}


@pytest.mark.row("req_history_args")
@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", None, [], "{}"])
def test_arguments_that_cannot_be_read_are_none(arguments: Any) -> None:
    call = {"id": "a", "function": {"name": "search", "arguments": arguments}}
    assert parse_message({"role": "assistant", "tool_calls": [call]}).content == [ToolUseBlock("a", "search", {})]


def test_arguments_may_be_an_object() -> None:
    call = {"id": "a", "function": {"name": "search", "arguments": {"q": 1}}}
    assert parse_message({"role": "assistant", "tool_calls": [call]}).content == [ToolUseBlock("a", "search", {"q": 1})]


@pytest.mark.row("A22", "D6", "req_tool_content_list")
@pytest.mark.parametrize(
    ("content", "text", "images"),
    [
        ("plain ü", "plain ü", 0),
        ("", "", 0),
        (None, "null", 0),
        (21, "21", 0),
        (True, "true", 0),
        ({"a": "ü"}, '{"a": "ü"}', 0),
        ([1, 2], "[1, 2]", 0),
        ([], "[]", 0),
        ([TextBlock("a"), TextBlock("b")], "a\nb", 0),
        ([TextBlock("a"), IMAGE], "a", 1),
        (IMAGE, "(an image)", 1),
        ([IMAGE], "(1 image)", 1),
        ([IMAGE, IMAGE], "(2 images)", 2),
        (Message("user", "x"), '{"role":"user","content":"x"}', 0),
        ({1, 2}, "[1,2]", 0),
        (..., "Ellipsis", 0),
        ([{"type": "text", "text": "a"}], '[{"type": "text", "text": "a"}]', 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_are_text_and_images(content: Any, text: str, images: int) -> None:
    found, pictures = result_text(content)
    assert (found, len(pictures)) == (text, images)


def test_a_result_that_contains_itself_is_text() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert isinstance(result_text(loop)[0], str)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert isinstance(result_text(deep)[0], str)
    while deep:
        deep = deep.pop()


@pytest.mark.row("D6")
def test_names_of_tools_are_found_in_a_time_that_grows_with_the_history() -> None:
    messages: list[Message] = []
    for number in range(4000):
        call = ToolUseBlock("call_0", f"tool_{number}", {})
        messages += [Message("assistant", [call]), Message("tool", [ToolResultBlock(call.id, "x")])]
    history = prepare(messages, Profile("p"))
    results = [block for message in history.messages for block in message.content if isinstance(block, ToolResultBlock)]
    assert seconds(lambda: [history.tool_name(result) for result in results]) < 1
    assert [history.tool_name(result) for result in results] == [f"tool_{number}" for number in range(4000)]

"""Tool calls out of pieces: which call a piece belongs to, its id, its name, its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from any_agent.events import Event, Notice, ToolCall, ToolInputDelta, ToolInputStart
from any_agent.types import ToolUseBlock, ToolUseError
from any_agent.wire.toolcalls import CallPiece, ToolAssembler, clean_name

from .support import TOOLS, seconds


def assembler(tools: dict[str, Any] = TOOLS, *, lenient: bool = True) -> ToolAssembler:
    ids: Iterator[str] = (f"made_{number}" for number in range(1, 100))
    return ToolAssembler(tools, lenient=lenient, new_id=lambda: next(ids))


def run(
    *given: CallPiece, tools: dict[str, Any] = TOOLS, lenient: bool = True
) -> tuple[list[ToolUseBlock | ToolUseError], list[Event]]:
    """The blocks and all events that the pieces give."""
    calls, events = assembler(tools, lenient=lenient), list[Event]()
    for piece in given:
        calls.add(piece, events)
    return calls.finish(events), events


def blocks(*given: CallPiece, **settings: Any) -> list[ToolUseBlock | ToolUseError]:
    return run(*given, **settings)[0]


def use(id: str, name: str, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def notices(events: list[Event]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Notice)]


@pytest.mark.row("A9", "A12", "tc_baseline")
def test_fragments_with_one_index_are_one_call() -> None:
    given = [CallPiece(0, "call_abc", "search", '{"q": "par'), CallPiece(0, arguments='is"}'), CallPiece(0)]
    found, events = run(*given, tools={})
    assert found == [use("call_abc", "search", q="paris")]
    assert events == [
        ToolInputStart("call_abc", "search"),
        ToolInputDelta("call_abc", '{"q": "par'),
        ToolInputDelta("call_abc", 'is"}'),
        ToolCall(found[0]),
    ]


@pytest.mark.row("tc_baseline")
def test_interleaved_fragments_go_to_their_index() -> None:
    found = blocks(
        CallPiece(0, "a", "search", '{"q":'),
        CallPiece(1, "b", "read_file", '{"path":'),
        CallPiece(0, arguments='"x"}'),
        CallPiece(1, arguments='"y"}'),
    )
    assert found == [use("a", "search", q="x"), use("b", "read_file", path="y")]


@pytest.mark.row("tc_index_offset")
def test_an_index_is_a_key_and_no_position() -> None:
    assert blocks(
        CallPiece(7, "a", "search", "{}"), CallPiece(3, "b", "search", "{}"), CallPiece("k", "c", "search")
    ) == [
        use("a", "search"),
        use("b", "search"),
        use("c", "search"),
    ]


@pytest.mark.row("tc_index_zero_parallel")
def test_a_name_with_another_id_begins_a_call_under_the_same_index() -> None:
    found = blocks(
        CallPiece(0, "a", "read_file", '{"path": "a"}'),
        CallPiece(0, "b", "read_file", '{"path": '),
        CallPiece(0, arguments='"b"}'),
    )
    assert found == [use("a", "read_file", path="a"), use("b", "read_file", path="b")]


@pytest.mark.row("tc_index_zero_parallel", "tc_id_missing")
@pytest.mark.parametrize("second", ['{"path": "b"}', {"path": "b"}])
def test_a_name_after_whole_arguments_begins_a_call_when_they_differ(second: Any) -> None:
    found = blocks(CallPiece(0, None, "read_file", '{"path": "a"}'), CallPiece(0, None, "read_file", second))
    assert found == [use("made_1", "read_file", path="a"), use("made_2", "read_file", path="b")]


@pytest.mark.row("tc_index_zero_parallel")
def test_another_name_after_whole_arguments_begins_a_call() -> None:
    found = blocks(CallPiece(0, None, "search", '{"q": "a"}'), CallPiece(0, None, "read_file"), CallPiece(0))
    assert found == [use("made_1", "search", q="a"), use("made_2", "read_file")]


@pytest.mark.row("tc_index_zero_parallel", "tc_args_empty")
@pytest.mark.parametrize("arguments", [None, "", "{}", {}, "null"])
def test_calls_without_arguments_under_one_index_are_told_apart_by_their_names(arguments: Any) -> None:
    found = blocks(CallPiece(0, None, "get_weather", arguments), CallPiece(0, None, "search", arguments))
    assert found == [use("made_1", "get_weather"), use("made_2", "search")]


@pytest.mark.row("tc_args_dict", "tc_index_zero_parallel")
def test_objects_under_one_index_are_compared() -> None:
    one, two = CallPiece(0, None, "search", {"q": "a"}), CallPiece(0, None, "search", {"q": "b"})
    assert [block.id for block in blocks(one, one)] == ["made_1"]
    assert blocks(one, two) == [use("made_1", "search", q="a"), use("made_2", "search", q="b")]
    assert blocks(one, CallPiece(0, None, "search", '{"q": "b"}'))[1:] == [use("made_2", "search", q="b")]


@pytest.mark.row("tc_name_repeated", "tc_id_repeated")
@pytest.mark.parametrize("id", [None, "a"])
def test_a_name_that_is_repeated_in_each_piece_changes_nothing(id: str | None) -> None:
    found = blocks(
        CallPiece(0, "a", "search"),
        CallPiece(0, id, "search", '{"q": '),
        CallPiece(0, id, "search", '"x"}'),
        CallPiece(0, id, "search"),
    )
    assert found == [use("a", "search", q="x")]


@pytest.mark.row("tc_id_changes")
def test_the_first_id_stands_where_each_piece_has_another() -> None:
    found, events = run(
        CallPiece(0, "a", "search", '{"q": '), CallPiece(0, "b", arguments='"x"'), CallPiece(0, "c", arguments="}")
    )
    assert found == [use("a", "search", q="x")]
    assert {event.id for event in events if isinstance(event, ToolInputDelta)} == {"a"}


@pytest.mark.row("tc_index_missing")
def test_without_an_index_a_name_begins_a_call() -> None:
    found = blocks(
        CallPiece(None, "a", "search", '{"q": '),
        CallPiece(None, arguments='"x"}'),
        CallPiece(None, "b", "search", '{"q": "y"}'),
        CallPiece(None, None, "search", '{"q": "z"}'),
    )
    assert found == [use("a", "search", q="x"), use("b", "search", q="y"), use("made_1", "search", q="z")]


@pytest.mark.row("tc_index_missing", "tc_id_repeated")
def test_without_an_index_the_same_id_continues_the_call() -> None:
    found = blocks(CallPiece(None, "a", "search"), CallPiece(None, "a", "search", '{"q": "x"}'))
    assert found == [use("a", "search", q="x")]


@pytest.mark.row("tc_dup_ids")
def test_without_an_index_the_same_id_with_other_arguments_is_another_call() -> None:
    found, events = run(CallPiece(None, "a", "search", '{"q": "x"}'), CallPiece(None, "a", "search", '{"q": "y"}'))
    assert found == [use("a", "search", q="x"), use("made_1", "search", q="y")]
    assert "duplicate_call_id" in notices(events)


@pytest.mark.row("tc_name_late", "tc_index_missing")
def test_without_an_index_a_late_name_belongs_to_the_nameless_call() -> None:
    assert blocks(CallPiece(None, "a", None, '{"q": "x"}'), CallPiece(None, None, "search")) == [
        use("a", "search", q="x")
    ]


@pytest.mark.row("tc_dup_ids")
def test_a_repeated_id_is_made_unique_and_told() -> None:
    found, events = run(CallPiece(0, "x", "search", "{}"), CallPiece(1, "x", "read_file", "{}"))
    assert found == [use("x", "search"), use("made_1", "read_file")]
    assert notices(events) == ["duplicate_call_id"]


@pytest.mark.row("A10", "tc_id_missing", "tc_id_empty")
def test_a_missing_id_is_made_up_and_used_everywhere() -> None:
    found, events = run(CallPiece(0, None, "search", '{"q": "x"}'))
    assert found == [use("made_1", "search", q="x")]
    assert [event.id for event in events if isinstance(event, ToolInputStart | ToolInputDelta)] == ["made_1", "made_1"]


@pytest.mark.row("A9", "tc_id_late")
def test_an_id_that_comes_after_the_name_counts() -> None:
    found, events = run(CallPiece(0, None, "search"), CallPiece(0, "late"), CallPiece(0, arguments='{"q": 1}'))
    assert found == [use("late", "search", q=1)]
    assert events[0] == ToolInputStart("late", "search")


def test_an_id_that_comes_after_the_arguments_has_come_too_late() -> None:
    found, events = run(CallPiece(0, None, "search", '{"q": '), CallPiece(0, "late", arguments="1}"))
    assert found == [use("made_1", "search", q=1)]
    assert {event.id for event in events if isinstance(event, ToolInputStart | ToolInputDelta)} == {"made_1"}


@pytest.mark.row("tc_name_late")
def test_arguments_wait_for_their_name() -> None:
    calls, events = assembler(), list[Event]()
    calls.add(CallPiece(0, "a", None, '{"q": '), events)
    calls.add(CallPiece(0, arguments="1}"), events)
    assert events == []
    calls.add(CallPiece(0, None, "search"), events)
    assert events == [ToolInputStart("a", "search"), ToolInputDelta("a", '{"q": '), ToolInputDelta("a", "1}")]
    assert calls.finish(events) == [use("a", "search", q=1)]


@pytest.mark.row("B2")
def test_a_call_is_shown_as_soon_as_name_and_id_are_known() -> None:
    calls, events = assembler(), list[Event]()
    calls.add(CallPiece(0, "a", "search"), events)
    assert events == [ToolInputStart("a", "search")]


@pytest.mark.row("tc_name_pieces")
@pytest.mark.parametrize("cut", range(1, len("get_weather")))
def test_a_name_in_pieces_is_put_together(cut: int) -> None:
    first, second = "get_weather"[:cut], "get_weather"[cut:]
    found, events = run(CallPiece(0, "a", first), CallPiece(0, None, second), CallPiece(0, arguments="{}"))
    assert found == [use("a", "get_weather")]
    assert events[0] == ToolInputStart("a", "get_weather")


@pytest.mark.row("tc_name_repeated", "tc_name_pieces")
@pytest.mark.parametrize("pieces", [["search", "search"], ["sea", "search"], ["search", ""], ["sea", "rch", "search"]])
def test_a_name_that_grows_or_comes_again_is_one_name(pieces: list[str]) -> None:
    given = [CallPiece(0, "a" if not place else None, piece or None) for place, piece in enumerate(pieces)]
    assert blocks(*given, CallPiece(0, arguments="{}")) == [use("a", "search")]


def test_a_name_whose_end_comes_again_is_one_name_if_it_is_declared() -> None:
    given = (CallPiece(0, "a", "get_weather"), CallPiece(0, None, "weather"), CallPiece(0, arguments="{}"))
    assert blocks(*given) == [use("a", "get_weather")]
    assert blocks(*given, tools={}) == [use("a", "get_weatherweather")]


def test_a_piece_that_would_spoil_a_declared_name_is_left_out() -> None:
    assert blocks(CallPiece(0, "a", "search"), CallPiece(0, None, "_x", "{}")) == [use("a", "search")]
    assert blocks(CallPiece(0, "a", "search"), CallPiece(0, None, "_x", "{}"), tools={}) == [use("a", "search_x")]


def test_a_longer_declared_name_wins() -> None:
    tools: dict[str, Any] = {"get": {}, "get_all": {}}
    assert blocks(CallPiece(0, None, "get"), CallPiece(0, None, "_all", "{}"), tools=tools)[0].name == "get_all"


@pytest.mark.row("tc_name_contaminated")
@pytest.mark.parametrize(
    "name",
    ["search", " search\n", "functions.search", "tools.search", "function.search", "search<|channel|>commentary"],
)
def test_a_contaminated_name_is_cleaned(name: str) -> None:
    assert clean_name(name, TOOLS) == "search"
    assert blocks(CallPiece(0, "a", name, "{}")) == [use("a", "search")]


@pytest.mark.row("tc_name_contaminated")
def test_a_prefix_goes_only_if_that_makes_a_declared_name() -> None:
    assert clean_name("functions.other", TOOLS) == "functions.other"
    assert clean_name("functions.search", {"functions.search": {}, "search": {}}) == "functions.search"


@pytest.mark.row("tc_unknown_name")
def test_an_unknown_name_is_delivered() -> None:
    found, events = run(CallPiece(0, "a", "nonsense"), CallPiece(0, arguments='{"x": 1}'))
    assert found == [use("a", "nonsense", x=1)]
    assert events[0] == ToolInputStart("a", "nonsense")


@pytest.mark.row("A9", "tc_args_empty", "tc_args_null", "tc_args_missing")
@pytest.mark.parametrize("arguments", [None, "", "null", "{}", {}])
def test_no_arguments_in_every_form_are_an_empty_object(arguments: Any) -> None:
    assert blocks(CallPiece(0, "a", "search", arguments)) == [use("a", "search")]


@pytest.mark.row("tc_args_null")
def test_null_arguments_wait_for_those_that_follow() -> None:
    assert blocks(CallPiece(0, "a", "search", None), CallPiece(0, arguments='{"q": 1}')) == [use("a", "search", q=1)]


@pytest.mark.row("tc_args_dict")
def test_arguments_may_be_an_object() -> None:
    found, events = run(CallPiece(0, "a", "search", {"q": "ü"}))
    assert found == [use("a", "search", q="ü")]
    assert ToolInputDelta("a", '{"q": "ü"}') in events


@pytest.mark.row("C9")
@pytest.mark.parametrize(
    ("arguments", "wrote"),
    [
        ('{"q":"a"}', '{"q":"a"}'),
        ("{'q': 'a',}", "{'q': 'a',}"),
        ({"q": "a"}, None),
        (None, None),
        ('{"q": "a"}{"q": "b"}', None),
    ],
)
def test_a_call_keeps_what_the_model_wrote_if_that_was_the_text_of_this_call(
    arguments: object, wrote: str | None
) -> None:
    call = blocks(CallPiece(0, "a", "search", arguments))[0]
    assert isinstance(call, ToolUseBlock)
    assert call.arguments == wrote


@pytest.mark.row("tc_args_cumulative")
def test_cumulative_arguments_replace_each_other() -> None:
    texts = ["{", '{"q"', '{"q": "x', '{"q": "x"}', '{"q": "x"}']
    found, events = run(CallPiece(0, "a", "search"), *(CallPiece(0, None, "search", text) for text in texts))
    assert found == [use("a", "search", q="x")]
    assert "".join(event.partial_json for event in events if isinstance(event, ToolInputDelta)) == '{"q": "x"}'


def test_a_fragment_like_the_first_one_is_no_repetition() -> None:
    found = blocks(
        CallPiece(0, "a", "search", '{"q": "'), CallPiece(0, arguments='{"q": "'), CallPiece(0, arguments='"}')
    )
    assert isinstance(found[0], ToolUseError)
    assert found[0].raw_data == '{"q": "{"q": ""}'
    repeated = ['{"t": "', "ha", "ha", '"}']
    assert blocks(CallPiece(0, "a", "search"), *(CallPiece(0, arguments=text) for text in repeated)) == [
        use("a", "search", t="haha")
    ]


@pytest.mark.row("tc_args_braces_prefix")
def test_a_placeholder_before_the_arguments_goes() -> None:
    found = blocks(CallPiece(0, "a", "search", "{}"), CallPiece(0, arguments='{"q": '), CallPiece(0, arguments="1}"))
    assert found == [use("a", "search", q=1)]


@pytest.mark.row("tc_args_braces_prefix")
def test_an_empty_object_before_the_arguments_goes() -> None:
    assert blocks(CallPiece(0, "a", "search", {}), CallPiece(0, arguments='{"q": 1}')) == [use("a", "search", q=1)]


@pytest.mark.row("tc_args_concat")
def test_several_objects_under_one_call_are_several_calls() -> None:
    found, events = run(CallPiece(0, "a", "search", '{"q": 1}'), CallPiece(0, arguments='{"q": 2}'))
    assert found == [use("a", "search", q=1), use("made_1", "search", q=2)]
    assert ToolInputStart("made_1", "search") in events
    assert notices(events) == ["arguments_repaired"]


@pytest.mark.row("tc_args_concat")
def test_the_same_object_twice_is_one_call() -> None:
    assert blocks(CallPiece(0, "a", "search", '{"q": 1}'), CallPiece(0, arguments='{"q": 1}')) == [
        use("a", "search", q=1)
    ]


@pytest.mark.row("tc_phantom")
def test_a_call_without_name_and_arguments_is_dropped_and_told() -> None:
    calls, events = assembler(), list[Event]()
    calls.add(CallPiece(0, "x"), events)
    assert not calls
    assert calls.finish(events) == []
    assert notices(events) == ["phantom_call"]
    assert blocks(CallPiece(0), CallPiece(1, "a", "search", "{}")) == [use("a", "search")]


@pytest.mark.row("A10")
@pytest.mark.parametrize(("arguments", "raw"), [('{"q": 1}', '{"q": 1}'), ({"q": 1}, '{"q": 1}'), ('{"q', '{"q')])
def test_a_call_without_a_name_is_an_error_that_says_so(arguments: Any, raw: str) -> None:
    found, events = run(CallPiece(0, "x", None, arguments))
    assert found == [ToolUseError("The tool call has no name", raw, "x", None)]
    assert events == [ToolCall(found[0])]


@pytest.mark.row("A10", "D10", "tc_args_garbage")
@pytest.mark.parametrize("lenient", [False, True])
def test_garbage_is_an_error_for_its_call_only(lenient: bool) -> None:
    found, events = run(CallPiece(0, "a", "search", '{"q": '), CallPiece(1, "b", "search", '{"q": 1}'), lenient=lenient)
    error, other = found
    assert isinstance(error, ToolUseError)
    assert error.error.startswith("Invalid JSON: ")
    assert (error.raw_data, error.id, error.name) == ('{"q": ', "a", "search")
    assert other == use("b", "search", q=1)
    assert [event.block for event in events if isinstance(event, ToolCall)] == found


@pytest.mark.row("tc_args_garbage", "D10")
def test_arguments_that_are_an_array_are_an_error() -> None:
    (error,) = blocks(CallPiece(0, "a", "search", ["Oslo"]))
    assert isinstance(error, ToolUseError)
    assert error.raw_data == '["Oslo"]'


@pytest.mark.row("B18", "E9")
def test_a_repair_is_told_with_its_rules() -> None:
    _, events = run(CallPiece(0, "a", "search", "{'q': 1,}"))
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert notice.kind == "arguments_repaired"
    assert notice.data == {"id": "a", "name": "search", "rules": ["python_literal"]}


@pytest.mark.row("tc_args_double_encoded", "B18")
def test_nested_values_are_decoded_as_the_schema_says_if_repair_is_on() -> None:
    tools = {"search": {"properties": {"n": {"type": "integer"}}}}
    given = CallPiece(0, "a", "search", '{"n": "5", "q": "5"}')
    found, events = run(given, tools=tools)
    assert found == [use("a", "search", n=5, q="5")]
    assert notices(events) == ["arguments_repaired"]
    assert blocks(given, tools=tools, lenient=False) == [use("a", "search", n="5", q="5")]


@pytest.mark.row("extra_content", "req_thought_signature")
def test_what_is_opaque_is_kept_with_its_call() -> None:
    found = blocks(
        CallPiece(None, "a", "search", "{}", extra={"extra_content": {"google": 1}}),
        CallPiece(None, extra={"more": 2}),
    )
    assert isinstance(found[0], ToolUseBlock)
    assert found[0].extra == {"extra_content": {"google": 1}, "more": 2}


def test_nothing_is_left_after_a_new_start() -> None:
    calls, events = assembler(), list[Event]()
    calls.add(CallPiece(0, "a", "search", '{"q": '), events)
    calls.clear()
    calls.add(CallPiece(0, "a", "search", '{"q": 1}'), events)
    assert calls.finish(events) == [use("a", "search", q=1)]
    assert "duplicate_call_id" not in notices(events)


@pytest.mark.row("D10")
@pytest.mark.parametrize("arguments", ["x" * 50, [1], ["a", None], 7, True, 1.5])
def test_what_is_no_object_is_an_error_and_never_an_empty_object(arguments: Any) -> None:
    assert isinstance(blocks(CallPiece(0, "a", "search", arguments))[0], ToolUseError)


@pytest.mark.parametrize("arguments", ["x", [1], 7, {"q": 2}, None])
def test_anything_after_an_object_never_raises(arguments: Any) -> None:
    assert len(blocks(CallPiece(0, "a", "search", {"q": 1}), CallPiece(0, arguments=arguments))) == 1


def test_long_arguments_in_small_pieces_take_time_in_proportion() -> None:
    calls, events = assembler(), list[Event]()
    calls.add(CallPiece(0, "a", "search", '{"q": "'), events)

    def feed() -> None:
        for _ in range(40_000):
            calls.add(CallPiece(0, arguments="abcd"), events)

    assert seconds(feed) < 1.5


def test_long_arguments_under_a_repeated_name_take_time_in_proportion() -> None:
    calls, events = assembler(), list[Event]()
    calls.add(CallPiece(0, "a", "search", '{"q": "'), events)

    def feed() -> None:
        for _ in range(20_000):
            calls.add(CallPiece(0, "a", "search", "abcd"), events)

    assert seconds(feed) < 0.5

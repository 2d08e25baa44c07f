"""Every Python snippet in the README and the docs runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from any_agent.testing import Received, Reply, chat_events
from cli.support import serving

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = {page: re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL) for page in PAGES}
CALL = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def answer(request: Received) -> Reply:
    wants_tool = request.json.get("tools") and request.json["messages"][-1]["role"] == "user"
    if "response_format" in request.json:
        return Reply(chat_events('{"city": "Oslo", "celsius": 21}', usage=USAGE))
    calls = [CALL] if wants_tool else []
    return Reply(chat_events("2+2 is ", "4.", tool_calls=calls, finish="tool_calls" if calls else "stop", usage=USAGE))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """In a thread of its own, since the snippets run their own event loops."""
    with serving(answer) as backend:
        yield backend.server.address


@pytest.mark.parametrize("page", [page for page in PAGES if SNIPPETS[page]], ids=lambda page: page.name)
def test_snippets_run(
    page: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of one page build on each other: what one records, the next replays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANY_AGENT_DATA", str(tmp_path / "data"))
    for number, snippet in enumerate(SNIPPETS[page], 1):
        program = snippet.replace("http://localhost:1234", address)
        exec(compile(program, f"{page.name}, snippet {number}", "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out.strip() or "print(" not in program, snippet


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_every_notice_is_explained() -> None:
    """By its kind, in the table of the page on events."""
    sources = "".join(file.read_text("utf-8") for file in (ROOT / "src").rglob("*.py"))
    kinds = set(re.findall(r"[nN]otice\(\s*\"([a-z_]+)\"", sources))
    assert len(kinds) > 20
    page = (ROOT / "docs" / "events.md").read_text("utf-8")
    assert kinds == set(re.findall(r"`([a-z_]+)`", page.partition("## Notices")[2])) & kinds


def test_every_page_is_linked_from_the_readme() -> None:
    links = re.findall(r"\]\((docs/[^)#]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert sorted(links) == sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))

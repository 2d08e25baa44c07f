"""A copy editor: reads text and Markdown files paragraph by paragraph, and reports what is wrong.

    python examples/copy_editor.py notes.md letter.txt

Ctrl-C stops it; what was found by then is printed all the same.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from any_agent import AgentOptions, AgentSDKError, Client, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, tool

SYSTEM_PROMPT = """\
You are a copy editor. Work through a text, one paragraph at a time: read a paragraph with read_paragraph, report each
mistake in it with report_issue, then read the next one. Report only what is really wrong; many paragraphs are fine.
When you have read all of them, call finish."""

Kind = Literal["spelling", "grammar", "punctuation", "clarity"]


@dataclass(frozen=True)
class Issue:
    kind: Kind
    quote: str
    suggestion: str


@dataclass
class Paragraph:
    file: str
    line: int
    text: str
    was_read: bool = False
    issues: list[Issue] = field(default_factory=list[Issue])


@dataclass
class Desk:
    """What the editor works on. What is wrong with a call is raised: the model reads it, and can do better."""

    paragraphs: list[Paragraph] = field(default_factory=list[Paragraph])
    summary: str = ""

    def add(self, file: str) -> None:
        text = Path(file).read_text("utf-8")
        for lines in re.finditer(r"(?:.*\S.*\n?)+", text):
            self.paragraphs.append(Paragraph(file, text.count("\n", 0, lines.start()) + 1, lines.group().strip()))

    def prompts(self) -> Iterator[str]:
        yield f"The text has {len(self.paragraphs)} paragraphs. Begin with paragraph 1."
        for _ in self.paragraphs:  # small models tend to stop early
            if not self.summary:
                yield f"You are not done: {self.next_step()}."

    def next_step(self) -> str:
        unread = [number for number, paragraph in enumerate(self.paragraphs, 1) if not paragraph.was_read]
        return f"read paragraph {unread[0]}" if unread else "call finish"

    def find(self, number: int) -> Paragraph:
        if not 1 <= number <= len(self.paragraphs):
            raise ValueError(f"There is no paragraph {number}; they are numbered from 1 to {len(self.paragraphs)}.")
        return self.paragraphs[number - 1]

    def read(self, number: int) -> str:
        paragraph = self.find(number)
        paragraph.was_read = True
        return f"{paragraph.text}\n\n(Report each mistake in paragraph {number}; then {self.next_step()}.)"

    def report(self, number: int, issue: Issue) -> str:
        paragraph = self.find(number)
        if not issue.quote or " ".join(issue.quote.split()) not in " ".join(paragraph.text.split()):
            raise ValueError(f"Paragraph {number} does not contain {issue.quote!r}. Copy the wrong words exactly.")
        if issue not in paragraph.issues:
            paragraph.issues.append(issue)
        return "Noted."

    def finish(self, summary: str) -> str:
        if not all(paragraph.was_read for paragraph in self.paragraphs):
            raise ValueError(f"You are not done: {self.next_step()}.")
        self.summary = summary
        return "Thank you. Say goodbye."

    def print_report(self) -> None:
        print("\n")
        for paragraph in self.paragraphs:
            for issue in paragraph.issues:
                print(f"{paragraph.file}:{paragraph.line}: {issue.kind}: {issue.quote!r} -> {issue.suggestion!r}")
        read = sum(paragraph.was_read for paragraph in self.paragraphs)
        print(f"{read} of {len(self.paragraphs)} paragraphs read")
        print(self.summary or "(not finished)")


desk = Desk()


@tool
async def read_paragraph(number: int) -> str:
    """Read a paragraph. The first one is number 1."""
    return desk.read(number)


@tool
async def report_issue(paragraph: int, kind: Kind, quote: str, suggestion: str) -> str:
    """Report one mistake: the wrong words exactly as they are in the paragraph, and what they should be."""
    return desk.report(paragraph, Issue(kind, quote, suggestion))


@tool
async def finish(summary: str) -> str:
    """End the work, when all paragraphs are read. Sum up in two sentences what the text needs."""
    return desk.finish(summary)


def show(block: object) -> None:
    """Print what happens as it happens: text, a dot for each piece of a thought, calls, results that are errors."""
    if isinstance(block, TextBlock):
        print(block.text, end="", flush=True)
    elif isinstance(block, ThinkingBlock):
        print(".", end="", flush=True)
    elif isinstance(block, ToolUseBlock):
        print(f"\n> {block.name}", *block.input.values(), flush=True)
    elif isinstance(block, ToolResultBlock) and block.is_error:
        print("!", block.content, flush=True)


async def edit() -> None:
    options = AgentOptions(
        system_prompt=SYSTEM_PROMPT,
        model=os.environ.get("ANY_AGENT_MODEL", "qwen3"),
        base_url=os.environ.get("ANY_AGENT_BASE_URL", "http://localhost:1234/v1"),
        api_key=os.environ.get("ANY_AGENT_API_KEY", "not-needed"),
        tools=[read_paragraph, report_issue, finish],
        auto_execute_tools=True,
        max_tool_iterations=100,
        max_turns=100,
    )
    async with Client(options) as client:
        for prompt in desk.prompts():
            await client.query(prompt)
            async for block in client.receive_messages():
                show(block)


if __name__ == "__main__":
    for file in sys.argv[1:]:
        desk.add(file)
    if not desk.paragraphs:
        sys.exit(__doc__)
    try:
        asyncio.run(edit())
    except KeyboardInterrupt:
        print("\n(stopped)", end="")
    except AgentSDKError as problem:
        sys.exit(f"\n{problem}")
    finally:
        desk.print_report()

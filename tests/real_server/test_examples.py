"""The timeline of a run with a real model."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from real_server.server import MODEL, LlamaServer

pytestmark = pytest.mark.real_server

TIMELINE = Path(__file__).parents[2] / "examples" / "timeline.py"


@pytest.mark.row("B1", "B2", "E10")
async def test_timeline_shows_a_real_model_and_a_slow_tool(llama: LlamaServer) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        TIMELINE,
        llama.address,
        MODEL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ANY_AGENT_API_KEY": llama.key},
    )
    out, err = await process.communicate()
    assert (err, process.returncode) == (b"", 0)
    lines = re.findall(r"^ +(\d+\.\d\d) s  (\w+) +(.*)$", out.decode(), re.MULTILINE)
    kinds = [kind for _, kind, _ in lines]
    running = kinds.index("tool_running")
    assert kinds[running : running + 6] == ["tool_running", *["tool_progress"] * 4, "tool_result"]
    assert float(lines[running + 5][0]) - float(lines[running][0]) >= 1.9
    assert "tool_input_start" in kinds[:running]
    assert any("sunny" in text for _, kind, text in lines[running + 6 :] if kind == "text")
    assert lines[-1][1:] == ("done", "complete")

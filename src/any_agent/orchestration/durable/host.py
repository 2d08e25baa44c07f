"""Named agents for programs and for the command line: who is there, what they are asked, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from any_agent.errors import StreamInterrupted
from any_agent.events import Done, Event, Failed, to_dict
from any_agent.orchestration.durable.agents import AgentRecord, AgentRecords
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.history import History
from any_agent.orchestration.durable.log import read_events
from any_agent.orchestration.durable.presence import is_alive, workers
from any_agent.orchestration.durable.tasks import Scope, Task, Tasks
from any_agent.orchestration.registry import get_provider
from any_agent.types import Block, LLMResponse, Message

__all__ = ("Agents",)

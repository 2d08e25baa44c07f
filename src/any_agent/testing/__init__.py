"""For tests: a server that answers as it is told, on a real socket, and recordings played back."""

from any_agent.testing.recordings import recorded
from any_agent.testing.server import HANG, RESET, Received, Reply, ScriptedServer, chat_events, sse
from any_agent.transport.tape import Replay

__all__ = ("HANG", "RESET", "Received", "Replay", "Reply", "ScriptedServer", "chat_events", "recorded", "sse")

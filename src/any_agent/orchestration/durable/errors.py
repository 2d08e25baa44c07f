"""What can go wrong with named agents, beside what goes wrong with a model."""

from __future__ import annotations

from any_agent.errors import AgentSDKError

__all__ = ("AgentExists", "AgentStopped", "StoreError", "TaskConflict", "UnknownAgent", "UnknownTask")


class StoreError(AgentSDKError):
    """The database cannot be used: it is not there, full, locked, or of a newer version."""


class UnknownAgent(AgentSDKError):
    """No agent has this name."""


class AgentExists(AgentSDKError):
    """An agent of this name lives already."""


class AgentStopped(AgentSDKError):
    """The agent was stopped, and takes no tasks any more."""


class UnknownTask(AgentSDKError):
    """There is no task of this id."""


class TaskConflict(AgentSDKError):
    """Another task has this id."""

"""The tables of the named agents, in the database that also holds the engine's journal.

`aa_messages` is the truth; the journal may be thrown away once a task is over.
"""

from __future__ import annotations

__all__ = ("SCHEMA", "VERSION")

#: raised with every change of the tables; a program never works with tables that are newer than itself
VERSION = 1

_TABLES = """
CREATE TABLE aa_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);

-- `tasks` counts those that there were; `generation` how often an agent of this name began anew
CREATE TABLE aa_agents (
    name TEXT PRIMARY KEY, generation BIGINT NOT NULL, tasks BIGINT NOT NULL, config TEXT NOT NULL,
    state TEXT NOT NULL, created DOUBLE PRECISION NOT NULL
);

-- a ticket is what the sender calls a task before it has an id: a task that is sent twice is there once
CREATE TABLE aa_tasks (
    id TEXT PRIMARY KEY, ticket TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, conversation TEXT NOT NULL,
    seq BIGINT NOT NULL, sender TEXT NOT NULL, prompt TEXT NOT NULL, state TEXT NOT NULL, worker TEXT,
    attempts BIGINT NOT NULL DEFAULT 0, cancelled BIGINT NOT NULL DEFAULT 0, outcome TEXT,
    submitted DOUBLE PRECISION NOT NULL, started DOUBLE PRECISION, finished DOUBLE PRECISION
);
CREATE UNIQUE INDEX aa_tasks_order ON aa_tasks (conversation, seq);
CREATE UNIQUE INDEX aa_tasks_one_at_a_time ON aa_tasks (conversation) WHERE state IN ('ready', 'running');
CREATE INDEX aa_tasks_open ON aa_tasks (state, submitted) WHERE state IN ('ready', 'running');
CREATE INDEX aa_tasks_unfinished ON aa_tasks (agent) WHERE state IN ('waiting', 'ready', 'running');
CREATE INDEX aa_tasks_agent ON aa_tasks (agent, seq);
CREATE INDEX aa_tasks_finished ON aa_tasks (finished);

-- `part` counts what one task added, so that adding it again changes nothing
CREATE TABLE aa_messages (
    conversation TEXT NOT NULL, seq BIGINT NOT NULL, task TEXT NOT NULL, part BIGINT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (conversation, seq)
);
CREATE INDEX aa_messages_part ON aa_messages (task, part);

-- what the model saw of a long result was cut; this is the whole
CREATE TABLE aa_results (
    conversation TEXT NOT NULL, handle TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (conversation, handle)
);

-- `step` is the step of the run in which an event was made; NULL between two steps
CREATE TABLE aa_events (
    task TEXT NOT NULL, seq BIGINT NOT NULL, step TEXT, body TEXT NOT NULL, PRIMARY KEY (task, seq)
);

-- a call is written down before it begins
CREATE TABLE aa_calls (
    task TEXT NOT NULL, place TEXT NOT NULL, attempts BIGINT NOT NULL, PRIMARY KEY (task, place)
);

CREATE TABLE aa_workers (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, agents TEXT, room BIGINT NOT NULL,
    started DOUBLE PRECISION NOT NULL, beat DOUBLE PRECISION NOT NULL
);
"""

SCHEMA = [statement.strip() for statement in _TABLES.split(";\n") if statement.strip()]

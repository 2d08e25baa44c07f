"""The simulation behind docs/scaling.md: what it must not get wrong, and that the page shows what it says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from any_agent.orchestration.durable import engine, worker

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "simulate.py"


@pytest.fixture(scope="module")
def simulation() -> Any:
    spec = importlib.util.spec_from_file_location("simulate", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate"] = module
    spec.loader.exec_module(module)
    return module


def test_what_is_full_sets_the_pace(simulation: Any) -> None:
    few = simulation.simulate(simulation.Fleet(10, slots=20))
    many = simulation.simulate(simulation.Fleet(10, slots=40))
    assert few.full == many.full == "models"
    assert many.rate == pytest.approx(2 * few.rate, rel=0.1)
    slow = replace(simulation.Costs(), postgres_call=1.0)
    assert simulation.simulate(simulation.Fleet(10, slots=100), slow).full == "Postgres"
    busy = replace(simulation.Costs(), worker_call=10.0)
    assert simulation.simulate(simulation.Fleet(10, slots=100), busy).full == "workers' CPU"


@pytest.mark.parametrize("machines", [1, 10, 100])
def test_nothing_is_used_more_than_there_is_and_all_that_is_answered_was_asked(simulation: Any, machines: int) -> None:
    fleet = simulation.Fleet(machines)
    outcome = simulation.simulate(fleet)
    assert all(0 <= used <= 1.001 for used in (outcome.models, outcome.workers, outcome.postgres))
    assert outcome.rate * fleet.calls * fleet.call_s == pytest.approx(outcome.models * fleet.slots, rel=0.1)
    assert outcome.rate <= machines * fleet.room / (fleet.calls * fleet.call_s)


def test_dearer_parts_make_nothing_faster(simulation: Any) -> None:
    fleet, costs = simulation.Fleet(20, slots=200, cores=1), simulation.Costs()
    usual = simulation.simulate(fleet, costs).rate
    for name in ("worker_call", "postgres_call", "postgres_live", "postgres_poll"):
        dearer = replace(costs, **{name: 20 * getattr(costs, name)})
        assert simulation.simulate(fleet, dearer).rate <= usual * 1.02


def test_it_knows_how_workers_are_set(simulation: Any) -> None:
    fleet = simulation.Fleet(1)
    assert fleet.connections_per_worker == 3 + engine._CONNECTIONS
    assert (simulation.CROWD, simulation.PATIENCE) == (worker._CROWD, worker._PATIENCE)


def test_the_page_shows_what_it_says() -> None:
    told = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "scaling.md").read_text("utf-8")
    for line in told.splitlines():
        assert line in page

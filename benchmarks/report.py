"""What comes out of a run: the table, the targets and the JSON."""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import environment
from measures import PEERS, ROWS, TARGETS, Row, Target


@dataclass(frozen=True, slots=True)
class Results:
    samples: Mapping[str, Mapping[str, list[float]]]  # by row and peer
    failures: Mapping[str, Mapping[str, str]]  # by measure and peer: why there are no samples

    def value(self, row: str, peer: str) -> float | None:
        samples = self.samples.get(row, {}).get(peer)
        return median(samples) if samples else None

    def ratio(self, row: str, peer: str, other: str) -> float | None:
        """The median of the ratios of samples that were taken one soon after the other."""
        peers = self.samples.get(row, {})
        ratios = [
            value / reference
            for value, reference in zip(peers.get(peer, ()), peers.get(other, ()), strict=False)
            if reference
        ]
        return median(ratios) if ratios else None

    def as_json(self) -> dict[str, Any]:
        return {
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "versions": environment.versions(),
            "medians": {row: {peer: self.value(row, peer) for peer in peers} for row, peers in self.samples.items()},
            "samples": self.samples,
            "failures": self.failures,
            "targets": {str(target): verdict(target, self) for target in TARGETS},
        }


def table(results: Results) -> str:
    return "\n".join([*(line for row in ROWS for line in block(row, results)), *targets(results)])


def block(row: Row, results: Results) -> Iterator[str]:
    samples, failures = results.samples.get(row.name, {}), results.failures.get(row.measure or row.name, {})
    if not samples and not failures:
        return
    yield f"{row.name}: {row.title}"
    yield f"  {'':18}{'median':>9}{'lowest':>9}{'highest':>9}{'x limit':>9}{'x openai':>9}"
    for peer in (peer.name for peer in PEERS):
        if peer in failures:
            yield f"  {peer:18}   {failures[peer]}"
        elif peer in samples:
            low, high = min(samples[peer]), max(samples[peer])
            numbers = (results.value(row.name, peer), low, high)
            ratios = (results.ratio(row.name, peer, other) for other in ("limit", "openai"))
            columns = "".join(f"{digits(number):>9}" for number in (*numbers, *ratios))
            yield f"  {peer:18}{columns}{note(row, peer, results)}".rstrip()
    yield ""


def note(row: Row, peer: str, results: Results) -> str:
    """Says so where deltas that came one at a time were read several at a time, and what idle clients keep open."""
    wakeups = results.value("wakeups", peer)
    if row.name == "single" and wakeups is not None and wakeups <= 0.9:
        return f"   {wakeups:.2f} wake-ups per delta"
    if row.name == "idle":
        files, kept = results.value("files", peer), results.value("kept", peer)
        return f"   {digits(files)} files open, later {digits(kept)}"
    return ""


def digits(number: float | None) -> str:
    """Three significant digits, without an exponent."""
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:#.3g}"


def verdict(target: Target, results: Results) -> dict[str, Any]:
    ratio = results.ratio(target.row, target.peer, target.other)
    return {"ratio": ratio, "met": None if ratio is None else target.met(ratio)}


def targets(results: Results) -> Iterator[str]:
    yield "targets"
    for target in TARGETS:
        outcome = verdict(target, results)
        word = {True: "pass", False: "FAIL", None: "not measured"}[outcome["met"]]
        yield f"  {target!s:54}{digits(outcome['ratio']):>9}   {word}"

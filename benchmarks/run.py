"""Measures what a token costs: the CPU time of any_agent, of the limit below it and of its peers. See README.md."""

import argparse
import json
import resource
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import environment
from measures import (
    BURST,
    CROWD,
    IDLE,
    MEASURES,
    PEERS,
    QUICK,
    REQUESTS,
    SHORT_BURST,
    SINGLE,
    TARGETS,
    TURN,
    WARM_UP,
    Peer,
)
from processes import HERE, PeerFailed, Server, Worker, life
from report import Results, table

LATEST = HERE / "results" / "latest.json"


class Bench:
    """Takes samples. Each method is a measure: of one peer, once, a number for each row that it fills."""

    def __init__(self, python: Path, base_url: str) -> None:
        self.python = str(python)
        self.base_url = base_url
        self.workers: dict[Peer, Worker] = {}
        self.measures = {
            "burst": self.burst,
            "single": self.single,
            "requests": self.requests,
            "rounds": self.rounds,
            "crowd": self.crowd,
            "idle": self.idle,
            "import": self.package,
            "first": self.first,
        }

    def burst(self, peer: Peer) -> dict[str, float]:
        work = BURST if peer.core else SHORT_BURST
        cost = self.warm(peer).do(work)
        return {"burst": cost["cpu_s"] * 1e6 / cost["requests"] / work.deltas}

    def single(self, peer: Peer) -> dict[str, float]:
        cost = self.warm(peer).do(SINGLE)
        return {"single": cost["cpu_s"] * 1e6 / SINGLE.deltas, "wakeups": cost["wakeups"] / SINGLE.deltas}

    def requests(self, peer: Peer) -> dict[str, float]:
        cost = self.warm(peer).do(REQUESTS)
        return {"requests": cost["cpu_s"] * 1e6 / cost["requests"]}

    def rounds(self, peer: Peer) -> dict[str, float]:
        if not peer.rounds:
            return {}
        worker = self.warm(peer)
        worker.do(TURN)
        cost = worker.do(replace(TURN, seconds=0.5))
        return {"rounds": cost["cpu_s"] * 1e6 / cost["requests"] / TURN.rounds}

    def crowd(self, peer: Peer) -> dict[str, float]:
        with closing(self.worker(peer)) as worker:  # a new one, as the peak of memory is that of its whole life
            worker.do(WARM_UP)
            cost = worker.do(CROWD)
        return {"crowd": cost["cpu_s"], "memory": cost["peak_rss_mb"]}

    def idle(self, peer: Peer) -> dict[str, float]:
        if not peer.idle:
            return {}
        with closing(self.worker(peer)) as worker:
            held = worker.do(replace(IDLE, requests=peer.idle))
        return {"made": held["made_kb"], "idle": held["idle_kb"], "files": held["files"], "kept": held["kept"]}

    def package(self, peer: Peer) -> dict[str, float]:
        if peer.imports is None:
            return {}
        return {"import": (life([self.python, "-c", f"import {peer.imports}"]) - self.empty()) * 1000}

    def first(self, peer: Peer) -> dict[str, float]:
        with closing(self.worker(peer)) as worker:
            return {"first": (worker.do(WARM_UP)["life_cpu_s"] - self.empty()) * 1000}

    def empty(self) -> float:
        return life([self.python, "-c", ""])

    def worker(self, peer: Peer) -> Worker:
        return Worker([self.python, str(HERE / "worker.py"), peer.name, self.base_url])

    def warm(self, peer: Peer) -> Worker:
        """The worker that this peer keeps, started if it has none that lives."""
        if peer not in self.workers or self.workers[peer].process.poll() is not None:
            self.workers[peer] = self.worker(peer)
            self.workers[peer].do(WARM_UP)
        return self.workers[peer]

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def plan(measures: Sequence[str], names: Sequence[str], *, quick: bool) -> dict[str, dict[Peer, int]]:
    """How many samples to take, by measure and peer."""
    needed = {(target.row, name) for target in TARGETS for name in (target.peer, target.other)}

    def times(measure: str, peer: Peer) -> int:
        if quick:
            return QUICK if (measure, peer.name) in needed else 0
        return MEASURES[measure].of(peer)

    peers = [peer for peer in PEERS if not names or peer.name in names]
    return {measure: {peer: times(measure, peer) for peer in peers} for measure in MEASURES if measure in measures}


def run(bench: Bench, wanted: Mapping[str, Mapping[Peer, int]], *, slow: bool) -> Results:
    """Again and again through all measures and peers, so that a noisy minute is shared by all.

    slow: Whether a crowd may take its time.
    """
    samples: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    failures: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for number in range(max(times for peers in wanted.values() for times in peers.values())):
        for measure, peers in wanted.items():
            for peer, times in peers.items():
                if number >= times or peer.name in failures[measure]:
                    continue
                if measure == "crowd" and not (peer.crowd or slow):
                    failures[measure][peer.name] = "left out: takes more than 20 s, name it with --peers"
                    continue
                progress(f"sample {number + 1}: {measure} {peer.name}")
                try:
                    for row, value in bench.measures[measure](peer).items():
                        samples[row][peer.name].append(value)
                except PeerFailed as error:
                    failures[measure][peer.name] = f"failed: {error}"
    progress("")
    return Results(samples, failures)


def progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{what}", end="", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    def some_of(known: Sequence[str]) -> dict[str, Any]:
        def parse(text: str) -> list[str]:
            names = text.split(",")
            if unknown := set(names) - set(known):
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
            return names

        return {"type": parse, "metavar": "A,B", "help": "some of " + ", ".join(known)}

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a minute and a half: three samples, and only what the targets need",
    )
    parser.add_argument("--peers", default=[], **some_of([peer.name for peer in PEERS]))
    parser.add_argument("--only", default=list(MEASURES), **some_of(list(MEASURES)))
    parser.add_argument("--json", type=Path, default=LATEST, metavar="PATH", help="where the numbers go")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    wanted = plan(options.only, options.peers, quick=options.quick)
    python = environment.prepare()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))  # for the crowd's sockets
    with Server() as server, closing(Bench(python, server.base_url)) as bench:
        results = run(bench, wanted, slow=bool(options.peers))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()

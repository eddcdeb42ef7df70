r"""How long does :math:`(I - \gamma P) V = g` take, and is the solver that polidiff chooses ever far from the best?

Eleven structures of undiscounted tables, each in several sizes: the solver of `evaluation.exact` beside a sparse
factorisation, BiCGSTAB, GMRES and value iteration, each in a process of its own, to a relative residual of 1e-11. The
others are stopped `PATIENCE` seconds of computing after ours or the best of them took, when they are not better.
``POLIDIFF_SYSTEMS="grid, 10000; cube, 10000"`` measures these and keeps what was recorded of others.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from polidiff.evaluation.exact import solver

PATIENCE = 0.5
LONGEST = 300.0  # seconds of computing for ours
MEMORY = 8 << 30  # bytes of address space
RESIDUAL = 1e-11
SOLVERS = ("polidiff", "direct", "bicgstab", "gmres", "value iteration")
SIZES = (10_000, 100_000, 1_000_000)
RESULTS = Path(__file__).parent / "results" / "linear_systems.json"


def _rows(targets: np.ndarray, shares: np.ndarray) -> sparse.csr_array:
    """P from targets (n, k), −1 for an end, and their shares (n, k)."""
    size = len(targets)
    row, place = np.nonzero(targets >= 0)
    entries = (shares[row, place], (row, targets[row, place]))
    return sparse.csr_array(sparse.coo_array(entries, shape=(size, size)))


def _even(targets: np.ndarray, end: float) -> sparse.csr_array:
    return _rows(targets, np.full(targets.shape, (1 - end) / targets.shape[1]))


def _inside(targets: np.ndarray, size: int) -> np.ndarray:
    return np.where((targets >= 0) & (targets < size), targets, -1)


def _grid(n: int, rng: np.random.Generator, end: float, dimensions: int = 2) -> sparse.csr_array:
    side = round(n ** (1 / dimensions))
    place = np.stack(np.unravel_index(np.arange(side**dimensions), (side,) * dimensions), axis=1)
    targets = []
    for axis in range(dimensions):
        for step in (-1, 1):
            moved = place.copy()
            moved[:, axis] += step
            ok = ((moved >= 0) & (moved < side)).all(axis=1)
            flat = np.ravel_multi_index(tuple(np.clip(moved, 0, side - 1).T), (side,) * dimensions)
            targets.append(np.where(ok, flat, -1))
    return _even(np.stack(targets, axis=1), end)


def _tree(n: int, rng: np.random.Generator) -> sparse.csr_array:
    """Down to one of two children or back to the parent; leaves end."""
    node = np.arange(n)
    down = np.where(2 * node[:, None] + [1, 2] < n, 2 * node[:, None] + [1, 2], -1)
    return _even(np.column_stack([down, np.where(node > 0, (node - 1) // 2, -1)]), 0.0)


def _dense_rows(n: int, rng: np.random.Generator) -> sparse.csr_array:
    """A line of which every state may fall back to the first, and ten states that lead anywhere."""
    line = _even(np.column_stack([_inside(np.arange(n) + 1, n), np.zeros(n, dtype=int)]), 0.1).tolil()
    for state in rng.integers(0, n, 10):
        some = rng.choice(n, n // 10, replace=False)
        line.rows[state], line.data[state] = sorted(some.tolist()), [0.9 / len(some)] * len(some)
    return sparse.csr_array(line)


def _shuffled(moves: sparse.csr_array, rng: np.random.Generator) -> sparse.csr_array:
    order = rng.permutation(moves.shape[0])
    return sparse.csr_array(moves[order][:, order])


STRUCTURES: dict[str, Callable[[int, np.random.Generator], sparse.csr_array]] = {
    "banded": lambda n, rng: _even(_inside(np.arange(n)[:, None] + [-2, -1, 1, 2], n), 0.001),
    "nearly banded": lambda n, rng: _even(
        _inside(np.arange(n)[:, None] + rng.integers(-8, 9, (n, 3)), n), 0.0005
    ),
    "shuffled band": lambda n, rng: _shuffled(_even(_inside(np.arange(n)[:, None] + [-2, -1, 1, 2], n), 0.0), rng),
    "grid": lambda n, rng: _grid(n, rng, 0.001),
    "cube": lambda n, rng: _grid(n, rng, 0.01, 3),
    "random": lambda n, rng: _even(rng.integers(0, n, (n, 4)), 0.05),
    "random, long": lambda n, rng: _even(rng.integers(0, n, (n, 4)), 0.001),
    "tree": _tree,
    "dense rows": _dense_rows,
    "nearly absorbing": lambda n, rng: _rows(
        np.column_stack([np.arange(n), rng.integers(0, n, n)]), np.tile([0.999, 0.0005], (n, 1))
    ),
    "forward": lambda n, rng: _even(_inside(np.arange(n)[:, None] + rng.integers(1, 50, (n, 3)), n), 0.01),
}  # fmt: skip


def solved(name: str, moves: sparse.csr_array, g: np.ndarray) -> np.ndarray | None:
    """V by one of the solvers; None where it does not get there."""
    system = sparse.csr_array(sparse.eye_array(len(g), format="csr") - moves)
    if name == "polidiff":
        return solver(moves, 1.0)(g, False)
    if name == "direct":
        return linalg.splu(sparse.csc_array(system)).solve(g)
    if name == "value iteration":
        values = g.copy()
        for count in range(1_000_000):
            values = g + moves @ values
            if count % 20 == 0 and np.linalg.norm(system @ values - g) <= RESIDUAL * np.linalg.norm(g):
                return values
        return None
    method = {"bicgstab": linalg.bicgstab, "gmres": linalg.gmres}[name]
    values, fault = method(system, g, rtol=RESIDUAL, atol=0.0, maxiter=100_000)
    return None if fault else values


def measured(name: str, moves: sparse.csr_array, g: np.ndarray) -> dict[str, Any] | None:
    """Seconds of computing, memory in MB and the residual; None where it does not get there."""
    begin = time.process_time()
    values = solved(name, moves, g)
    seconds = time.process_time() - begin
    if values is None:
        return None
    residual = float(np.linalg.norm(values - moves @ values - g) / np.linalg.norm(g))
    memory = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {"seconds": round(seconds, 3), "memory, MB": memory, "residual": residual}


def _alone(name: str, moves: sparse.csr_array, g: np.ndarray, most: float) -> dict[str, Any] | None:
    """As `measured`, in a process that ends after `most` seconds of computing: None then, too."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.setitimer(signal.ITIMER_PROF, most)  # nothing handles it: it ends the process, also within a library
        os.write(write, json.dumps(measured(name, moves, g)).encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text or "null")


def compared(structure: str, size: int) -> dict[str, Any]:
    """What every solver took, and how many times the best of the others ours takes; at most 1 if none was as fast."""
    rng = np.random.default_rng(0)
    moves = STRUCTURES[structure](size, rng)
    g = rng.random(moves.shape[0])
    ours = _alone(SOLVERS[0], moves, g, LONGEST)
    best, others = ours["seconds"] if ours else LONGEST, {}
    for name in SOLVERS[1:]:
        others[name] = _alone(name, moves, g, best + PATIENCE)
        best = min(best, others[name]["seconds"] if others[name] else best)
    times = None if ours is None else round(ours["seconds"] / max(best, 0.01), 2)
    row = {SOLVERS[0]: ours, **others, "times the best": times}
    print(structure, size, row, file=sys.stderr, flush=True)
    return row


def run(smoke: bool) -> dict[str, Any]:
    """Seconds of every solver, and how many times the best of them polidiff takes."""
    asked = os.environ.get("POLIDIFF_SYSTEMS", "")
    sizes = (2_000,) if smoke else SIZES
    systems = asked.split("; ") if asked else [f"{name}, {size}" for size in sizes for name in STRUCTURES]
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))["systems"] if asked and RESULTS.exists() else {}
    return {"systems": kept | {one: compared(one.rpartition(", ")[0], int(one.split(", ")[-1])) for one in systems}}

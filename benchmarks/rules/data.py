"""Data sets: made here, part of scikit-learn, or read from a folder when there is one."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def tic_tac_toe() -> tuple[pd.DataFrame, np.ndarray]:
    """All 958 final boards when x moves first; the class is "x has won"."""

    def won(board: tuple[str, ...], player: str) -> bool:
        return any(all(board[k] == player for k in line) for line in LINES)

    boards = []
    for board in itertools.product("xob", repeat=9):
        moves = board.count("x"), board.count("o")
        x, o = won(board, "x"), won(board, "o")
        ended = (x and not o and moves[0] == moves[1] + 1) or (o and not x and moves[0] == moves[1])
        if ended or (not x and not o and moves == (5, 4)):
            boards.append((*board, x))
    frame = pd.DataFrame(boards, columns=[*(f"square {k}" for k in range(9)), "label"])
    return frame.drop(columns="label"), frame["label"].to_numpy().astype(int)


def real_sets() -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
    """Smallest class against the rest, by name."""
    from sklearn import datasets

    sets = {"tic-tac-toe": tic_tac_toe()}
    bunch = datasets.load_breast_cancer(as_frame=True)
    sets["breast cancer"] = bunch.data, bunch.target.to_numpy()
    folder = Path(os.environ.get("POLIDIFF_DATA", "data"))
    for name in ("ionosphere", "pima", "vehicle"):
        if (folder / f"{name}.csv").exists():
            frame = pd.read_csv(folder / f"{name}.csv")
            sets[name] = frame.drop(columns="label"), frame["label"].to_numpy()
    return {name: (X, _smallest(y)) for name, (X, y) in sets.items()}


def _smallest(y: np.ndarray) -> np.ndarray:
    labels, counts = np.unique(y, return_counts=True)
    return (y == labels[counts.argmin()]).astype(int)


def on_deciles(X: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same grid twice: as numbers of cells (or categories), and as the 0/1 columns that AIX360 wants."""
    cells, columns = {}, {}
    for name in X.columns:
        if X[name].dtype.kind not in "fiu":
            cells[name] = X[name].astype(str).to_numpy(dtype=object)
            for value in sorted(set(cells[name])):
                columns[name, "==", value] = (cells[name] == value).astype(int)
                columns[name, "!=", value] = 1 - columns[name, "==", value]
            continue
        values = X[name].to_numpy()
        levels = np.unique(values)
        cuts = levels[:-1] if len(levels) <= 10 else np.unique(np.quantile(values, np.linspace(0.1, 0.9, 9)))
        cuts = cuts[cuts < levels[-1]]
        cells[name] = np.searchsorted(cuts, values, side="left")
        for cut in cuts:
            columns[name, "<=", cut] = (values <= cut).astype(int)
            columns[name, ">", cut] = 1 - columns[name, "<=", cut]
    binary = pd.DataFrame(columns)
    binary.columns = pd.MultiIndex.from_tuples(columns, names=["feature", "operation", "value"])
    return pd.DataFrame(cells), binary

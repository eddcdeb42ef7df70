"""Other learners behind one door: fit on a frame, tell classes, count rules and literals.

Each peer chooses its one setting on a quarter of the training rows held out, then learns from all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rules.data import on_deciles


@dataclass(frozen=True)
class Fitted:
    """A learned model."""

    predict: Callable[[pd.DataFrame], np.ndarray]
    rules: int
    literals: int


def ours(X: pd.DataFrame, y: np.ndarray, setting: Any) -> Fitted:
    """polidiff with a clause cost, or "auto"."""
    from polidiff.rules import RuleClassifier

    literal = 3e-4 if setting == "auto" else 0.3 * setting
    model = RuleClassifier(clause_cost=setting, literal_cost=literal, random_state=0).fit(X, y)
    return Fitted(model.predict, len(model.decision_list_), sum(rule.literals for rule, _ in model.decision_list_))


def tree(X: pd.DataFrame, y: np.ndarray, setting: Any) -> Fitted:
    """scikit-learn's tree with so many leaves; a rule is a leaf of another class than the commonest."""
    from sklearn.tree import DecisionTreeClassifier

    columns = _dummies(X).columns
    model = DecisionTreeClassifier(max_leaf_nodes=setting, random_state=0).fit(_dummies(X), y)
    inner, leaves = model.tree_, []
    stack = [(0, 0)]
    while stack:
        node, depth = stack.pop()
        if inner.children_left[node] < 0:
            leaves.append((int(inner.value[node][0].argmax()), depth))
        else:
            stack += [(inner.children_left[node], depth + 1), (inner.children_right[node], depth + 1)]
    default = int(np.bincount(np.searchsorted(model.classes_, y)).argmax())
    told = [depth for label, depth in leaves if label != default]
    return Fitted(lambda Z: model.predict(_dummies(Z).reindex(columns=columns, fill_value=0)), len(told), sum(told))


def figs(X: pd.DataFrame, y: np.ndarray, setting: Any) -> Fitted:
    """imodels' sums of trees; a rule is a split."""
    from imodels import FIGSClassifier

    columns = _dummies(X).columns
    model = FIGSClassifier(max_rules=setting, random_state=0)
    model.fit(_dummies(X).to_numpy(dtype=float), y)
    return Fitted(
        lambda Z: model.predict(_dummies(Z).reindex(columns=columns, fill_value=0).to_numpy(dtype=float)),
        int(model.complexity_),
        int(model.complexity_),
    )


def ripper(X: pd.DataFrame, y: np.ndarray, setting: Any) -> Fitted:
    """wittgenstein's RIPPER with a share of rows to prune on; two classes only."""
    import wittgenstein

    model = wittgenstein.RIPPER(prune_size=setting, random_state=0)
    model.fit(X.rename(columns=str), y, pos_class=1)
    rules = model.ruleset_.rules
    return Fitted(
        lambda Z: np.array(model.predict(Z.rename(columns=str)), dtype=int),
        len(rules),
        sum(len(r.conds) for r in rules),
    )


def aix360(X: pd.DataFrame, y: np.ndarray, setting: Any) -> Fitted:
    """BooleanRuleCG on nine quantiles with both costs equal; two classes only."""
    from aix360.algorithms.rbm import BooleanRuleCG

    _, binary = on_deciles(X)
    model = BooleanRuleCG(lambda0=setting, lambda1=setting, CNF=False, silent=True)
    model.fit(binary, pd.Series(y))
    chosen = model.z.loc[:, model.w > 0.5]
    clauses = [list(chosen.index[chosen[k] > 0]) for k in chosen.columns]

    def told(Z: pd.DataFrame) -> np.ndarray:
        covers = [np.all([_holds(Z, literal) for literal in clause], axis=0) for clause in clauses]
        return np.any(covers, axis=0).astype(int) if covers else np.zeros(len(Z), dtype=int)

    return Fitted(told, len(clauses), sum(len(clause) for clause in clauses))


SETTINGS: dict[str, tuple[Callable[..., Fitted], tuple[Any, ...]]] = {
    "polidiff": (ours, ("auto",)),
    "tree": (tree, (8, 24, 64, 200)),
    "FIGS": (figs, (4, 8, 16, 32, 60)),
    "RIPPER": (ripper, (0.33, 0.5)),
    "AIX360": (aix360, (0.01, 0.003, 0.001)),
}


def tuned(name: str, X: pd.DataFrame, y: np.ndarray, seed: int) -> Fitted:
    """The peer with the setting that does best on held-out training rows."""
    from sklearn.model_selection import train_test_split

    learn, settings = SETTINGS[name]
    if len(settings) == 1:
        return learn(X, y, settings[0])
    fit, judge = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    inner = [learn(X.iloc[fit].reset_index(drop=True), y[fit], setting) for setting in settings]
    scores = [(model.predict(X.iloc[judge]) == y[judge]).mean() for model in inner]
    return learn(X.reset_index(drop=True), y, settings[int(np.argmax(scores))])


def _holds(Z: pd.DataFrame, literal: tuple[str, str, Any]) -> np.ndarray:
    name, operation, value = literal
    column = Z[name].to_numpy()
    if operation in ("==", "!="):
        same = column.astype(str) == str(value)
        return same if operation == "==" else ~same
    return column <= value if operation == "<=" else column > value


def _dummies(X: pd.DataFrame) -> pd.DataFrame:
    return pd.get_dummies(X) if any(dtype.kind not in "fiu" for dtype in X.dtypes) else X

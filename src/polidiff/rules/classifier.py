"""`RuleClassifier`: Boolean decision rules by column generation, as a scikit-learn classifier."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from polidiff.errors import InvalidOptionError
from polidiff.options import Limit, Setting, is_number, is_whole
from polidiff.progress import Clock
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.rules.generate import GenerationOptions
from polidiff.rules.learners import Estimator, steady_weights
from polidiff.rules.lists import DecisionList, Label, Table, as_table, best_order, first_matches, shorten
from polidiff.rules.peeling import (
    Labelled,
    Listed,
    PeelingOptions,
    Stage,
    choose_cost,
    cleanest_first,
    peel,
    rules_of,
    stage_objective,
    stage_rows,
    weight_told_wrong,
)
from polidiff.rules.proof import ProofOptions

DEFAULT_COST = 2e-3  # of a clause, as a share of the weight
MOST_ORDERED = 60  # rules up to which their order is chosen
MOST_CLASSES = 8  # told by rules, up to which another order of peeling is tried
BELOW = 0.1  # of `overlap_cost`: what covering rows already told costs where boxes lie over boxes
AUTO_LITERALS = 1e-3  # cost of a clause at which a literal costs `literal_cost` when the clause cost is chosen


class RuleWarning(UserWarning):
    """Rules are missing where they were asked for."""


class RuleClassifier(ClassifierMixin, BaseEstimator):
    r"""A few readable rules per class.

    Minimises, for each class against those still to come (smallest first, default class last),

    .. math:: \frac{1}{W} \Big( \sum_{i \in P} w_i [i \text{ not covered}]
              + \sum_{k} \sum_{i \in N} w_i [k \text{ covers } i]
              + v \sum_{k} \sum_{i \in T} w_i [k \text{ covers } i] \Big)
              + c_0 \cdot \#\text{clauses} + c_1 \cdot \#\text{literals}

    the weighted Hamming loss plus the cost of reading. P are the rows of the class, N those of the classes still to
    come, T those of the classes already told (rows of P and N that earlier rules cover are left out: the list has
    decided them); v is `overlap_cost`, W the weight of all rows. Where that takes more rules than there are classes,
    another order is tried: the class that is told most cleanly first, for it lies on top of the others, and v a tenth.
    The list that tells more right for what it costs to read is kept.

    Parameters
    ----------
    form : "dnf" or "cnf"
        Whether a class is told as an or of ands, or as an and of ors. In "cnf" the sum above is that of the rows that
        are not of the class, since each clause denies a rule that covers them.
    clause_cost, literal_cost : float
        :math:`c_0, c_1`: the share of the weight that one more clause or literal must explain. `clause_cost="auto"`
        chooses the clause cost by inner cross-validation; `literal_cost` is then what a literal costs when a clause
        costs 0.001, and is scaled with it. The default, two rows in a thousand, keeps 5 % of wrong labels out of the
        rules from about a thousand rows on.
    overlap_cost : float
        :math:`v`: what covering a row of a class already told costs, as a share of its weight. 0: rules are read in
        order only; 1: every rule stands on its own, and no other order of peeling is tried.
    max_rules : int, optional
        At most so many rules over all classes; with form="cnf", clauses of each class.
    default_class : label, optional
        The class without rules; the heaviest class if None.
    max_bins : int
        Cells per feature while searching; bounds are placed on all rows afterwards.
    max_samples : int
        Rows used to search; bounds and figures come from all rows.
    refine : bool
        Whether to move bounds off the grid and drop literals that earn nothing.
    proof_budget : int
        Partial clauses that exact pricing may look at for each feature; 0: no proof, and no bound.
    time_limit : float, optional
        Seconds, after which the best rules so far are taken.
    random_state : int or RandomState, optional
        Draws the rows when there are more than `max_samples`.

    Attributes
    ----------
    decision_list_ : tuple of (Rule, class)
        First match wins; `default_class_` where none does.
    rules_ : dict
        Class to its rules, in the order of peeling; in "cnf" the disjoint rules that its clauses come to.
    clauses_ : dict
        Class to its clauses in "cnf", each a tuple of conditions of which one must hold; empty in "dnf".
    objective_, bound_, gap_ : float, float or None, float or None
        The sum above over all stages; a proven lower bound of it given the order of peeling and, for later stages, the
        rules before; and (objective_ − bound_) / objective_. None unless proven.
    clause_cost_ : float
        The cost of a clause that was used.
    messages_ : tuple of str
        Why a class has no rules, and what to change.

    Examples
    --------
    >>> X = np.array([[0.05], [0.15], [0.22], [0.27], [0.33], [0.4]])
    >>> model = RuleClassifier().fit(X, [0, 0, 1, 1, 0, 0])
    >>> [(rule.conditions[0].low, rule.conditions[0].high, label) for rule, label in model.decision_list_]
    [(0.2, 0.3, 1)]
    """

    def __init__(
        self,
        *,
        form: str = "dnf",
        clause_cost: float | str = DEFAULT_COST,
        literal_cost: float = 3e-4,
        overlap_cost: float = 0.25,
        max_rules: int | None = None,
        default_class: Label = None,
        max_bins: int = 64,
        max_samples: int = 16_000,
        refine: bool = True,
        proof_budget: int = 5_000,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.form = form
        self.clause_cost = clause_cost
        self.literal_cost = literal_cost
        self.overlap_cost = overlap_cost
        self.max_rules = max_rules
        self.default_class = default_class
        self.max_bins = max_bins
        self.max_samples = max_samples
        self.refine = refine
        self.proof_budget = proof_budget
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> RuleClassifier:
        """Learn rules for every class but the default one."""
        clock = Clock(self.time_limit)
        _check_options(self)
        rows, labels = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")
        check_classification_targets(labels)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not 0 < weights.sum() < np.inf:
            raise InvalidOptionError("sample_weight must hold finite numbers, of which one is above 0")
        weight = steady_weights(weights)
        table = as_table(rows, getattr(self, "feature_names_in_", None))
        self._categorical = table.categorical
        self.classes_, truth = np.unique(labels, return_inverse=True)
        labelled = Labelled(table, truth, weight, tuple(map(str, self.classes_)))
        order, self.default_class_ = _peeling_order(self, truth, weight)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        fit = _Fit(self, labelled, clock, rng)
        self.clause_cost_ = fit.clause_cost(order)
        options = _options(self, float(weight.sum()), cost=self.clause_cost_, budget=self.proof_budget)
        by_size = fit.learned(order, options)
        other = fit.by_cleanness(by_size, options)
        chosen = by_size if other is None else min(by_size, other, key=partial(fit.list_cost, options))
        _store(self, chosen, options.total)
        return self

    def predict(self, X: npt.ArrayLike) -> AnyArray:
        """Class of each row: the first rule that covers it, else the default class."""
        match = first_matches(_checked(self, X), [rule for rule, _ in self.decision_list_])
        classes = [*(label for _, label in self.decision_list_), self.default_class_]
        return np.array(classes, dtype=self.classes_.dtype if self.default_class_ in self.classes_ else object)[match]

    def rule_path(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        *,
        max_rules: int | None = None,
    ) -> tuple[DecisionList, ...]:
        """Nested decision lists with 0, 1, 2 … rules: each leaves out the rule of the next that matters least here."""
        table = _checked(self, X)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        labelled = Labelled(table, np.searchsorted(self.classes_, y), weight, names=())
        listed = tuple((rule, int(np.searchsorted(self.classes_, label))) for rule, label in self.decision_list_)
        chosen = shorten(*_cover(listed, labelled), _default_index(self))
        lists = tuple(DecisionList(tuple(self.decision_list_[k] for k in kept), self.default_class_) for kept in chosen)
        return lists if max_rules is None else lists[: max_rules + 1]

    def __sklearn_tags__(self) -> Estimator:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _checked(model: RuleClassifier, X: npt.ArrayLike) -> Table:
    check_is_fitted(model)
    rows = validate_data(model, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
    return as_table(rows, getattr(model, "feature_names_in_", None), model._categorical)


def _check_options(model: RuleClassifier) -> None:
    least = 1 if str(model.form) == "cnf" else 0  # no clause denies nothing: all rows would be of the class
    limits: dict[str, Limit] = {
        "form": ("'dnf' or 'cnf'", lambda value: isinstance(value, str) and value in ("dnf", "cnf")),
        **dict.fromkeys(("clause_cost", "literal_cost", "overlap_cost"), ("a number of at least 0", _is_cost)),
        "max_rules": (f"None or at least {least}", lambda value: value is None or (is_whole(value) and value >= least)),
        "max_bins": ("between 2 and 254", lambda value: is_whole(value) and 2 <= value <= 254),
        "max_samples": ("at least 2", lambda value: is_whole(value) and value >= 2),
        "refine": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
        "proof_budget": ("a whole number of at least 0", lambda value: is_whole(value) and value >= 0),
        "time_limit": ("None or at least 0 seconds", lambda value: value is None or (is_number(value) and value >= 0)),
    }
    for name, (words, holds) in limits.items():
        value = getattr(model, name)
        if not holds(value) and not (name == "clause_cost" and isinstance(value, str) and value == "auto"):
            raise InvalidOptionError(f"{name} must be {words}; got {value!r:.80}")


def _is_cost(value: Setting) -> bool:
    return is_number(value) and 0 <= value <= sys.float_info.max


def _options(model: RuleClassifier, total: float, *, cost: float, budget: int) -> PeelingOptions:
    """Options of the stages when a clause costs `cost` of the total weight."""
    scale = cost / AUTO_LITERALS if model.clause_cost == "auto" else 1.0
    return PeelingOptions(
        clause_cost=cost * total,
        literal_cost=model.literal_cost * scale * total,
        total=total,
        overlap_cost=model.overlap_cost,
        max_bins=model.max_bins,
        max_samples=model.max_samples,
        refine=model.refine,
        generation=GenerationOptions(max_rules=model.max_rules, proof=ProofOptions(budget=budget)),
        form=model.form,
    )


def _peeling_order(model: RuleClassifier, truth: AnyArray, weight: FloatArray) -> tuple[list[int], Label]:
    mass = np.bincount(truth, weights=weight, minlength=len(model.classes_))
    order = [int(c) for c in np.argsort(mass, kind="stable") if mass[c] > 0]
    if model.default_class is None:
        return order[:-1], model.classes_.tolist()[order[-1] if order else 0]
    return [c for c in order if model.classes_[c] != model.default_class], model.default_class


@dataclass(frozen=True, eq=False)
class _Learned:
    """Stages, and their rules in the order in which they are read."""

    stages: tuple[Stage, ...]
    rules: Listed


@dataclass(frozen=True, eq=False)
class _Fit:
    """What a classifier is fitted to, and with what time and luck."""

    model: RuleClassifier
    labelled: Labelled
    clock: Clock
    rng: np.random.Generator

    def clause_cost(self, order: list[int]) -> float:
        """The cost of a clause: as given, or chosen by cross-validation."""
        model = self.model
        if model.clause_cost != "auto":
            return float(model.clause_cost)
        if not order:
            return DEFAULT_COST

        def quick(cost: float, weight: float) -> PeelingOptions:
            """Options with less search: enough to compare costs."""
            options = _options(model, weight, cost=cost, budget=0)
            return replace(options, generation=replace(options.generation, rounds=8, patience=2, progress=1e-3))

        default = _default_index(model)
        return choose_cost(self.labelled, quick, order, default=default, clock=self.clock, rng=self.rng)

    def learned(self, order: list[int], options: PeelingOptions) -> _Learned:
        """Rules of all classes, peeled in an order, at most `max_rules`; read in the order that tells most right."""
        stages = peel(self.labelled, order, options, clock=self.clock, rng=self.rng)
        if self.model.form == "cnf":
            return _Learned(stages, rules_of(stages))
        if self.model.max_rules is not None:
            stages = self._cut(stages, self.model.max_rules, options)
        listed = rules_of(stages)
        if 1 < len(listed) <= MOST_ORDERED and len({label for _, label in listed}) > 1:
            order = best_order(*_cover(listed, self.labelled), _default_index(self.model))
            listed = tuple(listed[k] for k in order)
        return _Learned(stages, listed)

    def by_cleanness(self, known: _Learned, options: PeelingOptions) -> _Learned | None:
        """Rules peeled from the top of what overlaps; None where nothing speaks for it: a rule tells each class."""
        order = [stage.label for stage in known.stages]
        alone = options.overlap_cost >= 1 or self.model.form == "cnf"
        if alone or not 1 < len(order) <= MOST_CLASSES or len(known.rules) <= len(order):
            return None
        own, options = self.rng.spawn(1)[0], replace(options, overlap_cost=options.overlap_cost * BELOW)
        seeds = replace(options.generation, rounds=8, patience=0, settling=0, proof=ProofOptions(budget=0))
        quick = replace(options, overlap_cost=0.0, refine=False, generation=seeds)
        better = cleanest_first(self.labelled, order, quick, clock=self.clock, rng=own)
        return None if better is None else replace(self, rng=own).learned(better, options)

    def list_cost(self, options: PeelingOptions, learned: _Learned) -> float:
        """Weight that a list tells wrong, and what reading it costs."""
        reading = sum(options.clause_cost + options.literal_cost * rule.literals for rule, _ in learned.rules)
        return weight_told_wrong(self.labelled, learned.rules, _default_index(self.model)) + reading

    def _cut(self, stages: tuple[Stage, ...], most: int, options: PeelingOptions) -> tuple[Stage, ...]:
        """The stages with at most so many rules in all, their objectives counted again."""
        listed = rules_of(stages)
        if len(listed) <= most:
            return stages
        chosen = set(shorten(*_cover(listed, self.labelled), _default_index(self.model))[most])
        first = 0
        cut: list[Stage] = []
        for stage in stages:
            rules = tuple(rule for k, rule in enumerate(stage.rules, first) if k in chosen)
            first += len(stage.rules)
            rows = stage_rows(self.labelled, cut, stage.label, options)
            cut.append(replace(stage, rules=rules, objective=stage_objective(rows, rules, options)))
        return tuple(cut)


def _store(model: RuleClassifier, learned: _Learned, total: float) -> None:
    stages, labels = learned.stages, model.classes_.tolist()
    model.decision_list_ = tuple((rule, labels[label]) for rule, label in learned.rules)
    model.rules_ = {labels[stage.label]: stage.rules for stage in stages}
    model.clauses_ = {labels[stage.label]: stage.clauses for stage in stages if stage.clauses}
    model.objective_ = sum(stage.objective for stage in stages) / total
    bounds = [stage.bound for stage in stages if stage.bound is not None]
    model.bound_ = sum(bounds) / total if len(bounds) == len(stages) else None
    model.gap_ = None if model.bound_ is None else max(0.0, 1.0 - model.bound_ / max(model.objective_, 1e-300))
    model.messages_ = tuple(stage.message for stage in stages if stage.message)
    if model.messages_:
        warnings.warn(" ".join(model.messages_), RuleWarning, stacklevel=3)


def _cover(listed: Listed, labelled: Labelled) -> tuple[BoolArray, IntArray, IntArray, FloatArray]:
    """Which rule covers which row (R, n), the class that each tells (R,), and the rows' classes and weights."""
    cover = np.array([labelled.table.covered_by(rule) for rule, _ in listed]).reshape(len(listed), labelled.table.rows)
    return cover, np.array([label for _, label in listed], dtype=np.int64), labelled.truth, labelled.weight


def _default_index(model: RuleClassifier) -> int:
    """Where the default class stands among the classes, -1 when it is not one of them."""
    known = np.flatnonzero(model.classes_ == model.default_class_)
    return int(known[0]) if len(known) else -1

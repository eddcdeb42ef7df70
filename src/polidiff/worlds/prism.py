r"""Tables as models of the PRISM language, which probabilistic model checkers read, and such models as tables.

A property says what is asked of a model and thereby what an episode and its return are:

- ``Rmax=? [F "done"]``: an episode ends where ``"done"`` holds; the return is the reward until then.
- ``Pmax=? [safe U "done"]``: it ends where ``"done"`` holds, where ``safe`` does not, and where ``"done"`` is out of
  reach; the return is the probability of the first.

With ``min`` the return is the negative. A discount :math:`\gamma` is written as an end with probability
:math:`1 - \gamma`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from polidiff.errors import InvalidWorldError, MissingExtraError
from polidiff.options import Setting
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.checks import reachable_from

if TYPE_CHECKING:
    from polidiff.worlds.tabular import TabularMDP

DIGITS = 60  # of sums and products of decimals: two factors of 17 digits and what carries over
KEYWORDS = re.compile(
    r"A|bool|C|const|double|E|endinit|endmodule|endrewards|endsystem|F|false|filter|formula|func|G|global|I|init|int|"
    r"label|max|mdp|min|module|P|prob|R|rate|rewards|S|stochastic|system|true|U|W|X"
)


# --- a table as a model


def prism_text(world: TabularMDP) -> str:
    """A table as a PRISM model with the label "end", the rewards "return" and those of its other outcomes."""
    variables = _Variables(world)
    names = _identifiers([action.name for action in world.actions])
    lines = ["mdp", "", "module table", *variables.declared()]
    with localcontext() as context:
        context.prec = DIGITS
        if variables.begins:
            lines.append(f"  [begin] {variables.begin} -> {variables.drawn()};")
        for state, action in _decisions(world):
            lines.append(f"  [{names[action]}] {variables.at(state)} -> {variables.move(state, action)};")
    lines.append(f"  [] {variables.ended()} -> true;")
    lines += ["endmodule", "", f'label "end" = {variables.ended()};']
    for name, values in [("return", world.rewards), *_other_outcomes(world)]:
        lines += ["", f'rewards "{name}"']
        paid = [(state, action) for state, action in _decisions(world) if values[state, action]]
        lines += [f"  [{names[a]}] {variables.at(s)} : {Decimal(repr(float(values[s, a]))):f};" for s, a in paid]
        lines += ["endrewards"] if paid else ["  false : 0;", "endrewards"]
    return "\n".join(lines) + "\n"


def _decisions(world: TabularMDP) -> Iterator[tuple[int, int]]:
    for state in np.flatnonzero(~world.absorbing):
        for action in np.flatnonzero(world.allowed[state]):
            yield int(state), int(action)


def _other_outcomes(world: TabularMDP) -> list[tuple[str, FloatArray]]:
    others = [outcome for outcome in world.outcomes if outcome is not world.return_outcome]
    names = _identifiers([outcome.name for outcome in others], taken=("return",))
    return [(name, world.outcome_table(outcome)) for name, outcome in zip(names, others, strict=True)]


def _identifiers(names: Sequence[str], taken: Sequence[str] = ("begin", "return", "phase")) -> list[str]:
    """Names as the language allows them, all different."""
    used, made = Counter(taken), list[str]()
    for name in names:
        word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "unnamed"
        word = f"_{word}" if word[0].isdigit() or KEYWORDS.fullmatch(word) else word
        while used[word]:
            word += "_"
        used[word] += 1
        made.append(word)
    return made


class _Variables:
    """The state in variables: the features where they are whole numbers that tell states apart, else its number.

    A variable ``phase`` is added where the start is drawn (0) or a discount ends episodes (2).
    """

    def __init__(self, world: TabularMDP) -> None:
        self.world = world
        values = _whole_features(world)
        self.names = _identifiers(world.feature_names if values is not None else ["state"])
        self.values: IntArray = np.arange(world.n_states)[:, None] if values is None else values
        self.begins = len(world.starts) > 1
        self.phased = self.begins or world.discount < 1
        self.begin = "phase=0"

    def declared(self) -> list[str]:
        start = self.values[self.world.starts[0]]
        columns = zip(self.names, self.values.min(axis=0), self.values.max(axis=0), start, strict=True)
        lines = [f"  {name} : [{low}..{max(high, low + 1)}] init {first};" for name, low, high, first in columns]
        return lines + ([f"  phase : [0..2] init {0 if self.begins else 1};"] if self.phased else [])

    def at(self, state: int) -> str:
        """The guard of a state."""
        going = ["phase=1"] if self.phased else []
        return " & ".join([*going, *(f"{n}={v}" for n, v in zip(self.names, self.values[state], strict=True))])

    def ended(self) -> str:
        ends = [f"({self.at(int(state))})" for state in np.flatnonzero(self.world.absorbing)]
        return " | ".join((["phase=2"] if self.world.discount < 1 else []) + ends) or "false"

    def move(self, state: int, action: int) -> str:
        row = self.world.transitions[[state * self.world.n_actions + action]]
        ends = self._updates(row.indices.astype(np.int64), row.data)
        discount = Decimal(repr(self.world.discount))
        if discount == 1:
            return " + ".join(f"{probability:f}:{update}" for probability, update in ends)
        stays = [f"{probability * discount:f}:{update}" for probability, update in ends]
        return " + ".join([*stays, f"{1 - discount:f}:(phase'=2)"])

    def drawn(self) -> str:
        starts = self.world.starts
        ends = self._updates(starts, self.world.initial[starts])
        return " + ".join(f"{probability:f}:{update} & (phase'=1)" for probability, update in ends)

    def _updates(self, states: IntArray, probabilities: FloatArray) -> list[tuple[Decimal, str]]:
        """Decimals that sum to 1 exactly: the largest takes what rounding left."""
        decimals = [Decimal(repr(float(p))) for p in probabilities]
        decimals[int(np.argmax(probabilities))] += 1 - sum(decimals, Decimal(0))
        texts = [
            " & ".join(f"({name}'={value})" for name, value in zip(self.names, self.values[state], strict=True))
            for state in states
        ]
        return list(zip(decimals, texts, strict=True))


def _whole_features(world: TabularMDP) -> IntArray | None:
    """Features (S, d) where all are whole numbers and no two states share them, else None."""
    if world.features is None or not np.issubdtype(world.features.dtype, np.number):
        return None
    whole = np.isfinite(world.features).all() and (world.features == np.round(world.features)).all()
    if not whole or np.abs(world.features).max(initial=0) >= 2**31:
        return None
    values = world.features.astype(np.int64)
    return values if len(np.unique(values, axis=0)) == len(values) else None


# --- a model as a table

Storm: TypeAlias = Any  # stormpy, and what it makes: there are no stubs


def table_of(
    source: str | Path, objective: str, constants: Mapping[str, float] | str | None = None
) -> dict[str, Setting]:
    """Keyword arguments for `TabularMDP` from a PRISM file and a property that says what is asked of it."""
    try:
        import stormpy
    except ImportError:
        raise MissingExtraError("stormpy", "storm") from None
    try:
        program = stormpy.parse_prism_program(str(source), prism_compatibility=True)
        asked = stormpy.parse_property(objective, program)
        if constants:
            program, (asked,) = stormpy.instantiate_constants(program, constants, [asked])
        options = stormpy.BuilderOptions([asked], build_full=True)
        options.set_scale_and_lift_transition_rewards()
        model = stormpy.build_model(program, options=options)
    except (stormpy.exceptions.StormError, RuntimeError, OSError) as error:
        raise InvalidWorldError(f"{source} with {objective!r} cannot be read: {error}") from None
    return _Model(stormpy, program, model).arguments(asked.get_raw_formula(), objective)


class _Model:
    """A model that Storm has built."""

    def __init__(self, stormpy: Storm, program: Storm, model: Storm) -> None:
        self.stormpy, self.program, self.model = stormpy, program, model
        if str(model.model_type).rsplit(".", 1)[-1] not in ("MDP", "DTMC"):
            raise InvalidWorldError(f"a table is made from an mdp or dtmc; this model is of type {model.model_type}")
        self.count, matrix = model.nr_states, model.transition_matrix
        groups = np.array([matrix.get_row_group_start(s) for s in range(self.count)] + [matrix.nr_rows])
        self.state = np.repeat(np.arange(self.count), np.diff(groups))  # (choices,) where each can be taken
        self.names, self.action = ["stay"], np.zeros(len(self.state), dtype=np.int64)
        self.moves = self._matrix()

    def _actions(self, absorbing: BoolArray) -> tuple[list[str], IntArray]:
        """Names of actions, and the one of each choice: its label, else its module, then numbered."""
        modules = {c.global_index: module.name for module in self.program.modules for c in module.commands}
        number: dict[str, int] = {}
        action, used = np.zeros(len(self.state), dtype=np.int64), set[tuple[int, str]]()
        for choice in np.flatnonzero(~absorbing[self.state]):
            state = int(self.state[choice])
            labels = sorted(self.model.choice_labeling.get_labels_of_choice(choice))
            origin = sorted({modules[c] for c in self.model.choice_origins.get_command_set(choice)})
            first = name = "+".join(labels or origin) or "stay"
            more = 1
            while (state, name) in used:
                more += 1
                name = f"{first} {more}"
            used.add((state, name))
            action[choice] = number.setdefault(name, len(number))
        return list(number), action

    def arguments(self, formula: Storm, objective: str) -> dict[str, Setting]:
        path, logic = formula.subformula, self.stormpy.logic
        probability = isinstance(formula, logic.ProbabilityOperatorFormula)
        until = probability and isinstance(path, logic.UntilFormula)
        if not (until or type(path) is logic.EventuallyFormula) or not formula.has_optimality_type:
            raise InvalidWorldError(
                f"{objective!r} does not say where an episode ends. Hint: Rmax=? [F goal], Pmax=? [F goal] or "
                "Pmax=? [safe U goal], with max or min"
            )
        goal = self._holds(path.right_subformula if until else path.subformula)
        sign = -1.0 if "min" in str(formula.optimality_type).lower() else 1.0
        arrive = self.moves @ goal.astype(np.float64)
        named = [structure.name for structure in self.program.reward_models]
        paid = {name: self._rewards(self.model.reward_models[name]) for name in named}
        if probability:
            lost = ~self._holds(path.left_subformula) if until else np.zeros(self.count, dtype=np.bool_)
            absorbing, value = goal | lost | ~self._reaching(goal), arrive
        else:
            asked = formula.reward_name if formula.has_reward_model_name() else next(iter(paid), None)
            if asked not in paid:
                raise InvalidWorldError(f"the model has no rewards {asked!r}; it has {sorted(paid)}")
            absorbing, value = goal, paid.pop(asked)
        self.names, self.action = self._actions(absorbing)
        starts = np.zeros(self.count)
        starts[list(self.model.initial_states)] = 1.0 / len(list(self.model.initial_states))
        return {
            "transitions": self._by_action(absorbing),
            "rewards": self._table(sign * value),
            "initial": starts,
            "absorbing": absorbing,
            "actions": self.names,
            "allowed": self._table(np.ones(len(self.state))) > 0,
            "outcomes": [Outcome(name or "reward", self._table(values)) for name, values in paid.items()],
            **self._described(),
        }

    def _holds(self, formula: Storm) -> BoolArray:
        result = self.stormpy.model_checking(self.model, formula)
        holds = np.zeros(self.count, dtype=np.bool_)
        holds[list(result.get_truth_values_vector())] = True
        return holds

    def _matrix(self) -> sparse.csr_array:
        """(choices, S) where each choice leads."""
        rows = [list(self.model.transition_matrix.get_row(choice)) for choice in range(len(self.state))]
        ends = np.cumsum([0, *map(len, rows)])
        entries = [entry for row in rows for entry in row]
        where, shares = [entry.column for entry in entries], [float(entry.value) for entry in entries]
        return sparse.csr_array((shares, where, ends), shape=(len(rows), self.count))

    def _reaching(self, goal: BoolArray) -> BoolArray:
        """States from which some policy reaches the goal."""
        moves = self.moves.tocoo()
        back = sparse.csr_array((moves.data, (moves.col, self.state[moves.row])), shape=(self.count, self.count))
        return reachable_from(back, goal)

    def _rewards(self, model: Storm) -> FloatArray:
        """(choices,) reward of a choice, with that of its state."""
        own = np.array(model.state_action_rewards, dtype=np.float64) if model.has_state_action_rewards else 0.0
        states = np.array(model.state_rewards, dtype=np.float64)[self.state] if model.has_state_rewards else 0.0
        return np.asarray(np.zeros(len(self.state)) + own + states)

    def _table(self, values: FloatArray) -> FloatArray:
        table = np.zeros((self.count, len(self.names)))
        table[self.state, self.action] = values
        return table

    def _by_action(self, absorbing: BoolArray) -> list[sparse.csr_array]:
        moves, shape = self.moves.tocoo(), (self.count, self.count)
        by = []
        for action in range(len(self.names)):
            own = (self.action[moves.row] == action) & ~absorbing[self.state[moves.row]]
            by.append(sparse.csr_array((moves.data[own], (self.state[moves.row[own]], moves.col[own])), shape=shape))
        return by

    def _described(self) -> dict[str, Setting]:
        """Names of states, and the variables of the model as features."""
        rows = [json.loads(str(self.model.state_valuations.to_json(state))) for state in range(self.count)]
        names = sorted(rows[0], key=self._position)
        texts = [", ".join(f"{name}={row[name]}" for name in names) for row in rows]
        unique = texts if len(set(texts)) == len(texts) else [f"s{s} ({text})" for s, text in enumerate(texts)]
        values = np.array([[float(row[name]) for name in names] for row in rows])
        return {"states": unique, "features": values, "feature_names": names} if names else {}

    def _position(self, name: str) -> int:
        """Where the program declares a variable."""
        program = self.program
        declared = [v.name for v in [*program.global_integer_variables, *program.global_boolean_variables]]
        declared += [v.name for m in program.modules for v in [*m.integer_variables, *m.boolean_variables]]
        return declared.index(name) if name in declared else len(declared)

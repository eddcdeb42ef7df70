"""Which column of a log means what, checked at the door, and numbers for the labels of states and actions.

Names of columns in other languages, word by word in English, so that one set of patterns reads them all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError, InvalidOutcomeError
from polidiff.records.action import Action, ActionNames, as_actions
from polidiff.records.arrays import FloatArray, IntArray, as_numbers
from polidiff.records.numbers import counted
from polidiff.records.outcome import Outcome
from polidiff.worlds.shards.shard_files import collect

ROW = "polidiff: row"  # where a row stood, in a table whose rows were put in order or left out
RANKED = pl.UInt32  # people as numbers without gaps, in tables: so few of them are dealt evenly
HARMFUL = (  # names of outcomes of which less is better
    r"(^|_)(cost|costs|died|death|dead|mortality|harm|bleed|bleeding|readmission|readmitted|relapse|recurrence|infection|churn"
    r"|complication|failure|loss|default|adverse|pancreatitis|expired?|(re)?arrest(ed)?|recidivism)(_|$)"
)
LEVELS = 5  # of an action in real numbers, where none are given
DONE = ("done", "dones", "is_done", "finished")


TAIL = 10  # people who must have what is told, in a message or at an end of a range: else it belongs to somebody


def row_name(index: int) -> str:
    """A row of a table, given its index from 0, as people count rows."""
    return f"row {index + 1} below the names"


def row_index(lazy: pl.LazyFrame) -> pl.Expr:
    """Where each row stood in the table that was handed in, from 0."""
    return pl.col(ROW) if ROW in lazy.collect_schema() else pl.int_range(pl.len())


@dataclass(frozen=True)
class Columns:
    """The columns of a log; one row per decision."""

    state: tuple[str, ...]  # one name if states are discrete, else the features that are the state
    discrete: bool
    action: str
    episode: str | None  # None: every row is an episode of one decision
    step: str | None  # None: rows are in order
    reward: str | None
    terminated: str | None  # None: no column tells the end
    truncated: str | None
    probability: str | None  # of the logged action under the policy that wrote the log
    chance: float | None  # the same, where it is one number
    group: str | None  # who is one unit; None: every episode
    features: tuple[str, ...]  # what rules speak about
    gains: tuple[str | float, ...]  # per outcome: its column, or what every decision adds
    ends_last: bool = False  # whether every episode ended in its last row
    temporal: bool = False  # whether steps are times, in which gaps cannot be told

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that is read."""
        single = (*self._single, self.reward, self.group)
        gains = [gain for gain in self.gains if isinstance(gain, str)]
        names = [*self.state, *(name for name in single if name is not None), *self.features, *gains]
        return tuple(dict.fromkeys(names))

    @property
    def _single(self) -> tuple[str | None, ...]:
        return self.action, self.episode, self.step, self.terminated, self.truncated, self.probability

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns whose values are names: of actions, and of discrete states."""
        return (self.action, self.state[0]) if self.discrete else (self.action,)

    @property
    def unit(self) -> str | None:
        """The column that tells whose rows belong together: a person's, or an episode's; None: every row is alone."""
        return self.group if self.group is not None else self.episode

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that must have a value in every row."""
        state = self.state if self.discrete else ()
        return tuple(name for name in (*self._single, self.group, *state) if name is not None)

    @property
    def outcome_columns(self) -> tuple[str, ...]:
        """The columns that tell outcomes."""
        gains = (gain for gain in self.gains if isinstance(gain, str))
        return tuple(dict.fromkeys(name for name in (self.reward, *gains) if name is not None))

    @property
    def values_per_row(self) -> int:
        """Numbers that one row takes as arrays: features, outcomes, action, episode, follower, probability."""
        return len(self.state) + len(self.gains) + 4


def _check_texts(roles: Mapping[str, object]) -> None:
    """An error unless every part that is given names a column, or several where it may."""
    for role, given in roles.items():
        names = given if role in ("state", "features") and isinstance(given, (list, tuple)) else (given,)
        needed = role in ("state", "action")
        if not all(isinstance(name, str) or (name is None and not needed) for name in names):
            raise InvalidLogError(f"{role} must name a column of the log by a text; got {given!r:.80}")


def name_columns(
    schema: pl.Schema,
    state: str | Sequence[str],
    features: Sequence[str] | None,
    outcomes: Sequence[Outcome],
    roles: Mapping[str, Any],
    terminated: str | None,
    truncated: str | bool | None,
    probability: str | float | None,
) -> Columns:
    """The parts that columns play; an error names the first column that is missing.

    `roles` name the columns of the action, the episode, the step, the reward and the group, or none.
    """
    flexible = {"probability": None if isinstance(probability, Real) else probability}
    flexible["truncated"] = None if isinstance(truncated, bool) else truncated
    _check_texts({"state": state, "features": features, "terminated": terminated, **flexible, **roles})
    discrete, episode, step, reward = isinstance(state, str), roles["episode"], roles["step"], roles["reward"]
    states = (state,) if isinstance(state, str) else tuple(state)
    if step is not None and episode is None:
        raise InvalidLogError(f"step={step!r} needs episode=, the column that tells which decisions belong together")
    _check_endings(schema, episode, terminated, truncated)
    if reward is not None and re.search(HARMFUL, plain_name(reward)):
        raise InvalidLogError(
            f"more of the reward is better, but {reward!r} sounds like harm. Hint: make it an outcome that says which "
            f'way is better (Outcome({reward!r}, {reward!r}, prefer="less"), or prefer in [[outcomes]] of a study), '
            "or give the column another name"
        )
    columns = Columns(
        state=states,
        discrete=discrete,
        terminated=terminated,
        truncated=truncated if isinstance(truncated, str) else None,
        probability=probability if isinstance(probability, str) else None,
        chance=_chance(probability),
        features=tuple(features) if features is not None else (() if discrete else states),
        gains=tuple(_gain(outcome) for outcome in outcomes),
        ends_last=terminated is None and truncated is False,
        **roles,
    )
    missing = [name for name in columns.used if name not in schema]
    if missing:
        raise InvalidLogError(
            f"the log must have column {missing[0]!r} ({len(missing)} of {len(columns.used)} named columns are "
            f"missing); it has {list(schema.names())[:20]}"
        )
    return columns


def _chance(probability: str | float | None) -> float | None:
    if probability is None or isinstance(probability, str):
        return None
    if isinstance(probability, bool) or not 0 < probability <= 1:
        raise InvalidLogError(
            f"probability must name a column, or be a number above 0 and at most 1; got {probability!r}"
        )
    return float(probability)


def _check_endings(
    schema: pl.Schema, episode: str | None, terminated: str | None, truncated: str | bool | None
) -> None:
    if episode is None:
        return
    lone = next((name for name in DONE if name in schema), None)
    question = (
        "does it mark that the process ended (terminated) or that the record was cut (truncated)? Name both columns, "
        "or say truncated=False if no episode was cut: a cut taken for an end makes every outcome too small"
    )
    if terminated is None and truncated is None:
        if lone is not None:
            raise InvalidLogError(f"column {lone!r} does not say how episodes end: {question}")
        raise InvalidLogError(
            "a log of episodes must say how they end: give terminated= (the process ended) and, where records were "
            "cut, truncated=; truncated=False alone says that every episode ended in its last row"
        )
    if terminated is not None and terminated.lower() in DONE and truncated is None:
        raise InvalidLogError(f"terminated={terminated!r} names a column that may mean either: {question}")


def _gain(outcome: Outcome) -> str | float:
    if isinstance(outcome.of, str):
        return outcome.of
    adds = None if callable(outcome.of) else as_numbers(outcome.of)
    if adds is not None and adds.ndim == 0 and np.isfinite(adds):
        return float(adds)
    raise InvalidOutcomeError(
        f"outcome {outcome.name!r} of a log must be a column name, or a number that every decision adds. Hint: write "
        "what a decision adds into a column"
    )


def check_types(schema: pl.Schema, columns: Columns) -> None:
    """An error names the first column of the wrong type."""
    for name in (columns.probability, *columns.outcome_columns):
        if name is not None and not (schema[name].is_numeric() or schema[name] == pl.Boolean):
            raise InvalidLogError(f"column {name!r} must hold numbers; it holds {schema[name]}")
    for name in (columns.terminated, columns.truncated):
        if name is not None and not (schema[name] == pl.Boolean or schema[name].is_integer()):
            raise InvalidLogError(f"column {name!r} must hold true or false (or 0 and 1); it holds {schema[name]}")
    for name in columns.labels:
        if schema[name].is_float() or schema[name].is_nested():
            raise InvalidLogError(
                f"column {name!r} must hold whole numbers or text; it holds {schema[name]}. Hint: "
                + ("state=[...] takes measurements as features" if name in columns.state else "name its values")
            )
    for name in columns.features:
        if schema[name].is_nested():
            raise InvalidLogError(f"feature {name!r} must hold numbers or text; it holds {schema[name]}")
    if columns.step is not None and not (schema[columns.step].is_numeric() or schema[columns.step].is_temporal()):
        raise InvalidLogError(f"column {columns.step!r} must hold numbers or times; it holds {schema[columns.step]}")


def nearest_levels(rows: pl.LazyFrame, column: str, given: object) -> tuple[pl.Expr, FloatArray]:
    """The number of the level nearest to each row's real number, and the levels (A, 1).

    They are those given, or the medians of fifths of what the column holds, to three digits.
    """
    value = pl.col(column).fill_nan(None)
    if given is None:
        middles = [value.quantile((2 * k + 1) / (2 * LEVELS)).alias(str(k)) for k in range(LEVELS)]
        given = [float(f"{level:.3g}") for level in collect(rows.select(middles)).row(0) if level is not None]
    try:
        levels = np.unique(np.array(given, dtype=np.float64).ravel())
    except (TypeError, ValueError):
        levels = np.zeros(0)
    if len(levels) < 2 or not np.isfinite(levels).all():
        raise InvalidLogError(
            f"column {column!r} holds real numbers, told at the nearest of some levels; at least two different numbers "
            f"are needed, got {given!r:.80}. Hint: actions=[0, 5, 10], or cut the column into whole numbers or text"
        )
    above = [(value > edge).cast(pl.Int64) for edge in ((levels[1:] + levels[:-1]) / 2).tolist()]
    return pl.when(value.is_not_null()).then(pl.sum_horizontal(above)).alias(column), levels[:, None]


OWN_NUMBERS = 100_000
MOST_LABELS = 10_000_000


@dataclass(frozen=True)
class Labels:
    """What a column may hold."""

    column: str
    names: tuple[str, ...]  # one per number
    own: bool  # the column holds the numbers themselves

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.names)

    def numbers_of(self, labels: Sequence[int | str]) -> IntArray:
        """The number of each label, as `number` gives it to rows."""
        if self.own:
            return np.array(labels, dtype=np.int64)
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place[str(label)] for label in labels], dtype=np.int64)

    def number(self) -> pl.Expr:
        """The number of each row's label; null where it is not among the names."""
        column = pl.col(self.column)
        if self.own:
            return column.cast(pl.Int64)
        return column.cast(pl.String).cast(pl.Enum(list(self.names)), strict=False).to_physical().cast(pl.Int64)


def find_labels(
    met: Sequence[int | str], dtype: pl.DataType, column: str, given: int | Sequence[str] | None, what: str
) -> Labels:
    """The labels of a column from those met in it; an error counts the values that are not among those given."""
    if isinstance(given, int) and given > MOST_LABELS:
        raise InvalidLogError(f"there may be at most {MOST_LABELS} {what}s; {given} were given")
    whole = bool(met) and (dtype.is_integer() or dtype == pl.Boolean) and int(met[0]) >= 0
    high = int(met[-1]) if whole else 0
    if whole and (given is not None or high < OWN_NUMBERS):
        given = high + 1 if given is None else given
        names = tuple(str(name) for name in (range(given) if isinstance(given, int) else given))
        if high >= len(names):
            raise InvalidLogError(
                f"column {column!r} holds numbers above {len(names) - 1}; {what}s 0 to {len(names) - 1} were given"
            )
        return Labels(column, names, True)
    labels = sorted(str(label) for label in met)
    if given is None:
        return Labels(column, tuple(labels), False)
    if isinstance(given, int):
        raise InvalidLogError(f"{what}s are text here; list their names instead of {given}")
    names = tuple(str(name) for name in given)
    unknown = [label for label in labels if label not in set(names)]
    if unknown:
        raise InvalidLogError(
            f"column {column!r} holds {counted(len(unknown), 'value')} that {'is' if len(unknown) == 1 else 'are'} not "
            f"among the {len(names)} {what}s given. Hint: list all of them, or leave {what}s out"
        )
    return Labels(column, names, False)


def named_actions(
    met: Sequence[int | str], dtype: pl.DataType, column: str, given: int | ActionNames | None
) -> tuple[Labels, tuple[Action, ...]]:
    """Labels of the action column and the actions as records, with their levels where the user gave any."""
    if given is None or isinstance(given, int):
        labels = find_labels(met, dtype, column, given, "action")
        return labels, as_actions(labels.names if not labels.own else None, labels.count)
    actions = as_actions(given, len(given))
    labels = find_labels(met, dtype, column, [action.name for action in actions], "action")
    return labels, actions


ENGLISH = {  # German, French, Spanish, Italian, Portuguese and Dutch, without accents
    "action": "massnahme aktion entscheidung decision decisao decisione accion acao azione beslissing",
    "treatment": "behandlung traitement tratamiento trattamento tratamento behandeling therapie terapia therapy",
    "drug": "medikament arznei wirkstoff medicament medicamento farmaco medicijn",
    "antibiotic": "antibiotikum antibiotika antibiotique antibiotico antibioticum",
    "dose": "dosis dosi dosage",
    "offer": "angebot offre oferta offerta aanbod rabatt remise descuento sconto desconto korting",
    "given": "gegeben erhalten verabreicht verordnet prescrit recu recibido recebido ricevuto gekregen gegeven",
    "patient": "patienten patientin paciente paziente patientes pacientes pazienti",
    "customer": "kunde kunden kundin cliente clientes klant",
    "person": "personne persona pessoa persoon teilnehmer participante partecipante",
    "stay": "aufenthalt fall sejour estancia ricovero internacao opname",
    "discharge": "entlassung entlassungs entlassart entlassdatum sortie dimissione ontslag",
    "los": "liegedauer verweildauer liegetage verpleegduur degenza",
    "visit": "besuch besuchs visite visita consulta consultation bezoek termin",
    "date": "datum fecha zeitpunkt",
    "day": "tag jour dia giorno",
    "week": "woche semaine semana settimana",
    "no": "nummer numero num nummern",
    "age": "alter edad eta idade leeftijd lebensalter",
    "sex": "geschlecht sexe sexo sesso geslacht",
    "height": "grosse groesse korpergrosse taille altura altezza lengte",
    "died": "verstorben gestorben tod todesfall decede deces mort fallecido muerte fallecimiento deceduto morto morte "
    "obito overleden",
    "cost": "kosten cout couts coste costes costo costi custo custos",
    "readmitted": "wiederaufnahme wiederaufgenommen rehospitalise reingreso readmitido readmissao reinternacao "
    "riammissione heropname",
    "relapse": "ruckfall rechute recaida ricaduta terugval",
    "complication": "komplikation komplikationen complicacion complicazione complicacao complicatie",
    "churn": "gekundigt kundigung resilie baja disdetta cancelamento opgezegd opzegging",
    "income": "einkommen revenu ingresos ingreso reddito renda inkomen",
    "score": "punktzahl punkte nota cijfer",
    "revenue": "umsatz erlos ertrag ventes ventas vendite ricavi receita vendas omzet",
    "profit": "gewinn benefice beneficio utile lucro winst",
    "purchased": "gekauft kauf achete achat comprado compra acquistato acquisto comprou gekocht",
    "cured": "geheilt genesen gueri curado guarito genezen",
    "survived": "uberlebt survecu sobrevivio sopravvissuto sobreviveu overleefd",
    "success": "erfolg succes exito successo sucesso",
    "outcome": "ergebnis resultat resultado risultato uitkomst",
    "end": "ende abschluss beendet fin final fine fim einde",
    "after": "danach nachher apres despues dopo depois daarna",
}
WORDS = {word: english for english, words in ENGLISH.items() for word in words.split()}
LINKS = {"de", "do", "da", "des", "du", "del", "della", "di", "of", "the", "van", "der", "la", "le", "el", "em", "en"}
LONG = 4  # letters of a word that may be part of another


def plain_name(name: str) -> str:
    """A name as patterns see it: small letters without accents, words in English, underscores between them.

    >>> [plain_name(name) for name in ("Age (years)", "PatientenNr", "Besuchsdatum", "décédé", "Nº do paciente")]
    ['age_years', 'patient_nr', 'visit_date', 'died', 'no_patient']
    """
    apart = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", "_", re.sub(r"\W+$", "", re.sub(r"\b[Nn][°º]", "No_", name.strip())))
    folded = unicodedata.normalize("NFKD", apart.lower().replace("ß", "ss"))
    letters = "".join(sign for sign in folded if not unicodedata.combining(sign))
    words = re.sub(r"\W+", "_", letters).split("_")
    linked = [word for word in words if word not in LINKS] if len(words) > 2 else words
    return re.sub("__+", "_", "_".join(_english(word) for word in linked))


def _english(word: str) -> str:
    """A word or a compound of two, in English where they are known."""
    cuts = range(LONG, len(word) - LONG + 1)
    both = (f"{WORDS[word[:k]]}_{WORDS[word[k:]]}" for k in cuts if word[:k] in WORDS and word[k:] in WORDS)
    return WORDS.get(word) or next(both, word)

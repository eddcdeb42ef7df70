"""One HTML file: everything inside, nothing fetched, nothing run but our own two scripts.

The page's content policy names the hashes of the chart library and of the page's script; no other script can run, and
no address can be contacted. Making the chart library's script takes seconds, so it is kept beside other caches of the
user, under the version that made it. A notebook shows the page in a frame of its own.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
from markupsafe import Markup

from polidiff._version import __version__
from polidiff.errors import InvalidOptionError, PolidiffError
from polidiff.explanation.change_numbers import number_changes
from polidiff.explanation.plan_text import change_texts, knee_text, plan_answers
from polidiff.explanation.said import Said, say
from polidiff.explanation.text import people_text, rests_on_lines, unit_text
from polidiff.explanation.words import few
from polidiff.files import write_whole
from polidiff.records.explanation import Explanation, Methods
from polidiff.records.numbers import counted, number, percent
from polidiff.records.plan import Frontier, ResultComparison
from polidiff.records.suppression import released
from polidiff.report import comparison, tables, view
from polidiff.report.figures import Figure, explanation_figures, frontier_figures, page_config
from polidiff.report.names import shown
from polidiff.report.plans import (
    PlansView,
    explained,
    plan_cards,
    plans_table,
    plans_view,
    size_of,
)
from polidiff.report.tables import methods_table, methods_text

Result: TypeAlias = Explanation | Frontier | ResultComparison
Content: TypeAlias = dict[str, Any]  # what the template and the page's script read, by name
SHOWN_AT_ONCE = 12
MOST_DATA = 270_000  # bytes of charts and plans; the limit of the page is 300 KB with the ledger and settings


def save_page(record: Result | Sequence[Result], path: str | os.PathLike[str]) -> Path:
    """Write a result, or several, as one HTML file."""
    records = record if isinstance(record, (list, tuple)) else (record,)
    return write_whole(path, page_html(*records))


def page_html(*records: Result) -> str:
    """A result, or an explanation and a frontier, as the text of one HTML file.

    Parameters
    ----------
    records : Explanation, Frontier
        At most one of each.
    """
    if len(records) == 1 and isinstance(records[0], ResultComparison):
        return _comparison_html(records[0])
    explanation, frontier = _by_kind(tuple(released(record) for record in records))
    script, library = _asset("page.js"), chart_script()
    content, charts, plans = _content(explanation, frontier)
    data = _embedded({"config": page_config(), "charts": charts, "plans": plans})
    content |= {"library": Markup(library), "script": Markup(script), "data": Markup(data)}
    return _rendered("page.html", content.pop("title"), _content_policy(library, script), content)


def _rendered(template: str, title: str, policy: str, content: Content) -> str:
    page = _environment().get_template(template)
    return page.render(title=title, policy=policy, style=Markup(_asset("page.css")), **content).strip() + "\n"


def _comparison_html(compared: ResultComparison) -> str:
    """Two results side by side; a page without scripts."""
    shown_tables = (
        ("What is done differently", comparison.differences_table(compared)),
        ("What it does to outcomes", comparison.verdicts_table(compared)),
        ("Who loses", comparison.losers_table(compared)),
        ("What it rests on", tables.Table(("assumption", "then", "now"), comparison.assumption_rows(compared))),
    )
    said = comparison.say(compared)
    filled = [(name, tables.filled(table)) for name, table in shown_tables]
    content = {"headline": said.opening[0], "version": __version__, "answers": said.answers, "tables": filled}
    return _rendered("comparison.html", said.title, _content_policy(), content)


def _by_kind(records: tuple[Result, ...]) -> tuple[Explanation | None, Frontier | None]:
    explanations = [record for record in records if isinstance(record, Explanation)]
    frontiers = [record for record in records if isinstance(record, Frontier)]
    other = next((record for record in records if not isinstance(record, (Explanation, Frontier))), None)
    if other is not None:
        raise InvalidOptionError(f"a page shows an explanation or a frontier; got {type(other).__name__}")
    if len(explanations) > 1 or len(frontiers) > 1 or not records:
        raise InvalidOptionError("a page shows one explanation, one frontier, or one of each")
    return explanations[0] if explanations else None, frontiers[0] if frontiers else None


def _content(explanation: Explanation | None, frontier: Frontier | None) -> tuple[Content, Content, Content | None]:
    """What the template shows, the charts by figure, and what the slider reads."""
    content: Content = {"explanation": None, "frontier": None, "at_once": SHOWN_AT_ONCE}
    charts: Content = {}
    plans = None
    if explanation is not None:
        figures, said = explanation_figures(explanation), say(explanation)
        content["explanation"] = _explanation_content(explanation, said, figures)
        content["answers"] = said.answers
        charts.update(_charts(figures))
    if frontier is not None and frontier.plans:
        frontier = explained(frontier if explanation is None else _same_ranges(frontier, explanation))
        offered = plans_view(frontier, number_changes(explanation, frontier), MOST_DATA - size_of(charts))
        figures = frontier_figures(frontier, offered)
        content["frontier"] = _frontier_content(frontier, offered, figures)
        charts.update(_charts(figures))
        plans = {**offered.payload, "start": offered.start}
        content.setdefault("answers", plan_answers(frontier))
    results = [record for record in (explanation, frontier) if record is not None]
    result = results[0]
    summary = result.methods.study.get("summary")
    content |= {
        "answers": content.get("answers", ()),
        "title": page_title(results),
        "compared": compared_policies(results),
        "summary": [str(line) for line in summary] if isinstance(summary, list) else [],
        "warnings": tuple(dict.fromkeys([*_other_data(results), *(line for r in results for line in r.warnings)])),
        "resting": tuple(dict.fromkeys(line for record in results for line in rests_on_lines(record))),
        "assumptions": tables.assumptions_table(result.assumptions),
        "methods": methods_text(result),
        "facts": methods_table(result.methods, result.world),
        "footer": footer_text(result.methods),
    }
    content["sections"] = _sections(content)
    return content, charts, plans


def _other_data(results: Sequence[Explanation | Frontier]) -> list[str]:
    """That an explanation and plans speak of different data, as far as that can be seen."""
    rows = dict.fromkeys((r.world.kind, *(r.world.facts.get(what) for what in ("episodes", "people"))) for r in results)
    if len(rows) < 2 or not any(record.world.recorded for record in results):
        return []
    told = " and ".join(people_text(record.world) if record.world.recorded else "no log" for record in results)
    return [f"The explanation and the plans are of different data ({told}): their numbers need not agree."]


def _same_ranges(frontier: Frontier, explanation: Explanation) -> Frontier:
    """The frontier with the ranges of features that the explanation has seen, so that both draw the same axes."""
    seen, known = explanation.world.features, frontier.world.features
    if [feature.name for feature in seen] != [feature.name for feature in known]:
        return frontier
    return replace(frontier, world=replace(frontier.world, features=seen))


def _explanation_content(explanation: Explanation, said: Said, figures: dict[str, list[Figure]]) -> Content:
    return {
        "changed": view.differs(explanation),
        "starts": explanation.world.starts,
        "further": view.further_outcomes(explanation),
        "effects": tables.effects_table(explanation),
        "outcome_cards": view.outcome_cards(explanation),
        "summary_cards": view.summary_cards(explanation),
        "worse": said.lines("worse"),
        "carried": said.lines("carries"),
        "tails": tables.tails_table(explanation),
        "sentences": view.sentence_views(explanation),
        "regions": tables.regions_table(explanation),
        "outcomes": tables.outcomes_table(explanation),
        "quality": tables.quality_table(explanation),
        "forms": tables.forms_table(explanation),
        "figures": figures,
    }


def _frontier_content(frontier: Frontier, offered: PlansView, figures: dict[str, list[Figure]]) -> Content:
    plan = offered.plans[offered.start]
    return {
        "cards": plan_cards(plan, frontier),
        "count": len(offered.plans),
        "start": offered.start,
        "left_out": offered.left_out,
        "changes": change_texts(plan, offered.numbering),
        "sentences": plan.sentences,
        "opening": knee_text(frontier),
        "table": plans_table(offered.plans, frontier),
        "example": f"{next(iter(plan.outcomes), 'changes')} >= current; changes <= {number(frontier.cost(plan))}",
        "unit": unit_text(frontier.world, frontier.unit),
        "outcome_names": list(plan.outcomes),
        "aim": next((k for k, name in enumerate(plan.outcomes) if name == frontier.objective), 0),
        "figures": figures,
    }


def _charts(figures: dict[str, list[Figure]]) -> Content:
    return {
        figure.id: [{key: part for key, part in spec.items() if key != "config"} for _, spec in figure.specs]
        for group in figures.values()
        for figure in group
    }


def page_title(records: Sequence[Explanation | Frontier]) -> str:
    """The study's title, else what the page shows."""
    named = [str(r.methods.study["title"]) for r in records if isinstance(r.methods.study.get("title"), str)]
    default = "What the proposed policy changes" if isinstance(records[0], Explanation) else "Which changes pay most"
    return named[0] if named else default


def compared_policies(records: Sequence[Explanation | Frontier]) -> str:
    """Which policies a study compares; nothing where no study names them."""
    for record in records:
        policies = record.methods.study.get("policies")
        if isinstance(policies, dict) and "current" in policies:
            rules = policies.get("rules")  # counted: a rule may name a handful of people
            count = rules if isinstance(rules, int) else len(rules or ())
            current = "the log" if policies["current"] == "log" else policies["current"]
            if isinstance(record, Frontier):
                return f"Plans that change {current} in a few places"
            return f"{policies.get('proposed') or counted(count, 'rule')} against {current}"
    return ""


def footer_text(methods: Methods) -> str:
    """Version, seed and inputs with the beginnings of their hashes; no clock, so that bytes are the same."""
    inputs = [f"{name} {digest.removeprefix('sha256:')[:12]}" for name, digest in methods.inputs.items()]
    made = f"Made with polidiff {methods.versions.get('polidiff', '')}".rstrip()
    return f"{made}, seed {methods.seed}." + (f" Inputs: {few(inputs)}." if inputs else "")


def _sections(content: Content) -> list[tuple[str, str]]:
    """Address and name of each section that has something to show."""
    explanation, sections = content["explanation"], []
    if explanation is not None and explanation["changed"]:
        sections += [("worse", "Who is worse off")] * bool(explanation["worse"] or explanation["tails"].rows)
        sections += [("sentences", "What changes")] * bool(explanation["sentences"])
        sections += [("where", "Where")] * bool(explanation["regions"].rows)
        sections += [("outcomes", "Outcomes")]
    sections += [("plans", "Plans")] * (content["frontier"] is not None)
    sections += [("caveats", "Caveats")] * bool(content["resting"] or content["warnings"])
    return [*sections, ("methods", "Method")]


def _embedded(data: Content) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _content_policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; form-action 'none'"


@cache
def _asset(name: str) -> str:
    return (files("polidiff.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    def safe(value: object) -> object:
        return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment


HEIGHT = 720


def mimebundle(record: Result) -> dict[str, str]:
    """Text for terminals, and the page in a frame that may run its scripts and nothing else."""
    page = html.escape(page_html(record), quote=True)
    frame = (
        f'<iframe sandbox="allow-scripts" srcdoc="{page}" title="polidiff result" width="100%" height="{HEIGHT}" '
        'style="border:1px solid #d5dbe2;border-radius:8px"></iframe>'
    )
    return {"text/plain": str(record), "text/html": frame}


@cache
def chart_script() -> str:
    """Vega, Vega-Lite and Vega-Embed, wrapped so that only `vegaEmbed` reaches the page."""
    import vl_convert

    cached = _cache_folder() / f"charts-{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = cached.read_text(encoding="utf-8")
        if text.endswith(_LAST):
            return text
    text = f"(()=>{{{_safe(vl_convert.javascript_bundle('window.vegaEmbed=vegaEmbed;'))}}}){_LAST}"
    with contextlib.suppress(OSError, PolidiffError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cached, text)
    return text


_LAST = "();\n"


def _safe(script: str) -> str:
    """No end of script inside the script."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cache_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "polidiff"

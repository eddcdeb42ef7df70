"""Tables in other languages, in words and of any type get the study that their words say."""

from __future__ import annotations

import tomllib

import numpy as np
import polars as pl
import pytest

from polidiff.cli.loading import load_world
from polidiff.cli.study import read_study
from tests.cli.tables import two_arms


def test_offers_with_a_column_of_many_words(polidiff, tmp_path):
    rng, n = np.random.default_rng(0), 4000
    place = np.minimum(rng.geometric(0.02, n), 200)
    pl.DataFrame(
        {
            "customer": np.arange(n),
            "income": rng.normal(30_000, 9000, n).round(),
            "zip": [f"z{k}" for k in place],
            "reference": [f"r{k}" for k in rng.integers(0, 2000, n)],
            "segment": rng.choice(list("abc"), n),
            "offer": rng.choice(["none", "coupon"], n),
            "bought": rng.integers(0, 2, n),
        }
    ).write_csv(tmp_path / "offers.csv")
    ran = polidiff("init", tmp_path / "offers.csv", "-o", tmp_path / "study.toml", "--yes")
    log = tomllib.loads((tmp_path / "study.toml").read_text())["world"]["log"]
    assert (log["action"], log["reward"]) == ("offer", "bought")
    assert log["state"] == ["income", "zip", "segment"]
    assert "most of them in fewer than 20 rows" in ran.err


CLINIC = """PatientenNr;Besuchsdatum;Alter;Laktat;Behandlung;Code_Behandlung;Liegedauer_danach;verstorben;Abschluss
{rows}"""


def _clinic(rng, patient):
    visits, begin = [], rng.integers(1, 20)
    for visit in range(3):
        new, lactate = rng.random() < 0.5, f"{rng.gamma(2, 1.5):.2f}".replace(".", ",")
        date, died = f"{begin + 2 * visit:02d}.03.2021", int(visit == 2 and rng.random() < 0.3)
        what, end = ("Spülung;1", "keine;0")[int(not new)], ("nein", "ja")[visit == 2]
        stay = f"{rng.gamma(2, 2):.1f}".replace(".", ",")
        visits.append(f"{10_000 + patient};{date};{20 + patient % 70};{lactate};{what};{stay};{died};{end}")
    return visits


def test_a_german_table_gets_the_roles_that_its_words_say(polidiff, tmp_path):
    rng = np.random.default_rng(3)
    rows = "\n".join(line for patient in range(60) for line in _clinic(rng, patient))
    (tmp_path / "klinik.csv").write_bytes(CLINIC.format(rows=rows).encode("cp1252"))
    ran = polidiff("init", tmp_path / "klinik.csv", "-o", tmp_path / "s.toml", "--yes")
    assert ran.code == 0, ran.err
    study = tomllib.loads((tmp_path / "s.toml").read_text(encoding="utf-8"))
    told = {key: study["world"]["log"][key] for key in ("episode", "step", "action", "terminated", "state")}
    assert told == {"episode": "PatientenNr", "step": "Besuchsdatum", "action": "Behandlung",
                    "terminated": "Abschluss", "state": ["Alter", "Laktat"]}  # fmt: skip
    assert study["policies"]["proposed"] == "always:Spülung"
    assert (study["outcomes"][0]["name"], study["outcomes"][0]["prefer"]) == ("verstorben", "less")


def test_a_french_table_with_three_ways_to_write_nothing_keeps_its_measurements(polidiff, tmp_path):
    rng = np.random.default_rng(11)
    rows = ["N° dossier;Date de visite;Âge;IMC;Tension;Traitement;Rechute"]
    for case in range(200):
        bmi = ("NA", "inconnu", "26,5", "31,0", "22,5")[rng.integers(5)]
        pressure = "-99" if case % 8 == 0 else str(rng.integers(90, 170))
        what, relapse = rng.choice(["médicament", "aucun"]), rng.choice(["oui", "non"])
        rows.append(f"{case:05d};{1 + case % 28:02d}/02/2021;{rng.integers(18, 90)};{bmi};{pressure};{what};{relapse}")
    (tmp_path / "dossiers.csv").write_text("\n".join(rows), encoding="utf-8")
    ran = polidiff("init", tmp_path / "dossiers.csv", "-o", tmp_path / "s.toml", "--yes")
    assert "Read as empty, because nothing else there is below 0: -99 in Tension." in ran.err
    study = tomllib.loads((tmp_path / "s.toml").read_text(encoding="utf-8"))
    assert study["world"]["log"]["state"] == ["Âge", "IMC", "Tension"]
    assert study["outcomes"] == [{"name": "Rechute", "column": "Rechute", "prefer": "less", "range": [0, 1]}]
    assert study["policies"]["proposed"] == "always:médicament"
    told = polidiff("explain", tmp_path / "s.toml").out
    absent = sum("NA" in row or "inconnu" in row for row in rows[1:])
    assert f"'IMC' is empty in {absent} of 200 rows, 'Tension' in 25 (-99 is read as empty)." in told


@pytest.mark.parametrize(
    ("words", "event", "prefer"),
    [(("geheilt", "krank"), "geheilt", "more"), (("died", "home"), "died", "less"), (("up", "down"), "down", None)],
)
def test_an_outcome_in_two_words_is_whether_the_telling_or_rarer_one_holds(polidiff, tmp_path, words, event, prefer):
    rng = np.random.default_rng(0)
    says = np.array(words)[(rng.random(200) < 0.4).astype(int)]
    pl.DataFrame({"age": rng.integers(20, 90, 200), "arm": rng.integers(0, 2, 200), "result": says}).write_csv(
        tmp_path / "a.csv"
    )
    assert polidiff("init", tmp_path / "a.csv", "-o", tmp_path / "study.toml", "--yes").code == 0
    study = read_study(tmp_path / "study.toml", {})
    if prefer == "more":
        assert study.world["reward"] == f"result = {event}"
    else:
        (outcome,) = study.values["outcomes"]
        assert (outcome["column"], outcome.get("prefer")) == (f"result = {event}", prefer)
    assert load_world(study).rows.gains.sum() == (says == event).sum()


def test_columns_of_any_type_are_read_from_parquet(polidiff, tmp_path):
    frame = two_arms(cured=[float("nan") if k % 40 == 0 else float(k % 3 == 0) for k in range(200)]).with_columns(
        pl.col("arm").cast(pl.Categorical), tags=pl.lit([1]).implode(), raw=pl.lit(b"x")
    )
    frame.write_parquet(tmp_path / "a.parquet")
    assert polidiff("init", tmp_path / "a.parquet", "-o", tmp_path / "study.toml", "--yes").code == 0
    study = read_study(tmp_path / "study.toml", {})
    assert (study.world["action"], study.world["state"], study.world["missing"]) == ("arm", ["age"], "drop")
    assert load_world(study).check.dropped == 5


def test_spellings_that_differ_in_capitals_are_pointed_out(polidiff, tmp_path):
    frame = pl.DataFrame({"arms": ["a", "b"] * 50, "degree": ["mild", "Mild", "severe", "none"] * 25,
                          "success": ["Yes", "YES", "no", "N", "yes"] * 20})  # fmt: skip
    frame.write_csv(tmp_path / "d.csv")
    ran = polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml", "--yes")
    assert "different ones: degree." in ran.err
    assert tomllib.loads((tmp_path / "s.toml").read_text())["world"]["log"]["reward"] == "success"


def test_a_title_above_a_german_export_is_no_name_of_a_column(polidiff, tmp_path):
    rng = np.random.default_rng(4)
    rows = [f"{1000 + i};{a};{'Ja' if g else 'Nein'};{60 + 9 * g + a / 7:.2f}".replace(".", ",")
            for i, (a, g) in enumerate(zip(rng.integers(18, 80, 90), rng.integers(0, 2, 90), strict=True))]  # fmt: skip
    top = ["Auswertung Frühjahr;;;", "", "Kundennr;Alter;Gutschein erhalten;Umsatz nachher"]
    (tmp_path / "d.csv").write_bytes("\r\n".join([*top, *rows]).encode("cp1252"))
    assert polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml", "--yes").code == 0
    log = tomllib.loads((tmp_path / "s.toml").read_text(encoding="utf-8"))["world"]["log"]
    assert (log["action"], log["reward"], log["state"]) == ("Gutschein erhalten", "Umsatz nachher", ["Alter"])


def test_names_with_a_prefix_and_moments_in_milliseconds_are_told(polidiff, tmp_path):
    rng = np.random.default_rng(5)
    columns = {"event.ts": 1_600_000_000_000 + rng.integers(0, 10**9, 200), "user.age": rng.integers(18, 80, 200)}
    columns |= {"exp.variant": rng.choice(["a", "b"], 200), "exp.converted": rng.integers(0, 2, 200)}
    pl.DataFrame(columns).write_csv(tmp_path / "d.csv")
    ran = polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml", "--yes")
    log = tomllib.loads((tmp_path / "s.toml").read_text())["world"]["log"]
    assert (log["action"], log["reward"], log["state"]) == ("exp.variant", "exp.converted", ["user.age"])
    assert "event.ts" in ran.err
    assert "is a time" in ran.err


def test_copies_of_rows_are_pointed_out_and_no_rare_word_is_printed(polidiff, tmp_path):
    rng = np.random.default_rng(6)
    word = rng.choice(["a", "b"], 300).astype(object)
    word[:3] = "rare one"
    frame = pl.DataFrame({"id": 7 * np.arange(300), "word": word.tolist(), "age": rng.integers(18, 80, 300),
                          "treated": rng.integers(0, 2, 300), "survived": rng.integers(0, 2, 300)})  # fmt: skip
    pl.concat([frame, frame.head(4)]).write_csv(tmp_path / "d.csv")
    ran = polidiff("init", tmp_path / "d.csv", "-o", tmp_path / "s.toml", "--yes")
    assert "4 rows repeat another one, id and all." in ran.err
    assert "rare one" not in ran.err

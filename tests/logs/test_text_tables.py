"""Text tables as people write them: separators, decimals, thousands, encodings and lines that are none."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff import Log, Outcome
from polidiff.errors import InvalidLogError
from polidiff.worlds.text_tables import find_dialect, scan_text_tables
from tests.logs.tables import NAMES, same, stays


def written(frame, path, separator, decimal, encoding, *, packed=False):
    frame = frame.with_columns(pl.col(pl.Float64).cast(pl.String).str.replace(".", decimal, literal=True))
    text = frame.write_csv(separator=separator, quote_style="non_numeric").encode("utf-8").decode("utf-8")
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize(
    ("name", "separator", "decimal", "encoding"),
    [
        ("a.csv", ",", ".", "utf-8"), ("a.csv", ",", ".", "utf-8-sig"), ("a.csv.gz", ",", ".", "utf-8"),
        ("a.tsv", "\t", ".", "utf-8"), ("a.tsv", "\t", ",", "cp1252"), ("a.csv", ";", ",", "utf-8"),
        ("a.csv", ";", ",", "cp1252"), ("a.CSV.gz", ";", ",", "cp1252"), ("a.txt", "|", ".", "utf-16"),
    ],
)  # fmt: skip
def test_a_text_table_is_read_however_it_is_written(tmp_path, name, separator, decimal, encoding):
    frame = stays()
    path = written(frame, tmp_path / name, separator, decimal, encoding, packed=name.endswith(".gz"))
    assert find_dialect(str(path)).separator == separator
    assert same(Log(path, **NAMES, terminated="ende"), Log(frame, **NAMES, terminated="ende"))


@pytest.mark.parametrize("title", ["", "Sales\n\n"])
@pytest.mark.parametrize(
    "text", ["id;x\n1;2,5\n2;3,5\n", "a;b;c\n1,5;2,5;3,5\n1,6;2,6;3,6\n", "id|note\n1|x,y\n2|z,w\n"]
)
def test_names_without_commas_are_no_title_above_decimal_commas(tmp_path, title, text):
    (tmp_path / "a.csv").write_text(title + text)
    found = find_dialect(str(tmp_path / "a.csv"))
    assert (found.separator, found.above) == (text.strip("idabc")[0], title.count("\n"))


def test_files_of_one_folder_may_be_written_differently(tmp_path):
    frame = stays()
    written(frame[:10], tmp_path / "1.csv", ",", ".", "utf-8")
    written(frame[10:], tmp_path / "2.csv", ";", ",", "cp1252")
    assert same(Log(tmp_path, **NAMES, terminated="ende"), Log(frame, **NAMES, terminated="ende"))


@pytest.mark.parametrize("nothing", ["NA", "n/a", "NaN", "."])
def test_numbers_with_words_for_nothing_are_numbers(tmp_path, nothing):
    (tmp_path / "a.csv").write_text(f"x,a,r\n1,0,1\n{nothing},1,0\n2.5,1,1\n")
    states = Log(tmp_path / "a.csv", state=["x"], action="a", reward="r").rows.states
    np.testing.assert_array_equal(states, [[1.0], [np.nan], [2.5]])


NUMBERS = "\n".join(f"{k},{k % 2},{k % 3}" for k in range(30))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,a,r\n" + NUMBERS + "\n7,1,2,,\n", "line 32, has 5 instead of 3"),
        (
            "x,a,r\n" + NUMBERS + "\nTotal,,30\n",
            "'x' holds numbers, except in row 31 below the names, which holds text",
        ),
    ],
)
def test_what_is_no_row_of_the_table_is_named(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InvalidLogError, match=message):
        Log(tmp_path / "a.csv", state=["x"], action="a", reward="r")


def test_units_of_numbers_zones_of_times_and_letters_of_yes_do_not_matter(tmp_path):
    rows = [("$1.5", "10 %", "Yes"), ("$ 2.5", "20%", "yes "), ("3.5 €", "30 %", "NO")]
    text = "\n".join(f"7,2024-01-0{k + 1}T0{k}:00:00{'Z' if k else '+01:00'},{','.join(row)},{k}"
                     for k, row in enumerate(rows))  # fmt: skip
    (tmp_path / "a.csv").write_text("e,t,money,share,a,r\n" + text)
    log = Log(tmp_path / "a.csv", state=["money", "share"], action="a", reward="r", episode="e", step="t",
              truncated=False)  # fmt: skip
    np.testing.assert_array_equal(log.rows.states, [[1.5, 10], [2.5, 20], [3.5, 30]])
    assert [action.name for action in log.actions] == ["no", "yes"]
    np.testing.assert_array_equal(log.rows.actions, [1, 1, 0])


def test_numbers_parted_by_blanks_and_without_a_header_are_a_table(tmp_path):
    rows = [(k % 3, k % 2, k / 10) for k in range(20)]
    (tmp_path / "log.txt").write_text("\n".join(" ".join(map(str, row)) for row in rows))
    log = Log(tmp_path / "log.txt", state="column_1", action="column_2", reward="column_3")
    assert (log.check.rows, log.n_states, log.n_actions) == (20, 3, 2)
    (tmp_path / "log.csv").write_text("2019,2020\nb c,d\n")
    assert find_dialect(str(tmp_path / "log.csv"))[:3] == (",", "utf-8", False)
    (tmp_path / "log.csv").write_text("two words\nmore words here\n")
    assert find_dialect(str(tmp_path / "log.csv")).separator == ","


@pytest.mark.parametrize(("yes", "no"), [("ja", "nein"), ("Oui", "non"), ("1_yes", "0_no"), ("1.0", "0.0")])
def test_ends_may_be_marked_in_the_words_that_go_with_decimal_commas(tmp_path, yes, no):
    lines = ["fall;tag;arm;wert;ende"]
    lines += [f"{k // 2};{k % 2};{k % 3 // 2};{k},5;{yes if k % 2 else no}" for k in range(24)]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="cp1252")
    names = {"state": ["wert"], "action": "arm", "episode": "fall", "step": "tag", "terminated": "ende"}
    assert Log(tmp_path / "log.csv", **names, outcomes=[Outcome("wert", "wert")]).check.terminated == 12


def as_people_write(value, decimal):
    """A number with thousands apart and decimals after the sign, without needless zeros."""
    text = f"{value:,.6f}".rstrip("0").rstrip(".")
    return text.translate(str.maketrans(",.", ".,")) if decimal == "," else text


PARTS = st.sampled_from([0.0, 0.5, 0.25, 0.125, 0.182])


NUMBERS = st.lists(st.builds(lambda whole, part: whole + part, st.integers(-4000, 2_500_000), PARTS), max_size=14)


WHOLE = st.lists(st.integers(-4000, 2_500_000), max_size=14)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120)
@given(NUMBERS | WHOLE, st.sampled_from(".,"), st.sampled_from(";\t|"), st.lists(PARTS, max_size=1))
def test_numbers_in_either_convention_are_read_back_or_refused_and_never_changed(
    tmp_path, values, decimal, separator, beside
):
    rows = [(0.0, 1), *((value, 0) for value in values), (7.0, 0)]
    lines = [
        separator.join((as_people_write(value, decimal), str(act), as_people_write((beside or [1.0])[0], decimal)))
        for value, act in rows
    ]
    (tmp_path / "log.csv").write_text("\n".join([separator.join(("x", "a", "r")), *lines]))
    try:
        log = Log(tmp_path / "log.csv", state=["x"], action="a", reward="r")
    except InvalidLogError as error:
        refused = str(error)
    else:
        refused = "may have decimal points or decimal commas"
        np.testing.assert_allclose(np.asarray(log.rows.states, dtype=float)[:, 0], [value for value, _ in rows])
    assert "may have decimal points or decimal commas" in refused


def test_thousands_are_told_by_another_column_or_by_their_size_and_else_asked_about(tmp_path):
    def incomes(*lines):
        (tmp_path / "log.csv").write_text("\n".join(["income;offer;spend", *lines]))
        return Log(tmp_path / "log.csv", state=["income"], action="offer", reward="spend").rows.states[:, 0].tolist()

    assert incomes("1,182;A;12.46", "991;B;3", "2,004,100;A;7") == [1182, 991, 2004100]
    assert incomes("1.182;A;12,46", "991;B;3", "1.004,5;A;7") == [1182, 991, 1004.5]
    many = [f"{k},182;{'AB'[k % 2]};1" for k in range(1, 11)]
    assert incomes(*many, "991;A;1")[-2:] == [10182, 991]
    with pytest.raises(InvalidLogError, match=r"'income' may .* that of row 2 below the names .* leave the column"):
        incomes("991;B;3", "1,182;A;12")
    with pytest.raises(InvalidLogError, match=r"'income' may have .* that of row 1 below the names"):
        incomes(*many[:1], *many[:5], "1182;A;1")


@pytest.mark.parametrize("word", ["unknown", "inconnu", "Desconocido", "k.A.", "n.d."])
def test_words_for_nothing_between_numbers_are_empty_in_several_languages(tmp_path, word):
    lines = [f"{word if k % 5 == 0 else k};{'ab'[k % 2]};{k % 3}" for k in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["lab;action;good", *lines]))
    log = Log(tmp_path / "log.csv", state=["lab"], action="action", reward="good")
    assert log.check.missing == {"lab": 8}


@pytest.mark.parametrize("part", [" ", "\u00a0", "\u202f", "'"])
@pytest.mark.parametrize("sign", [",", "."])
def test_thousands_may_be_parted_by_blanks_or_raised_commas(tmp_path, part, sign):
    values = [950.5 + 37.25 * k**2 for k in range(40)]
    written = [f"{value:,.2f}".replace(",", part).replace(".", sign) for value in values]
    lines = [f"{value};{'ab'[k % 2]};{k % 3}" for k, value in enumerate(written)]
    (tmp_path / "log.csv").write_text("\n".join(["income;action;good", *lines]), encoding="utf-8")
    log = Log(tmp_path / "log.csv", state=["income"], action="action", reward="good")
    assert sorted(log.rows.states[:, 0].tolist()) == values


@pytest.mark.parametrize(("line", "fields"), [("3,b", 2), ('3,b,"1,5",7', 4), ("as of May", 1)])
@pytest.mark.parametrize("ahead", [3, 12_000])  # beyond what types are guessed from
def test_a_line_with_a_field_too_few_or_too_many_is_named_by_its_line(tmp_path, line, fields, ahead):
    rows = ["1,a,2", '2,"b\nb",', "", *ahead * ["3,a,"]]
    (tmp_path / "log.csv").write_text("\n".join(["x,action,good", *rows, line, "4,a,1", ""]))
    with pytest.raises(InvalidLogError, match=rf"log\.csv, line {ahead + 6}, has {fields} instead of 3\. Hint"):
        scan_text_tables([str(tmp_path / "log.csv")])
    (tmp_path / "log.csv").write_text("\n".join(["x,action,good", *rows]))
    assert scan_text_tables([str(tmp_path / "log.csv")]).select(pl.len()).collect().item() == ahead + 3


def test_no_line_is_called_short_for_what_its_fields_hold(tmp_path):
    lines = ["", '"x, in cm",action,good', "1,a\u2028b\x85c\x0cd,", '2,"e\nf",3', f"3,{'g' * 200_000},", '" 4",pipe,']
    (tmp_path / "log.csv").write_text("\n".join([*lines, ""]), encoding="utf-8-sig")
    assert scan_text_tables([str(tmp_path / "log.csv")]).collect().shape == (4, 3)

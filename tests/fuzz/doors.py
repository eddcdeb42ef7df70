"""Every place where something from outside comes in."""

from __future__ import annotations

from tests.fuzz import arrays, commands, documents, logs, pages, texts, whole_studies
from tests.fuzz.judge import Door

DOORS = {
    door.name: door
    for door in (
        Door("study files", documents.studies, documents.enter_study),
        Door("result files", documents.results, documents.enter_result),
        Door("patches", documents.patches, documents.enter_patch),
        Door("rule text", texts.texts, texts.enter_text),
        Door("policy files", arrays.policies, arrays.enter_policy),
        Door("tables", arrays.tables, arrays.enter_table),
        Door("CSV logs", logs.csv_logs, logs.enter_log(".csv")),
        Door("Parquet logs", logs.parquet_logs, logs.enter_log(".parquet")),
        Door("questions", pages.questions, pages.enter_question),
        Door("reports", pages.pages, pages.enter_page),
        Door("command line", commands.cases, commands.enter_command),
        Door("whole studies", whole_studies.whole, whole_studies.enter_whole, seconds=30.0),
    )
}

"""Each type of test: the least that it may say, and each wrong way to say it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from headgate.domain.gate import OnFail
from headgate.pipelines.config.tests import AnyTest, DatasetTestConfig, TestConfig
from tests.unit.pipelines.samples import loaded, problem, problems, the_test, with_nodes, with_test

SMALLEST = {
    "not_null": "columns: [a, b]",
    "not_empty": "column: a",
    "unique": "columns: [a, b]",
    "accepted_values": "column: a, values: [NO, SE, 3, true]",
    "forbidden_values": "column: a, values: ['']",
    "range": "column: a, min: 0",
    "comparison": "column: a, operator: '>', value: 0",
    "column_comparison": "column: a, operator: <=, other: b",
    "regex_match": "column: a, pattern: '^x'",
    "like": "column: a, pattern: 'x%'",
    "length": "column: a, max: 5",
    "email": "column: a",
    "url": "column: a",
    "uuid": "column: a",
    "ipv4": "column: a",
    "ipv6": "column: a",
    "date": "column: a",
    "timestamp": "column: a",
    "json": "column: a",
    "json_schema": "column: a, fields: id BIGINT",
    "country_code": "column: a",
    "currency_code": "column: a",
    "custom_sql": "condition: a > 0",
    "foreign_key": "column: a, reference: {connection: bronze, path: b}",
    "not_in_future": "column: a",
    "outlier": "column: a",
    "no_pii": "column: a",
    "null_rate": "column: a, max: 0.1",
    "row_count": "min: 1",
    "volume_change": "threshold: 0.5",
    "volume_drop": "threshold: 0.5",
    "freshness": "column: a, max_age: 24h",
    "no_gaps": "column: a, every: 1h",
    "schema": "columns: [{name: a, type: int, nullable: false}]",
    "mean": "column: a, min: 0",
    "sum": "column: a, max: 10",
    "minimum": "column: a, min: 0",
    "maximum": "column: a, max: 0",
    "stddev": "column: a, max: 3",
    "quantile": "column: a, quantile: 0.95, max: 9",
    "distinct_count": "column: a, min: 2",
    "distribution": "column: a, threshold: 0.1, expected: [{value: x, share: 0.5}, {value: y, share: 0.5}]",
    "custom_query": "query: SELECT * FROM df WHERE a < 0",
    "reconcile": "reference: {connection: bronze, path: b}",
    "no_overlap": "columns: id, start: a, end: b",
}
COLUMN = {
    kind: words for kind, words in SMALLEST.items() if "column" in words and not words.startswith("columns: [{name")
}


def kinds() -> set[str]:
    models = [model for union in get_args(get_args(AnyTest)[0]) for model in get_args(get_args(union)[0]) or [union]]
    return {tag for model in models for tag in get_args(model.model_fields["type"].annotation)}


def refusal(folder: Path, test: str) -> tuple[str, str | None]:
    found = problem(folder, with_test(test))
    assert found.place == "pipeline.yaml:13:15" or found.place.startswith("pipeline.yaml:13:")
    return found.message, found.hint


def test_every_type_has_its_smallest_form_here() -> None:
    assert kinds() == set(SMALLEST)


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_smallest_form_is_enough(tmp_path: Path, kind: str) -> None:
    test = the_test(tmp_path, f"type: {kind}, {SMALLEST[kind]}")

    assert isinstance(test, TestConfig)
    assert (test.kind, test.on_fail, test.name, test.where, test.allow_null) == (kind, OnFail.fail, None, None, True)


@pytest.mark.parametrize("kind", SMALLEST)
def test_every_test_takes_the_common_fields(tmp_path: Path, kind: str) -> None:
    test = the_test(
        tmp_path, f"type: {kind}, {SMALLEST[kind]}, name: mine, where: b > 1, description: x, severity: warn"
    )

    assert (test.name, test.where, test.on_fail) == ("mine", "b > 1", OnFail.warn)


@pytest.mark.parametrize("kind", SMALLEST)
def test_tests_of_rows_set_rows_apart_and_take_limits_and_others_do_not(tmp_path: Path, kind: str) -> None:
    words = f"type: {kind}, {SMALLEST[kind]}"
    is_row_level = the_test(tmp_path, words).is_row_level
    if is_row_level:
        test = the_test(tmp_path, f"{words}, on_fail: quarantine, max_failures: 3, max_failure_rate: 0.01")
        assert (test.on_fail, test.max_failures, test.max_failure_rate) == (OnFail.quarantine, 3, 0.01)
    else:
        assert refusal(tmp_path, f"{words}, on_fail: quarantine") == (
            f"{kind} tests the whole batch and can set no rows apart: use warn or fail",
            None,
        )
        assert refusal(tmp_path, f"{words}, max_failures: 3") == (
            f"{kind} tests the whole batch: max_failures and max_failure_rate count rows",
            None,
        )


@pytest.mark.parametrize("kind", SMALLEST)
def test_an_unknown_key_of_a_test_is_refused_with_the_nearest(tmp_path: Path, kind: str) -> None:
    assert refusal(tmp_path, f"type: {kind}, {SMALLEST[kind]}, wher: x") == (
        "unknown key 'wher'",
        "did you mean 'where'?",
    )


@pytest.mark.parametrize("kind", COLUMN)
def test_a_test_without_its_column_is_refused(tmp_path: Path, kind: str) -> None:
    found = problems(tmp_path, with_test(f"type: {kind}"))

    field = "columns" if "columns:" in SMALLEST[kind] or kind in ("not_empty", "foreign_key", "no_pii") else "column"
    assert f"'{field}' is missing in item 1 of tests" in [each.message for each in found]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("not_null, columns: a", "columns"),
        ("unique, column: a", "columns"),
        ("no_overlap, keys: a, start: b, end: c", "columns"),
    ],
)
def test_one_column_or_several(tmp_path: Path, said: str, field: str) -> None:
    assert the_test(tmp_path, f"type: {said}").model_dump()[field] == ["a"]


def test_a_country_is_a_country_and_numbers_keep_their_type(tmp_path: Path) -> None:
    test = the_test(tmp_path, "type: accepted_values, column: a, values: [NO, 'no', 1, 1.5, true, '1']")

    assert test.model_dump()["values"] == ["NO", "no", 1, 1.5, True, "1"]
    assert [type(each) for each in test.model_dump()["values"]] == [str, str, int, float, bool, str]


WRONG = [
    ("type: notnull, columns: [a]", "unknown type 'notnull' in item 1 of tests", "did you mean 'not_null'?"),
    ("columns: [a]", "'type' is missing in item 1 of tests", "known types: accepted_values, column_comparison, "),
    ("type: not_null, columns: []", "columns is empty", "give it at least 1, or leave it out"),
    ("type: not_null, columns: [a, 5]", "item 2 of columns has to be text, not 5", "put it in quotes"),
    ("type: not_null, columns: ['']", "item 1 of columns is empty", "give it at least 1, or leave it out"),
    (
        "type: not_null, columns: [a], column: b",
        "'column' says what another key of this block says already",
        "keep one",
    ),
    (
        "type: not_null, columns: [a], allow_null: true",
        "not_null with allow_null: true tests nothing: leave one of",
        None,
    ),
    ("type: email, column: [a]", "column has to be text, not a list", None),
    ("type: email, column: ", "column has to be text, and is empty", "give it a value, or leave it out"),
    ("type: email, column: a, on_fail: stop", "on_fail has to be one of warn, fail, quarantine, not 'stop'", None),
    (
        "type: email, column: a, severity: warning",
        "severity has to be one of warn, fail, quarantine, not",
        "did you mean 'w",
    ),
    ("type: email, column: a, severity: warn, on_fail: fail", "on_fail and severity say the same: keep one", None),
    ("type: email, column: a, max_failures: -1", "max_failures has to be at least 0, not -1", None),
    ("type: email, column: a, max_failures: 1.5", "max_failures has to be a whole number, not 1.5", None),
    ("type: email, column: a, max_failure_rate: 5", "max_failure_rate has to be at most 1, not 5", None),
    ("type: email, column: a, max_failure_rate: .nan", "max_failure_rate has to be a finite number, not nan", None),
    ("type: email, column: a, allow_null: maybe", "allow_null has to be true or false, not 'maybe'", None),
    ("type: email, column: a, name: ''", "name is empty", "give it at least 1, or leave it out"),
    ("type: unique, columns: [a], keep: last", "keep has to be one of none, first, not 'last'", None),
    ("type: unique, columns: [a], order_by: b", "order_by says which row is the first: it needs keep: first", None),
    ("type: accepted_values, column: a, values: []", "values is empty", "give it at least 1, or leave it out"),
    (
        "type: accepted_values, column: a, values: [[1]]",
        "item 1 of values has to be true or false, a whole number, ",
        None,
    ),
    ("type: range, column: a", "range needs min, max or both", None),
    ("type: range, column: a, min: 5, max: 1.5", "min 5 is not below max 1.5: nothing could pass", None),
    ("type: range, column: a, min: 5, max: 5, exclusive: true", "min 5 is not below max 5: nothing could pass", None),
    (
        "type: range, column: a, min: 2024-02-01, max: 2024-01-01",
        "min '2024-02-01' is not below max '2024-01-01'",
        None,
    ),
    ("type: range, column: a, min: 5, max: 2024-01-01", "min 5 and max '2024-01-01' are not of one kind: give", None),
    ("type: range, column: a, min: [1]", "min has to be a whole number, a number or text, not a list", None),
    (
        "type: comparison, column: a, operator: '=>', value: 1",
        "operator has to be one of <, <=, =, ==, !=, <>, >=",
        "did",
    ),
    ("type: comparison, column: a, operator: '>'", "'value' is missing in item 1 of tests", None),
    ("type: column_comparison, column: a, operator: '<'", "'other' is missing in item 1 of tests", None),
    ("type: regex_match, column: a, pattern: ''", "pattern is empty", "give it at least 1, or leave it out"),
    ("type: length, column: a", "length needs min, max or both", None),
    ("type: length, column: a, min: 5, max: 2", "min 5 is above max 2: nothing could pass", None),
    ("type: length, column: a, min: -5", "min has to be at least 0, not -5", None),
    ("type: json_schema, column: a", "'fields' is missing in item 1 of tests", None),
    ("type: country_code, column: a, letters: 4", "letters has to be one of 2 or 3, not 4", None),
    (
        "type: currency_code, column: a, letters: 3",
        "currency codes have three letters: letters is for country_code",
        None,
    ),
    ("type: custom_sql, condition: a, sql: b", "'sql' says what another key of this block says already", "keep one"),
    ("type: custom_sql", "'condition' is missing in item 1 of tests", None),
    ("type: foreign_key, column: a", "'reference' is missing in item 1 of tests", None),
    (
        "type: foreign_key, column: a, reference: {}",
        "reference: say either node, or connection with path or table",
        None,
    ),
    (
        "type: foreign_key, column: a, reference: {connection: b}",
        "reference: say one of path and table of connection",
        None,
    ),
    (
        "type: foreign_key, column: a, reference: {node: b, path: c}",
        "reference: path and table belong to a connecti",
        None,
    ),
    (
        "type: foreign_key, column: a, reference: {connection: b, path: c, format: xls}",
        "format has to be one of parq",
        None,
    ),
    (
        "type: foreign_key, columns: [a, b], reference_columns: c, reference: {node: b}",
        "2 columns refer to 1: name as",
        None,
    ),
    ("type: outlier, column: a, z_score: 0", "z_score has to be more than 0, not 0", None),
    ("type: outlier, column: a, method: iqr", "method has to be one of stddev, mad, not 'iqr'", None),
    (
        "type: no_pii, column: a, kinds: [name]",
        "item 1 of kinds has to be one of email, credit_card, ssn, phone, iban",
        None,
    ),
    (
        "type: not_in_future, column: a, tolerance: soon",
        "tolerance: 'soon' is not a span of time: write it like 90m",
        None,
    ),
    ("type: null_rate, column: a", "'max' is missing in item 1 of tests", None),
    ("type: null_rate, column: a, max_rate: 2", "max_rate has to be at most 1, not 2", None),
    ("type: row_count", "row_count needs min, max or both", None),
    ("type: row_count, min: 5, max: 1", "min 5 is above max 1: nothing could pass", None),
    ("type: volume_drop, threshold: 2", "threshold 2 of volume_drop is more than all rows: give a share up to 1", None),
    ("type: volume_change, threshold: 0", "threshold has to be more than 0, not 0", None),
    ("type: freshness, column: a", "'max_age' is missing in item 1 of tests", None),
    ("type: no_gaps, column: a, every: 0h", "every: 0s is no time at all: it has to be longer than nothing", None),
    ("type: mean, column: a", "mean needs min, max or both", None),
    ("type: quantile, column: a, max: 1", "'quantile' is missing in item 1 of tests", None),
    ("type: quantile, column: a, max: 1, quantile: 95", "quantile has to be at most 1, not 95", None),
    (
        "type: distinct_count, column: a, as_ratio: true, min: 5",
        "with as_ratio, min and max of distinct_count are sha",
        None,
    ),
    (
        "type: distribution, column: a, threshold: 1, expected: [{value: x, share: 1}]",
        "expected has 1, at least 2 are needed",
        "give it at ",
    ),
    (
        "type: distribution, column: a, threshold: 1, expected: [{value: x, share: 0.5}, {value: y, share: 0.2}]",
        "the shares of the expected distribution add up to 0.7, not to 1",
        None,
    ),
    (
        "type: distribution, column: a, threshold: 1, expected: [{share: 0.5}, {value: y, share: 0.5}]",
        "a part with share 0.5 needs either value, or low and high",
        None,
    ),
    (
        "type: distribution, column: a, threshold: 1, expected: [{low: 5, high: 1, share: 0.5}, {low: 9, share: 0.5}]",
        "low 5 is not below high 1: nothing could be in between",
        None,
    ),
    (
        "type: distribution, column: a, metric: ks, threshold: 1, expected: [{value: x, share: 1}, {low: 1, share: 0}]",
        "metric ks compares numbers",
        None,
    ),
    (
        "type: custom_query, query: SELECT 1, operator: '>'",
        "operator and value belong together: say both, or neither f",
        None,
    ),
    ("type: reconcile, reference: {node: b}, tolerance: 2", "tolerance has to be at most 1, not 2", None),
    ("type: no_overlap, columns: a, start: b", "'end' is missing in item 1 of tests", None),
    ("type: schema", "test 'schema' has no columns, and the node no contract: add either", None),
]


@pytest.mark.parametrize(("test", "message", "hint"), WRONG, ids=[each[0] for each in WRONG])
def test_a_wrong_form_is_refused_by_field_value_and_way_out(
    tmp_path: Path, test: str, message: str, hint: str | None
) -> None:
    found = problem(tmp_path, with_test(test))

    assert found.message.startswith(message)
    assert (found.hint or "").startswith(hint or "")
    assert (found.hint is None) == (hint is None)


WISHES = {
    "null share": ["type: null_rate, column: a, max: 0.05", "type: not_null, column: a, max_failure_rate: 0.05"],
    "unique key of several columns": ["type: unique, columns: [a, b], keep: first, order_by: c DESC"],
    "greater, less and equal": [
        f"type: comparison, column: a, operator: '{op}', value: 1" for op in ("<", "=", "!=", ">=")
    ],
    "regex or LIKE": ["type: regex_match, column: a, pattern: x, negate: true", "type: like, column: a, pattern: x%"],
    "column against column": ["type: column_comparison, column: a, operator: <, other: b, tolerance: 0.01"],
    "referential integrity": [
        "type: foreign_key, columns: [a, b], reference_columns: [c, d], reference: {connection: bronze, table: x}"
    ],
    "volume against history": ["type: volume_change, threshold: 0.3, runs: 7, on_missing_history: fail"],
    "missing time slots": ["type: no_gaps, column: a, every: 1h, max_missing: 2"],
    "schema contract": ["type: schema, columns: [{name: a, type: 'decimal(10,2)'}], strict: false, ordered: true"],
    "bounds of figures": [
        f"type: {kind}, column: a, min: 1, max: 2" for kind in ("mean", "sum", "minimum", "maximum", "stddev")
    ],
    "distinct count or ratio": ["type: distinct_count, column: a, min: 0.9, as_ratio: true, exact: true"],
    "drift": [
        f"type: distribution, column: a, metric: {metric}, threshold: 0.1, "
        "expected: [{high: 0, share: 0.5}, {low: 0, share: 0.5}]"
        for metric in ("psi", "kl", "chi_square", "ks")
    ],
    "outliers": ["type: outlier, column: a, method: mad, max_deviations: 5"],
    "two datasets agree": [
        "type: reconcile, reference: {connection: bronze, path: x}, sums: [a], group_by: [b], tolerance: 0.01"
    ],
    "no overlapping intervals": ["type: no_overlap, keys: [id], start: valid_from, end: valid_to"],
    "query with a figure": ["type: custom_query, query: SELECT count(*) FROM df, operator: <, value: 5"],
}


@pytest.mark.parametrize("wish", WISHES)
def test_what_people_ask_of_such_tools_can_be_said(tmp_path: Path, wish: str) -> None:
    for said in WISHES[wish]:
        assert the_test(tmp_path, said).kind in SMALLEST


@pytest.mark.parametrize(("low", "high"), [("'9'", "'10'"), ("2023-12-31", "2024-01-01 00:00"), ("apple", "Zebra")])
def test_bounds_in_quotes_are_compared_as_what_they_are(tmp_path: Path, low: str, high: str) -> None:
    assert the_test(tmp_path, f"type: range, column: a, min: {low}, max: {high}").kind == "range"


def test_a_quarantine_test_without_a_quarantine_is_refused(tmp_path: Path) -> None:
    text = with_nodes("""
        - name: a
          read: {connection: bronze, path: a}
          validation:
            tests: [{type: email, column: e, name: mails, on_fail: quarantine}]
    """)
    assert problem(tmp_path, text).message == (
        "validation: test 'mails' sets rows apart, but there is no quarantine block: "
        "add `quarantine` with connection and path, or say on_fail: fail"
    )


def test_a_schema_test_may_rely_on_the_contract(tmp_path: Path) -> None:
    text = with_nodes("""
        - name: a
          read: {connection: bronze, path: a}
          contract: {columns: [{name: id}]}
          validation: {tests: [{type: schema}]}
    """)
    (test,) = loaded(tmp_path, text).project.pipelines[0].nodes[0].validation.tests
    assert isinstance(test, DatasetTestConfig)

"""Worked cases and properties of the identity rules."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.names import (
    AliasRule,
    apply_rules,
    canonical_dataset,
    canonical_namespace,
    canonical_urn,
    compile_rules,
    infer_type,
    is_self_read,
    is_staging,
    partition_context,
    simple_dataset,
    split_location,
    split_urn,
    stronger_type,
)
from headgate.errors import ConfigError


@pytest.mark.parametrize(
    ("namespace", "name", "urn"),
    [
        pytest.param("postgres://db:5432", " Shop.public.Orders ", "postgres://db/Shop.public.Orders", id="table"),
        pytest.param("bigquery", "p.d.t/dt=2024-01-01", "bigquery/p.d.t/dt=2024-01-01", id="table-is-never-cut"),
        pytest.param("s3://b", "/x/y", "s3://b/x/y", id="key-without-leading-slash"),
        pytest.param("hdfs://nn", "x/y", "hdfs://nn//x/y", id="hdfs-is-absolute"),
        pytest.param("file", "data.csv", "file/data.csv", id="relative-file"),
        pytest.param("file://nas", "x", "file://nas//x", id="file-on-a-host"),
        pytest.param("s3a://b", "s3://b/x", "s3://b/x", id="uri-as-name"),
        pytest.param("s3://b/x", "s3://b/x", "s3://b/x", id="uri-as-name-and-namespace"),
        pytest.param("file", "file:/tmp/x", "file//tmp/x", id="file-uri-as-name"),
        pytest.param("s3://b/warehouse", "db.orders", "s3://b/warehouse/db.orders", id="folder-in-namespace"),
        pytest.param("file:/tmp/wh", "default.t", "file//tmp/wh/default.t", id="file-folder-in-namespace"),
        pytest.param("airflow", "s3://b/x", "airflow/s3://b/x", id="uri-under-a-bare-namespace"),
        pytest.param("s3://b", "", "s3://b//", id="no-name-is-the-root"),
        pytest.param("s3://b", "x /dt=1", "s3://b/x", id="blanks-at-the-cut"),
    ],
)
def test_namespace_and_name_give_urn(namespace: str, name: str, urn: str) -> None:
    assert canonical_dataset(namespace, name).urn == urn


def test_table_has_no_partition_key_and_shows_its_name() -> None:
    found = canonical_dataset("postgres://db:5432", "shop.public.orders")
    assert (found.partition_key, found.display_name) == (None, "shop.public.orders")


def test_two_ports_are_two_servers() -> None:
    assert canonical_dataset("postgres://db:5432", "a.b").urn != canonical_dataset("postgres://db:5433", "a.b").urn


ANY_TEXT = st.text(max_size=60)
SEGMENTS = st.one_of(
    st.sampled_from(["dt=2024-01-01", "2024", "01", "US", "*", "part-0.parquet", "x.csv", "a.gz.orc", "_SUCCESS"]),
    st.sampled_from(["", " ", "s3:", "file:", "orders", "file:/x", "s3://b/c", "S3A://b", "x ", " y", "prod"]),
    st.text(alphabet="/:@, x=A1[].*?;#", max_size=8),
)
PATH_TEXT = st.lists(SEGMENTS, max_size=6).map("/".join)
ODD_NAMESPACES = st.one_of(
    ANY_TEXT,
    PATH_TEXT,
    st.tuples(
        st.sampled_from(["s3", "S3A", "file", "hdfs", "postgres", "jdbc:mysql", "kafka", "abfss", "sqlite", "x"]),
        st.sampled_from([":", ":/", "://", ":///"]),
        st.text(alphabet="/:@, hB1[].?;#", max_size=16),
    ).map("".join),
)


@given(ODD_NAMESPACES)
def test_canonical_namespace_is_its_own_canonical_spelling(namespace: str) -> None:
    once = canonical_namespace(namespace)
    assert canonical_namespace(once) == once


@given(ODD_NAMESPACES, st.one_of(ANY_TEXT, PATH_TEXT))
def test_canonical_dataset_is_its_own_canonical_spelling(namespace: str, name: str) -> None:
    once = canonical_dataset(namespace, name)
    assert canonical_dataset(once.namespace, once.name)[:2] == once[:2]


@given(ODD_NAMESPACES, st.one_of(ANY_TEXT, PATH_TEXT).filter(bool))
def test_name_never_becomes_empty(namespace: str, name: str) -> None:
    found = canonical_dataset(namespace, name)
    assert found.name
    assert found.display_name


@given(st.one_of(ANY_TEXT, PATH_TEXT, ODD_NAMESPACES))
def test_no_text_raises(text: str) -> None:
    canonical_urn(text)
    split_urn(text)
    partition_context(text)
    infer_type(text, text, None)
    simple_dataset(text, location=text, database=text, catalog=text, default_namespace=text)
    assert isinstance(is_staging(text), bool)


FOLDERS = st.lists(st.text(alphabet="abcdefgh_", min_size=3, max_size=8), min_size=1, max_size=4).map("/".join)
DATE_FORMS = st.sampled_from(
    ["%Y-%m-%d", "%Y%m%d", "%Y%m", "%Y-%m", "%Y", "%Y/%m/%d", "%Y/%m", "dt=%Y-%m-%d", "year=%Y/month=%m"]
)
DAYS = st.dates(min_value=date(1970, 1, 1), max_value=date(2099, 12, 31))
NAMESPACE_FORMS = st.sampled_from(["s3://b", "gs://b", "hdfs://nn:8020", "file", "dbfs", "abfss://c@a"])


@given(NAMESPACE_FORMS, FOLDERS, DATE_FORMS, DAYS, DAYS)
def test_two_dates_of_a_path_are_one_dataset(namespace: str, folder: str, form: str, one: date, other: date) -> None:
    first, second = (canonical_dataset(namespace, f"{folder}/{day:{form}}") for day in (one, other))
    assert first == second
    assert first.name.lstrip("/") == folder


@given(FOLDERS)
def test_s3_connectors_name_one_dataset(folder: str) -> None:
    assert len({canonical_dataset(f"{scheme}://b", folder) for scheme in ("s3", "s3a", "s3n", "S3A")}) == 1


@given(NAMESPACE_FORMS, FOLDERS)
def test_partition_key_leads_back_to_its_dataset(namespace: str, folder: str) -> None:
    found = canonical_dataset(namespace, f"/{folder}/country=US/dt=1")
    place = split_location(found.partition_key or "")
    assert place is not None
    assert canonical_dataset(*place)[:2] == found[:2]


@given(NAMESPACE_FORMS | st.just("postgres://db:5432") | st.just("bigquery"), FOLDERS)
def test_canonical_urn_agrees_with_canonical_dataset(namespace: str, name: str) -> None:
    assert canonical_urn(f"{namespace}/{name}/dt=1") == canonical_urn(canonical_dataset(namespace, f"{name}/dt=1").urn)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        pytest.param("s3a://b/k/dt=1/", ("s3://b", "k/dt=1/"), id="object"),
        pytest.param("file:/x", ("file", "/x"), id="file-one-slash"),
        pytest.param("file:///x", ("file", "/x"), id="file-three-slashes"),
        pytest.param("/x", ("file", "/x"), id="bare-path"),
        pytest.param("hdfs://nn:8020/p", ("hdfs://nn", "/p"), id="hdfs"),
        pytest.param("abfss://c@a.dfs.core.windows.net/p", ("abfss://c@a.dfs.core.windows.net", "p"), id="azure"),
        pytest.param("dbfs:/mnt/x", ("dbfs", "/mnt/x"), id="dbfs"),
        pytest.param("jdbc:postgresql://h:5432/db?user=u", ("postgres://h", "db"), id="jdbc"),
        pytest.param("kafka://b:9092/orders", ("kafka://b", "orders"), id="topic"),
        pytest.param("datasource:public.users", None, id="no-location"),
        pytest.param("bucket:name", None, id="display-name"),
        pytest.param("orders", None, id="word"),
        pytest.param("", None, id="empty"),
    ],
)
def test_location_splits_into_namespace_and_path(location: str, expected: tuple[str, str] | None) -> None:
    assert split_location(location) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"name": "trips"}, ("acme", "trips"), id="default-namespace"),
        pytest.param(
            {"name": "lake:trips", "location": "s3://lake/gold/trips/date=*"},
            ("s3://lake", "gold/trips/date=*"),
            id="display-name-with-location",
        ),
        pytest.param(
            {
                "name": "raw.taxi",
                "location": "hdfs://nn:8020/raw/taxi",
                "database": "raw",
                "catalog": "spark",
            },
            ("hdfs://nn", "/raw/taxi"),
            id="location-wins-over-catalog",
        ),
        pytest.param({"name": "s3a://lake/x"}, ("s3://lake", "x"), id="name-is-a-uri"),
        pytest.param({"name": "/data/x"}, ("file", "/data/x"), id="name-is-a-path"),
        pytest.param({"name": "taxi", "database": "raw", "catalog": "spark"}, ("spark", "raw.taxi"), id="catalog"),
        pytest.param(
            {"name": "spark.raw.taxi", "database": "raw", "catalog": "spark"},
            ("spark", "raw.taxi"),
            id="full",
        ),
        pytest.param({"name": "raw.taxi", "database": "raw"}, ("raw", "raw.taxi"), id="database-only"),
        pytest.param(
            {"name": "public.users", "database": "postgres://db:5432/shop"},
            ("postgres://db", "shop.public.users"),
            id="database-url",
        ),
        pytest.param(
            {"name": "public.users", "location": "jdbc:postgresql://db:5432/shop"},
            ("postgres://db", "shop.public.users"),
            id="jdbc-location",
        ),
        pytest.param(
            {"name": "orders", "location": "kafka://b:9092/orders"},
            ("kafka://b", "orders"),
            id="topic-location",
        ),
        pytest.param({"name": "users", "location": "datasource:public.users"}, ("acme", "users"), id="odd-location"),
    ],
)
def test_simple_form_name_takes_namespace_of_the_best_clue(fields: dict[str, str], expected: tuple[str, str]) -> None:
    assert simple_dataset(**fields, default_namespace="acme") == expected


@pytest.mark.parametrize(
    ("name", "location", "declared", "expected"),
    [
        ("bronze", "file:/wh/bronze", "Table", "table"),
        ("x", "s3a://b/x", "File", "s3"),
        ("x", "gs://b/x", "File", "gcs"),
        ("x", "abfss://c@a/x", "File", "azure"),
        ("x", "wasbs://c@a/x", None, "azure"),
        ("x", "hdfs://n/x", "File", "hdfs"),
        ("x", "dbfs:/x", "File", "dbfs"),
        ("x", "file:/x", "File", "file"),
        ("x", "/x", "File", "file"),
        ("x", "oss://b/x", None, "file"),
        ("a.parquet", None, None, "file"),
        ("shop_iceberg_orders", None, None, "iceberg"),
        ("delta_orders", None, None, "delta"),
        ("deltas", None, None, "table"),
        ("/p/q", None, None, "file"),
        ("s3://b/x", None, None, "s3"),
        ("x", None, "File", "file"),
        ("x", None, "Stream", "stream"),
        ("x", "kafka://b/x", None, "stream"),
        ("x", None, "TempView", "tempview"),
        ("x", None, None, "table"),
        ("x", "datasource:public.users", "Table", "table"),
        ("v", None, "VIEW", "view"),
    ],
)
def test_type_is_inferred(name: str, location: str | None, declared: str | None, expected: str) -> None:
    assert infer_type(name, location, declared) == expected


def test_weaker_type_does_not_replace_a_stronger_one() -> None:
    assert stronger_type("iceberg", "table") == "iceberg"
    assert stronger_type("table", "view") == "view"
    assert stronger_type(None, "table") == "table"


@pytest.mark.parametrize(
    "path",
    [
        "s3://b/x/_temporary/0",
        "/x/_checkpoint",
        "/x/.spark-staging-1/a",
        "/x/_spark_metadata/0",
        "x/.hive-staging_1",
    ],
)
def test_staging_path_is_recognised(path: str) -> None:
    assert is_staging(path)
    assert is_self_read("file", path, [])


def test_dataset_that_only_mentions_staging_is_none() -> None:
    assert not is_staging("s3://b/orders_temporary/x")


def test_reading_back_an_output_is_a_self_read() -> None:
    outputs = [("s3a://b", "x/dt=2024-01-02")]
    assert is_self_read("s3://b", "x/dt=2024-01-01", outputs)
    assert not is_self_read("s3://b", "y/dt=2024-01-01", outputs)


@pytest.mark.parametrize(
    ("pattern", "canonical", "dataset", "expected"),
    [
        pytest.param(
            "postgresql://OLD:5432/shop.{schema}.{table}",
            "snowflake://acct/SHOP.{schema}.{table}",
            ("postgres://old", "shop.public.orders"),
            ("snowflake://acct", "SHOP.public.orders"),
            id="rule-holds-for-every-spelling",
        ),
        pytest.param("hdfs://nn/wh/{t}", "s3://lake/{t}", "hdfs://nn:8020/wh/x/dt=1", ("s3://lake", "x"), id="urn"),
        pytest.param("demo/{t}", "prod/{t}", "demo/a/b", None, id="variable-has-no-slash"),
        pytest.param("demo/{t*}", "prod/{t}", "demo/a/b", ("prod", "a/b"), id="deep-variable"),
        pytest.param("demo/{t}", "prod/{t}", "xdemo/a", None, id="anchored-at-the-start"),
        pytest.param("demo/a", "prod/a", "demo/ab", None, id="anchored-at-the-end"),
        pytest.param("{env}_db/{t}", "db-{env}/{t}", "dev_db/x.y", ("db-dev", "x.y"), id="variable-in-namespace"),
        pytest.param("demo/a.b", "prod/x", "demo/aXb", None, id="dot-is-a-dot"),
        pytest.param("demo/{t}_v2", "prod/{t}", "demo/my_v2_table_v2", ("prod", "my_v2_table"), id="repeated-text"),
        pytest.param("demo/{a*}/x{b}", "p/{b}", "demo/1/x2/3/x4", ("p", "4"), id="later-variable-needs-the-rest"),
        pytest.param("demo/{t}", "prod/{t}", "demo/", None, id="variable-is-never-empty"),
        pytest.param("demo/{a}.{b}.{c}.z", "p/{a}", "demo/" + "a." * 990, None, id="hostile-name-ends-soon"),
        pytest.param("s3://b/{a}/{b}", "s3://c/{b}/{a}", ("s3a://b", "x/y"), ("s3://c", "y/x"), id="swap"),
    ],
)
def test_alias_rule(
    pattern: str, canonical: str, dataset: str | tuple[str, str], expected: tuple[str, str] | None
) -> None:
    assert apply_rules(dataset, compile_rules([(pattern, canonical)])) == expected


@given(
    st.lists(st.sampled_from(["{v}", "{v*}"]), min_size=1, max_size=3),
    st.lists(st.text(alphabet="ab/", min_size=1, max_size=2), min_size=4, max_size=4),
    st.text(alphabet="ab/", max_size=12),
)
def test_alias_pattern_fits_what_its_regular_expression_fits(variables: list[str], texts: list[str], name: str) -> None:
    named = [variable.replace("v", f"v{index}") for index, variable in enumerate(variables)]
    pattern = "".join(text + variable for text, variable in zip(texts, named, strict=False)) + texts[3]
    regex = "".join(text + (".+" if "*" in variable else "[^/]+") for text, variable in zip(texts, named, strict=False))
    fits = apply_rules(f"n_{name}", compile_rules([(f"n_{pattern}", "x/y")])) is not None
    assert fits == bool(re.fullmatch(f"n_{regex}{texts[3]}", f"n_{name}"))


def test_first_fitting_rule_wins() -> None:
    rules = compile_rules([("other/{t}", "zero/{t}"), ("demo/{t}", "one/{t}"), ("demo/{t*}", "two/{t}")])
    assert apply_rules("demo/a", rules) == ("one", "a")
    assert apply_rules("demo/a/b", rules) == ("two", "a/b")
    assert apply_rules("demo/a", ()) is None


@pytest.mark.parametrize(
    ("pattern", "canonical"),
    [
        pytest.param("demo/{t}", "prod/{u}", id="unknown-variable"),
        pytest.param("demo/{t}/{t}", "prod/{t}", id="variable-twice"),
        pytest.param("demo/{t", "prod/x", id="open-brace"),
        pytest.param("demo/t}", "prod/x", id="closing-brace"),
        pytest.param("demo/{t}", "prod/{t", id="open-brace-in-target"),
        pytest.param("demo/{1}", "prod/x", id="bad-variable-name"),
        pytest.param("demo/{a}{b}", "prod/{a}", id="variables-side-by-side"),
        pytest.param("demo/{t}", "prod", id="target-without-name"),
        pytest.param(" ", "prod/x", id="empty"),
    ],
)
def test_unusable_alias_rule_is_refused(pattern: str, canonical: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AliasRule(pattern, canonical)
    assert repr(pattern) in caught.value.message or repr(canonical) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("urn", "cuts"),
    [
        pytest.param("postgres://db:5432/a.b.c", [("postgres://db:5432", "a.b.c")], id="table"),
        pytest.param("a/b/c", [("a/b", "c"), ("a", "b/c")], id="longest-namespace-first"),
        pytest.param(
            "azurecosmos://h/dbs/d/colls/t",
            [
                ("azurecosmos://h/dbs/d/colls", "t"),
                ("azurecosmos://h/dbs/d", "colls/t"),
                ("azurecosmos://h/dbs", "d/colls/t"),
                ("azurecosmos://h", "dbs/d/colls/t"),
            ],
            id="uri",
        ),
        pytest.param("s3://b/x/y", [("s3://b", "x/y")], id="path-has-one-way"),
        pytest.param("file//tmp/x", [("file", "/tmp/x")], id="file-urn"),
        pytest.param("file:///tmp/x", [("file://", "/tmp/x")], id="file-uri"),
        pytest.param("orders", [], id="no-slash"),
        pytest.param("postgres://db", [], id="no-name"),
    ],
)
def test_urn_splits_every_way(urn: str, cuts: list[tuple[str, str]]) -> None:
    assert split_urn(urn) == cuts

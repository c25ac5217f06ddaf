"""Worked cases of paths, their partitions, and the patterns that find them."""

from __future__ import annotations

import pytest

from headgate.domain.names import canonical_dataset, partition_context, split_location
from headgate.domain.partitions import DEFAULT_PATTERNS, Pattern, Patterns, geo_key
from headgate.errors import ConfigError

# location, name, partition_key, display_name
PATHS = [
    pytest.param(
        "s3://mw-device-profile/featuremart/propensity/US/202601",
        (
            "featuremart/propensity",
            "s3://mw-device-profile/featuremart/propensity/US/*",
            "mw-device-profile:propensity",
        ),
        id="country-and-month",
    ),
    pytest.param(
        "s3://b/data/date=2024-01-01/country=US/",
        ("data", "s3://b/data/date=*/country=US", "b:data"),
        id="hive-keys-and-trailing-slash",
    ),
    pytest.param("s3://b/out_v2/IN/20251003-20251231", ("out_v2", "s3://b/out_v2/IN/*", "b:out_v2"), id="date-range"),
    pytest.param("s3://b/out/2024-01-01_2024-01-31", ("out", "s3://b/out/*", "b:out"), id="iso-date-range"),
    pytest.param("s3://b/data/20251003", ("data", "s3://b/data/*", "b:data"), id="compact-date-at-the-end"),
    pytest.param("s3://b/data/2024-05", ("data", "s3://b/data/*", "b:data"), id="iso-month"),
    pytest.param("s3://b/data/2024010105", ("data", "s3://b/data/*", "b:data"), id="date-and-hour"),
    pytest.param("s3://b/x/10:30:00", ("x", "s3://b/x/*", "b:x"), id="time-of-day"),
    pytest.param("s3://b/x/2024/05/01", ("x", "s3://b/x/*/*/*", "b:x"), id="date-in-folders"),
    pytest.param("s3://b/x/2024/5/1/23", ("x", "s3://b/x/*/*/*/*", "b:x"), id="hour-in-folders"),
    pytest.param("s3://b/x/123456", ("x/123456", "s3://b/x/123456", "b:123456"), id="number-that-is-no-month"),
    pytest.param("s3://b/x/05", ("x/05", "s3://b/x/05", "b:05"), id="number-without-a-year"),
    pytest.param(
        "s3a://lake/sales/year=2024/month=01/part-0000.parquet",
        ("sales", "s3://lake/sales/year=*/month=*", "lake:sales"),
        id="part-file",
    ),
    pytest.param("s3://b/x/part-00000-a.c000.snappy.parquet", ("x", "s3://b/x", "b:x"), id="part-file-unpartitioned"),
    pytest.param("s3://b/x/dt=1/orders.csv", ("x", "s3://b/x/dt=*", "b:x"), id="file-after-key"),
    pytest.param("s3://b/x/dt=1/orders", ("x/dt=1/orders", "s3://b/x/dt=*/orders", "b:orders"), id="folder-after-key"),
    pytest.param("s3://b/x/2024-01-01/a1.snappy.parquet", ("x", "s3://b/x/*", "b:x"), id="packed-file-after-date"),
    pytest.param(
        "s3://b/exports/orders.snappy.parquet",
        ("exports/orders.snappy.parquet", "s3://b/exports/orders.snappy.parquet", "b:orders.snappy.parquet"),
        id="packed-file-alone",
    ),
    pytest.param("s3://b/x/000000_0", ("x", "s3://b/x", "b:x"), id="hive-part-file"),
    pytest.param(
        "s3://my-bucket/2024-01-01/",
        ("2024-01-01", "s3://my-bucket/*", "my-bucket:2024-01-01"),
        id="one-stays",
    ),
    pytest.param("gs://my-bucket/data/2024-01-01/US/", ("data", "gs://my-bucket/data/*/US", "my-bucket:data"), id="gs"),
    pytest.param("s3://b", ("/", "s3://b", "b"), id="bucket-root"),
    pytest.param("s3://b//x///y//", ("x/y", "s3://b/x/y", "b:y"), id="duplicate-slashes"),
    pytest.param(
        "hdfs://namenode:8020/data/events/dt=2024-05-01",
        ("/data/events", "hdfs://namenode/data/events/dt=*", "namenode:events"),
        id="hdfs",
    ),
    pytest.param("hdfs://nn:9000/data/x", ("/data/x", "hdfs://nn:9000/data/x", "nn:x"), id="hdfs-other-port"),
    pytest.param("file:///data/out", ("/data/out", "file:/data/out", "out"), id="file-uri"),
    pytest.param("file:/tmp/wh/trips", ("/tmp/wh/trips", "file:/tmp/wh/trips", "trips"), id="file-one-slash"),
    pytest.param("/data/US/agg", ("/data/US/agg", "file:/data/US/agg", "agg"), id="country-in-the-middle-stays"),
    pytest.param(
        "/data/2024/01/01/data.csv",
        ("/data/2024/01/01/data.csv", "file:/data/*/*/*/data.csv", "data.csv"),
        id="date-in-the-middle-stays-in-the-name",
    ),
    pytest.param("C:\\data\\x", ("/C:/data/x", "file:/C:/data/x", "x"), id="windows-path"),
    pytest.param(
        "s3://b/prod/orders/us-east-1/th",
        ("prod/orders/us-east-1/th", "s3://b/*/orders/*/th", "b:th"),
        id="environment-and-region-only-in-the-key",
    ),
    pytest.param("s3://b/x/*/202601", ("x", "s3://b/x/*/*", "b:x"), id="client-sent-wildcard"),
    pytest.param("s3://b/x/*.parquet", ("x", "s3://b/x/*", "b:x"), id="glob"),
    pytest.param(
        "abfss://c@acct.dfs.core.windows.net/raw/orders/2024",
        ("raw/orders", "abfss://c@acct.dfs.core.windows.net/raw/orders/*", "c:orders"),
        id="azure-and-year",
    ),
    pytest.param("dbfs:/mnt/raw/orders", ("/mnt/raw/orders", "dbfs:/mnt/raw/orders", "orders"), id="dbfs"),
    pytest.param(
        "s3://b/x/country=US/date=2024-01-01/hour=05",
        ("x", "s3://b/x/country=US/date=*/hour=*", "b:x"),
        id="geography-stays-in-the-key",
    ),
    pytest.param("s3://b/x/country=qa", ("x", "s3://b/x/country=qa", "b:x"), id="qatar-is-no-test-system"),
    pytest.param("s3://b/x/region=us-east-1", ("x", "s3://b/x/region=*", "b:x"), id="cloud-region-value"),
    pytest.param("s3://b/x/region=EMEA", ("x", "s3://b/x/region=EMEA", "b:x"), id="sales-region-value"),
    pytest.param("s3://b/x/env=blue", ("x", "s3://b/x/env=*", "b:x"), id="environment-key"),
    pytest.param("s3://b/x/id=5", ("x", "s3://b/x/id=5", "b:x"), id="other-key-stays-in-the-key"),
    pytest.param("s3://b/x/event_ts=5", ("x", "s3://b/x/event_ts=*", "b:x"), id="time-key-with-prefix"),
    pytest.param("s3://b/q/_source_batch_id=7", ("q", "s3://b/q/_source_batch_id=*", "b:q"), id="batch-key"),
    pytest.param(
        "s3://b/x/run-3f2b8c1e-0000-4000-8000-000000000001/y",
        ("x/run-3f2b8c1e-0000-4000-8000-000000000001/y", "s3://b/x/run-*/y", "b:y"),
        id="run-id-in-a-folder",
    ),
    pytest.param(
        "s3://b/x_attempt_12/_temporary/0",
        ("x_attempt_12/_temporary/0", "s3://b/x*/*/0", "b:0"),
        id="task-attempt",
    ),
    pytest.param("s3://b/wh/db", ("wh/db", "s3://b/wh/db", "b:db"), id="lower-case-pair-stays"),
]


@pytest.mark.parametrize(("location", "expected"), PATHS)
def test_path_gives_dataset_partition_and_display_name(location: str, expected: tuple[str, str, str]) -> None:
    place = split_location(location)
    assert place is not None
    found = canonical_dataset(*place)
    assert (found.name, found.partition_key, found.display_name) == expected


def patterns_with(name: str, enabled: bool) -> Patterns:
    return Patterns.from_rows(
        (item.name, item.regex, item.kind, enabled if item.name == name else item.enabled)
        for item in DEFAULT_PATTERNS.items
    )


@pytest.mark.parametrize(
    ("pattern", "enabled", "path", "name"),
    [
        pytest.param("environment", True, "orders/prod", "orders", id="environment-on"),
        pytest.param("environment", False, "orders/prod", "orders/prod", id="environment-off"),
        pytest.param("country_lower", True, "orders/th", "orders", id="lower-case-country-on"),
        pytest.param("country", False, "orders/US", "orders/US", id="country-off"),
        pytest.param("year", False, "census/2020", "census/2020", id="year-off"),
        pytest.param("year", False, "x/2020/01/01", "x/2020/01/01", id="year-off-means-no-date-folders"),
        pytest.param("key_value", False, "x/dt=1/a.csv", "x/dt=1/a.csv", id="key-value-off"),
    ],
)
def test_organisation_switches_a_pattern(pattern: str, enabled: bool, path: str, name: str) -> None:
    assert canonical_dataset("s3://b", path, patterns_with(pattern, enabled)).name == name


def test_organisation_adds_a_pattern() -> None:
    patterns = Patterns.from_rows([("shard", "shard-[0-9]+", "key_value", True)])
    assert canonical_dataset("s3://b", "orders/shard-12", patterns).name == "orders"


def test_own_patterns_stand_in_place_of_the_defaults_of_their_name_or_after_them() -> None:
    off, more = ("year", "[0-9]{4}", "time", False), ("shard", "shard-[0-9]+", "key_value", True)

    patterns = DEFAULT_PATTERNS.with_own([off, more])

    names = [pattern.name for pattern in DEFAULT_PATTERNS.items]
    assert [pattern.name for pattern in patterns.items] == [*names, "shard"]
    assert patterns.items[names.index("year")] == off
    assert canonical_dataset("s3://b", "orders/2024/shard-7", patterns).name == "orders/2024"


def test_without_own_patterns_the_defaults_apply() -> None:
    assert DEFAULT_PATTERNS.with_own([]) is DEFAULT_PATTERNS


def test_own_patterns_that_cannot_be_used_are_refused_but_can_be_listed() -> None:
    broken = Pattern("shard", "(", "time", True)

    with pytest.raises(ConfigError, match="shard"):
        DEFAULT_PATTERNS.with_own([broken])
    assert DEFAULT_PATTERNS.overlaid([broken])[-1] == broken


def test_no_patterns_cut_nothing() -> None:
    assert canonical_dataset("s3://b", "orders/dt=1", Patterns.from_rows([])).name == "orders/dt=1"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        pytest.param(("bad", "[0-9", "time", True), "[0-9", id="no-regex"),
        pytest.param(("bad", "(?i)x", "time", True), "(?i)x", id="global-flag"),
        pytest.param(("bad", "a", "colour", True), "colour", id="unknown-kind"),
        pytest.param(("bad", r"(a)\1", "time", True), r"(a)\\1", id="back-reference"),
        pytest.param(("bad", "(a+)+", "time", True), "(a+)+", id="runaway-group"),
        pytest.param(("bad", "a*a*a*a*b", "time", True), "a*a*a*a*b", id="too-many-repeats"),
    ],
)
def test_unusable_pattern_is_refused_with_its_name_and_value(row: tuple[str, str, str, bool], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Patterns.from_rows([row])
    assert "'bad'" in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint


def test_pattern_name_is_unique() -> None:
    with pytest.raises(ConfigError, match="twice"):
        Patterns.from_rows([("a", "x", "time", True), ("a", "y", "time", True)])


@pytest.mark.parametrize(
    ("path", "context", "key"),
    [
        pytest.param("s3://b/x/US/202601", {"country": "US", "date": "202601"}, "country=US", id="bare-values"),
        pytest.param("s3://b/x/*/202601", {"date": "202601"}, "GLOBAL", id="wildcard-says-nothing"),
        pytest.param("/x/2024/01/02/a.csv", {"date": "2024-01-02"}, "GLOBAL", id="date-folders"),
        pytest.param(
            "s3://b/x/Market=retail/country=TH/ts=2024-01-01%2010%3A00",
            {"market": "retail", "country": "TH", "ts": "2024-01-01 10:00"},
            "country=TH,market=retail",
            id="keys",
        ),
        pytest.param("s3://b/x/US/country=IN", {"country": "IN"}, "country=IN", id="key-beats-bare-value"),
        pytest.param(
            "s3://b/prod/x/us-east-1",
            {"environment": "prod", "region": "us-east-1"},
            "region=us-east-1",
            id="env",
        ),
        pytest.param("orders", {}, "GLOBAL", id="none"),
    ],
)
def test_partition_context_of_a_path(path: str, context: dict[str, str], key: str) -> None:
    assert partition_context(path) == context
    assert geo_key(context) == key

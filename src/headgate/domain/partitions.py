"""Partitions of a path: which segments name a slice of a dataset, and how a path reads with its slices open.

Knows path segments only; schemes, buckets and identity are the business of names.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple
from urllib.parse import unquote

from headgate.errors import ConfigError

KINDS: Final = ("time", "geo", "region", "environment", "key_value")
# Longer segments are no partition values; the limit also bounds what a slow expression can cost.
_MAX_SEGMENT: Final = 256
_MAX_REPEATS: Final = 3
_REFERENCE = re.compile(r"\\[1-9]|\(\?P|\(\?\(")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{[0-9]*,\})")
_REPEAT = re.compile(r"(?<!\\)(?:[*+]|\{[0-9]*,[0-9]*\})")


class Pattern(NamedTuple):
    """A kind of partition segment. `enabled` means that such a trailing segment is dropped from names."""

    name: str
    regex: str
    kind: str
    enabled: bool


def _union(patterns: Iterable[Pattern]) -> str:
    return "|".join(f"(?:{pattern.regex})" for pattern in patterns) or "(?!)"


def _check_pattern(pattern: Pattern) -> None:
    label = f"partition pattern {pattern.name!r}"
    if pattern.kind not in KINDS:
        raise ConfigError(f"{label} has unknown kind {pattern.kind!r}", hint=f"use one of {', '.join(KINDS)}")
    try:
        re.compile(f"(?:{pattern.regex})")
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{label} is not a regular expression: {pattern.regex!r} ({error})",
            hint="write an expression that matches one whole path segment, such as [0-9]{8}",
        ) from error
    if _REFERENCE.search(pattern.regex):
        raise ConfigError(
            f"{label} refers to a group: {pattern.regex!r}",
            hint="use plain groups, without names or references",
        )
    if _REPEATED_GROUP.search(pattern.regex) or len(_REPEAT.findall(pattern.regex)) > _MAX_REPEATS:
        raise ConfigError(
            f"{label} could take very long to match: {pattern.regex!r}",
            hint=f"do not repeat a group without limit, and use at most {_MAX_REPEATS} open repeats",
        )


@dataclass(frozen=True)
class Patterns:
    """The partition patterns of one organisation. Disabled ones still generalise a partition key."""

    items: tuple[Pattern, ...]

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, str, str, bool]]) -> Patterns:
        items = tuple(Pattern(*row) for row in rows)
        seen: set[str] = set()
        for item in items:
            _check_pattern(item)
            if item.name in seen:
                raise ConfigError(
                    f"partition pattern {item.name!r} is given twice", hint="rename or remove one of the two"
                )
            seen.add(item.name)
        return cls(items)

    def overlaid(self, own: Iterable[Pattern]) -> list[Pattern]:
        """These, with an organisation's own in place of those of the same name or after them; nothing is checked."""
        return list({pattern.name: pattern for pattern in (*self.items, *own)}.values())

    def with_own(self, rows: Iterable[tuple[str, str, str, bool]]) -> Patterns:
        """The patterns that apply where an organisation has some of its own; ConfigError if those cannot be used."""
        own = [Pattern(*row) for row in rows]
        return Patterns.from_rows(self.overlaid(own)) if own else self

    @cached_property
    def _dropped(self) -> re.Pattern[str]:
        return re.compile(_union(item for item in self.items if item.enabled), re.DOTALL)

    @cached_property
    def _kinds(self) -> re.Pattern[str]:
        # Geography before environments: QA is a country first.
        groups = []
        for kind in ("time", "geo", "region", "environment"):
            chosen = (item for item in self.items if item.kind == kind and (item.enabled or kind != "geo"))
            groups.append(f"(?P<{kind}>{_union(chosen)})")
        return re.compile("|".join(groups), re.DOTALL)

    def drops(self, segment: str) -> bool:
        """Whether a trailing segment like this is a partition of the dataset above it."""
        return len(segment) <= _MAX_SEGMENT and self._dropped.fullmatch(segment) is not None

    def kind_of(self, segment: str) -> str | None:
        """time, geo, region or environment for a segment or value; geography only where enabled."""
        match = self._kinds.fullmatch(segment) if len(segment) <= _MAX_SEGMENT else None
        return match.lastgroup if match else None


_Y = "(?:19|20)[0-9]{2}"
_M = "(?:0[1-9]|1[0-2])"
_D = "(?:0[1-9]|[12][0-9]|3[01])"
_ISO_DATE = f"{_Y}[-_]{_M}[-_]{_D}"
_DIRECTION = "(?:north|south|east|west|central|northeast|northwest|southeast|southwest)"

DEFAULT_PATTERNS: Final = Patterns.from_rows(
    [
        ("key_value", "[^=]+=.*", "key_value", True),
        ("iso_date", _ISO_DATE, "time", True),
        ("iso_month", f"{_Y}-{_M}", "time", True),
        ("compact_date", f"{_Y}{_M}{_D}", "time", True),
        ("compact_month", f"{_Y}{_M}", "time", True),
        ("year", _Y, "time", True),
        ("compact_range", f"{_Y}{_M}{_D}[-_]{_Y}{_M}{_D}", "time", True),
        ("iso_range", f"{_ISO_DATE}(?:_|--|:|_to_){_ISO_DATE}", "time", True),
        ("date_hour", f"{_Y}-?{_M}-?{_D}[T _-]?[0-9]{{2}}(?:[:_-]?[0-9]{{2}}){{0,2}}Z?", "time", True),
        ("time_of_day", "[0-2][0-9]:[0-5][0-9](?::[0-5][0-9])?", "time", True),
        ("wildcard", "[*]{1,2}(?:[.][A-Za-z0-9.]+)?", "time", True),
        ("country", "[A-Z]{2}", "geo", True),
        ("country_lower", "[a-z]{2}", "geo", False),
        ("cloud_region", f"[a-z]{{2,4}}-(?:gov-|iso-)?{_DIRECTION}-?[0-9]", "region", False),
        (
            "environment",
            "(?i:prod|production|prd|preprod|nonprod|staging|stage|stg|dev|development"
            "|test|testing|tst|qa|uat|sandbox|sbx)",
            "environment",
            False,
        ),
    ]
)


# Written by one task among many; never a dataset of its own. The second form is Hive's.
_PART_FILE = re.compile(r"part-[0-9rm].*|[0-9]{6}_[0-9]+(?:[._].*)?|_SUCCESS|_committed_.*|_started_.*", re.DOTALL)
_DATA_FILE = re.compile(r".*\.[A-Za-z][A-Za-z0-9]{0,9}", re.DOTALL)
_PACKED_FILE = re.compile(r".*\.(?:snappy|gz|gzip|zstd|lz4|lzo|zlib|brotli)\.(?:parquet|orc|avro)", re.DOTALL)
_YEAR = re.compile(_Y)
_MONTHS = frozenset({str(n) for n in range(1, 13)} | {f"{n:02}" for n in range(1, 13)})
_DAYS = frozenset({str(n) for n in range(1, 32)} | {f"{n:02}" for n in range(1, 32)})
_HOURS = frozenset({str(n) for n in range(24)} | {f"{n:02}" for n in range(24)})
_AFTER_YEAR = (_MONTHS, _DAYS, _HOURS)


def cut_partitions(segments: Sequence[str], patterns: Patterns) -> tuple[int, int]:
    """How many leading segments name the dataset, and how many its partition (all but the data files).

    Each step looks at what is left only, so that a cut name is never cut further.
    """
    kept = shown = len(segments)
    while kept > 1:
        if _is_task_output(segments, kept, patterns):
            shown = kept - 1 if shown == kept else shown
            kept -= 1
        elif patterns.drops(segments[kept - 1]):
            kept -= 1
        elif run := _date_run(segments, kept, patterns):
            kept = max(kept - run, 1)
        else:
            break
    return kept, shown


def _is_task_output(segments: Sequence[str], end: int, patterns: Patterns) -> bool:
    """Whether the last segment is a file of the dataset that the folders before it name."""
    last, before = segments[end - 1], segments[end - 2]
    if _PART_FILE.fullmatch(last):
        return True
    if "." not in last:
        return False
    if "=" in before:
        return _DATA_FILE.fullmatch(last) is not None and patterns.drops(before)
    # orders/2024-01-01/x.snappy.parquet is a task's file, but exports/x.snappy.parquet may be all there is.
    return _PACKED_FILE.fullmatch(last) is not None and (
        patterns.drops(before) or bool(_date_run(segments, end - 1, patterns))
    )


def _date_run(segments: Sequence[str], end: int, patterns: Patterns) -> int:
    """Length of a yyyy/mm, yyyy/mm/dd or yyyy/mm/dd/hh run that ends at `end`, else 0."""
    if len(segments[end - 1]) > 2 or not segments[end - 1].isdigit():
        return 0
    for size in range(2, min(end, 4) + 1):
        year, *rest = segments[end - size : end]
        if _YEAR.fullmatch(year) and all(part in known for part, known in zip(rest, _AFTER_YEAR, strict=False)):
            return size if patterns.drops(year) else 0
    return 0


_TIME_WORD = (
    "date|datetime|dt|ds|day|dd|year|yr|yyyy|month|mon|mm|quarter|qtr|week|wk|hour|hr|hh|minute"
    "|time|ts|timestamp|period|yyyymm|yyyymmdd|at|run_id|batch_id|load_id|snapshot_id"
)
_MOVING_KEY = re.compile(
    rf"(?:.*[_-])?(?:{_TIME_WORD})(?:[_-](?:key|id|utc|part|partition))?|env|environment|stage",
    re.DOTALL | re.IGNORECASE | re.ASCII,
)
# A run's own number is as fleeting as a date.
_RUN_ID = re.compile(
    r"_attempt_[0-9A-Za-z_]+|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
)
_GENERAL_KINDS = frozenset({"time", "environment", "region"})
GEO_KEYS: Final = frozenset({"country", "region", "zone", "geo", "location", "market"})
_STAGING = frozenset({"_temporary", "_checkpoint", "_checkpoints", "_spark_metadata"})
_STAGING_PREFIXES = (".spark-staging-", ".hive-staging_")


def generalised(segments: Sequence[str], patterns: Patterns) -> list[str]:
    """The segments with time, environment, region and run values as `*`; geography stays."""
    out: list[str] = []
    dated = 0  # how many segments of a yyyy/mm/dd/hh run came just before
    for part in segments:
        if 0 < dated <= len(_AFTER_YEAR) and part in _AFTER_YEAR[dated - 1]:
            dated += 1
            out.append("*")
            continue
        dated = 1 if len(part) == 4 and _YEAR.fullmatch(part) else 0
        out.append(_generalise(part, patterns))
    return out


def _generalise(segment: str, patterns: Patterns) -> str:
    key, equals, value = segment.partition("=")
    if equals:
        return f"{key}=*" if _is_general(key, value, patterns) else f"{key}={_without_run_id(value)}"
    if patterns.kind_of(segment) in _GENERAL_KINDS or is_staging_segment(segment):
        return "*"
    return _without_run_id(segment)


def _is_general(key: str, value: str, patterns: Patterns) -> bool:
    if _MOVING_KEY.fullmatch(key):
        return True
    kind = patterns.kind_of(value)
    # country=qa is Qatar and stays, region=us-east-1 is a data centre and goes.
    return kind == "region" if key.lower() in GEO_KEYS else kind in _GENERAL_KINDS


def _without_run_id(text: str) -> str:
    may_have_one = "_attempt_" in text or text.count("-") >= 4
    return _RUN_ID.sub("*", text) if may_have_one else text


def is_staging_segment(segment: str) -> bool:
    """Whether a writer's own scratch folder has this name."""
    return segment in _STAGING or segment.startswith(_STAGING_PREFIXES)


_CONTEXT_KEYS = {"time": "date", "geo": "country", "region": "region", "environment": "environment"}
_NO_VALUE = frozenset({"", "*", "**", "__HIVE_DEFAULT_PARTITION__"})


def context_of(segments: Sequence[str], patterns: Patterns) -> dict[str, str]:
    """What the partition segments say: key=value as written, bare values under the name of their kind."""
    context: dict[str, str] = {}
    bare: dict[str, str] = {}
    for end, segment in enumerate(segments, start=1):
        key, equals, value = segment.partition("=")
        if equals:
            context[key.lower()] = unquote(value)
        elif run := _date_run(segments, end, patterns):
            bare["date"] = "-".join(segments[end - run : end])
        elif segment not in _NO_VALUE and (kind := patterns.kind_of(segment)):
            bare.setdefault(_CONTEXT_KEYS[kind], segment)
    return {key: value for key, value in (bare | context).items() if value not in _NO_VALUE}


def geo_key(context: Mapping[str, str]) -> str:
    """One text for where a run worked (`country=US,market=retail`); GLOBAL if its context does not say."""
    return ",".join(f"{key}={context[key]}" for key in sorted(GEO_KEYS) if key in context) or "GLOBAL"

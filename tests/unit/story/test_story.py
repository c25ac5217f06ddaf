"""The story as a page."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from importlib.resources import files
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from headgate.pipelines.record import (
    ColumnProfile,
    DatasetRef,
    DriftRecord,
    FieldRecord,
    NodeRecord,
    QuarantineRecord,
    RowCountRecord,
    RunRecord,
    Status,
)
from headgate.story import Kind, Lineage, LineageEdge, LineageNode, Story, render
from tests.unit.story.examples import (
    TOLD,
    TRIP_FIELDS,
    a_dataset,
    a_gate,
    a_node,
    a_quarantine,
    a_rich_previous,
    a_rich_story,
    a_run,
    a_story,
    a_test,
)
from tests.unit.story.page import Page

EVIL = "<script>alert('x')</script>\"&"


def page_of(*nodes: NodeRecord, **facts: Any) -> Page:
    return Page(render(a_story(*nodes, **facts)))


@pytest.fixture(scope="module")
def rich() -> Page:
    return Page(render(a_rich_story()))


def test_every_tag_is_closed_where_it_should_be(rich: Page) -> None:
    assert rich.problems == []


def test_the_page_asks_nothing_of_the_network(rich: Page) -> None:
    names = {tag for tag, _ in rich.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image"}
    for tag, attributes in rich.tags:
        assert "src" not in attributes
        assert tag == "a" or (attributes.get("href") or "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    css = files("headgate.story").joinpath("templates", "story.css").read_text()
    assert "url(" not in css
    assert "@import" not in css


def test_the_page_forbids_itself_everything_but_its_own_style(rich: Page) -> None:
    policies = [meta["content"] for meta in rich.all("meta") if "http-equiv" in meta]

    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_headings_go_down_one_step_at_a_time(rich: Page) -> None:
    levels = [int(tag[1]) for tag, _ in rich.headings]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_sections_come_in_their_order(rich: Page) -> None:
    assert [text for tag, text in rich.headings if tag == "h2"] == ["What changed", "Lineage", "Nodes"]


def test_tables_have_captions_and_every_head_a_scope(rich: Page) -> None:
    assert len(rich.all("caption")) == len(rich.all("table")) > 10
    assert all(head.get("scope") in ("col", "row") for head in rich.all("th"))


def test_ids_are_given_once_and_every_inner_link_leads_somewhere(rich: Page) -> None:
    ids = [attributes["id"] for _, attributes in rich.tags if "id" in attributes]
    links = {href[1:] for _, attributes in rich.tags if (href := attributes.get("href") or "").startswith("#")}

    assert len(ids) == len(set(ids))
    assert links <= set(ids)


def test_the_drawing_has_a_title_a_description_and_a_list_in_words(rich: Page) -> None:
    (drawing,) = [svg for svg in rich.all("svg") if svg.get("role") == "img"]

    assert drawing["aria-labelledby"] == "lineage-title lineage-desc"
    assert "What flows where" in rich.text


def test_the_head_says_who_when_and_where(rich: Page) -> None:
    for words in (
        "Environment production",
        "Started 2026-03-02 04:00:00 UTC",
        "Took 4 min 12 s",
        "Owner data-platform, weather-team, mobility",
    ):
        assert words in rich.text


def test_problems_come_first_and_only_what_needs_a_look_is_open(rich: Page) -> None:
    cards = [card for card in rich.all("details") if (card.get("class") or "").startswith("card")]

    assert [(str(card["id"]).removeprefix("node-"), "open" in card) for card in cards] == [
        ("bronze.weather", True),
        ("silver.trips", True),
        ("bronze.trips", True),
        ("silver.zones", True),
        ("gold.daily_revenue", False),
        ("gold.revenue_by_zone_and_weather", False),
        ("bronze.zones", False),
        ("gold.boroughs", False),
    ]


def test_a_gate_says_which_rule_decided() -> None:
    gate = a_gate(
        passed=False,
        pass_rate=0.94996,
        total_rows=100_000,
        passed_rows=94_996,
        per_test_rates={"fare_range": 0.94996, "ids": 1.0},
        row_count=RowCountRecord(100_000, 80_000, 0.25),
        reasons=("94.996 % of the rows pass, 95 % are required",),
        notes=("the server did not answer",),
    )

    text = page_of(a_node(status=Status.stopped, rows_in=100_000, gate=gate)).text

    assert "The gate did not pass: nothing was published" in text
    assert "94.996 % of the rows pass, 95 % are required" in text
    assert "Rows that pass 94.996 % 94,996 of 100,000" in text
    assert "Published before 80,000 +20,000 (+25 %)" in text
    assert "fare_range 95 %" in text
    assert "1 more test passes for every row" in text
    assert "the server did not answer" in text


@pytest.mark.parametrize(
    ("action", "words"),
    [("warn_and_write", "published all the same"), ("write_valid_only", "only the rows that pass were published")],
)
def test_a_gate_that_lets_rows_through_says_so(action: str, words: str) -> None:
    gate = a_gate(passed=False, action=action, reasons=("too few",))

    assert words in page_of(a_node(gate=gate)).text


def test_a_test_shows_all_that_is_known_of_it() -> None:
    test = a_test("zones", "failed", 25, columns=("zone", "borough"), evaluated=1_000, on_fail="warn",
                  type="foreign_key", limit="at most 1 %", detail="in zones")  # fmt: skip

    assert (
        "zones in zones failed foreign_key zone, borough warn 1,000 25 2.5 % at most 1 % –"
        in page_of(a_node(tests=(test,))).text
    )


def test_a_test_of_the_whole_batch_shows_what_it_observed() -> None:
    test = a_test("mean_fare", type="mean", observed=1234.5, limit="between 10 and 40")

    assert "mean_fare passed mean – fail – – – between 10 and 40 1,234.5" in page_of(a_node(tests=(test,))).text


def test_quarantined_rows_are_shown_with_where_they_are_and_a_few_samples() -> None:
    samples = tuple({"id": 88_000 + i, "name": "J***", "_failed_tests": ["fare_range"]} for i in range(8))
    quarantine = a_quarantine(4_000, samples=samples, retention_days=90, failed_tests={"ids": 10, "fare_range": 4_000})

    text = page_of(a_node(rows_in=9_000, rows_quarantined=4_000, quarantine=quarantine)).text

    assert "Where /data/quarantine/trips/_source_batch_id=0195-run Batch 0195-run" in text
    assert "fare_range 4,000 100 % ids 10 0.25 %" in text
    assert "5 rows of 4,000, values masked" in text
    assert "88004 J*** fare_range" in text
    assert "88005" not in text
    assert "90 days" in text


def test_drift_is_shown_with_its_policy() -> None:
    drift = DriftRecord(added=("tip double",), removed=("zone",), changed=("fare: float → double",), policy="warn")

    text = page_of(a_node(drift=drift, schema=(FieldRecord("tip", "double"), FieldRecord("fare", "double")))).text

    assert "Policy: warn" in text
    assert "+ added tip double − removed zone ~ changed fare: float → double" in text
    assert "tip double may be null added fare double may be null changed" in text


def test_a_profile_is_shown() -> None:
    node = a_node(rows_in=1_000, profile={"fare": ColumnProfile(5, 77, -1.5, "zz")})

    assert "fare 5 0.5 % 77 -1.5 zz" in page_of(node).text


def test_the_phases_of_a_node_add_up_to_its_time() -> None:
    assert "read 2 s other 1 s" in page_of(a_node(timings_s={"read": 2.0, "total": 3.0})).text


def test_rows_are_shown_as_parts_of_a_whole() -> None:
    html = render(a_story(a_node(rows_in=200, rows_valid=150, rows_quarantined=50, rows_published=150)))

    assert 'class="valid" style="width:75.000%"' in html
    assert 'class="quarantined" style="width:25.000%"' in html
    assert "valid 150 quarantined 50 published 150" in Page(html).text


def test_a_skipped_node_says_why() -> None:
    node = a_node("gold.revenue", Status.skipped, notes=("silver.trips was stopped",), started_at=None, ended_at=None)

    assert "Skipped: silver.trips was stopped." in page_of(node).text


def test_reasons_that_no_gate_gives_are_shown_once() -> None:
    node = a_node(status=Status.stopped, gate=a_gate(), reasons=("the policy refuses new columns",))

    page = page_of(node)

    assert "Why it was not published" in [text for _, text in page.headings]
    assert page.text.count("the policy refuses new columns") == 2 + 1, "title, headline and card"


def test_an_error_is_shown_as_it_was_raised() -> None:
    html = render(a_story(a_node(status=Status.failed, error="first\n  second <b>")))

    assert '<pre tabindex="0">first\n  second &lt;b&gt;</pre>' in html


def test_what_changed_since_the_run_before_is_told(rich: Page) -> None:
    assert "This run took 4 min 12 s instead of 3 min 40 s (+15 %)." in rich.text
    assert "silver.trips 3,066,766 +24,776 (+0.81 %) 0 −3,039,100 (−100 %)" in rich.text
    assert "silver.trips fare_range passed failed, 402,113 failing" in rich.text
    assert "No longer in the run: gold.tips." in rich.text


def test_a_first_run_says_that_there_is_nothing_to_compare_with() -> None:
    assert "There is no earlier run to compare with." in page_of(a_node()).text


def test_a_run_without_nodes_has_a_story() -> None:
    page = page_of()

    assert page.problems == []
    assert "The run has no nodes." in page.text


def test_long_names_are_cut_in_the_drawing_and_whole_in_its_titles() -> None:
    name = "a_very_long_name_that_fits_into_no_box_of_any_drawing"
    html = render(a_story(a_node(f"silver.{name}")))

    assert f"<title>silver.{name}: published</title>" in html
    assert "a_very_…y_drawing" in html


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//evil.example"])
def test_only_a_web_address_becomes_a_link(url: str) -> None:
    assert url not in render(a_story(a_node(), server_url=url))


def test_a_server_is_linked() -> None:
    links = [link["href"] for link in page_of(a_node(), server_url="https://hg.example").all("a")]

    assert "https://hg.example" in links


def evil_quarantine() -> QuarantineRecord:
    place = DatasetRef(EVIL, EVIL, EVIL)
    return QuarantineRecord(place, EVIL, EVIL, 3, {EVIL: 3}, EVIL, 90, ({EVIL: EVIL, "b": [EVIL]},))


def an_evil_story() -> Story:
    """A story with markup in every text that a record can carry."""
    place = DatasetRef(EVIL, EVIL, EVIL)
    node = NodeRecord(
        EVIL, EVIL, EVIL, Status.failed, 2, TOLD, TOLD, (place,), DatasetRef(EVIL, "out", EVIL), EVIL, 10, 5, 5, 5,
        gate=a_gate(passed=False, action=EVIL, reasons=(EVIL,), notes=(EVIL,), per_test_rates={EVIL: 0.5}),
        tests=(a_test(EVIL, EVIL, type=EVIL, on_fail=EVIL, columns=(EVIL,), limit=EVIL, observed=EVIL, detail=EVIL),
               a_test(EVIL, "failed", 3)),
        quarantine=evil_quarantine(),
        schema=(FieldRecord(EVIL, EVIL),), drift=DriftRecord((EVIL,), (EVIL,), (EVIL,), EVIL),
        profile={EVIL: ColumnProfile(1, 1, EVIL, EVIL)}, watermark={EVIL: EVIL}, timings_s={EVIL: 1.0}, owner=EVIL,
        tags=(EVIL,), description=EVIL, reasons=(EVIL,), notes=(EVIL, EVIL), error=EVIL,
    )  # fmt: skip
    run = RunRecord(EVIL, EVIL, (EVIL,), Status.failed, EVIL, EVIL, TOLD, TOLD, [node])
    old = msgspec.structs.replace(node, tests=(a_test(EVIL),), schema=(FieldRecord("old" + EVIL, EVIL),))
    previous = RunRecord(EVIL, EVIL, (EVIL,), nodes=[old, a_node("gone." + EVIL)])
    around = Lineage((LineageNode(EVIL, EVIL, Kind.job, EVIL),), (LineageEdge(EVIL, f"{EVIL}/{EVIL}"),))
    return Story(run, TOLD, previous, around, around, f"https://{EVIL}")


def test_markup_in_any_text_stays_text() -> None:
    html = render(an_evil_story())
    page = Page(html)

    assert "<script" not in html
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.problems == []
    assert page.text.count("<script>") > 50


def test_a_story_needs_no_spark_and_no_server() -> None:
    asked = "import sys, headgate.story; print([name for name in sys.modules if name.startswith(%r)])"
    unwanted = ("pyspark", "py4j", "fastapi", "asyncpg", "headgate.server")
    done = subprocess.run([sys.executable, "-c", asked % (unwanted,)], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_same_facts_give_the_same_page() -> None:
    assert render(a_rich_story()) == render(a_rich_story())


def test_a_story_can_be_told_from_what_the_server_keeps() -> None:
    story = a_rich_story()
    kept = msgspec.json.decode(msgspec.json.encode(story), type=Story)

    assert render(kept) == render(story)


def test_two_hundred_nodes_with_two_hundred_tests_are_told_in_time() -> None:
    tests = tuple(a_test(f"test_{i}", columns=("fare",), evaluated=1_000_000) for i in range(200))
    nodes = [
        a_node(
            f"p{i // 20}.node_{i}",
            inputs=tuple(a_dataset(f"lake/{j}") for j in {max(0, i - 10), i // 2}),
            output=a_dataset(f"lake/{i}"),
            tests=tests,
            schema=TRIP_FIELDS,
            gate=a_gate(per_test_rates={test.name: 1.0 for test in tests}),
        )
        for i in range(200)
    ]
    story = Story(a_run(*nodes), TOLD, a_rich_previous())

    # In CPU time: what else runs on the machine is not the story's.
    began = time.process_time()
    html = render(story)
    assert time.process_time() - began < 2
    assert len(html) < 12_000_000
    assert html.count('<details class="card published"') == 200
    assert not re.search(r'<details class="card[^>]*open', html)

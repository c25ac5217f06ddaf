"""What the lineage of a run is drawn from."""

from __future__ import annotations

from headgate.pipelines.record import Status
from headgate.story import Kind, Lineage, LineageEdge, LineageNode, Story
from headgate.story.cards import anchors
from headgate.story.graph import Picture, picture
from tests.unit.story.examples import LAKE, TOLD, a_dataset, a_node, a_rich_story, a_run


def drawn(story: Story) -> Picture:
    found = picture(story, anchors(story.run))
    assert found is not None
    return found


def labels(found: Picture, *, own: bool) -> list[str]:
    return [mark.label for mark, _ in found.marks if mark.is_own is own]


TRIPS = a_node(inputs=(a_dataset("raw"),), output=a_dataset("trips"), rows_published=5)


def test_a_target_is_drawn_as_part_of_the_job_that_writes_it() -> None:
    found = drawn(Story(a_run(TRIPS), TOLD))

    ((job, _), (source, _)) = found.marks
    assert (job.label, job.writes, job.status, job.below) == ("trips", "trips", Status.published, "5 rows")
    assert (source.label, source.kind, source.is_own) == ("raw", Kind.dataset, False)


def test_the_list_beside_the_drawing_names_each_flow_in_full() -> None:
    found = drawn(Story(a_run(TRIPS), TOLD))

    job = "silver.trips: published"
    assert set(found.flows) == {("file//data/raw", job), (job, "file//data/trips")}


def test_what_the_server_knows_of_a_source_joins_it_to_its_pipeline() -> None:
    raw = LineageNode(f"{LAKE}//data/raw", "raw", Kind.dataset, "landing")
    feeds = LineageNode("ops/landing.load", "landing.load", Kind.job, "landing")
    upstream = Lineage((raw, feeds), (LineageEdge(feeds.id, raw.id),))

    found = drawn(Story(a_run(TRIPS), TOLD, upstream=upstream))

    assert labels(found, own=True) == ["trips"]
    assert labels(found, own=False) == ["landing.load"]
    assert [(frame.title, frame.is_own) for frame in found.frames] == [("silver", True), ("landing (upstream)", False)]
    assert len(found.lines) == 1


def test_a_dataset_with_two_writers_stands_for_itself() -> None:
    run = a_run(a_node("silver.a", output=a_dataset("both")), a_node("silver.b", output=a_dataset("both")))

    assert sorted(labels(drawn(Story(run, TOLD)), own=True)) == ["a", "b", "both"]


def test_a_node_that_updates_what_it_reads_can_be_drawn() -> None:
    node = a_node(inputs=(a_dataset("trips"),), output=a_dataset("trips"))

    assert labels(drawn(Story(a_run(node), TOLD)), own=True) == ["trips"]


def test_edges_to_what_is_not_there_are_left_out() -> None:
    lineage = Lineage(edges=(LineageEdge("nowhere", "elsewhere"),))

    assert len(drawn(Story(a_run(TRIPS), TOLD, downstream=lineage)).lines) == 1


def test_no_marks_cover_each_other_in_a_rich_story() -> None:
    boxes = [box for _, box in drawn(a_rich_story()).marks]

    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_a_run_without_nodes_has_no_picture() -> None:
    assert picture(Story(a_run(), TOLD), {}) is None

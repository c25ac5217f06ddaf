"""What runs in which order, what a selection leaves, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.pipelines.places import Kind
from headgate.pipelines.plan import Plan
from tests.unit.pipelines.samples import HEAD, indent, plan_of, plan_problems, with_nodes


def reads(name: str, path: str, target: str | None = None, more: str = "") -> str:
    write = f", write: {{connection: silver, path: {target}}}" if target else ""
    return f"- {{name: {name}, read: {{connection: silver, path: {path}}}{write}{more}}}\n"


def writes(name: str, mode: str, target: str = "t", more: str = "") -> str:
    return reads(name, f"raw_{name}", None, f", write: {{connection: silver, path: {target}, mode: {mode}}}{more}")


def apart(block: str) -> str:
    return f", validation: {{quarantine: {{connection: silver, {block}}}}}"


def depends(name: str, *on: str, more: str = "") -> str:
    return f"- {{name: {name}, depends_on: [{', '.join(on)}], transform: {{steps: [SELECT 1]}}{more}}}\n"


def with_pipelines(**pipelines: str) -> str:
    blocks = [f"  - pipeline: {name}\n    nodes:\n{indent(nodes, 6)}" for name, nodes in pipelines.items()]
    return HEAD + "pipelines:\n" + "".join(blocks)


def order(plan: Plan) -> list[str]:
    return [node.job_name for node in plan.nodes]


def test_nodes_come_after_those_they_depend_on(tmp_path: Path) -> None:
    text = with_nodes(depends("c", "b") + depends("b", "a") + reads("a", "x"))

    assert order(plan_of(tmp_path, text)) == ["daily.a", "daily.b", "daily.c"]


def test_nodes_come_after_those_that_write_what_they_read_in_any_pipeline(tmp_path: Path) -> None:
    text = with_pipelines(gold=reads("report", "clean", "report"), silver=reads("clean", "raw", "clean"))
    plan = plan_of(tmp_path, text)

    assert order(plan) == ["silver.clean", "gold.report"]
    assert plan.pipelines == ["silver", "gold"]
    assert plan.node(("gold", "report")).after == {("silver", "clean")}


def test_a_part_of_a_written_folder_is_waited_for_and_its_neighbour_is_not(tmp_path: Path) -> None:
    text = with_nodes(
        reads("part", "clean/day=1", "p") + reads("near", "clean_old", "n") + reads("clean", "raw", "clean")
    )
    plan = plan_of(tmp_path, text)

    assert plan.node(("daily", "part")).after == {("daily", "clean")}
    assert plan.node(("daily", "near")).after == frozenset()


def test_a_folder_is_read_after_its_parts_are_written(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, with_nodes(reads("all", "events", "sums") + reads("new", "raw", "events/new")))

    assert order(plan) == ["daily.new", "daily.all"]


def test_what_a_test_refers_to_is_waited_for(tmp_path: Path) -> None:
    test = ", validation: {tests: [{type: foreign_key, column: a, reference: {connection: silver, path: customers}}]}"
    plan = plan_of(tmp_path, with_nodes(reads("orders", "o", "orders", test) + reads("people", "p", "customers")))

    assert order(plan) == ["daily.people", "daily.orders"]
    reference = plan.node(("daily", "orders")).tests[0].reference
    assert reference is not None
    assert reference.label == "silver/customers"


def test_a_node_that_reads_its_own_target_does_not_wait_for_itself(tmp_path: Path) -> None:
    assert plan_of(tmp_path, with_nodes(reads("a", "x", "x"))).nodes[0].after == frozenset()


def test_nodes_that_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    (named,) = plan_problems(tmp_path, with_nodes(depends("a", "b") + depends("b", "a")))
    (shared,) = plan_problems(tmp_path, with_nodes(reads("a", "x", "y") + reads("b", "y", "x")))

    assert named.message.startswith("the nodes wait for each other: daily.")
    assert named.message.count("->") == 2
    assert shared.message.startswith("the nodes wait for each other: daily.")
    assert shared.place.startswith("pipeline.yaml:")


CHAIN = reads("a", "x", "a") + reads("b", "a", "b") + depends("c", "b") + reads("d", "y", "d")


def test_a_run_may_be_one_pipeline_one_node_or_a_node_and_all_that_follows(tmp_path: Path) -> None:
    text = with_pipelines(one=CHAIN, two=reads("e", "b", "e") + reads("f", "z", "f"))

    assert sorted(order(plan_of(tmp_path, text, pipeline="two"))) == ["two.e", "two.f"]
    assert order(plan_of(tmp_path, text, only="b")) == ["one.b"]
    assert order(plan_of(tmp_path, text, only="two.e")) == ["two.e"]
    assert sorted(order(plan_of(tmp_path, text, start="b"))) == ["one.b", "one.c", "two.e"]
    assert order(plan_of(tmp_path, text, pipeline="one", start="b")) == ["one.b", "one.c"]


def test_nodes_that_are_not_in_a_run_are_still_known(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, with_nodes(CHAIN), only="c")

    assert order(plan) == ["daily.c"]
    assert plan.node(("daily", "b")).target is not None
    assert {node.config.name for node in plan.others} == {"a", "b", "d"}


def test_a_node_that_needs_rows_nobody_keeps_is_refused(tmp_path: Path) -> None:
    text = with_nodes(reads("a", "x") + depends("b", "a"))

    assert order(plan_of(tmp_path, text)) == ["daily.a", "daily.b"]
    (found,) = plan_problems(tmp_path, text, only="b")
    assert found.message == "node 'a' keeps no rows, and is not a part of this run"
    assert found.hint == "run it too, or give it a write block; daily.b needs its rows"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"pipeline": "on"}, "there is no pipeline 'on'", "did you mean 'one'?"),
        ({"pipeline": "zzz"}, "there is no pipeline 'zzz'", "there are one, two"),
        ({"only": "zzz"}, "there is no node 'zzz'", "there are a, b"),
        ({"start": "zzz"}, "there is no node 'zzz'", "there are a, b"),
        ({"only": "a"}, "'a' is one.a and two.a", "add --pipeline"),
    ],
)
def test_names_that_are_not_there_are_refused(tmp_path: Path, options: dict[str, str], message: str, hint: str) -> None:
    text = with_pipelines(one=reads("a", "x", "a") + reads("b", "x", "b"), two=reads("a", "x", "c"))

    (found,) = plan_problems(tmp_path, text, **options)
    assert (found.message, found.hint) == (message, hint)


def test_a_node_that_is_switched_off_is_left_out_and_need_not_be_right(tmp_path: Path) -> None:
    text = with_nodes(reads("a", "x", "a") + depends("b", "nobody", more=", enabled: false") + depends("c", "a"))

    assert order(plan_of(tmp_path, text)) == ["daily.a", "daily.c"]


@pytest.mark.parametrize(
    ("nodes", "message", "hint"),
    [
        (reads("a", "x") + depends("b", "zzz"), "there is no node 'zzz'", "nodes of this pipeline: a, b"),
        (reads("orders", "x") + depends("b", "order"), "there is no node 'order'", "did you mean 'orders'?"),
        (reads("a", "x") + reads("a", "y"), "there are two nodes 'a'", "give one another name"),
        (
            "- {name: a, read: {connection: sliver, path: x}}",
            "there is no connection 'sliver'",
            "did you mean 'silver'?",
        ),
        (
            "- {name: a, read: {connection: silver, table: x}}",
            "connection 'silver' is local, and takes path instead of table",
            "write path in its place",
        ),
        (
            reads("a", "x", "t") + reads("b", "x", "t"),
            "silver/t is overwritten by node 'daily.a' too",
            "say mode: append, or write elsewhere",
        ),
        (
            reads("a", "x", "t", ", validation: {quarantine: {connection: silver, path: t}}"),
            "silver/t is the target of the node too",
            "give the quarantine its own place",
        ),
        (
            reads("a", "x", "t", apart("path: t/bad")),
            "silver/t/bad lies in silver/t, the target of the node",
            "give the quarantine its own place",
        ),
        (
            reads("a", "x", "t/a", apart("path: t")),
            "silver/t holds silver/t/a, the target of the node",
            "give the quarantine its own place",
        ),
        (
            reads("a", "x", "t") + reads("b", "x", "u", apart("path: t/bad")),
            "silver/t/bad lies in silver/t, the target of node 'daily.a'",
            "give the quarantine its own place",
        ),
        (
            reads("a", "x", "u", apart("path: t")) + reads("b", "x", "t"),
            "silver/t is the target of node 'daily.b' too",
            "give the quarantine its own place",
        ),
        (
            reads("a", "x", "t") + reads("b", "x", "t/b"),
            "silver/t/b lies in silver/t, the target of node 'daily.a'",
            "write elsewhere: a target may not be a part of another",
        ),
        (
            writes("a", "append", "t/a") + writes("b", "append", "t"),
            "silver/t holds silver/t/a, the target of node 'daily.a'",
            "write elsewhere: a target may not be a part of another",
        ),
        (
            writes("a", "overwrite") + writes("b", "append"),
            "silver/t is overwritten by node 'daily.a' too",
            "say mode: append, or write elsewhere",
        ),
        (
            writes("a", "upsert, keys: id") + writes("b", "overwrite"),
            "silver/t is written by node 'daily.a' too, and would be overwritten",
            "say mode: append, or write elsewhere",
        ),
        (
            reads("a", "x", None, apart("path: bad, add_columns: {_source_batch_id: false}")),
            "_source_batch_id cannot be left out: it tells the batches of a quarantine apart",
            "take _source_batch_id: false out",
        ),
        (
            reads(
                "a", "x", None, apart("path: q, format: delta, retention_days: 9, add_columns: {_rejected_at: false}")
            ),
            "retention_days 9 needs _rejected_at, which tells how old rows of a table are",
            "take _rejected_at: false out, or say retention_days: null",
        ),
        (
            reads("a", "x", None, apart("path: q, format: delta"))
            + reads("b", "x", None, apart("path: q, format: delta, add_columns: {_original_node: true}")),
            "silver/q is the quarantine of node 'daily.a' too",
            "say add_columns: {_original_node: true} in both, or give one another table",
        ),
        (
            reads(
                "a",
                "x",
                None,
                ", validation: {tests: [{type: email, column: a, name: n}, {type: uuid, column: a, name: n}]}",
            ),
            "there are two tests 'n'",
            "give one another name",
        ),
        (
            reads(
                "a",
                "x",
                None,
                ", gate: {thresholds: [{test: uniqe, min_pass_rate: 1}]}, "
                "validation: {tests: [{type: unique, column: a}]}",
            ),
            "there is no test 'uniqe'",
            "did you mean 'unique'?",
        ),
        (
            reads("a", "x", None, ", gate: {thresholds: [{test: unique, min_pass_rate: 1}]}"),
            "there is no test 'unique'",
            "tests of this node: none",
        ),
        (
            reads("a", "x", None, ", validation: {tests: [{type: foreign_key, column: a, reference: {node: b}}]}"),
            "node 'a' does not depend on 'b'",
            "add b to depends_on",
        ),
        (
            reads(
                "a",
                "x",
                None,
                ", validation: {tests: [{type: foreign_key, column: a, reference: {connection: gold, path: b}}]}",
            ),
            "there is no connection 'gold'",
            "there are bronze, silver",
        ),
    ],
)
def test_what_cannot_run_is_refused_without_spark(tmp_path: Path, nodes: str, message: str, hint: str) -> None:
    (found,) = plan_problems(tmp_path, with_nodes(nodes))

    assert (found.message, found.hint) == (message, hint)
    assert found.place.startswith("pipeline.yaml:")


def test_two_pipelines_of_one_name_are_refused(tmp_path: Path) -> None:
    text = with_pipelines(one=reads("a", "x")) + "  - {pipeline: one, nodes: [{name: b, depends_on: a}]}\n"

    assert [each.message for each in plan_problems(tmp_path, text)] == [
        "there are two pipelines 'one'",
        "there is no node 'a'",
    ]


def test_several_nodes_may_add_to_one_target_side_by_side(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, with_nodes(writes("a", "append") + writes("b", "append")))

    assert [node.after for node in plan.nodes] == [frozenset(), frozenset()]


def test_nodes_whose_rows_meet_in_one_target_take_turns(tmp_path: Path) -> None:
    keyed = "upsert, keys: id"
    plan = plan_of(tmp_path, with_nodes(writes("b", keyed) + writes("a", "append") + writes("c", keyed)))

    assert order(plan) == ["daily.b", "daily.a", "daily.c"]
    assert plan.node(("daily", "a")).after == {("daily", "b")}
    assert plan.node(("daily", "c")).after == {("daily", "a"), ("daily", "b")}


def test_turns_do_not_turn_an_order_around(tmp_path: Path) -> None:
    keyed = "upsert, keys: id"
    nodes = writes("a", keyed, more=", depends_on: [m]") + depends("m", "b") + writes("b", keyed)
    plan = plan_of(tmp_path, with_nodes(nodes))

    assert order(plan) == ["daily.b", "daily.m", "daily.a"]
    assert plan.node(("daily", "b")).after == frozenset()


def test_nodes_of_one_name_do_not_share_a_quarantine_table(tmp_path: Path) -> None:
    node = reads("customers", "x", None, apart("path: q, format: delta, add_columns: {_original_node: true}"))

    (found,) = plan_problems(tmp_path, with_pipelines(bronze=node, silver=node))
    assert found.message == "silver/q is the quarantine of node 'bronze.customers' too"
    assert found.hint == "both would be 'customers' in it: give one another table, or another name"


@pytest.mark.parametrize(
    "nodes",
    [
        reads("a", "x", "t", apart("path: t_bad")) + reads("b", "x", "u", apart("path: t_bad")),
        reads("a", "x", "t", apart("path: q, format: delta, add_columns: {_original_node: true}"))
        + reads("b", "x", "u", apart("path: q, format: delta, add_columns: {_original_node: true}")),
        reads("a", "x", "t", apart("path: q, format: delta, add_columns: {_rejected_at: false}")),
        reads("a", "x", "t", apart("path: q, retention_days: 9, add_columns: {_rejected_at: false}")),
        reads("a", "x", "t") + reads("b", "x", "t", ", enabled: false"),
    ],
)
def test_what_does_not_get_in_each_others_way_is_planned(tmp_path: Path, nodes: str) -> None:
    assert plan_of(tmp_path, with_nodes(nodes)).nodes


def test_databases_that_only_their_connections_tell_apart_are_two(tmp_path: Path) -> None:
    head = HEAD + "  one: {type: jdbc, url: 'jdbc:h2:mem:one'}\n  two: {type: jdbc, url: 'jdbc:h2:mem:two'}\n"
    nodes = reads("a", "x", None, ", write: {connection: one, table: t}")
    nodes += reads("b", "x", None, ", write: {connection: two, table: t}")

    assert len(plan_of(tmp_path, with_nodes(nodes, head=head)).nodes) == 2
    same = nodes.replace("connection: two", "connection: one")
    (found,) = plan_problems(tmp_path, with_nodes(same, head=head))
    assert found.message == "one.t is overwritten by node 'daily.a' too"


def test_a_query_is_no_dataset(tmp_path: Path) -> None:
    head = HEAD + "  db: {type: jdbc, url: 'jdbc:postgresql://h/d'}\n"
    (node,) = plan_of(tmp_path, with_nodes("- {name: a, read: {connection: db, query: SELECT 1}}", head=head)).nodes

    assert node.source is not None
    assert node.source.kind is Kind.query


def test_tests_go_by_their_names_types_and_columns(tmp_path: Path) -> None:
    tests = """
        - {type: unique, column: id}
        - {type: not_null, columns: [a, b]}
        - {type: not_null, columns: [c]}
        - {type: not_null, columns: [c], where: d > 1}
        - {type: email, column: e, name: mails}
        - {type: custom_sql, condition: a > 1}
        - {type: custom_sql, condition: a > 2}
    """
    node = f"- name: a\n  read: {{connection: silver, path: x}}\n  validation:\n    tests:\n{indent(tests, 6)}"
    gate = (
        "  gate: {thresholds: [{test: 'not_null:c', min_pass_rate: 1}, {test: mails, min_pass_rate: 1}, "
        "{test: email, min_pass_rate: 1}, {test: 'custom_sql#2', min_pass_rate: 1}]}\n"
    )
    plan = plan_of(tmp_path, with_nodes(node + gate))

    assert [test.name for test in plan.nodes[0].tests] == [
        "unique",
        "not_null:a,b",
        "not_null:c",
        "not_null:c#2",
        "mails",
        "custom_sql",
        "custom_sql#2",
    ]
    assert plan.nodes[0].tests[4].place.startswith(str(tmp_path.resolve()))


def test_relative_paths_start_at_the_file_that_says_them(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "lake.yaml").write_text("connections: {lake: {type: local, base_path: data}}\n")
    head = HEAD + "include: shared/lake.yaml\n"
    nodes = "- {name: a, read: {connection: lake, path: x}, write: {connection: silver, path: y}}"
    (node,) = plan_of(tmp_path, with_nodes(nodes, head=head)).nodes

    assert node.source is not None
    assert node.target is not None
    assert node.source.location == f"{tmp_path.resolve()}/shared/data/x"
    assert node.target.location == f"{tmp_path.resolve()}/data/silver/y"

"""Lineage drawn as a tree: the examples people know it by, and graphs that are no trees."""

from __future__ import annotations

from headgate.cli.trees import Graph, Leaf, Step, lines


def a_graph(root: str, *edges: tuple[str, str], **leaves: Leaf) -> Graph:
    """A graph of datasets that are called by their ids, as deep as the shortest way from the root."""
    steps: dict[str, list[Step]] = {}
    for source, target in edges:
        steps.setdefault(source, []).append(Step(target))
    depths, level = {root: 0}, [root]
    while level:
        level = list({step.to for node in level for step in steps.get(node, ()) if step.to not in depths})
        depths |= dict.fromkeys(level, max(depths.values()) + 1)
    return Graph({name: leaves.get(name, Leaf(name, depth)) for name, depth in depths.items()}, steps)


def test_upstream_ends_at_what_nobody_writes() -> None:
    graph = Graph(
        {
            "360": Leaf("gold.customer_360", 0),
            "dim": Leaf("silver.dim_customers", 1),
            "raw": Leaf("bronze.customers_raw", 2),
            "sql": Leaf("azure_sql.dbo.Customers", 3, is_external=True),
        },
        {
            "360": [Step("dim", ("silver_pipeline.dedupe_customers",))],
            "dim": [Step("raw", ("bronze_pipeline.ingest_customers",))],
            "raw": [Step("sql")],
        },
    )

    assert list(lines(graph, "360")) == [
        "gold.customer_360",
        "└── silver.dim_customers (silver_pipeline.dedupe_customers)",
        "    └── bronze.customers_raw (bronze_pipeline.ingest_customers)",
        "        └── [external] azure_sql.dbo.Customers",
    ]


def test_downstream_branches_in_order_of_names() -> None:
    graph = a_graph("raw", ("raw", "silver.events"), ("raw", "silver.dim"), ("silver.dim", "b"), ("silver.dim", "a"))

    assert list(lines(graph, "raw")) == [
        "raw",
        "├── silver.dim",
        "│   ├── a",
        "│   └── b",
        "└── silver.events",
    ]


def test_what_was_shown_is_not_opened_again() -> None:
    diamond = a_graph("a", ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e"))

    assert list(lines(diamond, "a")) == [
        "a",
        "├── b",
        "│   └── d",
        "│       └── e",
        "└── c",
        "    └── d (shown above)",
    ]


def test_a_dataset_opens_where_it_is_nearest() -> None:
    shortcut = a_graph("a", ("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"))

    assert list(lines(shortcut, "a")) == ["a", "├── b", "│   └── c (shown below)", "└── c", "    └── d"]


def test_the_last_level_has_nothing_below_it() -> None:
    flat = a_graph("a", ("a", "b"), ("a", "c"), ("b", "c"), ("c", "a"))

    assert list(lines(flat, "a")) == ["a", "├── b", "└── c"]


def test_a_cycle_ends() -> None:
    cycle = a_graph("a", ("a", "b"), ("b", "a"), ("b", "c"))

    assert list(lines(cycle, "a")) == ["a", "└── b", "    ├── a (shown above)", "    └── c"]


def test_notes_stand_under_their_dataset() -> None:
    graph = a_graph("a", ("a", "b"), ("b", "c"), b=Leaf("b", 1, notes=("id → id",)))

    assert list(lines(graph, "a")) == ["a", "└── b", "    │   id → id", "    └── c"]


def test_lineage_deeper_than_python_recurses() -> None:
    chain = a_graph("0", *((str(n), str(n + 1)) for n in range(5000)))

    assert len(list(lines(chain, "0"))) == 5001

"""What a message says of an alert besides its sentence: titles and values, the same in every channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.messages.message import BAD, BLOCKED, GOOD, NEWS, SET_APART, WARNING, Fact
from headgate.pipelines.alerts.events import Alert, AlertStatus
from headgate.pipelines.config.alerts import AlertEvent

LOOKS = {
    AlertStatus.SUCCESS: GOOD,
    AlertStatus.STARTED: NEWS,
    AlertStatus.FAILED: BAD,
    AlertStatus.GATE_BLOCKED: BLOCKED,
    AlertStatus.QUARANTINED: SET_APART,
    AlertStatus.WARNING: WARNING,
}


def title_of(alert: Alert) -> str:
    return f"{LOOKS[alert.status].icon} HEADGATE: {alert.pipeline} - {alert.status}"


def facts_of(alert: Alert) -> list[Fact]:
    """What is particular to the event."""
    return _FACTS[alert.event](alert.details)


def reasons_of(alert: Alert) -> list[str]:
    """Why, as far as the event has reasons."""
    return [str(reason) for each in alert.details.values() for reason in each.get("failure_reasons", ())]


def _of_run(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("run_details", {})
    facts = [Fact("🌍", "Environment", str(found["environment"]))] if found.get("environment") else []
    if "nodes" in found:
        facts.append(Fact("🧩", "Nodes", _tally(found["nodes"])))
    if "rows_published" in found:
        facts.append(Fact("📤", "Rows Published", f"{found['rows_published']:,}"))
        facts.append(Fact("🔒", "Rows Quarantined", f"{found['rows_quarantined']:,}"))
    return facts


def _of_failure(details: Mapping[str, Any]) -> list[Fact]:
    nodes = details.get("failure_details", {}).get("failed_nodes", [])
    return [*([Fact("❌", "Failed Nodes", ", ".join(nodes))] if nodes else []), *_of_run(details)]


def _of_validation(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("validation_details", {})
    return [
        Fact("❌", "Failed Tests", _listed(found.get("failed_tests", []))),
        Fact("📥", "Rows In", f"{found.get('rows_in', 0):,}"),
    ]


def _of_gate(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("gate_details", {})
    return [
        Fact("📊", "Pass Rate", _percent(found.get("pass_rate", 0.0))),
        Fact("🎯", "Required", _percent(found.get("required_rate", 0.95))),
        Fact("❌", "Rows Failed", f"{found.get('failed_rows', 0):,}"),
    ]


def _of_quarantine(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("quarantine_details", {})
    return [
        Fact("🔒", "Rows Quarantined", f"{found.get('rows_quarantined', 0):,}"),
        Fact("📁", "Quarantine Table", str(found.get("quarantine_path") or "N/A"), is_code=True),
        Fact("❌", "Failed Tests", _listed(found.get("failed_tests", []))),
    ]


def _of_threshold(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("threshold_details", {})
    facts = [Fact("📥", "Row Count", f"{found.get('row_count', 0):,}")]
    if found.get("previous_row_count") is not None:
        facts.append(Fact("🕘", "Previous Row Count", f"{found['previous_row_count']:,}"))
    if found.get("change") is not None:
        facts.append(Fact("📈", "Change", _percent(found["change"])))
    return facts


def _of_drift(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("drift_details", {})
    return [
        Fact("➕", "Columns Added", _listed(found.get("columns_added", []))),
        Fact("➖", "Columns Removed", _listed(found.get("columns_removed", []))),
        Fact("🔁", "Columns Changed", _listed(found.get("columns_changed", []))),
        Fact("📜", "Policy", str(found.get("policy", "evolve"))),
    ]


def _of_freshness(details: Mapping[str, Any]) -> list[Fact]:
    found = details.get("freshness_details", {})
    return [
        Fact("🧱", "Column", str(found.get("column") or "N/A"), is_code=True),
        Fact("🕘", "Found", str(found.get("observed") or "N/A")),
        Fact("🎯", "Allowed", str(found.get("limit") or "N/A")),
    ]


_FACTS: dict[AlertEvent, Callable[[Mapping[str, Any]], list[Fact]]] = {
    AlertEvent.on_start: _of_run,
    AlertEvent.on_success: _of_run,
    AlertEvent.on_failure: _of_failure,
    AlertEvent.on_validation_fail: _of_validation,
    AlertEvent.on_gate_block: _of_gate,
    AlertEvent.on_quarantine: _of_quarantine,
    AlertEvent.on_threshold_breach: _of_threshold,
    AlertEvent.on_schema_drift: _of_drift,
    AlertEvent.on_freshness_fail: _of_freshness,
}


def _tally(nodes: Mapping[str, str]) -> str:
    counts: dict[str, int] = {}
    for status in nodes.values():
        counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _percent(rate: float) -> str:
    """One digit, unless that would hide the difference: 94.96 % is not 95.0 %."""
    short = f"{rate:.1%}"
    return short if abs(float(short[:-1]) / 100 - rate) < 1e-9 else f"{rate:.2%}"

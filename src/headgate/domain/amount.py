"""What was measured as people say it, with its unit. Knows metrics and numbers only."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.domain.verdict import Metric


def amount(metric: Metric, value: float) -> str:
    """
    >>> amount(Metric.byte_size, 240_000), amount(Metric.duration_ms, 3_600_000), amount(Metric.null_share, 0.25)
    ('240 kB', '60 min', '25 %')
    >>> amount(Metric.row_count, 12), amount(Metric.row_count, 1234.5), amount(Metric.row_count, 12.34)
    ('12', '1,234', '12.3')
    """
    if metric is Metric.byte_size:
        return _scaled(value, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")))
    if metric is Metric.duration_ms:
        return _scaled(value, ((7.2e6, "h", 3.6e6), (1.2e5, "min", 6e4), (1e3, "s"), (1, "ms")))
    if metric is Metric.null_share:
        return f"{float(f'{100 * value:.3g}'):g} %"
    if abs(value) >= 1e18:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"


def _scaled(value: float, units: Sequence[tuple[float, str] | tuple[float, str, float]]) -> str:
    unit = next((each for each in units if abs(value) >= each[0]), units[-1])
    scaled = value / unit[-1] if len(unit) == 3 else value / unit[0]
    return f"{scaled:,.1f}".removesuffix(".0") + f" {unit[1]}"

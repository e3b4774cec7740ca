"""Pictures: lines and bars on axes whose numbers can be read, and what is drawn of any server."""

# Half of what matplotlib's functions take is without types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, StrMethodFormatter

from ._figures import Spread, curve

mpl.rcParams["svg.hashsalt"] = "trio_mcp"  # the same record makes the same files

NINES: Final = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)
SHOWN_NINES: Final = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
PALETTE: Final = ("#c2185b", "#1565c0", "#ef6c00", "#00897b", "#7b1fa2", "#5d4037")
FEW_DECADES: Final = 2_000.0
"""Up to this ratio of the ends of an axis, 2 and 5 are written on it as well."""


def save(figure: Figure, path: Path) -> Path:
    """Write a picture into a file, in the format that its name says; return the file."""
    format = path.suffix.removeprefix(".")
    undated: dict[str, Any] | None = {"Date": None} if format == "svg" else None
    figure.savefig(path, format=format, dpi=120, bbox_inches="tight", metadata=undated)
    return path


def panels(title: str, count: int, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Return an empty picture with so many diagrams, one below the other."""
    figure = Figure(figsize=(8, count * height))
    found: list[Axes] = []
    for number in range(count):
        axes: Axes = figure.add_subplot(count, 1, number + 1)
        axes.grid(visible=True, which="both", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        found.append(axes)
    found[0].set_title(title)
    return figure, found


def one_panel(title: str) -> tuple[Figure, Axes]:
    """Return an empty picture with one diagram."""
    figure, (axes,) = panels(title, 1, 4.8)
    return figure, axes


def number_logarithmic(axis: Axis, unit: str = "") -> None:
    """Write numbers on a logarithmic axis as people read them: 1×, 2×, 5×, 10×, instead of powers of ten.

    Args:
        axis: The axis, with its data.
        unit: What follows each number.
    """
    low, high = sorted(axis.get_view_interval())
    subs = (1.0, 2.0, 5.0) if high <= low * FEW_DECADES else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=30))

    def written(value: float, _: object) -> str:
        return f"{value:,.10g}{unit}"

    axis.set_major_formatter(FuncFormatter(written))
    axis.set_minor_formatter(NullFormatter())


def add_legend(axes: Axes) -> None:
    """Say beside a diagram what is what."""
    axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))


def draw_latency(axes: Axes, latency: Mapping[str, Any], label: str, **style: Any) -> None:
    """Draw a distribution of latencies: which part of the calls was answered within how long."""
    across = [1 / (1 - percentile / 100) for percentile in NINES]
    axes.plot(across, [at / 1e3 for at in curve(latency["histogram"], NINES)], label=label, **style)


def finish_latency(axes: Axes) -> None:
    """Number the axes of a distribution of latencies."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(
        [1 / (1 - percentile / 100) for percentile in SHOWN_NINES],
        [f"{percentile:g} %" for percentile in SHOWN_NINES],
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    number_logarithmic(axes.yaxis, " ms")
    axes.set_xlabel("part of the calls that were answered within")
    axes.set_ylabel("")
    add_legend(axes)


def draw_targets(record: Mapping[str, Any], directory: Path) -> list[Path]:
    """Draw what a record of any servers has figures for; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    pictures = {"calls": _calls(record), "latency": _latencies(record), "growth": _growth(record)}
    return [save(figure, directory / f"{name}.svg") for name, figure in pictures.items() if figure is not None]


def _cells(record: Mapping[str, Any], prefix: str) -> dict[str, Mapping[str, Any]]:
    return {
        cell["workload"]: cell
        for cell in record["cells"].values()
        if cell["workload"].startswith(prefix) and any(one["values"] for one in cell["results"].values())
    }


def _calls(record: Mapping[str, Any]) -> Figure | None:
    cells = _cells(record, "call-")
    if not cells:
        return None
    figure, axes = one_panel("calls per second")
    for index, (name, one) in enumerate(record["contenders"].items()):
        points = [
            (int(workload.removeprefix("call-")), Spread.of(cell["results"][name]["values"]))
            for workload, cell in cells.items()
            if cell["results"].get(name, {}).get("values")
        ]
        across = [count for count, _ in points]
        colour = PALETTE[index % len(PALETTE)]
        axes.plot(across, [spread.median for _, spread in points], marker="o", label=one["title"], color=colour)
        low, high = [spread.low for _, spread in points], [spread.high for _, spread in points]
        axes.fill_between(across, low, high, color=colour, alpha=0.12)
    axes.set_xscale("log")
    axes.set_yscale("log")
    counts = [int(workload.removeprefix("call-")) for workload in cells]
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.xaxis.set_minor_formatter(NullFormatter())
    number_logarithmic(axes.yaxis)
    axes.set_xlabel("calls in flight")
    axes.set_ylabel("calls/s (median; band: middle half of the rounds)")
    add_legend(axes)
    return figure


def _latencies(record: Mapping[str, Any]) -> Figure | None:
    cells = _cells(record, "call-")
    figure, axes = one_panel("how long calls take")
    lines = 0
    for style, (workload, cell) in zip(("solid", "dashed", "dotted"), cells.items(), strict=False):
        for index, (name, one) in enumerate(record["contenders"].items()):
            latency = cell["results"].get(name, {}).get("latency")
            if latency:
                label = f"{one['title']}, {workload.removeprefix('call-')} in flight"
                draw_latency(axes, latency, label, color=PALETTE[index % len(PALETTE)], linestyle=style)
                lines += 1
    if not lines:
        return None
    finish_latency(axes)
    return figure


def _growth(record: Mapping[str, Any]) -> Figure | None:
    figure, axes = one_panel("memory while calls are made")
    lines = 0
    for cell in _cells(record, "growth").values():
        for index, (name, one) in enumerate(record["contenders"].items()):
            points: Sequence[tuple[float, float]] = cell["results"].get(name, {}).get("curve", ())
            if points:
                colour = PALETTE[index % len(PALETTE)]
                axes.plot([x for x, _ in points], [y for _, y in points], label=one["title"], color=colour)
                lines += 1
    if not lines:
        return None
    axes.set_ylim(bottom=0)
    axes.set_xlabel("calls made")
    axes.set_ylabel("MiB resident")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    add_legend(axes)
    return figure

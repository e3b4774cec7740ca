"""Pictures of a run: throughput over concurrency, the distribution of latencies, ratios as bars."""

# Half of what matplotlib's functions take is without types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from trio_mcp._bench._figures import Spread, goodness
from trio_mcp._bench._plots import add_legend, draw_latency, finish_latency, number_logarithmic, one_panel, save

__all__ = ["draw_all"]

COLOURS: Final = {
    "ours": "#c2185b",
    "ours@lean": "#7b1fa2",
    "python-2": "#1565c0",
    "python-2@hypercorn": "#64b5f6",
    "python-1": "#90a4ae",
    "fastmcp": "#00897b",
    "typescript-2": "#ef6c00",
    "typescript-1": "#ffb74d",
}
FLOOR_COLOUR: Final = "#9e9e9e"
FLOOR_STYLES: Final = ("dotted", "dashed", "dashdot")
CONCURRENCY: Final = (1, 16, 64, 256)
BARS: Final = ("echo-1", "echo-64", "sse-64", "tools-50", "progress", "result-1m", "argument-1m", "cancel-1")


def draw_all(record: Mapping[str, Any], directory: Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Draw what the record has figures for; return the files, one format after the other for each picture."""
    directory.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name, figure in _pictures(record):
        files += [save(figure, directory / f"{name}.{format}") for format in formats]
    return files


def _pictures(record: Mapping[str, Any]) -> list[tuple[str, Figure]]:
    stages = list(dict.fromkeys(name.rpartition("/")[0] for name in record["cells"]))
    pictures: list[tuple[str, Figure]] = []
    for stage in stages:
        slug = stage.replace("/", "-")
        if all(f"{stage}/echo-{count}" in record["cells"] for count in CONCURRENCY):
            pictures.append((f"throughput-{slug}", _throughput(record, stage)))
        if f"{stage}/echo-64" in record["cells"]:
            pictures.append((f"latency-{slug}", _latency(record, stage)))
    bars = [
        stage
        for stage in stages
        if stage.startswith("server/") and stage.endswith(("stdio/modern", "http/modern"))
    ]
    if bars:
        pictures.append(("ratios", _ratios(record, bars)))
    return pictures


def _style(name: str, floors: Sequence[str]) -> dict[str, Any]:
    if name in COLOURS:
        return {"color": COLOURS[name], "linewidth": 2.4 if name.startswith("ours") else 1.5}
    style = FLOOR_STYLES[floors.index(name) % len(FLOOR_STYLES)] if name in floors else "solid"
    return {"color": FLOOR_COLOUR, "linestyle": style, "linewidth": 1.2}


def _floors(record: Mapping[str, Any]) -> list[str]:
    return [name for name, one in record["contenders"].items() if one["kind"] == "floor"]


def _throughput(record: Mapping[str, Any], stage: str) -> Figure:
    figure, axes = one_panel(f"echo calls per second: {stage.replace('/', ', ')}")
    floors = _floors(record)
    for name, one in record["contenders"].items():
        points: list[tuple[int, Spread]] = []
        for count in CONCURRENCY:
            values = record["cells"][f"{stage}/echo-{count}"]["results"].get(name, {}).get("values")
            if values:
                points.append((count, Spread.of(values)))
        if points:
            across = [count for count, _ in points]
            style = _style(name, floors)
            axes.plot(across, [spread.median for _, spread in points], marker="o", label=one["title"], **style)
            axes.fill_between(
                across,
                [spread.low for _, spread in points],
                [spread.high for _, spread in points],
                color=style["color"],
                alpha=0.12,
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(CONCURRENCY, [str(count) for count in CONCURRENCY])
    axes.xaxis.set_minor_formatter(NullFormatter())
    number_logarithmic(axes.yaxis)
    axes.set_xlabel("calls in flight")
    axes.set_ylabel("calls/s (median; band: middle half of the rounds)")
    add_legend(axes)
    return figure


def _latency(record: Mapping[str, Any], stage: str) -> Figure:
    figure, axes = one_panel(f"latency of echo calls, 64 in flight: {stage.replace('/', ', ')}")
    floors = _floors(record)
    for name, result in record["cells"][f"{stage}/echo-64"]["results"].items():
        latency = result.get("latency")
        if latency:
            draw_latency(axes, latency, record["contenders"][name]["title"], **_style(name, floors))
    finish_latency(axes)
    return figure


def _ratios(record: Mapping[str, Any], stages: Sequence[str]) -> Figure:
    peers = [name for name, one in record["contenders"].items() if one["kind"] == "peer"]
    rows: list[tuple[str, dict[str, float]]] = []
    for stage in stages:
        transport = stage.split("/")[1]
        ours = "ours@lean" if transport == "http" and "ours@lean" in record["contenders"] else "ours"
        for workload in BARS:
            cell = record["cells"].get(f"{stage}/{workload}")
            if cell is None or not cell["results"].get(ours, {}).get("values"):
                continue
            ratios = {name: ratio for name in peers if (ratio := goodness(cell, name, ours)) is not None}
            rows.append((f"{transport}: {cell['title']}", ratios))
    figure = Figure(figsize=(8, 0.9 + 0.62 * len(rows)))
    axes: Axes = figure.add_subplot()
    shown = [name for name in peers if any(name in ratios for _, ratios in rows)]
    height = 0.8 / max(1, len(shown))
    for index, name in enumerate(shown):
        at = [row + index * height for row, (_, ratios) in enumerate(rows) if name in ratios]
        lengths = [ratios[name] for _, ratios in rows if name in ratios]
        axes.barh(
            at, lengths, height, color=COLOURS.get(name, FLOOR_COLOUR), label=record["contenders"][name]["title"]
        )
    axes.axvline(1, color="#c2185b", linewidth=1.5)
    axes.set_xscale("log")
    number_logarithmic(axes.xaxis, "×")
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(rows))], [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("how many times as good trio_mcp is (1×: the same)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x", which="both", alpha=0.25)
    axes.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure

#!/usr/bin/env python3
"""Draws what happened in a run: report.py RUN...

Reads log.jsonl (and links.jsonl) of every run directory, one per site of the same federation, and the newest checkpoint
where there is one. Writes report.png to the first of them and prints a short table. A log may still be growing, and may
lack any of its fields.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import h5py
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


class Run:
    """One site's run directory."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.events = read_events(self.folder / "log.jsonl")
        self.events += read_events(self.folder / "links.jsonl", missing_ok=True)
        self.events.sort(key=lambda event: event["time"])
        self.site = next((event["site"] for event in self.of("start") if "site" in event), self.folder.name)

    def of(self, *names):
        return [event for event in self.events if event["event"] in names]

    def series(self, name, x, y):
        """The values of fields `x` and `y` of all events `name` that have both; a new start of the island is a gap."""
        points = []
        for event in self.of(name, "start"):
            if event["event"] == "start":
                points.append((math.nan, math.nan))
            elif is_number(event.get(x)) and is_number(event.get(y)):
                points.append((event[x], event[y]))
        return [point[0] for point in points], [point[1] for point in points]

    def total(self, field):
        """The sum of a counter of "step" events that begins anew with every start of the island, or nothing."""
        parts = [0]
        for event in self.of("step", "start"):
            if event["event"] == "start":
                parts.append(0)
            elif is_number(event.get(field)):
                parts[-1] = event[field]
        return sum(parts) or None

    def last(self, field, *names):
        """The newest value of `field` among events `names`, or nothing."""
        return next((event[field] for event in reversed(self.of(*names)) if event.get(field) is not None), None)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_events(file, missing_ok=False):
    """The whole lines of a log; a cut line (a kill, or a log that is being written) is left out."""
    if missing_ok and not file.exists():
        return []
    events = []
    with open(file, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and is_number(event.get("time")) and isinstance(event.get("event"), str):
                events.append(event)
    return events


def newest_checkpoint(folder):
    """Path and number of parameters of the newest checkpoint that opens, or nothing."""
    for file in sorted(folder.glob("checkpoints/*.h5"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            with h5py.File(file, "r") as checkpoint:
                return file, count_values(checkpoint)
        except OSError:
            continue
    return None


def count_values(group):
    sizes = []
    group.visititems(lambda _, item: sizes.append(item.size) if isinstance(item, h5py.Dataset) else None)
    return sum(sizes)


def seconds_since(start, times):
    return [time - start for time in times]


def draw_loss(axes, run, _, color):
    axes.plot(*run.series("step", "step", "loss"), color=color, alpha=0.3, linewidth=0.8)
    for field, style, label in (("loss", "o-", "validation"), ("anchor_loss", "s--", "validation of the anchor")):
        axes.plot(*run.series("evaluation", "step", field), style, color=color, markersize=3,
                  label=f"{run.site} {label}")
    unigram = run.last("unigram_loss", "evaluation", "end")
    if unigram is not None and "unigram model" not in axes.get_legend_handles_labels()[1]:
        axes.axhline(unigram, color="gray", linestyle=":", label="unigram model")


def draw_speed(axes, run, start, color):
    times, values = run.series("step", "time", "tokens_per_second")
    axes.plot(seconds_since(start, times), values, color=color, linewidth=0.8, label=run.site)


def draw_rounds(axes, run, start, color):
    fragments = sorted({event["fragment"] for event in run.of("commit") if is_number(event.get("fragment"))})
    for number, fragment in enumerate(fragments):
        commits = [event for event in run.of("commit")
                   if event.get("fragment") == fragment and is_number(event.get("version"))]
        axes.step(seconds_since(start, [event["time"] for event in commits]), [event["version"] for event in commits],
                  where="post", color=color, alpha=0.6, linewidth=1, label=run.site if number == 0 else None)
    if not fragments:
        times, rounds = run.series("step", "time", "round")
        axes.step(seconds_since(start, times), rounds, where="post", color=color, label=run.site)


def draw_bytes(axes, run, start, color):
    for field, style in (("bytes_sent", "-"), ("bytes_received", ":")):
        times, values = run.series("step", "time", field)
        axes.plot(seconds_since(start, times), [value / 1e6 for value in values], style, color=color,
                  label=f"{run.site} {field.removeprefix('bytes_')}")


def draw_sites(axes, run, start, color):
    times, sites = run.series("step", "time", "sites")
    axes.step(seconds_since(start, times), sites, where="post", color=color, label=run.site)
    for event in run.of("link_down"):
        axes.axvline(event["time"] - start, color=color, linestyle=":", linewidth=0.8)
    axes.set_ylim(bottom=0)


PANELS = [
    (draw_loss, "Loss", "inner step", "nats per token"),
    (draw_speed, "Speed", "seconds", "tokens per second"),
    (draw_rounds, "Rounds", "seconds", "version of each fragment"),
    (draw_bytes, "Traffic", "seconds", "MB"),
    (draw_sites, "Sites alive (dotted: a link went down)", "seconds", "sites"),
]


def draw(runs, file):
    start = min((event["time"] for run in runs for event in run.events), default=0)
    colors = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    figure, all_axes = plt.subplots(3, 2, figsize=(12, 11), layout="constrained")
    for axes, (panel, title, x, y) in zip(all_axes.flat, PANELS):
        for number, run in enumerate(runs):
            panel(axes, run, start, colors[number % len(colors)])
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    draw_gradient_norm(all_axes.flat[-1], runs, colors)
    part = file.with_suffix(".part.png")
    figure.savefig(part, dpi=110)
    plt.close(figure)
    part.replace(file)


def draw_gradient_norm(axes, runs, colors):
    for number, run in enumerate(runs):
        axes.plot(*run.series("step", "step", "gradient_norm"), color=colors[number % len(colors)], linewidth=0.8)
    axes.set(title="Norm of the gradient before clipping", xlabel="inner step", ylabel="norm", yscale="log")
    axes.grid(alpha=0.3)


def text_of(value, form="{}"):
    return "-" if value is None else form.format(value)


def print_table(runs):
    head = ["site", "steps", "loss", "anchor", "unigram", "commits", "alone", "link losses", "sent MB", "received MB",
            "ended"]
    rows = [head]
    for run in runs:
        commits = run.of("commit")
        rows.append([
            run.site,
            text_of(run.last("step", "step", "end")),
            text_of(run.last("loss", "step"), "{:.3f}"),
            text_of(run.last("anchor_loss", "evaluation"), "{:.3f}"),
            text_of(run.last("unigram_loss", "evaluation", "end"), "{:.3f}"),
            str(len(commits)),
            str(sum(len(event.get("offers") or []) == 1 for event in commits)),
            str(len(run.of("link_down"))),
            *(text_of(value if value is None else value / 1e6, "{:.1f}")
              for value in (run.total("bytes_sent"), run.total("bytes_received"))),
            "yes" if run.of("end") else "no",
        ])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))
    for run in runs:
        if newest := newest_checkpoint(run.folder):
            print(f"{run.site}: newest checkpoint {newest[0]} ({newest[1]} values)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="+", help="run directory of one site")
    options = parser.parse_args()
    try:
        runs = [Run(folder) for folder in options.run]
        print_table(runs)
        picture = runs[0].folder / "report.png"
        draw(runs, picture)
    except OSError as error:
        print(f"report: cannot use {error.filename} ({error.strerror}) name run directories of atoll island",
              file=sys.stderr)
        return 1
    print(f"plots: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Does training over a federation come as far as data parallel training does? The table of convergence.md.

    tests/bench/convergence.py --tokens data/bible.h5 --results runs.jsonl [--table tests/bench/convergence.md]

Every cell is trained with one seed over its grid of outer rates (two to begin with, and on while the best one lies at
the border of what was tried), then at its best rate with the other seeds. Two processes of one thread each; a run that
--results holds already is not repeated, so the program can be stopped and started at any time.
"""

import argparse
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
INNER = [0.012, 0.008, 0.005, 0.003]        # of data parallel: inner rates
FULL = [1, 0.7, 0.5, 0.3, 0.1]              # outer rates
PRUNED = [0.7, 0.5, 0.3, 0.1]               # 1 is beaten in the cells that try it
ASYNCHRONOUS = [0.7, 0.3, 0.1, 0.03]        # every offer is a step of its own
DELAYED = [4, 2.8, 2, 1.4, 1, 0.7, 0.3, 0.1]        # N offers are a step
WIDE = [0.7, 0.5, 0.3, 0.1, 0.03]


@dataclass
class Cell:
    name: str
    text: str
    published: str
    grid: list
    start: list
    seeds: int = 3


CELLS = [
    Cell("data_parallel", "data parallel, one trainer", "3.485 (35M) [P4]; 3.51 [P3]", INNER, INNER),
    Cell("diloco_2", "DiLoCo, 2 sites", "+0.7 % (35M) [P4]; +2.8 % untuned [R2]", FULL, [0.7, 0.5]),
    Cell("diloco_4", "DiLoCo, 4 sites", "+2.0 % (35M) [P4]", FULL, [0.7, 0.5]),
    Cell("diloco_8", "DiLoCo, 8 sites", "+3.9 % (35M) [P4]", FULL, [0.7, 0.5]),
    Cell("streaming_tau1_blend", "streaming, 2 sites, 3 fragments, tau 1, alpha 0.5", "+0.6 % (35M, FP4) [P3]",
         PRUNED, [0.7, 0.5]),
    Cell("streaming_tau5_blend", "the same, tau 5", "tau <= 10 costs < 0.2 % [P3]", PRUNED, [0.7, 0.5]),
    Cell("streaming_tau5_rebase", "the same, tau 5, rebase instead of alpha", "", PRUNED, [0.7, 0.5]),
    Cell("late_naive", "2 sites, a whole round late, on from the anchor",
         "naive +12.7 %, lower rate +2.2 % (500M) [P8]", PRUNED, [0.5, 0.3]),
    Cell("late_eager", "the same, eager: the own share at once", "+0.7 % (500M) [P8]", PRUNED, [0.7, 0.5]),
    Cell("late_rebase", "the same, rebase: on from the own parameters", "", PRUNED, [0.5, 0.3]),
    Cell("dropped_half", "4 sites, half of all offers dropped", "PPL +2.1 % (150M, 8 sites) [P1]", PRUNED, [0.7, 0.5]),
    Cell("dropped_half_blend", "the same, alpha 0.5 instead of rebase", "", PRUNED, [0.5, 0.3]),
    Cell("slow_all", "4 sites, one 4x slower, K = all", "score 54.4 [D8]", PRUNED, [0.7, 0.5]),
    Cell("slow_no_grace", "the same, K = 1, no grace", "score 51.4 [D8]", WIDE, [0.3, 0.1]),
    Cell("slow_grace", "the same, K = 1, grace 2 s", "", PRUNED, [0.5, 0.3]),
    Cell("slow_grace_tau5", "the same, K = 1, grace 2 s, tau 5", "", PRUNED, [0.5, 0.3]),
    Cell("slow_grace_adaptive", "the same, K = 1, grace by the slack of tau 5", "score 55.3 [D8]", PRUNED, [0.5, 0.3]),
    Cell("async_nesterov", "4 sites of unequal speed, K = 1, every offer a step",
         "PPL +7.1 % beside synchronous [P2]; diverges from scratch [R1]", ASYNCHRONOUS, [0.3, 0.1]),
    Cell("async_nesterov_dynamic", "the same, dynamic local steps", "", ASYNCHRONOUS, [0.1, 0.3]),
    Cell("async_delayed", "4 sites of unequal speed, K = 1, delayed Nesterov, N = 8",
         "PPL -0.5 % with dynamic steps [P2]; +8.7 % from scratch [R1]", DELAYED, [0.7, 0.3]),
    Cell("async_delayed_dynamic", "the same, dynamic local steps", "", DELAYED, [0.7, 0.3]),
    Cell("slow_no_grace_late", "one 4x slower, no grace, offers up to 4 versions late count", "", ASYNCHRONOUS,
         [0.3, 0.1]),
    Cell("diloco_2_momentum_0.5", "DiLoCo, 2 sites, outer momentum 0.5", "", FULL, [1, 0.7]),
]


class Runs:
    """Every finished run, kept in a file of JSON lines."""

    def __init__(self, file, program, settings, inner_rate):
        self.file, self.program, self.settings, self.inner_rate = Path(file), program, settings, inner_rate
        self.done = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                run = json.loads(line)
                self.done[(run["cell"], run["rate"], run["seed"])] = run

    def rate_of_data_parallel(self):
        return self.inner_rate or best_rate(CELLS[0], self)

    def losses(self, cell, rate):
        found = [run["validation_loss"] for (name, r, _), run in self.done.items() if (name, r) == (cell.name, rate)]
        return [loss if loss is not None else math.inf for loss in found]

    def run(self, cell, rate, seed):
        inner = rate if cell.grid is INNER else self.rate_of_data_parallel()
        outer = 0 if cell.grid is INNER else rate
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [self.program, "--cell", cell.name, "--inner-rate", inner, "--outer-rate", outer, "--seed", seed,
                   *self.settings]
        line = subprocess.run([str(word) for word in command], env=environment, check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        run = {**json.loads(line), "rate": rate}
        with self.file.open("a") as file:
            file.write(json.dumps(run) + "\n")
        self.done[(cell.name, rate, seed)] = run
        return run


def tried_rates(cell, runs):
    """The rates that the grid of this cell needs, as far as the finished runs show."""
    tried = list(cell.start)
    while True:
        losses = {rate: (runs.losses(cell, rate) or [None])[0] for rate in tried}
        if None in losses.values():
            return tried
        at = cell.grid.index(min(losses, key=losses.get))
        beyond = [rate for rate in cell.grid[max(at - 1, 0):at + 2] if rate not in tried]
        if not beyond:
            return tried
        tried += beyond


def best_rate(cell, runs):
    """The best rate of seed 1, once its grid is finished; None before."""
    done = {rate: runs.done.get((cell.name, rate, 1)) for rate in tried_rates(cell, runs)}
    if None in done.values():
        return None
    return min(done, key=lambda rate: done[rate]["validation_loss"] or math.inf)


def missing(cells, runs, seeds):
    """The runs that are known to be needed and not finished, the most urgent first: (cell, rate, seed)."""
    wanted, unknown = [], 0
    for cell in cells:
        if cell.grid is not INNER and runs.rate_of_data_parallel() is None:
            unknown += len(cell.start)
            continue
        wanted += [(cell, rate, 1) for rate in tried_rates(cell, runs)]
    for seed in range(2, seeds + 1):
        for cell in cells:
            rate = best_rate(cell, runs)
            if rate is not None and seed <= cell.seeds:
                wanted.append((cell, rate, seed))
            unknown += rate is None
    return [(c, r, s) for c, r, s in wanted if (c.name, r, s) not in runs.done], unknown


def run_all(cells, runs, options):
    began, finished, in_flight = time.monotonic(), 0, {}
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        while True:
            wanted, unknown = missing(cells, runs, options.seeds)
            for cell, rate, seed in wanted:
                key = (cell.name, rate, seed)
                if len(in_flight) < options.processes and key not in in_flight.values():
                    in_flight[pool.submit(runs.run, cell, rate, seed)] = key
            if not in_flight:
                return
            done, _ = concurrent.futures.wait(in_flight, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                del in_flight[future]
                run, finished = future.result(), finished + 1
                left = (time.monotonic() - began) / finished * (len(wanted) + unknown - len(done)) / 60
                print(f"{run['cell']:24} rate {run['rate']:<6} seed {run['seed']}  loss {run['validation_loss']}  "
                      f"{run['seconds']:.0f} s; about {left:.0f} min left", flush=True)


def percent(value):
    return f"{value:+.1f} %"


def finished_cells(cells, runs):
    """Every cell whose grid is finished, with its best rate and the runs there, ordered by seed."""
    for cell in cells:
        rate = best_rate(cell, runs)
        if rate is not None:
            yield cell, rate, [run for (name, r, _), run in sorted(runs.done.items()) if (name, r) == (cell.name, rate)]


def row(cell, rate, same, base):
    losses = [run["validation_loss"] for run in same]
    spread = f" +- {(max(losses) - min(losses)) / 2:.3f}" if len(losses) > 1 else ""
    pairs = [(run["validation_loss"], base[run["seed"]]) for run in same if run["seed"] in base]
    merged = statistics.mean(run["tokens_merged"] / run["tokens"] for run in same)
    columns = [f"{cell.text} (`{cell.name}`)", "-" if cell.grid is INNER else rate,
               f"{statistics.mean(losses):.3f}{spread}", len(losses),
               percent(100 * statistics.mean(loss / data_parallel - 1 for loss, data_parallel in pairs)),
               percent(100 * statistics.mean(math.exp(loss - data_parallel) - 1 for loss, data_parallel in pairs)),
               f"{statistics.mean(run['commits'] for run in same):.0f}", f"{100 * merged:.1f} %",
               f"{statistics.mean(run['virtual_seconds'] for run in same):.0f} s", cell.published]
    return f"| {' | '.join(str(column) for column in columns)} |"


def table(cells, runs):
    """The two tables of convergence.md as Markdown; a loss is compared with that of data parallel of the same seed."""
    base = {run["seed"]: run["validation_loss"] for run in next(finished_cells(CELLS, runs))[2]}
    heads = ["cell", "outer rate", "validation loss", "runs", "to data parallel", "PPL", "commits", "merged",
             "virtual time", "published"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    grid = ["| cell | rate: loss of seed 1 |", "|---|---|"]
    for cell, rate, same in finished_cells(cells, runs):
        lines.append(row(cell, rate, same, base))
        tried = sorted({r for name, r, seed in runs.done if name == cell.name and seed == 1}, reverse=True)
        losses = [runs.done[(cell.name, r, 1)]["validation_loss"] for r in tried]
        grid.append(f"| `{cell.name}` | {', '.join(f'{r}: {loss:.3f}' for r, loss in zip(tried, losses))} |")
    return "\n".join(lines), "\n".join(grid)


def write_table(file, cells, runs):
    text = Path(file).read_text()
    for mark, part in zip(("table", "grid"), table(cells, runs)):
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        _, _, after = rest.partition(f"<!-- end of {mark} -->")
        text = f"{before}<!-- {mark} -->\n{part}\n<!-- end of {mark} -->{after}"
    Path(file).write_text(text)
    order = [cell.name for cell in cells]
    keys = sorted(runs.done, key=lambda key: (order.index(key[0]), key))
    lines = [json.dumps(runs.done[key]) for key in keys]
    Path(file).with_suffix(".json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def run_short(program):
    """All cells for two rounds of a tiny model: are they runnable, and are no tokens made up?"""
    with tempfile.TemporaryDirectory() as folder:
        text, tokens = Path(folder, "text.txt"), Path(folder, "tokens.h5")
        text.write_text("".join(f"{i} sheep and {i * i} goats went over the hill\n" for i in range(4000)))
        subprocess.run([os.environ["ATOLL"], "tokenize", text, "--output", tokens], check=True,
                       stdout=subprocess.DEVNULL)
        settings = ["--tokens", tokens, "--rounds", 3, "--width", 16, "--layers", 3, "--context", 16,
                    "--validation", 2048]
        runs = Runs(Path(folder, "runs.jsonl"), program, settings, 0.005)
        for cell in CELLS:
            run = runs.run(cell, 0.1 if 0.1 in cell.grid else 0.005, 1)  # no cell diverges there
            print(json.dumps(run))
            if not run["validation_loss"] < 5.6:
                sys.exit(f"{cell.name}: worse than a uniform guess")
            if not 0 < run["tokens_merged"] <= run["tokens"]:
                sys.exit(f"{cell.name}: {run['tokens_merged']} of {run['tokens']} tokens merged")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("CONVERGENCE", SOURCE / "build/release/bin/convergence"))
    parser.add_argument("--tokens", help="token file of the King James Bible, as tools/quickstart makes it")
    parser.add_argument("--results", default="runs.jsonl", help="finished runs, one JSON object a line")
    parser.add_argument("--table", help="Markdown file whose tables are replaced; all runs go to a .json beside it")
    parser.add_argument("--cells", nargs="*", help="only these, besides data_parallel")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=32, help="of 30 inner steps")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="all cells for a few rounds; keeps nothing")
    options = parser.parse_args()
    if options.short:
        return run_short(options.program)
    if not options.tokens:
        parser.error("--tokens is missing")
    chosen = [cell for cell in CELLS
              if not options.cells or cell.name in options.cells or cell.name == "data_parallel"]
    runs = Runs(options.results, options.program, ["--tokens", options.tokens, "--rounds", options.rounds], None)
    run_all(chosen, runs, options)
    if options.table:
        write_table(options.table, CELLS, runs)
    return None


if __name__ == "__main__":
    main()

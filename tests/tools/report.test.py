#!/usr/bin/env python3
"""tools/report.py draws whole, young, cut and empty logs, and refuses what is no run directory."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import h5py
import matplotlib.image

REPORT = Path(__file__).resolve().parent.parent.parent / "tools" / "report.py"


def step(number, **fields):
    return {"time": 1000.0 + number, "event": "step", "step": number, "loss": 5.5 - 0.02 * number,
            "learning_rate": 1e-3, "gradient_norm": 1.0, "tokens_per_second": 2000.0, "round": number // 20, "sites": 2,
            "bytes_sent": 1_000_000 * number, "bytes_received": 500_000 * number, **fields}


def commit(number, fragment, version, offers):
    return {"time": 1000.0 + number, "event": "commit", "fragment": fragment, "version": version, "anchor": "00ff",
            "offers": offers, "tokens": 100 * version, "seconds": 0.5}


WHOLE = [
    {"time": 999.0, "event": "start", "site": "alpha"},
    *(step(number) for number in range(1, 101)),
    *(commit(20 * version + fragment, fragment, version, ["alpha", "beta"] if version < 4 else ["alpha"])
      for version in range(1, 5) for fragment in range(2)),
    {"time": 1050.0, "event": "evaluation", "step": 50, "loss": 4.4, "anchor_loss": 4.5, "unigram_loss": 4.1},
    {"time": 1060.0, "event": "checkpoint", "step": 60, "file": "checkpoints/step-60.h5"},
    {"time": 1100.5, "event": "evaluation", "step": 100, "loss": 3.3, "anchor_loss": 3.25, "unigram_loss": 4.1},
    {"time": 1101.0, "event": "end", "step": 100, "digests": ["00ff", "ff00"]},
]
LINKS = [{"time": 1001.0, "event": "link_up", "peer": "beta"}, {"time": 1070.0, "event": "link_down", "peer": "beta"}]


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_directory(self, name, events, links=None, tail=""):
        run = self.folder / name
        run.mkdir()
        (run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + tail)
        if links is not None:
            (run / "links.jsonl").write_text("".join(json.dumps(event) + "\n" for event in links))
        return run

    def report(self, *runs):
        return subprocess.run([sys.executable, REPORT, *runs], text=True, capture_output=True)

    def assert_drawn(self, run):
        height, width, _ = matplotlib.image.imread(run / "report.png").shape
        self.assertGreater(min(height, width), 500)
        self.assertEqual([file.name for file in run.glob("*.png")], ["report.png"])

    def test_two_sites_give_one_picture_and_a_table(self):
        alpha = self.run_directory("alpha", WHOLE, LINKS)
        beta = self.run_directory("beta", [{**event, "site": "beta"} if event["event"] == "start" else event
                                           for event in WHOLE[:80]])
        (alpha / "checkpoints").mkdir()
        (alpha / "checkpoints" / "broken.h5").write_bytes(b"no HDF5")
        with h5py.File(alpha / "checkpoints" / "step-60.h5", "w") as checkpoint:
            checkpoint["parameters"] = [1.0, 2.0, 3.0]
        result = self.report(alpha, beta)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_drawn(alpha)
        self.assertFalse((beta / "report.png").exists())
        rows = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(rows[1], ["alpha", "100", "3.500", "3.250", "4.100", "8", "2", "1", "100.0", "50.0", "yes"])
        self.assertEqual(rows[2], ["beta", "79", "3.920", "-", "-", "0", "0", "0", "79.0", "39.5", "no"])
        self.assertIn("step-60.h5 (3 values)", result.stdout)

    def test_fields_may_be_missing_or_null(self):
        bare = [{"time": 1.0, "event": name} for name in ("start", "step", "commit", "evaluation", "end", "unheard-of")]
        odd = [step(3, loss=None), {"event": "step"}, {"time": "soon", "event": "step"}]
        run = self.run_directory("bare", bare + odd)
        result = self.report(run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_drawn(run)

    def test_traffic_of_a_site_that_came_back_is_added_up(self):
        again = [{"time": 1050.5, "event": "start"}, *({**step(n), "time": 1051.0 + n} for n in range(1, 11))]
        result = self.report(self.run_directory("back", WHOLE[:51] + again))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[1].split()[-3:], ["60.0", "30.0", "no"])

    def test_a_cut_line_is_left_out(self):
        run = self.run_directory("cut", WHOLE[:10], tail='{"time": 1011.0, "event": "st')
        result = self.report(run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[1].split()[1], "9")

    def test_an_empty_log_is_drawn(self):
        run = self.run_directory("empty", [])
        self.assertEqual(self.report(run).returncode, 0)
        self.assert_drawn(run)

    def test_a_folder_without_a_log_is_refused(self):
        result = self.report(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("log.jsonl", result.stderr)
        self.assertNotIn("Traceback", result.stderr)

    def test_help_names_what_is_read_and_written(self):
        result = self.report("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("log.jsonl", "report.png"):
            self.assertIn(word, result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

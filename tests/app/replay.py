#!/usr/bin/env python3
"""atoll replay and --keep-letters as a person uses them: an island alone, killed and brought back; clear messages."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import h5py

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fault"))
from islands import ATOLL, THREADS, TOKENS_PER_STEP, write_federation, write_tokens  # noqa: E402

ENVIRONMENT = {**os.environ, **THREADS}
MESSAGE = re.compile(r"^atoll: [^(]+ \(.+\) .+$", re.MULTILINE)


def call(*command):
    return subprocess.run(command, text=True, capture_output=True, env=ENVIRONMENT, timeout=100)


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.tokens = write_tokens(cls.folder)
        cls.federation = write_federation(cls.folder / "f.ini", ["alpha"],
                                          {"federation": {"tokens": 40 * TOKENS_PER_STEP}}, hosts=False)
        cls.whole = cls.folder / "whole"
        result = call(*cls.command(cls.whole, "--keep-letters", "all"))
        assert result.returncode == 0, result.stderr

    @classmethod
    def command(cls, run, *options, federation=None):
        return ["mpirun", "--oversubscribe", "-n", "1", ATOLL, "island", "--federation", federation or cls.federation,
                "--site", "alpha", "--tokens", cls.tokens, "--run", run, "--mailboxes", cls.folder / "mailboxes",
                "--checkpoint-every", "10", *options]

    def copy(self, name="copy"):
        """A copy of the whole run that a test may change."""
        run = self.folder / f"{self.id().split('.')[-1]}-{name}"
        shutil.copytree(self.whole, run)
        return run

    def events(self, run, name):
        lines = (run / "log.jsonl").read_text().split("\n")[:-1]
        return [(number, event) for number, line in enumerate(lines, 1) if (event := json.loads(line))["event"] == name]

    def rewrite(self, run, number, change):
        lines = (run / "log.jsonl").read_text().split("\n")
        lines[number - 1] = change(lines[number - 1])
        (run / "log.jsonl").write_text("\n".join(lines))

    def assert_equal(self, run, *options):
        result = call(ATOLL, "replay", run, *options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for digest in self.events(run, "end")[-1][1]["digests"]:
            self.assertIn(digest, result.stdout)
        return result.stdout

    def assert_refused(self, status, run, *words, options=()):
        result = call(ATOLL, "replay", run, *options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertRegex(result.stderr, MESSAGE)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_a_run_is_repeated_from_the_beginning_and_from_a_checkpoint(self):
        merges = len(self.events(self.whole, "commit"))
        self.assertIn(f"merges repeated     {merges},", self.assert_equal(self.whole))
        older = sorted((self.whole / "checkpoints").glob("*.h5"))[0]
        self.assertNotIn(f"merges repeated     {merges},", self.assert_equal(self.whole, "--from", older))

    def test_every_kept_letter_opens_in_h5py_and_in_inspect(self):
        letters = sorted((self.whole / "letters").iterdir())
        self.assertEqual(len(letters), 2 * len(self.events(self.whole, "commit")))
        for letter in letters:
            with h5py.File(letter) as file:
                self.assertEqual(file.attrs["format"], b"atoll letter")
                self.assertGreater(file["values"].shape[0], 1000)
        result = call(ATOLL, "inspect", letters[-1])
        self.assertEqual(result.returncode, 0)
        self.assertIn("letter of kind commit", result.stdout)

    def test_inspect_sums_a_run_up_on_one_screen(self):
        result = call(ATOLL, "inspect", self.whole)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(len(result.stdout.splitlines()), 25)
        end = self.events(self.whole, "end")[-1][1]
        for word in ("site              alpha", "finished", f"steps             {end['step']}", "validation loss",
                     "letters refused   none", *end["digests"]):
            self.assertIn(word, result.stdout)

    def test_a_killed_island_that_came_back_is_repeated_over_both_starts(self):
        run = self.folder / "killed"
        endless = write_federation(self.folder / "long.ini", ["alpha"],
                                   {"federation": {"tokens": 3000 * TOKENS_PER_STEP}}, hosts=False)
        command = self.command(run, "--keep-letters", "all", "--resume", federation=endless)
        command = command[command.index(ATOLL):]  # without mpirun, which would outlive its rank or the other way round
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as island:
            deadline = time.time() + 60
            while time.time() < deadline and not (run / "checkpoints/checkpoint-000000000040.h5").exists():
                time.sleep(0.02)
            island.kill()
        log = (run / "log.jsonl").read_bytes()
        (run / "log.jsonl").write_bytes(log[:-20])  # as a full disk cuts it
        self.assertIn("the last one cut", call(ATOLL, "replay", run).stdout)
        (run / "log.jsonl").write_bytes(log)
        self.assertEqual(call(*command).returncode, 0)
        self.assertIn("starts followed     2", self.assert_equal(run))

    def test_a_changed_weight_is_named_with_its_line(self):
        run = self.copy()
        number, commit = self.events(run, "commit")[3]
        self.rewrite(run, number, lambda line: line.replace('"weights":[1.0]', '"weights":[0.5]'))
        self.assert_refused(65, run, f"log.jsonl line {number}, commit of fragment {commit['fragment']} to version "
                            f"{commit['version']}", "weight of the offer of alpha", "expected 1", "found 0.5")

    def test_a_damaged_and_a_deleted_letter_are_named(self):
        run = self.copy()
        letter = sorted((run / "letters").glob("*-offer.h5"))[-1]
        data = bytearray(letter.read_bytes())
        data[len(data) // 2] ^= 1
        letter.write_bytes(data)
        self.assert_refused(65, run, letter.name, "damaged")
        letter.unlink()
        self.assert_refused(65, run, letter.name, "missing")

    def test_a_log_that_lacks_its_end_differs_from_the_newest_checkpoint(self):
        run = self.copy()
        number, _ = self.events(run, "commit")[-1]
        lines = (run / "log.jsonl").read_text().split("\n")
        (run / "log.jsonl").write_text("\n".join(lines[:number - 1]) + "\n")
        self.assert_refused(65, run, f"log.jsonl line {number - 1}, the end of the log", "checkpoint-")

    def test_what_cannot_be_replayed_is_said(self):
        self.assert_refused(64, self.folder, "is no run directory", "log.jsonl")
        run = self.copy()
        self.rewrite(run, 1, lambda line: line.replace('"format_version":1', '"format_version":2'))
        self.assert_refused(64, run, "version 2")
        self.assert_refused(64, self.whole, "no such file", options=["--from", run / "none.h5"])
        run = self.copy("changed")
        resolved = run / "federation.ini.resolved"
        resolved.write_text(resolved.read_text().replace("seed = 1", "seed = 2"))
        self.assert_refused(64, run, "federation.ini.resolved")

    def test_another_initialisation_is_named_at_the_first_event(self):
        run = self.copy()
        self.rewrite(run, 1, lambda line: re.sub(r'"anchors":\["\w\w', '"anchors":["00', line))
        self.assert_refused(65, run, "line 1, opened: fragment 0")

    def test_without_letters_it_says_what_to_set(self):
        run = self.folder / "without"
        self.assertEqual(call(*self.command(run)).returncode, 0)
        self.assertFalse((run / "letters").exists())
        self.assert_refused(64, run, "kept no letters", "--keep-letters")

    def test_letters_that_cannot_be_written_stop_no_training(self):
        run = self.folder / "blocked"
        run.mkdir()
        (run / "letters").write_text("in the way")
        result = call(*self.command(run, "--keep-letters", "commits"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("cannot keep a letter"), 1)
        self.assertEqual(len(self.events(run, "not_kept")), len(self.events(run, "commit")))
        self.assert_refused(65, run, "its letter", "not kept, says line")

    def test_nonsense_is_refused(self):
        result = call(*self.command(self.folder / "nonsense", "--keep-letters", "some"))
        self.assertEqual(result.returncode, 64)
        self.assertRegex(result.stderr, MESSAGE)
        self.assertIn("use none, commits or all", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

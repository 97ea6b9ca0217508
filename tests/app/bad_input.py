#!/usr/bin/env python3
"""Bad input: one clear message "problem (why) what to do", a status that is not 0, nothing overwritten."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import h5py

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fault"))
from islands import ATOLL, THREADS, TOKENS_PER_STEP, write_federation, write_tokens  # noqa: E402

ENVIRONMENT = {**os.environ, **THREADS}
MESSAGE = re.compile(r"^atoll: [^(]+ \(.+\) .+$", re.MULTILINE)


class BadInput(unittest.TestCase):
    under = ()  # what a rank is started by
    ranks = 1

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.tokens = write_tokens(cls.folder)
        cls.federation = cls.federation_file("f.ini", {})

    @classmethod
    def federation_file(cls, name, changes, sites=("alpha",), tokens=20 * TOKENS_PER_STEP):
        changes = {**changes, "federation": {"tokens": tokens}}
        return write_federation(cls.folder / name, sites, changes, hosts=False)

    def command(self, *changed, site="alpha", tokens=None, federation=None, run="run"):
        return ["mpirun", "--oversubscribe", "-n", str(self.ranks), *self.under,
                *self.program(*changed, site=site, tokens=tokens, federation=federation, run=run)]

    def program(self, *changed, site="alpha", tokens=None, federation=None, run="run"):
        return [ATOLL, "island", "--federation", federation or self.federation, "--site", site,
                "--tokens", tokens or self.tokens, "--run", self.folder / run,
                "--mailboxes", self.folder / "mailboxes", *changed]

    def island(self, *changed, **options):
        return subprocess.run(self.command(*changed, **options), text=True, capture_output=True, env=ENVIRONMENT,
                              timeout=60)

    def assert_refused(self, result, *words):
        self.assertNotEqual(result.returncode, 0)
        lines = [line for line in result.stderr.splitlines() if line.startswith("atoll: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertRegex(lines[0], MESSAGE)
        for word in words:
            self.assertIn(word, lines[0])

    def test_missing_token_file(self):
        self.assert_refused(self.island(tokens=self.folder / "none.h5"), "none.h5")

    def test_truncated_token_file(self):
        short = self.folder / "short.h5"
        short.write_bytes(self.tokens.read_bytes()[: self.tokens.stat().st_size // 2])
        self.assert_refused(self.island(tokens=short), "short.h5")

    def test_token_file_with_a_changed_token(self):
        changed = self.folder / "changed.h5"
        bytes_ = bytearray(self.tokens.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        changed.write_bytes(bytes_)
        self.assert_refused(self.island(tokens=changed), "changed.h5")

    def test_token_id_beyond_the_vocabulary(self):
        small = self.federation_file("small.ini", {"model": {"vocabulary": 100}})
        self.assert_refused(self.island(federation=small), "vocabulary")

    def test_unknown_option(self):
        self.assert_refused(self.island("--colour", "blue"), "--colour")

    def test_options_out_of_range(self):
        alone = self.program()  # without mpirun, which adds nothing here but time
        for wrong in (["--prompt", ""], ["--evaluation-batches=0"], ["--evaluation-batches=2000000"], ["--gather=nan"],
                      ["--evaluation-batches=-1"], ["--checkpoint-every=-1"], ["--evaluate-every=-1"]):
            with self.subTest(wrong=wrong):
                result = subprocess.run([*alone, *wrong], text=True, capture_output=True, env=ENVIRONMENT, timeout=60)
                self.assert_refused(result, wrong[0].split("=")[0])
                self.assertEqual(result.returncode, 64)

    def test_number_of_the_federation_file_out_of_range(self):
        wild = self.federation_file("wild.ini", {"outer": {"learning_rate": "nan"}})
        self.assert_refused(self.island(federation=wild), "outer.learning_rate")

    def test_missing_option(self):
        result = subprocess.run([ATOLL, "island", "--site", "alpha"], text=True, capture_output=True, env=ENVIRONMENT)
        self.assert_refused(result, "--federation")
        self.assertEqual(result.returncode, 64)

    def test_contradicting_options(self):
        odd = self.federation_file("odd.ini", {"outer": {"alpha": 0.5, "mixing": "rebase"}})
        self.assert_refused(self.island(federation=odd), "outer.alpha", "outer.mixing")

    def test_site_that_the_federation_file_lacks(self):
        self.assert_refused(self.island(site="gamma"), "gamma", "alpha")

    def test_run_directory_that_holds_a_run(self):
        self.assertEqual(self.island(run="once").returncode, 0)
        log = self.folder / "once" / "log.jsonl"
        before = log.read_bytes()
        self.assert_refused(self.island(run="once"), "once", "--resume")
        self.assertEqual(log.read_bytes(), before)

    def test_a_damaged_checkpoint_is_passed_over_and_two_are_refused(self):
        folder = self.folder / "damaged" / "checkpoints"
        self.assertEqual(self.island("--checkpoint-every", "5", run="damaged").returncode, 0)
        older, newest = sorted(folder.glob("*.h5"))
        newest.write_bytes(newest.read_bytes()[:-1000])
        result = self.island("--resume", run="damaged")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"passes over the checkpoint {newest}", result.stderr)
        for file in folder.glob("*.h5"):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 64
            file.write_bytes(data)
        before = {file: file.read_bytes() for file in folder.iterdir()}
        result = self.island("--resume", run="damaged")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, MESSAGE)
        self.assertEqual({file: file.read_bytes() for file in folder.iterdir()}, before)

    def test_resume_with_another_token_file(self):
        self.assertEqual(self.island(run="tokens").returncode, 0)
        other = self.folder / "other-text"
        other.mkdir()
        (other / "words.txt").write_text("one two three four five " * 500)
        subprocess.run([ATOLL, "tokenize", other / "words.txt", "--output", other / "words.h5"], check=True,
                       stdout=subprocess.DEVNULL)
        self.assert_refused(self.island("--resume", tokens=other / "words.h5", run="tokens"), "another configuration")

    def test_checkpoint_of_another_configuration(self):
        self.assertEqual(self.island(run="other").returncode, 0)
        changed = self.federation_file("changed.ini", {"inner": {"learning_rate": 0.1}})
        self.assert_refused(self.island("--resume", federation=changed, run="other"), "another configuration")

    def test_full_disk(self):
        # A limit on the size of files stands for a full disk: write(2) fails in the middle of the checkpoint.
        self.under = ["bash", "-c", 'ulimit -f 40; exec "$0" "$@"']
        result = self.island("--checkpoint-every", "10", run="full")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, MESSAGE)
        self.assertEqual(list((self.folder / "full" / "checkpoints").iterdir()), [])

    def test_an_error_on_the_first_of_two_ranks_ends_both(self):
        self.ranks = 2
        (self.folder / "file").touch()
        result = self.island(run="file/run")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, MESSAGE)

    def test_two_ranks_resume_from_the_checkpoint_that_the_first_chose(self):
        self.ranks = 2
        self.assertEqual(self.island("--checkpoint-every", "5", run="two").returncode, 0)
        newest = sorted((self.folder / "two" / "checkpoints").glob("*.h5"))[-1]
        newest.write_bytes(newest.read_bytes()[:-1000])
        result = self.island("--resume", run="two")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("passes over the checkpoint"), 1)

    def test_two_sites_with_different_configurations(self):
        sites, rates = ["alpha", "beta"], [0.1, 0.2]
        links, islands = [], {}
        for site, rate in zip(sites, rates):
            file = self.federation_file(f"{site}.ini", {"inner": {"learning_rate": rate}}, sites, tokens=10**8)
            command = [ATOLL, "links", "--federation", file, "--site", site, "--run", self.folder / f"two-{site}",
                       "--mailboxes", self.folder / "mailboxes"]
            links.append(subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL))
            command = self.command("--gather", "40", site=site, federation=file, run=f"two-{site}")
            islands[site] = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             env=ENVIRONMENT)
        try:
            outputs = {site: island.communicate(timeout=60)[1] for site, island in islands.items()}
        finally:
            for process in [*links, *islands.values()]:
                process.terminate()
                process.wait()
        for site in sites:
            self.assertNotEqual(islands[site].returncode, 0)
            self.assertRegex(outputs[site], MESSAGE)
            self.assertIn("configuration", outputs[site])

    def test_a_checkpoint_opens_without_our_code(self):
        self.assertEqual(self.island(run="plain").returncode, 0)
        newest = sorted((self.folder / "plain" / "checkpoints").glob("*.h5"))[-1]
        with h5py.File(newest) as file:
            self.assertIn("parameters", file)
            self.assertIn("fragments", file)


if __name__ == "__main__":
    unittest.main(verbosity=2)

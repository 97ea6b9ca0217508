#!/usr/bin/env python3
"""Whole federations on hosts that are really apart: equal bits, and training that goes on whatever dies."""

import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import h5py

sys.path.insert(0, str(Path(__file__).resolve().parent))
from islands import KEEP, THREADS, TOKENS_PER_STEP, Lab, Site, write_federation, write_tokens  # noqa: E402

SITES = ["alpha", "beta"]
KEEP_LETTERS = ["--keep-letters", "all"]
BIGGER = {"layers": 3, "heads": 2, "width": 128}


def tokens_for(rounds, inner_steps=10, sites=2):
    return rounds * inner_steps * sites * TOKENS_PER_STEP


def commits_of_both(site, since=0):
    return [event for event in site.events("commit") if event["offers"] == SITES and event["time"] > since]


def events_since(site, time_, *names):
    return [event for event in site.events(*names) if event["time"] > time_]


class Federation(unittest.TestCase):
    def setUp(self):
        self.lab = self.enterContext(Lab(SITES, keep=KEEP))
        self.tokens = write_tokens(self.lab.folder)

    def federation(self, changes):
        return write_federation(Path(self.lab.folder, "federation.ini"), SITES, changes)

    def sites(self, changes, **options):
        file = self.federation(changes)
        return [Site(self.lab, name, file, self.tokens, **options) for name in SITES]

    def assert_equal_anchors(self, first, second, least, anew_after=float("inf")):
        """Both sites' logs name the same digest for every version that both know; at least `least` of them.
        Versions that `first` had before the time `anew_after` and `second` only after it do not count."""
        ours, theirs = first.anchors(), second.anchors()
        anew = {key for key, made in second.commit_times().items()
                if made > anew_after > first.commit_times().get(key, anew_after)}
        common = (ours.keys() & theirs.keys()) - anew
        self.assertLess(len(anew), 8)
        self.assertGreaterEqual(len(common), least)
        self.assertEqual({key: ours[key] for key in common}, {key: theirs[key] for key in common})

    def assert_replays(self, site, merges, snapshots=0):
        """All that the site's log tells is repeated to the bit; at least so many merges from offers, and snapshots."""
        status, text, error = site.replay()
        self.assertEqual(status, 0, text + error)
        counts = {words[0]: int(words[2].strip(",")) for line in text.splitlines()
                  if (words := line.split())[0] in ("merges", "commits", "snapshots", "starts")}
        self.assertGreaterEqual(counts["merges"], merges, text)
        self.assertGreaterEqual(counts["snapshots"], snapshots, text)
        self.assertEqual(counts["starts"], len(site.events("opened")), text)
        for digest in site.digests():
            self.assertIn(digest, text)
        return counts

    def test_two_islands_of_two_ranks_hold_equal_anchors_over_twenty_rounds(self):
        alpha, beta = self.sites({"federation": {"tokens": tokens_for(60)}}, ranks=2, options=KEEP_LETTERS)
        for site in (alpha, beta):
            site.start()
        for site in (alpha, beta):
            site.finish(120)
        self.assert_equal_anchors(alpha, beta, least=2 * 20)
        self.assertEqual(alpha.digests(), beta.digests())
        self.assertEqual(alpha.result(), beta.result())
        self.assertGreaterEqual(len(commits_of_both(alpha)), 2 * 15)
        self.assert_replays(alpha, merges=2 * 20)
        counts = self.assert_replays(beta, merges=0)
        self.assertGreaterEqual(counts["commits"], 2 * 15)
        self.assert_replay_names_a_changed_bit(alpha)

    def assert_replay_names_a_changed_bit(self, site):
        letter = sorted(site.run.glob("letters/*-offer.h5"))[-1]
        with h5py.File(letter) as file:
            self.assertEqual(file.attrs["kind"], b"offer")
            self.assertGreater(len(file["values"]), 1000)
        data = bytearray(letter.read_bytes())
        data[-9] ^= 1
        letter.write_bytes(data)
        status, _, error = site.replay()
        self.assertEqual(status, 65)
        self.assertIn(letter.name, error)
        self.assertRegex(error, r"log.jsonl line \d+, commit of fragment 1 to version \d+")

    def assert_equal_to_one_process(self, changes, options=()):
        alpha, beta = self.sites(changes, options=options)
        for site in (alpha, beta):
            site.start()
        for site in (alpha, beta):
            site.finish(120)
        command = [os.environ["TRAIN_IN_MEMORY"], self.federation(changes), self.tokens]
        environment = {**os.environ, **THREADS}
        text = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        lines = [json.loads(line) for line in text.splitlines()]
        expected = {(line["fragment"], line["version"]): line["anchor"] for line in lines}
        self.assertGreaterEqual(len(expected), 2 * 8)
        self.assertEqual(alpha.anchors(), expected)
        self.assertEqual(beta.anchors(), expected)
        return alpha, beta

    def test_two_sites_equal_the_same_work_in_one_process_to_the_bit(self):
        self.assert_equal_to_one_process({"federation": {"tokens": tokens_for(8), "quorum": 2},
                                          "outer": {"wait_seconds": 60}})

    def test_streaming_with_other_methods_and_spread_stewards_equals_one_process_and_replays_to_the_bit(self):
        outer = {"wait_seconds": 60, "overlap": 3, "method": "yogi", "learning_rate": 0.01,
                 "merge": "radial_directional"}
        federation = {"tokens": tokens_for(8), "quorum": 2, "stewardship": "spread"}
        sites = self.assert_equal_to_one_process({"federation": federation, "outer": outer},
                                                 ["--keep-letters", "all"])
        for site in sites:
            stewards = {event["steward"] for event in site.events("commit")}
            self.assertEqual(stewards, {"alpha", "beta"})
            status, _, error = site.replay()
            self.assertEqual(status, 0, error)

    def test_a_connector_killed_in_the_middle_of_a_letter_stops_nobody(self):
        grace = 3
        alpha, beta = self.sites({"federation": {"tokens": 10**9, "grace_seconds": grace}, "model": BIGGER})
        for site in (alpha, beta):
            site.start()
        for site in (alpha, beta):
            site.wait_for(commits_of_both, 60, "a commit of both")
        self.lab.slow("beta", "40mbit")  # an offer takes a good part of a second now: the kill meets one under way
        alpha.wait_for_event("commit", count=len(alpha.events("commit")) + 2)
        killed_at = time.time()
        self.assertEqual(self.lab.kill_some("beta", " connector "), 1)
        for site in (alpha, beta):
            site.wait_for(lambda s: events_since(s, killed_at, "link_up"), 30, "the link is back")
        back = max(site.events("link_up")[-1]["time"] for site in (alpha, beta))
        self.assertLess(back - killed_at, 5)
        for site in (alpha, beta):
            site.wait_for(lambda s: commits_of_both(s, back)[3:], 60, "commits of both after the kill")
        # No inner step waited for the link, and no round for longer than the grace window (and what a letter takes).
        for site in (alpha, beta):
            gaps = sorted(site.step_gaps())
            self.assertLess(gaps[-1], max(1.0, 10 * gaps[len(gaps) // 2]))
        waits = [event["seconds"] for event in alpha.events("commit") if event["time"] > killed_at]
        self.assertLess(max(waits), grace + 1)
        self.assert_equal_anchors(alpha, beta, least=4)

    def test_a_killed_site_comes_back_by_the_same_command_and_takes_what_it_missed(self):
        self.kill_and_bring_back("beta")

    def test_a_killed_steward_comes_back_the_same_way(self):
        self.kill_and_bring_back("alpha")

    def kill_and_bring_back(self, victim):
        # So many that a fast machine is not done before the killed site is back.
        changes = {"federation": {"tokens": tokens_for(400), "grace_seconds": 1}}
        sites = {site.name: site for site in self.sites(changes, options=["--checkpoint-every", 50, *KEEP_LETTERS])}
        killed, survivor = sites[victim], sites[next(name for name in SITES if name != victim)]
        for site in sites.values():
            site.start()
        killed.wait_for_event("checkpoint")
        killed.wait_for(lambda s: len(s.events("commit")) >= 10, 60, "ten commits")
        killed.kill()
        killed_at = time.time()
        alone = survivor.wait_for(lambda s: events_since(s, killed_at, "commit")[11:], 60, "commits alone")
        self.assertEqual(alone[-1]["offers"], [survivor.name])
        killed.start()
        took = killed.wait_for(lambda s: events_since(s, killed_at, "joined", "snapshot_taken"), 60, "catches up")[-1]
        self.assertGreater(took["bytes"], 0)
        if took["event"] == "joined":
            self.assertGreater(took["seconds"], 0)
        for site in sites.values():
            site.finish(180)
        self.assertGreater(killed.events("start")[-1]["step"], 0, "it resumed from a checkpoint")
        # What the killed site committed in its last moment may have reached nobody; the survivor then made it anew.
        self.assert_equal_anchors(killed, survivor, least=10, anew_after=killed_at)
        self.assertEqual(killed.digests(), survivor.digests())
        self.assertTrue(commits_of_both(survivor, took["time"]), "both train together again")
        self.assert_replays(survivor, merges=11)
        self.assert_replays(killed, merges=0, snapshots=1)

    def test_a_site_that_starts_thirty_seconds_late_joins_by_itself(self):
        options = ["--gather", 2, "--checkpoint-every", 20, *KEEP_LETTERS]
        alpha, beta = self.sites({"federation": {"tokens": 10**9}}, options=options)
        alpha.start()
        time.sleep(30)
        self.assertTrue(alpha.events("commit"))
        beta.start()
        joined = beta.wait_for_event("joined")[0]
        self.assertEqual(joined["donor"], "alpha")
        for site in (alpha, beta):
            site.wait_for(commits_of_both, 60, "a commit of both")
        self.assert_equal_anchors(alpha, beta, least=1)
        for site in (alpha, beta):  # while they train on
            status, text, error = site.replay()
            self.assertEqual(status, 0, text + error)
            self.assertIn("holds the same", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)

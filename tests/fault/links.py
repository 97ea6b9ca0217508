#!/usr/bin/env python3
"""Links between hosts that are really apart: letters arrive whole, once and in order, whatever pair worlds suffer.

Environment: ATOLL, the program; LETTER_PUMP, the gateway without an island (letter_pump.cpp).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))
from lab import AGENT, Lab, wait_until  # noqa: E402

ATOLL = os.environ["ATOLL"]
PUMP = os.environ["LETTER_PUMP"]
KEEP = [Path(ATOLL).parent, Path(PUMP).parent]
SITES = ["alpha", "beta"]

ONE_MACHINE = """
[federation]
name = islands
sites = alpha beta
tokens = 1000
[site.alpha]
mailboxes = /dev/shm/mailboxes
[site.beta]
mailboxes = /dev/shm/mailboxes
"""
TWO_MACHINES = ONE_MACHINE.replace("[site.alpha]", f"[site.alpha]\nhost = alpha\nlaunch_agent = {AGENT}").replace(
    "[site.beta]", f"[site.beta]\nhost = beta\nlaunch_agent = {AGENT}")


def whole_lines(file):
    """The lines of a file that another process writes; one that is not complete yet does not count."""
    return file.read_text().split("\n")[:-1] if file.exists() else []


class Site:
    """Supervisor and letter pump of one site on its own host."""

    def __init__(self, lab, name, least=24, most=20_000_000, seconds=600, pause=0.0, configuration=1):
        self.lab, self.name = lab, name
        self.host = name if name in lab.hosts else lab.hosts[0]
        self.peer = next(other for other in SITES if other != name)
        self.run = Path(lab.folder, name)
        self.run.mkdir(exist_ok=True)
        self.arguments = [seconds, least, most, pause, configuration]
        self.federation = Path(lab.folder, f"{name}.ini")
        self.federation.write_text(TWO_MACHINES if len(lab.hosts) > 1 else ONE_MACHINE)
        self.links = self.pump = None

    def start(self):
        self.start_links()
        self.start_pump()
        return self

    def start_links(self):
        command = [ATOLL, "links", "--federation", self.federation, "--site", self.name, "--run", self.run]
        self.links = self.run_here(command, "links.out")

    def start_pump(self):
        command = [PUMP, "/dev/shm/mailboxes", "islands", self.name, self.peer, *self.arguments]
        self.pump = self.run_here(command, "pump.jsonl")

    def run_here(self, command, output):
        with open(self.run / output, "a") as file:
            return self.lab.run(self.host, command, stdout=file, stderr=subprocess.STDOUT)

    def state(self):
        """What the pump said last."""
        lines = whole_lines(self.run / "pump.jsonl")
        return json.loads(lines[-1]) if lines else {"up": False, "peer_alive": False, "sessions": 0, "taken": [0, 0]}

    def connectors(self):
        return self.lab.pids(self.host, f" connector --federation-name islands --site {self.name} ")

    def events(self, name):
        lines = map(json.loads, whole_lines(self.run / "links.jsonl"))
        return [line for line in lines if line["event"] == name]

    def is_moving(self):
        """Letters of both lanes come in right now."""
        before = self.state()["taken"]
        time.sleep(1.2)
        after = self.state()["taken"]
        return all(now > then for now, then in zip(after, before))


class LinksTest(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore", ResourceWarning)  # what still runs at the end of a test is killed by the lab

    def finish(self, *sites):
        """Orderly end on both sides: everything posted was delivered, nothing was lost, doubled or damaged."""
        for site in sites:
            site.pump.send_signal(signal.SIGUSR1)
        wait_until(lambda: all(site.state()["outstanding"] == 0 for site in sites), 20, "all letters delivered")
        self.end(*sites)
        states = [site.state() for site in sites]
        for state in states:
            self.assertEqual([state["damaged"], state["lost"], state["doubled"]], [0, 0, 0])
        for ours, theirs in (states, reversed(states)):
            self.assertEqual(ours["posted"], theirs["taken"])
        for site in sites:  # the supervisors end by themselves
            self.assertEqual(site.links.wait(15), 0)
            self.assertEqual(site.connectors(), [])
        return states

    def end(self, *sites):
        for site in sites:
            site.pump.send_signal(signal.SIGTERM)
        for site in sites:
            self.assertEqual(site.pump.wait(30), 0, site.state())

    def both_up(self, *sites, seconds=15):
        wait_until(lambda: all(site.state()["up"] and site.state()["peer_alive"] for site in sites), seconds, "link up")

    def new_session(self, sites, sessions, seconds):
        """Waits until a pair world after number `sessions` stands."""
        states = lambda: [site.state() for site in sites]
        wait_until(lambda: all(s["sessions"] > sessions and s["up"] for s in states()), seconds, "link up again")

    def test_letters_of_all_sizes_both_ways(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            time.sleep(6)
            states = self.finish(*sites)
            for state in states:
                self.assertEqual(state["sessions"], 1)
                self.assertGreater(state["posted"][1], 3)
                self.assertLess(state["wire_sent"], state["payload_sent"] * 1.02)
            rate = sum(state["payload_sent"] for state in states) / 6e6
            print(f"links: about {rate:.0f} MB/s in both directions together, checks included")

    def test_two_sites_on_one_machine_need_no_host_names(self):
        with Lab(["alone"], keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            for site in sites:
                sessions = site.state()["sessions"]
                os.kill(site.connectors()[0], signal.SIGKILL)
                self.new_session(sites, sessions, 8)
            self.finish(*sites)

    def test_a_killed_connector_is_back_within_five_seconds_and_nothing_is_lost(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            for turn in range(4):
                site = sites[turn % 2]
                sessions = site.state()["sessions"]
                self.assertEqual(lab.kill_some(site.name, " connector "), 1)
                self.new_session(sites, sessions, 6)
                self.assertTrue(sites[1 - turn % 2].is_moving())
            for state in self.finish(*sites):
                self.assertLess(state["longest_down"], 5)

    def test_a_stopped_connector_is_killed(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            for site in sites:
                sessions = site.state()["sessions"]
                lab.kill_some(site.name, " connector ", signal.SIGSTOP)
                self.new_session(sites, sessions, 15)
            self.finish(*sites)

    def test_a_link_that_was_cut_comes_back(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            lab.cut("beta")
            wait_until(lambda: not any(site.state()["up"] for site in sites), 8, "link known to be down")
            time.sleep(5)
            lab.mend("beta")
            self.both_up(*sites)
            self.assertTrue(all(site.is_moving() for site in sites))
            self.finish(*sites)

    def test_the_launcher_and_the_supervisor_may_die(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            for host, word in (("alpha", "--with-ft"), ("beta", "prted")):
                sessions = sites[0].state()["sessions"]
                lab.kill_some(host, word)
                self.new_session(sites, sessions, 10)
            for site in sites:
                sessions = sites[0].state()["sessions"]
                site.links.kill()
                lab.kill_some(site.name, " links ")
                site.start_links()
                time.sleep(1)
            self.both_up(*sites)
            self.finish(*sites)

    def test_many_faults_in_a_row(self):
        count = int(os.environ.get("ATOLL_FAULTS", 10))
        chance = random.Random(int(os.environ.get("ATOLL_SEED", 1)))
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)

            def cut(site):
                lab.cut(site.host)
                time.sleep(chance.uniform(0.5, 6))
                lab.mend(site.host)

            def restart_links(site):
                site.links.kill()
                site.start_links()

            faults = {
                "connector killed": lambda site: lab.kill_some(site.host, " connector "),
                "connector stopped": lambda site: lab.kill_some(site.host, " connector ", signal.SIGSTOP),
                "launcher killed": lambda site: lab.kill_some(site.host, "prte"),
                "launcher stopped": lambda site: lab.kill_some(site.host, "prte", signal.SIGSTOP),
                "supervisor killed": restart_links,
                "link cut": cut,
            }
            for number in range(count):
                what, site = chance.choice(sorted(faults)), chance.choice(sites)
                faults[what](site)
                time.sleep(chance.uniform(0, 1.5))
                if chance.random() < 0.5:
                    continue  # the next fault comes while this one is being mended
                self.assertIsNone(next((s.links.poll() for s in sites if s.links.poll() is not None), None))
                taken = [s.state()["taken"] for s in sites]
                moving = lambda: all(s.state()["taken"][1] > before[1] for s, before in zip(sites, taken))
                wait_until(moving, 20, f"letters after fault {number} ({what} at {site.name})")
            self.both_up(*sites, seconds=30)
            states = self.finish(*sites)
            print(f"links: {count} faults, {states[0]['sessions']} pair worlds, longest time without a link "
                  f"{max(state['longest_down'] for state in states):.1f} s")

    def test_an_island_that_dies_and_starts_again_is_served(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name).start() for name in SITES]
            self.both_up(*sites)
            for site, other in (sites, reversed(sites)):
                lab.kill_some(site.name, "letter_pump")
                wait_until(lambda: not other.state()["peer_alive"], 5, "death noticed")
                site.start_pump()
                self.both_up(*sites)
                self.assertTrue(other.is_moving() and site.is_moving())
            self.end(*sites)

    def test_sites_with_different_configurations_refuse_each_other_and_say_why(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name, configuration=number).start() for number, name in enumerate(SITES)]
            for site in sites:
                wait_until(lambda: "configuration" in site.state().get("refusal", ""), 15, "refusal")
                self.assertFalse(site.state()["up"])
                wait_until(lambda: site.events("link_refused"), 15, "the supervisor's word of it")
                site.links.terminate()
                self.assertEqual(site.links.wait(2), 0)

    def test_an_idle_link_costs_little(self):
        with Lab(SITES, keep=KEEP) as lab:
            sites = [Site(lab, name, most=0).start() for name in SITES]
            self.both_up(*sites)
            time.sleep(1)

            def used(site):
                ticks = 0
                for pid in site.connectors():
                    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                    ticks += int(fields[11]) + int(fields[12])
                return ticks / os.sysconf("SC_CLK_TCK"), site.state()["cpu"]

            seconds = 8
            before = [used(site) for site in sites]
            time.sleep(seconds)
            after = [used(site) for site in sites]
            for site, (connector, pump), (connector_before, pump_before) in zip(sites, after, before):
                share = (connector - connector_before + pump - pump_before) / seconds
                print(f"links: {site.name} idle: connector {(connector - connector_before) / seconds:.2%}, "
                      f"gateway {(pump - pump_before) / seconds:.2%} of a core")
                self.assertLess(share, 0.05)


if __name__ == "__main__":
    unittest.main(verbosity=2)

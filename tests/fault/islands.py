"""Islands for fault tests: a federation file, a token file, and sites that run links and island on a host of a Lab."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import h5py

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))
from lab import AGENT, Lab, wait_until  # noqa: E402, F401

ATOLL = Path(os.environ["ATOLL"])
KEEP = [ATOLL.parent]
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

FEDERATION = {
    "federation": {"name": "lab", "grace_seconds": 2},
    "model": {"vocabulary": 256, "context": 32, "layers": 2, "heads": 2, "width": 32},
    "inner": {"batch": 4, "micro_batch": 4, "learning_rate": 0.003},
    "outer": {"fragments": 2, "inner_steps": 10},
}
TOKENS_PER_STEP = 4 * 32


def write_federation(file, sites, changes, hosts=True):
    """Writes a federation file: FEDERATION with `changes` ({"outer": {"inner_steps": 5}})."""
    sections = {name: {**keys, **changes.get(name, {})} for name, keys in FEDERATION.items()}
    sections["federation"]["sites"] = " ".join(sites)
    if hosts:
        sections.update({f"site.{site}": {"host": site, "launch_agent": AGENT} for site in sites})
    text = "".join(f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
                   for name, keys in sections.items())
    Path(file).write_text(text)
    return file


def write_tokens(folder):
    """A token file of made-up words; returns its path."""
    words = random.Random(7)
    syllables = ["ka", "lo", "mi", "ren", "tu", "sa", "vo", "ni", "del", "ost"]
    text = " ".join("".join(words.choices(syllables, k=words.randint(1, 3))) for _ in range(40_000))
    source, tokens = Path(folder, "words.txt"), Path(folder, "words.h5")
    source.write_text(text)
    subprocess.run([ATOLL, "tokenize", source, "--output", tokens], check=True, stdout=subprocess.DEVNULL)
    return tokens


class Site:
    """Links and island of one site. start() may be called again after kill(): it is the same command."""

    def __init__(self, lab, name, federation, tokens, ranks=1, options=()):
        self.lab, self.name, self.ranks = lab, name, ranks
        self.run = Path(lab.folder, name)
        self.run.mkdir(exist_ok=True)
        self.common = ["--federation", federation, "--site", name, "--run", self.run, "--mailboxes", "/dev/shm/lab"]
        self.island_options = ["--tokens", tokens, "--resume", "--threads", 1, "--progress-every", 1, *options]
        self.links = self.island = None

    def start(self):
        self.links = self._start("links.txt", [ATOLL, "links", *self.common])
        self.island = self._start("island.txt", [
            "mpirun", "--oversubscribe", "--bind-to", "none", "-n", self.ranks, ATOLL, "island", *self.common,
            *self.island_options])
        return self

    def _start(self, output, command):
        with open(self.run / output, "a") as file:
            return self.lab.run(self.name, command, stdout=file, stderr=subprocess.STDOUT, env=THREADS)

    def kill(self):
        """kill -9 for everything of the site, as if its machine had failed."""
        self.lab.kill(self.name)
        self.links.wait()
        self.island.wait()

    def events(self, *names):
        """Events of log.jsonl so far, whole lines only; of the given names, or all."""
        try:
            lines = (self.run / "log.jsonl").read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        events = [json.loads(line) for line in lines]
        return [event for event in events if not names or event["event"] in names]

    def wait_for(self, condition, seconds, what):
        """Waits until condition(self) is true; an island that ended meanwhile is a failure."""
        def check():
            assert self.island.poll() is None, f"{self.name} ended early:\n{self.output()}"
            return condition(self)
        return wait_until(check, seconds, f"{self.name}: {what}")

    def wait_for_event(self, name, seconds=60, count=1):
        return self.wait_for(lambda site: len(site.events(name)) >= count and site.events(name), seconds, name)

    def output(self):
        """The last that the island said."""
        return (self.run / "island.txt").read_text()[-3000:]

    def finish(self, seconds):
        """Waits for an orderly end."""
        status = self.island.wait(seconds)
        assert status == 0 and (self.run / "DONE").exists(), f"{self.name}: status {status}\n{self.output()}"
        self.links.wait(20)

    def replay(self, *options):
        """atoll replay of the run directory: status, output, error output."""
        result = subprocess.run([ATOLL, "replay", self.run, *options], text=True, capture_output=True,
                                env={**os.environ, **THREADS})
        return result.returncode, result.stdout, result.stderr

    def step_gaps(self):
        """Seconds between consecutive inner steps."""
        times = [event["time"] for event in self.events("step")]
        return [later - earlier for earlier, later in zip(times, times[1:])]

    def anchors(self):
        """Digest by (fragment, version), from the commits that the site took part in."""
        return {(event["fragment"], event["version"]): event["anchor"] for event in self.events("commit")}

    def result(self):
        """The parameters in the last checkpoint: name -> bytes."""
        newest = sorted((self.run / "checkpoints").glob("*.h5"))[-1]
        tensors = {}

        def collect(name, item):
            if isinstance(item, h5py.Dataset):
                tensors[name] = item[()].tobytes()

        with h5py.File(newest) as file:
            file["parameters"].visititems(collect)
        return tensors

    def commit_times(self):
        """When the site first had each (fragment, version)."""
        return {(event["fragment"], event["version"]): event["time"] for event in reversed(self.events("commit"))}

    def digests(self):
        return self.events("end")[-1]["digests"]

"""Several hosts on this machine for fault tests; see `net` and `on` beside this file for what a host is.

    with Lab(["alpha", "beta"]) as lab:
        island = lab.run("alpha", ["atoll", "island", ...], cwd=lab.folder)
        lab.cut("beta")
        lab.mend("beta")
        lab.kill("beta")

The hosts end with the `with` block, with an exception, and also when the test itself is killed.
"""

import atexit
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGENT = HERE / "on"  # takes the place of ssh: a launch agent for mpirun and for a federation file
SOURCE = HERE.parent.parent
_numbers = itertools.count(1)


class Lab:
    """Hosts that are up while the `with` block runs. All hosts see the same files, except /tmp and /dev/shm."""

    def __init__(self, hosts, keep=()):
        self.hosts = list(hosts)
        self.name = f"{os.getpid()}-{next(_numbers)}"
        self.environment = {**os.environ, "ATOLL_LAB": self.name}
        self.folder = None  # a fresh folder that every host sees; deleted with the lab, but not with ATOLL_LAB_KEEP=1
        self._keep = [SOURCE, Path.cwd(), *keep]

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lab-", dir=Path.cwd()))
        atexit.register(self.close)
        # Without this a time-out of ctest (SIGTERM first) would skip the clean-up; SIGKILL is covered by --owner.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        keep = itertools.chain.from_iterable(("--keep", str(folder)) for folder in self._keep)
        self._net("up", "--owner", str(os.getpid()), *keep, *self.hosts)
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None and "ATOLL_LAB_KEEP" not in os.environ:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"lab: the files of this run stay in {self.folder}", file=sys.stderr)

    def close(self):
        """Kills everything on the hosts and removes them; may be called twice."""
        self._net("down")
        atexit.unregister(self.close)

    def run(self, host, command, **options):
        """Starts `command` (a list) on `host`; returns its Popen. Takes the options of subprocess.Popen."""
        environment = {**self.environment, **options.pop("env", {})}
        return subprocess.Popen(self.command(host, command), env=environment, **options)

    def output(self, host, command, timeout=60, **options):
        """What `command` prints on `host`; raises subprocess.CalledProcessError when it fails."""
        return subprocess.run(self.command(host, command), env=self.environment, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=timeout, **options).stdout

    def command(self, host, command):
        """The argument list that runs `command` on `host` (ATOLL_LAB must be in its environment)."""
        return [str(AGENT), host, "exec " + shlex.join(str(word) for word in command)]

    def address(self, host):
        """The address of `host`, as every host of this lab resolves it."""
        return f"10.77.0.{11 + self.hosts.index(host)}"

    def cut(self, host):
        """Takes `host` off the network: packets are lost silently, no connection is reset."""
        self._net("cut", host)

    def mend(self, host):
        self._net("mend", host)

    def slow(self, host, rate):
        """Limits both directions of `host` to `rate` ("100mbit"); "none" lifts the limit."""
        self._net("slow", host, rate)

    def kill(self, host):
        """kill -9 for everything that runs on `host`; the host itself stays and keeps its /tmp and /dev/shm."""
        self._net("kill", host)

    def pids(self, host, word=""):
        """Process ids on `host` whose command line contains `word`."""
        lines = self._net("ps", host).splitlines()[1:]
        return [int(line.split()[0]) for line in lines if word in line]

    def kill_some(self, host, word, number=signal.SIGKILL):
        """Sends signal `number` to the processes of `host` whose command line contains `word`; returns how many."""
        pids = self.pids(host, word)
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        return len(pids)

    def _net(self, *arguments):
        result = subprocess.run([str(HERE / "net"), *arguments], env=self.environment, text=True, capture_output=True)
        if result.returncode:
            raise RuntimeError(result.stderr.strip() or f"net {arguments[0]} failed")
        return result.stdout


def wait_until(condition, seconds, what):
    """Returns the first true value of `condition()`; raises AssertionError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")

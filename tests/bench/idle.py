#!/usr/bin/env python3
"""What do gateway and connector cost when there is nothing to send?

    ATOLL=build/release/bin/atoll tests/bench/idle.py [SECONDS]

Two sites on two hosts of a lab (root needed) wait for a third that never comes: links stand, statuses go back and
forth, nobody trains. Prints JSON: the share of one core that each process used, medians over windows of SECONDS
(default 4).
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
os.environ["ATOLL"] = str(Path(os.environ.get("ATOLL", SOURCE / "build/release/bin/atoll")).resolve())
sys.path.insert(0, str(SOURCE / "tests/fault"))
from islands import KEEP, Lab, Site, write_federation, write_tokens  # noqa: E402

SITES = ["alpha", "beta"]
WINDOWS = 7
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """Processor time of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def is_program(pid):
    return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("atoll")


def processes(lab):
    """The processes to measure: name -> pid."""
    found = {}
    for site in SITES:
        for role, word in [("gateway", " island "), ("connector", " connector "), ("supervisor", " links ")]:
            found[f"{site}.{role}"] = next(pid for pid in lab.pids(site, word) if is_program(pid))
    return found


def measure(pids, seconds):
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    wall = time.monotonic() - began
    return {name: (cpu_seconds(pid) - before[name]) / wall for name, pid in pids.items()}


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    with Lab(SITES, keep=KEEP) as lab:
        tokens = write_tokens(lab.folder)
        federation = write_federation(Path(lab.folder, "f.ini"), SITES + ["gamma"], {"federation": {"tokens": 10**6}})
        sites = [Site(lab, name, federation, tokens, options=["--gather", 600]).start() for name in SITES]
        for site in sites:
            site.wait_for_event("site_up")
        time.sleep(2)
        pids = processes(lab)
        windows = [measure(pids, seconds) for _ in range(WINDOWS)]
    shares = {name: statistics.median(window[name] for window in windows) for name in pids}
    together = [statistics.median(w[f"{s}.gateway"] + w[f"{s}.connector"] for w in windows) for s in SITES]
    command = ["git", "rev-parse", "--short", "HEAD"]
    revision = subprocess.run(command, cwd=SOURCE, text=True, capture_output=True).stdout.strip()
    print(json.dumps({"benchmark": "idle", "git": revision, "machine": platform.machine(), "cores": os.cpu_count(),
                      "windows": WINDOWS, "window_seconds": seconds, "core_share": shares,
                      "gateway_and_connector": dict(zip(SITES, together)), "limit": 0.05}, indent=2))


if __name__ == "__main__":
    main()

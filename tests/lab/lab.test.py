#!/usr/bin/env python3
"""The lab keeps what it promises: hosts that are apart, faults that are real, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import AGENT, Lab, wait_until  # noqa: E402

LISTEN = """import socket
server = socket.create_server(("", 7000))
print("up", flush=True)
while True:
    server.accept()[0].sendall(b"hello")
"""
CONNECT = "import socket, sys; print(socket.create_connection((sys.argv[1], 7000), timeout=1).recv(5).decode())"


class LabTest(unittest.TestCase):
    def test_hosts_have_their_own_name_network_tmp_and_shared_memory(self):
        with Lab(["alpha", "beta"]) as lab:
            self.assertEqual(lab.output("alpha", ["hostname"]), "alpha\n")
            self.assertEqual(lab.output("beta", ["hostname"]), "beta\n")
            for folder in ("/tmp", "/dev/shm"):
                lab.output("alpha", ["touch", f"{folder}/mark"])
                self.assertEqual(lab.output("alpha", ["ls", folder]), "mark\n")  # one host, many commands
                self.assertEqual(lab.output("beta", ["ls", folder]), "")
                self.assertFalse(Path(folder, "mark").exists())
            Path(lab.folder, "shared").write_text("for all")
            self.assertEqual(lab.output("beta", ["cat", lab.folder / "shared"]), "for all")
            self.assertNotEqual(socket.gethostname(), "alpha")

    def test_hosts_reach_each_other_until_one_is_cut_off(self):
        with Lab(["alpha", "beta"]) as lab:
            server = lab.run("alpha", [sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True)
            self.assertEqual(server.stdout.readline(), "up\n")
            connect = [sys.executable, "-c", CONNECT, "alpha"]
            self.assertEqual(lab.output("beta", connect), "hello\n")
            lab.cut("alpha")
            with self.assertRaises(subprocess.CalledProcessError):
                lab.output("beta", connect, stderr=subprocess.DEVNULL)
            lab.mend("alpha")
            self.assertEqual(lab.output("beta", connect), "hello\n")
            lab.slow("alpha", "50mbit")
            lab.slow("alpha", "none")
            server.kill()
            server.communicate()

    def test_a_host_reaches_another_through_the_launch_agent(self):
        with Lab(["alpha", "beta"]) as lab:
            lab.output("beta", ["touch", "/dev/shm/of-beta"])
            seen = lab.output("alpha", [AGENT, "-x", "root@beta", "hostname; ls /dev/shm"])
            self.assertEqual(seen, "beta\nof-beta\n")

    def test_kill_ends_everything_on_one_host_only(self):
        with Lab(["alpha", "beta"]) as lab:
            commands = ["sleep", "1000"], ["sh", "-c", "setsid sleep 1001; :"]
            victims = [lab.run("alpha", command) for command in commands]
            other = lab.run("beta", ["sleep", "1000"])
            wait_until(lambda: len(lab.pids("alpha", "sleep 100")) == 3, 5, "three processes on alpha")
            lab.kill("alpha")
            self.assertEqual([victim.wait(5) for victim in victims], [-signal.SIGKILL] * 2)
            self.assertEqual(lab.pids("alpha"), [])
            self.assertIsNone(other.poll())
            self.assertEqual(lab.output("alpha", ["hostname"]), "alpha\n")
            self.assertEqual(lab.kill_some("beta", "sleep 1000"), 1)
            self.assertEqual(other.wait(5), -signal.SIGKILL)

    def test_labs_do_not_meet_and_a_killed_test_leaves_nothing(self):
        script = "from lab import Lab\nimport time\nlab = Lab(['alpha'])\nlab.__enter__()\n" \
                 "lab.run('alpha', ['sleep', '1002'])\nprint(lab.name, flush=True)\ntime.sleep(1000)"
        test = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": str(AGENT.parent)})
        other = test.stdout.readline().strip()
        with Lab(["alpha"]) as lab:
            self.assertNotEqual(lab.name, other)
            self.assertEqual(lab.pids("alpha"), [])
            test.kill()
            test.communicate()
            wait_until(lambda: not Path("/run/atoll-lab", other).exists(), 10, "the killed test's lab is gone")
            self.assertEqual(lab.output("alpha", ["hostname"]), "alpha\n")
        for folder in Path.cwd().glob("lab-*"):
            if not any(folder.iterdir()):
                folder.rmdir()


if __name__ == "__main__":
    unittest.main(verbosity=2)

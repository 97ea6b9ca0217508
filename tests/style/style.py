#!/usr/bin/env python3
"""Refuses what DESIGN and STYLE forbid and a machine can see: style.py CHECK [--include FOLDER]...

layers    an include that goes up, or a foreign header outside its door
headers   a public header that does not compile alone
text      long lines, tabs, trailing blanks, long files, marks of unfinished work
scripts   Python, shell, JSON and YAML that does not parse
top       a file at the top level that does not belong there
"""

import argparse
import ast
import concurrent.futures
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent

# Which modules a module may use besides itself.
USES = {
    "core": set(),
    "mpi": {"core"},
    "device": {"core", "mpi"},
    "store": {"core"},
    "data": {"core", "store"},
    "model": {"core", "device"},
    "codec": {"core", "device"},
    "outer": {"core", "device"},
    "federation": {"core", "mpi", "codec", "outer", "store"},
}
USES["app"] = set(USES)

# Foreign headers, and the only modules that may include them.
DOORS = [
    (re.compile(r"mpi(-ext)?\.h"), {"mpi"}),
    (re.compile(r"nccl\.h|cuda.*\.h|Kokkos_.*"), {"device"}),
    (re.compile(r"H5.*\.h|hdf5.*\.h"), {"store"}),
    (re.compile(r"(torch|ATen|c10)/.*"), {"model"}),
    (re.compile(r"sodium(/.*)?\.h|xxh.*\.h"), {"store"}),
    (re.compile(r"sentencepiece_.*\.h"), {"data"}),
    (re.compile(r"nlohmann/.*"), {"core"}),
    (re.compile(r"boost/.*"), {"app"}),
]

COLUMNS = 120
LINES = 450
UNFINISHED = re.compile("TO" "DO|FIX" "ME|GTEST_" "SKIP|DISABLED" "_|unittest" r"\.skip|Skip" "Test")
TOP = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "spack.yaml",
       "src", "include", "jobs", "inputs", "tests", "tools", ".ci"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def own_files():
    """Every file that is, or would be, under version control."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    return sorted(path for name in names if name and (path := ROOT / name).is_file())


def short(path):
    return path.relative_to(ROOT)


def kind(path):
    """cpp, python, shell, cmake, json, yaml or nothing."""
    by_suffix = {".cpp": "cpp", ".hpp": "cpp", ".h": "cpp", ".py": "python", ".sh": "shell", ".sbatch": "shell",
                 ".cmake": "cmake", ".json": "json", ".yaml": "yaml"}
    if path.suffix in by_suffix:
        return by_suffix[path.suffix]
    if path.name == "CMakeLists.txt":
        return "cmake"
    first = path.read_bytes()[:40].split(b"\n")[0]
    if first.startswith(b"#!"):
        return "python" if b"python" in first else "shell" if b"sh" in first else None
    return None


def module_of(path):
    """The module that a source or public header belongs to, or nothing."""
    parts = short(path).parts
    if parts[:2] == ("include", "atoll") and len(parts) > 3:
        return parts[2]
    if parts[0] == "src" and len(parts) > 2 and parts[1] != "cmake":
        return parts[1]
    return None


def check_layers(_):
    for path in own_files():
        module = module_of(path)
        if kind(path) != "cpp" or module is None:
            continue
        if module not in USES:
            yield f"{short(path)}: unknown module '{module}' (DESIGN section 4 lists them)"
            continue
        for _, header in INCLUDE.findall(path.read_text()):
            if match := re.match(r"atoll/(\w+)/", header):
                if match[1] != module and match[1] not in USES[module]:
                    yield f"{short(path)}: includes {header}, but {module} may only use {sorted(USES[module])}"
            for pattern, doors in DOORS:
                if pattern.fullmatch(header) and module not in doors:
                    yield f"{short(path)}: includes {header}, which only {sorted(doors)} may include"


def check_headers(folders):
    headers = [path for path in own_files() if short(path).parts[0] == "include" and path.suffix == ".hpp"]
    flags = ["-std=c++20", "-fsyntax-only", "-fopenmp", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++",
             f"-I{ROOT / 'include'}", *(word for folder in folders for word in ("-isystem", folder))]

    def compile_alone(header):
        code = f'#include "{header.relative_to(ROOT / "include")}"\n'
        result = subprocess.run(["g++", *flags, "-"], input=code, text=True, capture_output=True)
        return f"{short(header)} does not compile alone:\n{result.stderr[:2000]}" if result.returncode else None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from filter(None, pool.map(compile_alone, headers))


def check_text(_):
    for path in own_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        language = kind(path)
        lines = content.decode().split("\n")
        for number, line in enumerate(lines, 1):
            where = f"{short(path)}:{number}"
            if "\t" in line:
                yield f"{where}: tab"
            if line != line.rstrip():
                yield f"{where}: trailing blank"
            if language in ("cpp", "python", "shell") and len(line) > COLUMNS:
                yield f"{where}: {len(line)} columns, at most {COLUMNS}"
            if language and UNFINISHED.search(line):
                yield f"{where}: unfinished or left out: {line.strip()}"
        if content and not content.endswith(b"\n"):
            yield f"{short(path)}: no newline at the end"
        if language in ("cpp", "python", "shell") and len(lines) > LINES + 1:
            yield f"{short(path)}: {len(lines) - 1} lines, at most {LINES}"


def check_scripts(_):
    for path in own_files():
        try:
            match kind(path):
                case "python":
                    ast.parse(path.read_text(), str(path))
                case "json":
                    json.loads(path.read_text())
                case "yaml":
                    yaml.safe_load(path.read_text())
                case "shell":
                    subprocess.run(["bash", "-n", path], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            yield f"{short(path)}: {error.stderr.strip()}"
        except (SyntaxError, ValueError, yaml.YAMLError) as error:
            yield f"{short(path)}: {error}"


def check_top(_):
    for name in sorted({short(path).parts[0] for path in own_files()}):
        if name not in TOP and not name.startswith("."):
            yield f"{name}: does not belong at the top level"
    for name in sorted(name for name in TOP if not (ROOT / name).exists()):
        yield f"{name}: is missing at the top level"


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--include", action="append", default=[], help="folder of foreign headers")
    options = parser.parse_args()
    problems = list(CHECKS[options.check](options.include))
    for problem in problems:
        print(problem)
    print(f"{options.check}: {len(problems)} problems" if problems else f"{options.check}: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Every event that the sources write to a log, and every field of it, is described in src/app/LOG.md."""

import os
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("ATOLL_SOURCE_DIR", Path(__file__).resolve().parent.parent.parent)) / "src"
CALL = re.compile(r"\b(?:log_?\.write|note)\(")
NAME = re.compile(r'"([a-z_]+)"')
BUILT = re.compile(r"std::vector<LogField>[^;{]*\{|fields\.(?:push_back|insert)\(|return \{(?=\{\")")
FIELD = re.compile(r'\{"([a-z_]+)",')


def call_text(text, begin):
    """The arguments of the call whose opening bracket is before `begin`."""
    depth, end = 1, begin
    while depth > 0 and end < len(text):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[end], 0)
        end += 1
    return text[begin:end - 1]


def written():
    """(file, event, fields) for every call that writes an event by name."""
    for file in sorted(SOURCE.glob("*/*.cpp")):
        text = file.read_text()
        for match in CALL.finditer(text):
            arguments = call_text(text, match.end())
            first = arguments.split("{")[0]
            for event in NAME.findall(first):
                yield file.name, event, FIELD.findall(arguments)


def built():
    """Names in lists of fields that are put together outside such a call."""
    for file in sorted(SOURCE.glob("*/*.cpp")):
        text = file.read_text()
        for match in re.finditer(BUILT, text):
            for field in FIELD.findall("{" + call_text(text, match.end())):
                if "LogField" in text:
                    yield file.name, field


def page():
    """event -> its row of the page."""
    rows = {}
    for line in (SOURCE / "app" / "LOG.md").read_text().splitlines():
        if match := re.match(r"\| ((?:`[a-z_]+`(?:, )?)+) \|", line):
            for event in re.findall(r"`([a-z_]+)`", match[1]):
                rows[event] = rows.get(event, "") + line
    return rows


class LogPage(unittest.TestCase):
    def test_every_event_and_field_is_described(self):
        rows = page()
        found = list(written())
        self.assertGreater(len(found), 25)
        for file, event, fields in found:
            with self.subTest(file=file, event=event):
                self.assertTrue(event in rows, f"{event} is not on the page")
                for field in fields:
                    self.assertIn(f"`{field}`", rows[event])

    def test_every_field_that_is_built_apart_is_described(self):
        everything = "".join(page().values())
        found = list(built())
        self.assertGreater(len(found), 10)
        for file, field in found:
            with self.subTest(file=file, field=field):
                self.assertTrue(f"`{field}`" in everything, f"{field} is not on the page")

    def test_the_page_names_no_event_that_nobody_writes(self):
        sources = "".join(file.read_text() for file in SOURCE.glob("*/*.cpp"))
        for event in page():
            self.assertTrue(f'"{event}"' in sources, f"nobody writes {event}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for item in written():
            print(*item)
        print(*built())
        sys.exit()
    unittest.main(verbosity=2)

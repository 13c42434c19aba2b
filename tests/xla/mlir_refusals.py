#!/usr/bin/env python3
"""Compares what `hilo check` refuses with what a folder of MLIR tests says should be refused.

  mlir_refusals.py DIR [--hilo BIN] [--show N] [--only NAME]

The files (*.mlir, also in chlo/) hold sections, separated by lines `// -----`. A comment
`expected-error` in a section names an error at its line, or at another: @+1, @-2, @below, @above.
Sections without one must be accepted; of the others an error must stand at each of those lines.
Errors of the reader count like those of the verifier; errors that a tool of StableHLO's own gives
(hlo_test_*) or a pass (in chlo/) are left out. Exits with 77 when the folder is not there, with 1
when fewer than --accept or --refuse of a hundred are right.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXPECTED = re.compile(r"expected-error(?:-re)?\s*(?:@\s*([+-]?\d+|below|above))?\s*(?:\d+|\+|\*)?\s*\{\{")


def sections(text):
    """(first line, text) of each section."""
    line, start, out, found = 1, 1, [], []
    for one in text.split("\n"):
        if one.strip().startswith("// -----"):
            out.append((start, "\n".join(found)))
            found, start = [], line + 1
        else:
            found.append(one)
        line += 1
    out.append((start, "\n".join(found)))
    return [(at, body) for at, body in out if re.sub(r"//[^\n]*", "", body).strip()]


def expected(body):
    """Line numbers in the section (from 1) at which an error is expected."""
    lines = body.split("\n")
    want = set()
    for number, text in enumerate(lines, 1):
        for match in EXPECTED.finditer(text):
            where = match.group(1) or "+0"
            if where in ("below", "above"):
                step = 1 if where == "below" else -1
                at = number + step
                while step > 0 and at <= len(lines) and lines[at - 1].strip().startswith("//"):
                    at += 1
            else:
                at = number + int(where)
            want.add(at)
    return want


def check(hilo, folder):
    """Lines of errors by file, as `hilo check --json` gives them."""
    names = sorted(str(path) for path in pathlib.Path(folder).glob("*.mlir"))
    found = {}
    for k in range(0, len(names), 200):
        done = subprocess.run([hilo, "check", "--json"] + names[k:k + 200], capture_output=True, text=True)
        if done.returncode < 0:
            print("hilo died of signal", -done.returncode)
        for one in json.loads(done.stdout or "[]"):
            said = one["diagnostics"] + [d for module in one["modules"] for d in module["diagnostics"]]
            errors = [(d["line"], d["text"]) for d in said if d["severity"] == "error"]
            before = found.setdefault(one["file"], [])
            before.extend(errors if errors or one["valid"] else [(0, "?")])
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--hilo", default=os.environ.get("HILO", "build/hilo"))
    parser.add_argument("--show", type=int, default=0, help="print so many of what is wrong")
    parser.add_argument("--only", help="files whose names hold this")
    parser.add_argument("--accept", type=float, default=99.0)
    parser.add_argument("--refuse", type=float, default=95.0)
    args = parser.parse_args()
    root = pathlib.Path(args.folder)
    if not root.is_dir():
        print(f"{root} is not there: skipped")
        return 77
    files = sorted(root.glob("*.mlir")) + sorted((root / "chlo").glob("*.mlir"))
    files = [path for path in files if not args.only or args.only in path.name]
    valid = valid_right = lines = lines_right = elsewhere = 0
    shown = []
    with tempfile.TemporaryDirectory() as scratch:
        cases = []
        for path in files:
            for number, (at, body) in enumerate(sections(path.read_text())):
                name = pathlib.Path(scratch) / f"{len(cases):05}.mlir"
                name.write_text(body + "\n")
                cases.append((path, at, body, str(name)))
        found = check(args.hilo, scratch)
    for path, at, body, name in cases:
        want, got = expected(body), found.get(name, [])
        have = {line for line, _ in got}
        where = f"{path.name}:{at}"
        if not want:
            valid += 1
            valid_right += not got
            if got:
                shown.append(f"refused  {path.name}:{at + got[0][0] - 1}: {got[0][1]}")
            continue
        if "hlo_test_" in body or path.parent != root:
            continue
        for line in sorted(want):
            lines += 1
            lines_right += line in have
            elsewhere += line not in have and bool(have)
            if line not in have:
                text = f"only at {at + got[0][0] - 1}: {got[0][1]}" if got else "accepted"
                shown.append(f"expected {path.name}:{at + line - 1}: {text}")
    for one in shown[:args.show]:
        print(one)
    accepted = 100.0 * valid_right / max(valid, 1)
    refused = 100.0 * lines_right / max(lines, 1)
    print(f"{valid_right} of {valid} valid sections accepted ({accepted:.1f} %); "
          f"{lines_right} of {lines} errors at their lines ({refused:.1f} %), {elsewhere} refused elsewhere")
    return 0 if accepted >= args.accept and refused >= args.refuse else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that golden tests show every pass and every rule at work, and holding back: golden_rules.py [PROGRAM].

Of each file in tests/golden/opt and tests/golden/algsimp it repeats the `hilo opt` commands of the RUN lines,
pass by pass and module by module, with --dry --json and with --provenance: where a pass meets something, and by
which rules.

  a pass     some file runs it over a module where it finds something and over one where it finds nothing;
  a rule     the same, and what it leaves alone holds an operation that the rule looks at;
             where a table has rows of that name for several ops, it fires at each of those ops;
  of algsimp the file's name starts with the rule's: A1.hlo, A1_types.hlo.

A pass that prepares the module in the same command is run before for real. Ends with 1 and a list when something
is missing.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

root = Path(__file__).resolve().parent.parent
hilo = str(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HILO", root / "build/hilo")).resolve())
folders = [root / "tests/golden" / name for name in ("opt", "algsimp")]
instruction = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = .*?[\])}] ([a-z][a-z0-9-]*)\(", re.M)
opcode = re.compile(instruction.pattern.replace("([\\w.-]+)", "[\\w.-]+"), re.M)
# The first changes nothing as shapes are shared from the start, the others only fail.
idle = {"shape-canonicalizer", "hlo-cycle-detection", "hlo-verifier"}


def run(*args):
    """What hilo prints; None where it refuses."""
    done = subprocess.run([hilo, *args], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def split_passes(text):
    """The items of a pipeline: commas inside brackets do not separate."""
    items, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "{(") - (char in "})")
        if char == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
    return items + [text[start:]]


def commands(text):
    """The passes, options and module of each `hilo opt` in a file's RUN lines."""
    for line in re.findall(r"^(?://|#) *RUN: *(.*)$", text, re.M):
        words = shlex.split(re.sub(r"([;|&])", r" \1 ", line))
        while "hilo" in words:
            words = words[words.index("hilo") + 1:]
            end = next((k for k, word in enumerate(words) if word in (";", "|", "&")), len(words))
            options = dict(re.findall(r"^--([\w-]+)(?:=(.*))?$", "\n".join(words[:end]), re.M))
            shells = any("$" in value for value in options.values())  # what the shell fills in is not known here
            if words and words[0] == "opt" and "passes" in options and not shells:
                kept = [f"--target={options['target']}"] if "target" in options else []
                yield (split_passes(options["passes"]), kept + ["--no-verify"] * ("no-verify" in options),
                       options.get("module"))
            words = words[end:]


def modules_of(text):
    body = re.split(r"^(?://|#) *(?:OUT|ERR|EXIT):", text, flags=re.M)[0]
    return re.split(r"^(?=HloModule)", body, flags=re.M)[1:]


def met_by(item, target, path, k, module):
    """What the pass could rewrite or, in a real run, made in a file's module k: pairs of rule and op."""
    command = ("opt", f"--passes={item}", *target, f"--module={k}", str(path))
    could, did = run(*command, "--dry", "--json"), run(*command, "--provenance")
    if could is None or did is None:
        return {("refuses", "")}  # a pass that checks
    met = {(rewrite["rule"], op) for file in json.loads(could) for one in file["modules"]
           for rewrite in one["rewrites"] for op in opcode.findall(rewrite["before"]) or [""]}
    ops = dict(instruction.findall(module))
    made = re.findall(r"^.*: .* (\S+) from (\S+) in \S+$", did, re.M)
    return met | {(rule, ops.get(name, "")) for rule, name in made}


def runs_of(path):
    """One row for each pass and module that a file's commands run: (pass, what it met, the module's ops)."""
    text = path.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for items, target, only in commands(text):
            source = path
            for k, item in enumerate(items):
                if k > 0:
                    before, source = source, Path(folder, f"{k}.hlo")
                    source.write_text(run("opt", f"--passes={items[k - 1]}", *target, str(before)) or "")
                name = re.match(r"\s*([\w-]+)", item)
                if not name:
                    break  # the shell makes the list
                modules = modules_of(source.read_text())
                for at, module in enumerate(modules):
                    if only in (None, str(at), re.match(r"HloModule ([^\s,]+)", module)[1]):
                        met = met_by(item, target, source, at, module)
                        yield name[1], met, set(opcode.findall(module))


def serves(path, rule):
    """Whether a file may hold the tests of this rule."""
    return rule["pass"] != "algsimp" or re.split(r"[._-]", path.name)[0] == rule["rule"]


def missing(files):
    passes = [row["name"] for row in json.loads(run("opt", "--list-passes", "--json"))
              if row["kind"] == "pass" and not row["meaning"].startswith("nothing: ")]  # but for places
    rules = json.loads(run("opt", "--list-rules", "--json"))
    runs = defaultdict(list)
    for path, rows in files.items():
        for name, met, ops in rows:
            runs[name].append((path, met, ops))
    for name in passes:
        if name not in idle and not any(met for _, met, _ in runs[name]):
            yield f"pass {name}: no test where it does something"
        if all(met for _, met, _ in runs[name]):
            yield f"pass {name}: no test where it does nothing"
    names = defaultdict(set)
    for rule in rules:
        names[rule["pass"], rule["rule"]].add(rule["op"])
    for rule in {(rule["pass"], rule["rule"], rule["op"]): rule for rule in rules}.values():
        several = len(names[rule["pass"], rule["rule"]]) > 1
        mine = [(met, ops) for path, met, ops in runs[rule["pass"]] if serves(path, rule)]
        fires = [any(name == rule["rule"] and op in (rule["op"], op if not several or not rule["op"] else "")
                     for name, op in met) for met, _ in mine]
        keeps = [not fired and (not rule["op"] or not rule["when"] or rule["op"] in ops) for fired, (_, ops) in zip(fires, mine)]
        said = f"rule {rule['rule']} of {rule['pass']}{' at ' + rule['op'] if several else ''} ({rule['law']})"
        if not any(fires):
            yield f"{said}: no test where it fires"
        if not any(keeps):
            yield f"{said}: no test where it does not fire"


def main():
    if not os.access(hilo, os.X_OK):
        print(f"skipped: {hilo} is not built")
        return 77
    paths = sorted(path for folder in folders for path in folder.rglob("*.hlo"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = dict(zip(paths, pool.map(lambda path: list(runs_of(path)), paths)))
    lacking = list(missing(files))
    print("\n".join(lacking) if lacking else f"golden tests: {len(paths)} files show every pass and rule")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())

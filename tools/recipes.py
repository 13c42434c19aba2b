"""Follows the recipes of docs/hacking.md on a scratch copy of the tree, builds it and runs what results.

recipes.py SCRATCH [--update] [CMAKE OPTION...]

A fenced block whose info string names a file is a step of a recipe:

  ```c src/op/cube.c                           this file, new
  ```hlo tests/golden/run/cube.hlo             a golden file, which is run
  ```def include/hilo/ops.def after OP(ABS,    these lines, behind the first line that starts so
  ```diff src/cli/cli.h                        lines "-old" become the lines "+new" below them

Nothing else is changed: what a recipe leaves out is missing from the build. --update writes what the golden files
print into the page.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PAGE = os.path.join(ROOT, "docs", "hacking.md")


def copy_tree(to):
    """The tracked files and those not ignored; the build folder in it stays."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, text=True,
                            stdout=subprocess.PIPE).stdout.splitlines()
    for old in os.listdir(to):
        if old != "build":
            path = os.path.join(to, old)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    for name in listed:
        if os.path.exists(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(to, name))


def steps(text):
    """(recipe, kind, file, anchor, lines) of each block that is a step."""
    recipe, found, lines, k = "", [], text.split("\n"), 0
    while k < len(lines):
        if lines[k].startswith("### Recipe: "):
            recipe = lines[k][len("### Recipe: "):]
        fence = re.match(r"```(c|hlo|def|diff) (\S+)(?: after (.*))?$", lines[k])
        if lines[k].startswith("```"):
            end = lines.index("```", k + 1)
            if fence:
                found.append((recipe, fence[1], fence[2], fence[3], lines[k + 1:end]))
            k = end
        k += 1
    return found


def insert(path, anchor, new):
    lines = open(path).read().split("\n")
    at = [k for k, line in enumerate(lines) if line.startswith(anchor)]
    if not at:
        sys.exit(f"{path}: no line starts with '{anchor}'")
    lines[at[0] + 1:at[0] + 1] = new
    open(path, "w").write("\n".join(lines))


def replace(path, diff):
    text, old, new = open(path).read(), "", ""
    for line in diff:
        if line.startswith("-"):
            old += line[1:] + "\n"
        elif line.startswith("+"):
            new += line[1:] + "\n"
    if old not in text:
        sys.exit(f"{path}: no such lines:\n{old}")
    open(path, "w").write(text.replace(old, new, 1))


def follow(found, tree):
    golden = []
    for recipe, kind, name, anchor, lines in found:
        path = os.path.join(tree, name)
        if kind == "def":
            insert(path, anchor, lines)
        elif kind == "diff":
            replace(path, lines)
        elif os.path.exists(path):
            sys.exit(f"{recipe}: {name} is there already")
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write("\n".join(lines) + "\n")
        if kind == "hlo":
            golden.append((recipe, name))
    return golden


def write_back(golden, tree):
    """The golden files, as the runner left them, into their blocks."""
    text = open(PAGE).read()
    for _, name in golden:
        start = text.index(f"```hlo {name}\n") + len(f"```hlo {name}\n")
        text = text[:start] + open(os.path.join(tree, name)).read() + text[text.index("```\n", start):]
    open(PAGE, "w").write(text)


def main():
    tree, options = os.path.realpath(sys.argv[1]), sys.argv[2:]
    update = "--update" in options
    options = [option for option in options if option != "--update"]
    os.makedirs(tree, exist_ok=True)
    copy_tree(tree)
    golden = follow(steps(open(PAGE).read()), tree)
    build = os.path.join(tree, "build")
    quiet = dict(cwd=tree, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", build, *options], **quiet)
        subprocess.run(["ninja", "-C", build, "hilo", "tests_run"], **quiet)
    except subprocess.CalledProcessError as error:
        sys.exit("\n".join([line for line in error.stdout.split("\n") if not re.match(r"\[\d+/\d+\]|/\S*cc ", line)][-40:]))
    runner = [os.path.join(build, "tests", "run"), "--hilo", os.path.join(build, "hilo")]
    if update:
        subprocess.run([*runner, "--update", *[name for _, name in golden]], cwd=tree, stdout=subprocess.PIPE)
        write_back(golden, tree)
    failed = 0
    for recipe, name in golden:
        done = subprocess.run([*runner, name], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        passed = done.returncode == 0 and re.search(r"\b1 passed, 0 failed", done.stdout)
        print(f"{recipe}: {name}: {'passed' if passed else 'FAILED'}")
        if not passed:
            failed += 1
            print(done.stdout)
    print(f"{len(golden) - failed} passed, {failed} failed")
    return 1 if failed or len(golden) < 5 else 0


if __name__ == "__main__":
    sys.exit(main())

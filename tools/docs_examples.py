"""Runs the commands shown in README.md and docs/*.md and compares: docs_examples.py PROGRAM [--update].

In a fenced block, a line "$ command" is run by sh in a scratch folder and the lines after it are its output; other
blocks are left alone, but for those marked ```hlo NAME or ```mlir NAME, which become files of that name. The folder starts as a copy
of tests/fixtures/mlp_train, with typo.hlo, a misspelt copy of before.hlo. Times may differ, and in a report of a run on the cpu
how far off a result is and where, which follows from the width of the processor's vectors; that it is equal may not.
"""
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def run(command, folder):
    done = subprocess.run(command, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []


def on_any_machine(lines):
    lines = [re.sub(r"\d+\.\d+ (m?s)\b", r"_ \1", line.rstrip()) for line in lines]
    if any(" on the cpu, " in line for line in lines):
        lines = [re.sub(r" +largest error .*", "", line) for line in lines]
    return lines


def block(lines, folder):
    """The lines of a block as they should be."""
    result = []
    for line in lines:
        if line.startswith("$ "):
            result += [""] if result else []
            result.append(line)
            result += run(line[2:], folder)
    return result


def page(text, folder):
    lines, result, k = text.split("\n"), [], 0
    while k < len(lines):
        result.append(lines[k])
        if lines[k].startswith("```"):
            end = lines.index("```", k + 1)
            inside = lines[k + 1:end]
            name = re.match(r"```(?:hlo|mlir) ([^/\s]+)$", lines[k])
            if name:
                with open(os.path.join(folder, name[1]), "w") as f:
                    f.write("\n".join(inside) + "\n")
            shown = block(inside, folder) if inside and inside[0].startswith("$ hilo") else inside
            result += inside if on_any_machine(shown) == on_any_machine(inside) else shown
            result.append("```")
            k = end
        k += 1
    return "\n".join(result)


def main():
    program = os.path.realpath(sys.argv[1])
    os.chdir(ROOT)
    bad = False
    names = ["README.md", *sorted("docs/" + n for n in os.listdir("docs") if n.endswith(".md"))]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            work = os.path.join(folder, "work")
            shutil.copytree("tests/fixtures/mlp_train", work)
            os.symlink(program, os.path.join(folder, "hilo"))
            os.environ["PATH"] = folder + ":" + os.environ["PATH"]
            with open("tests/fixtures/mlp_train/before.hlo") as f, open(os.path.join(work, "typo.hlo"), "w") as to:
                to.write(f.read().replace(" tanh(", " tahn("))
            with open(name) as f:
                text = f.read()
            fresh = page(text, work)
        if fresh == text:
            continue
        if "--update" in sys.argv:
            with open(name, "w") as f:
                f.write(fresh)
            continue
        bad = True
        print("\n".join(difflib.unified_diff(text.split("\n"), fresh.split("\n"), name, "what is printed", lineterm="")))
    print("docs: an example is stale: tools/docs_examples.py PROGRAM --update" if bad else "docs: the examples are true")
    return bad


sys.exit(main())

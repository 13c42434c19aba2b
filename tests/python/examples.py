"""Runs what docs/examples.md shows and compares: examples.py NAME, or examples.py --update to write it anew.

    ```
    $ JAX_NUM_CPU_DEVICES=8 python examples/roberta_pmap.py        a command, without JAX_PLATFORMS=hilo
    6,980 parameters ...                                           what it prints
    ```

Numbers with a point and percentages may be a little off: sums follow the width of the processor's vectors. The notebook is
executed; its pictures are counted. Ends with 77 where a library that the example imports is not installed.
"""
# needs jax
import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "examples.md"
BLOCK = re.compile(r"(?<=```\n)\$ (.*python examples/(\w+)\.py.*)\n((?:.*\n)*?)(?=```)")
# What a model writes after its training may turn on the last bit of a sum.
FREE = {"lm_train": "after ", "ppo_fusion": "ppo"}


def environment(words=()):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    env.update(word.split("=", 1) for word in words)
    return {"JAX_PLATFORMS": "hilo", **env}


def missing(path):
    names = set(re.findall(r"^(?:import|from) ([a-z]\w*)", path.read_text(encoding="utf-8"), re.M))
    return sorted(n for n in names if importlib.util.find_spec(n) is None)


def run(command):
    words = shlex.split(command)
    at = words.index("python")
    done = subprocess.run([sys.executable, *words[at + 1:]], cwd=ROOT, env=environment(words[:at]), check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


NUMBER = re.compile(r"\d+\.\d+(?:e[-+]\d+)?|\d+(?=%)")


def is_near(a, b):
    return abs(a - b) <= 0.02 + 0.02 * abs(b)


def lines_differ(name, found, shown):
    if name in FREE and found.startswith(FREE[name]) and shown.startswith(FREE[name]):
        return False
    numbers = [[float(v) for v in NUMBER.findall(line)] for line in (found, shown)]
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", shown).split():
        return True
    by = 5 if "%" in shown else 1
    return not all(is_near(a / by, b / by) for a, b in zip(*numbers))


def compare(name, command, found, shown):
    found, shown = found.rstrip("\n").split("\n"), shown.rstrip("\n").split("\n")
    wrong = [(k, f, s) for k, (f, s) in enumerate(zip(found, shown)) if lines_differ(name, f, s)]
    for k, f, s in wrong[:5]:
        print(f"{command}: line {k + 1}\n  shown {s}\n  found {f}")
    if len(found) != len(shown):
        print(f"{command}: {len(found)} lines, {len(shown)} are shown")
    return not wrong and len(found) == len(shown)


def run_notebook():
    wanted = [n for n in ("nbclient", "nbformat", "ipykernel", "jax") if importlib.util.find_spec(n) is None]
    if wanted:
        return skip("notebook", wanted)
    import nbclient
    import nbformat
    os.environ.update(environment())
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", 4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    pictures = [o for o in outputs if "<svg" in (o.get("data") or {}).get("image/svg+xml", "")]
    text = "".join(o.get("text", "") for o in outputs)
    print(f"{len(pictures)} pictures; {text}")
    expected = ["loss 0.0", "kLoop", "jit_step.before_optimizations.txt", "jit_step.cpu_after_optimizations.txt"]
    return 0 if len(pictures) == 2 and all(word in text for word in expected) else 1


def skip(name, libraries):
    print(f"skipped: {name} needs {', '.join(libraries)} (make venv)")
    return 77


def run_example(name):
    libraries = missing(ROOT / "examples" / f"{name}.py")
    if libraries:
        return skip(name, libraries)
    blocks = [m.groups() for m in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if m[2] == name]
    if not blocks:
        sys.exit(f"docs/examples.md does not show {name}")
    return 0 if all([compare(name, command, run(command), shown) for command, _, shown in blocks]) else 1


def update():
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda m: f"$ {m[1]}\n{run(m[1])}", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(update() if words == ["--update"] else run_notebook() if words == ["notebook"] else run_example(words[0]))

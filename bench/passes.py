"""hilo's cpu pipeline beside XLA:CPU's whole compile of the same modules, one after another.

  passes.py [--hilo PROGRAM] [--tools DIR] [--json] [--timeout SECONDS] [FILE.hlo...]

Hilo's time is that of the whole process (read, all passes, print) and of the passes alone; XLA's is its compile, LLVM
included (`xla_oracle.py compile`), each module in a process of its own. Modules that XLA:CPU does not compile are
named. By default all of HILO_CORPUS/models up to 4 MB.
"""
import argparse
import glob
import json
import math
import os
import re
import subprocess
import sys
import time

TOTAL = re.compile(r"(\d+) steps, ([\d.]+) ms")


def hilo_ms(hilo, path):
    """(process, passes) in ms, the best of three; None after a failure."""
    best = None
    for _ in range(3):
        start = time.perf_counter()
        p = subprocess.run([hilo, "opt", path, "--pipeline=cpu", "--stats", "-o", os.devnull], capture_output=True, text=True)
        wall = (time.perf_counter() - start) * 1e3
        if p.returncode != 0:
            return None
        passes = float(TOTAL.search(p.stderr).group(2))
        best = min(best or (wall, passes), (wall, passes))
    return best


def xla_ms(tool, path, timeout):
    try:
        p = subprocess.run([sys.executable, tool, "compile", path], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, f"more than {timeout:.0f} s"
    for line in p.stdout.splitlines():
        answer = json.loads(line)
        return answer.get("compile_ms"), answer.get("error")
    return None, "crash"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(here)
    corpus = os.environ.get("HILO_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hilo", default=os.environ.get("HILO", os.path.join(root, "build", "hilo")))
    p.add_argument("--tools", default=os.path.join(corpus, "..", "tools"))
    p.add_argument("--json", action="store_true")
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("files", nargs="*")
    a = p.parse_args()
    files = a.files or [f for f in sorted(glob.glob(corpus + "/models/*.hlo")) if os.path.getsize(f) <= 4 << 20]
    rows = []
    for f in sorted(files, key=os.path.getsize):
        ours = hilo_ms(a.hilo, f)
        theirs, why = xla_ms(os.path.join(a.tools, "xla_oracle.py"), f, a.timeout)
        row = dict(file=os.path.basename(f), bytes=os.path.getsize(f), xla_ms=theirs, why=why)
        if ours:
            row.update(process_ms=round(ours[0], 1), passes_ms=round(ours[1], 1))
        if ours and theirs:
            row.update(ratio=round(theirs / ours[0], 1))
        rows.append(row)
        print(json.dumps(row) if a.json else
              f"{row['file'][:44]:44} hilo {row.get('process_ms', '-'):>8} ms ({row.get('passes_ms', '-')})   "
              f"XLA {theirs or '-':>9} ms   {row.get('ratio', why or '')}", flush=True)
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(json.dumps(dict(geometric_mean=round(mean, 1), modules=len(ratios))) if a.json else
              f"geometric mean of {len(ratios)}: {mean:.1f}x, the least {min(ratios)}x")


main()

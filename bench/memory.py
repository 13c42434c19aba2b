"""The memory of what hilo's cpu pipeline makes of a module, beside that of XLA:CPU's compile: both reports' total.

  memory.py [--hilo PROGRAM] [--tools DIR] [--json] [--timeout SECONDS] [FILE.hlo...]

By default all of HILO_CORPUS/models up to 4 MB that are for one device: the tool that compiles with XLA does not
partition, the pipeline does.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

TOTAL = re.compile(r"^Total bytes: (\d+)", re.M)


def reported(dump):
    """The largest total among the reports of a dump: that of the module, not of what was compiled on the way."""
    totals = [0]
    for path in glob.glob(dump + "/*memory-usage-report.txt"):
        with open(path) as f:
            totals += map(int, TOTAL.findall(f.read()))
    return max(totals)


def hilo_bytes(hilo, path):
    with tempfile.TemporaryDirectory() as dump:
        flags = ["--xla_dump_to=" + dump, "--xla_dump_hlo_as_text"]
        subprocess.run([hilo, "opt", path, "--pipeline=cpu", "--default-layouts", "-o", os.devnull] + flags,
                       capture_output=True)
        return reported(dump)


def xla_bytes(tool, path, timeout):
    with tempfile.TemporaryDirectory() as dump:
        env = dict(os.environ, XLA_FLAGS=f"--xla_dump_to={dump} --xla_dump_hlo_as_text")
        try:
            subprocess.run([sys.executable, tool, "compile", path], capture_output=True, timeout=timeout, env=env)
        except subprocess.TimeoutExpired:
            pass
        return reported(dump)


def for_one_device(path):
    with open(path) as f:
        header = f.readline()
    return "num_partitions=" not in header


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    corpus = os.environ.get("HILO_CORPUS", os.path.join(root, "..", "shared", "corpus"))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hilo", default=os.environ.get("HILO", os.path.join(root, "build", "hilo")))
    p.add_argument("--tools", default=os.path.join(corpus, "..", "tools"))
    p.add_argument("--json", action="store_true")
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("files", nargs="*")
    a = p.parse_args()
    files = a.files or [f for f in sorted(glob.glob(corpus + "/models/*.hlo"), key=os.path.getsize)
                        if os.path.getsize(f) <= 4 << 20 and for_one_device(f)]
    for f in files:
        ours, theirs = hilo_bytes(a.hilo, f), xla_bytes(os.path.join(a.tools, "xla_oracle.py"), f, a.timeout)
        row = dict(file=os.path.basename(f), bytes=ours, xla_bytes=theirs, ratio=theirs and round(ours / theirs, 4))
        print(json.dumps(row) if a.json else
              f"{row['file'][:50]:50} hilo {ours:>15}   XLA {theirs:>15}   {row['ratio'] or 'no report'}", flush=True)


main()

"""Writes programs as portable artifacts and as protos with hilo, and has the XLA inside jaxlib read them.

  compare_artifacts.py [FILE_OR_FOLDER ...] [--every N] [--jobs N] [--verbose]

Every program that hilo reads is written as an artifact of the default version and of the newest that jaxlib knows, and as an
HloModuleProto; jaxlib must read and verify each. What hilo says a form cannot hold (its exit status is not 0) is counted.
Without files: every 20th of the corpora (HILO_CORPUS), all of them with --every 1. jaxlib is that of the Python which
HILO_NEWEST_PYTHON names (the newest release there is, say), else of the one that runs this; programs that only later
releases of XLA know are left out for older ones.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import oracle

ENDINGS = (".hlo", ".pb", ".mlir", ".mlirbc", ".bc", ".jaxpr", ".txt", ".hlo.zst", ".jax_export")
REPORTS = ("buffer-assignment", "memory-usage-report", "live-range", "thunk_sequence", "debug_options", "autotune")
NEWER = "newest" + os.sep                        # made by XLA 0.11


# ---- the worker: reads what it is told the paths of, in a process that XLA may abort

def worker():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from jax._src.interpreters import mlir
    from jaxlib import _hlo, version
    from jaxlib.mlir.dialects import stablehlo
    print(version.__version__, stablehlo.get_current_version(), flush=True)
    for line in sys.stdin:
        kind, path = line.rstrip("\n").split(" ", 1)
        try:
            with open(path, "rb") as f:
                data = f.read()
            if kind == "proto":
                module = _hlo.HloModule.from_serialized_hlo_module_proto(data)
                assert module.to_string()
            else:
                with mlir.make_ir_context() as context:
                    module = stablehlo.deserialize_portable_artifact(context, data)
                    assert module.operation.verify()
            print("ok", flush=True)
        except Exception as e:
            print("error", " ".join(str(e).split())[:300], flush=True)


class Reader:
    """A worker, and another one where XLA has aborted it."""

    def __init__(self):
        self.start()

    def start(self):
        python = os.environ.get("HILO_NEWEST_PYTHON", sys.executable)
        self.process = subprocess.Popen([python, os.path.abspath(__file__), "--worker"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        hello = self.process.stdout.readline().split()
        if len(hello) != 2:
            oracle.skip(f"{python} has no jaxlib that answers")
        self.release, self.newest = hello

    def read(self, kind, path):
        try:
            self.process.stdin.write(f"{kind} {path}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.start()
        return answer or "crash"


# ---- programs

def programs(folder):
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(ENDINGS) and not any(word in name for word in REPORTS):
                yield os.path.join(path, name)


def chosen(args):
    if args.files:
        return [p for f in args.files for p in (programs(f) if os.path.isdir(f) else [f])]
    return list(programs(oracle.corpus()))[::args.every]


def write(hilo, path, form, out):
    """hilo's exit status, and its first error."""
    try:
        done = subprocess.run([hilo, "convert", path, f"--to={form}", "-o", out], capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        return 6, "timeout"
    said = done.stderr.decode(errors="replace").splitlines()
    return done.returncode, next((line for line in said if "error:" in line), "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if not os.environ.get("HILO_NEWEST_PYTHON"):
        oracle.need_jax()
    hilo, reader = oracle.hilo(), Reader()
    files = chosen(args)
    is_old = tuple(int(n) for n in reader.release.split(".")[:2]) < (0, 11)
    files = [f for f in files if not (is_old and NEWER in f)]
    forms = {"mlirbc": "artifact", f"mlirbc={reader.newest}": "artifact", "proto": "proto"}
    count = dict.fromkeys(["read", "not written", "failed"], 0)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        jobs = []
        for k, path in enumerate(files):
            for i, form in enumerate(forms):
                out = os.path.join(folder, f"{k}.{i}")
                jobs.append((path, form, out, pool.submit(write, hilo, path, form, out)))
        for path, form, out, job in jobs:
            status, error = job.result()
            answer = "not written" if status else reader.read(forms[form], out)
            if status < 0:
                answer = f"crash of hilo, signal {-status}"
            kind = {"ok": "read", "not written": "not written"}.get(answer, "failed")
            count[kind] += 1
            if kind == "failed" or (args.verbose and kind != "read"):
                print(f"{path} --to={form}: {answer} {error}", flush=True)
            if os.path.exists(out):
                os.unlink(out)
    print(f"jaxlib {reader.release}, StableHLO {reader.newest}: {len(files)} files, " +
          ", ".join(f"{n} {kind}" for kind, n in count.items()))
    sys.exit(count["failed"] > 0 or count["read"] == 0)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker()
    else:
        main()

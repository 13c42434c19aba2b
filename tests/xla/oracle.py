"""Asks XLA, the one inside jaxlib, about HLO modules, and outlives its crashes.

XLA aborts the process on some inputs, so every question goes to a worker process that reads requests from
stdin and writes answers to files; one that dies answers "crash" for its request and is replaced.

  oracle.py IN... [--want print,proto] [--cache DIR]      prints XLA's answers

Answers lie in CACHE/HH/HASH/ by the file's content; status.json says what was accepted.
Needs jax==0.10.2 and jaxlib==0.10.2 (texts differ between releases).
"""
import argparse
import glob as globs
import hashlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading

SKIP = 77
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SUFFIX = dict(proto=".pb")                       # the other answers are text
PRESETS = ("short", "canonical", "fingerprint")
TEXT_WANTS = ("print", "proto", "roundtrip") + PRESETS


def skip(why):
    print("skipped:", why)
    sys.exit(SKIP)


def need_jax():
    import importlib.util
    if importlib.util.find_spec("jaxlib") is None:
        skip("no jaxlib: pip install jax==0.10.2 jaxlib==0.10.2 numpy")


def hilo():
    p = os.environ.get("HILO", os.path.join(ROOT, "build", "hilo"))
    if not os.access(p, os.X_OK):
        sys.exit(f"no hilo program at {p}: build it, or set HILO")
    return os.path.abspath(p)


def corpus():
    d = os.environ.get("HILO_CORPUS", os.path.join(ROOT, "..", "shared", "corpus"))
    if not os.path.isdir(d):
        skip(f"no corpus at {d}: set HILO_CORPUS")
    return os.path.realpath(d)


def is_hlo_text(path):
    """Whether the file holds HLO text: its first token is HloModule."""
    with open(path, "rb") as f:
        head = f.read(4096)
    while True:
        head = head.lstrip()
        if head.startswith(b"//"):
            head = head.partition(b"\n")[2]
        elif head.startswith(b"/*"):
            head = head.partition(b"*/")[2]
        else:
            return head.startswith(b"HloModule")


def corpus_modules(root, pattern=None):
    """HLO texts and module protos of the corpus; snapshots of jax_tests are not among them."""
    out = []
    for top in ("dumps", "hloenv", "jax", "models", "paragraph", "roberta"):
        for d, _, names in os.walk(os.path.join(root, top)):
            for n in names:
                p = os.path.join(d, n)
                if n.endswith((".hlo", ".txt")) and is_hlo_text(p) or n.endswith(".hlo.pb"):
                    out.append(p)
    return sorted(choose(out, root, pattern), key=os.path.getsize)


def choose(files, root, pattern):
    import fnmatch
    if not pattern:
        return files
    return [f for f in files if fnmatch.fnmatch(os.path.relpath(f, root), pattern)
            or fnmatch.fnmatch(os.path.basename(f), pattern) or f in globs.glob(pattern)]


def release():
    """How hilo's --xla names the release of XLA that is asked here."""
    import importlib.metadata
    return ".".join(importlib.metadata.version("jaxlib").split(".")[:2])


def release_of(python):
    """The same of the XLA of another Python; None: it has none."""
    ask = "import importlib.metadata as m; print('.'.join(m.version('jaxlib').split('.')[:2]))"
    r = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else None


def has_file(python, name):
    """Whether another Python has this file among its packages."""
    ask = f"import os, sys; sys.exit(not any(os.path.exists(os.path.join(p, {name!r})) for p in sys.path))"
    return subprocess.run([python, "-c", ask]).returncode == 0


def run_hilo(args, timeout=120, xla=None):
    """(exit status, stdout, stderr); a status of None is a time-out, one below 0 a crash. HLO comes as `xla`, by default
    the XLA that is asked here, writes it; "": as it was read."""
    xla = release() if xla is None else xla
    if xla and args[0] in ("convert", "opt"):
        args = [args[0], "--xla=" + xla, *args[1:]]
    p = subprocess.Popen([hilo(), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         start_new_session=True)
    try:
        out, err = p.communicate(timeout=timeout)
        return p.returncode, out, err.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return None, b"", f"more than {timeout} s"


def status_text(rc, err):
    what = "time-out" if rc is None else f"CRASH, signal {-rc}" if rc < 0 else f"exit {rc}"
    lines = [x for x in err.strip().splitlines() if x.strip()]
    return what + (": " + " | ".join(lines[:3])[:400] if lines else "")


def without_fill(xla, hilo_line):
    """Whether the lines differ only in an elided constant, which XLA fills with numbers from a global counter."""
    head, mark, tail = hilo_line.partition(b"constant({...})")
    return bool(mark) and xla.startswith(head + b"constant(") and xla.endswith(b")" + tail)


def difference(want, got):
    """None if equal, else the first line that differs, told in words."""
    if want == got:
        return None
    w, g = want.split(b"\n"), got.split(b"\n")
    for i, (a, b) in enumerate(zip(w, g)):
        if a != b and not without_fill(a, b):
            break
    else:
        if len(w) == len(g):
            return None
        i = min(len(w), len(g))
        a, b = (w[i] if i < len(w) else b"<end>"), (g[i] if i < len(g) else b"<end>")
    k = next((j for j, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    cut = max(0, k - 100)
    show = lambda s: ("..." if cut else "") + s[cut:cut + 240].decode(errors="replace")
    return f"line {i + 1}, column {k + 1}\n    XLA:  {show(a)}\n    hilo: {show(b)}"


class Tally:
    """Counts, and prints what failed."""

    def __init__(self, verbose=False):
        self.passed = self.failed = self.skipped = 0
        self.verbose = verbose

    def ok(self, name):
        self.passed += 1
        if self.verbose:
            print("ok  ", name, flush=True)

    def fail(self, name, why):
        self.failed += 1
        print(f"FAIL {name}: {why}", flush=True)

    def skip(self, name, why):
        self.skipped += 1
        if self.verbose:
            print(f"skip {name}: {why}", flush=True)

    def end(self, least, a):
        """Ends the test: `least` comparisons must have passed, one where the options `a` choose files."""
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""))
        if self.passed < (1 if a.files or a.limit else least):
            print(f"too few: {least} are expected to pass where nothing is chosen")
            sys.exit(1)
        sys.exit(1 if self.failed else 0)


def options(doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--files", metavar="GLOB", help="only corpus files whose path or name matches")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--limit", type=int, help="at most so many inputs, spread over all")
    p.add_argument("-v", "--verbose", action="store_true")
    return p


def spread(items, limit):
    return items[::max(1, -(-len(items) // limit))] if limit else items


# ---- the worker

def first_field(raw):
    assert raw[:1] == b"\x0a", "neither HloModuleProto nor HloProto"
    n = shift = 0
    i = 1
    while True:
        b = raw[i]
        i += 1
        n |= (b & 127) << shift
        shift += 7
        if b < 128:
            return raw[i:i + n]


def load(raw, kind):
    from jaxlib import _hlo
    if kind == "text":
        return _hlo.hlo_module_from_text(raw.decode("utf-8", "surrogateescape"))
    for _ in range(3):                           # a module, an HloProto around one, a snapshot around that
        try:
            return _hlo.HloModule.from_serialized_hlo_module_proto(raw)
        except Exception as e:
            error = e
            try:
                raw = first_field(raw)
            except Exception:
                break
    raise error


def compiled(m):
    """XLA:CPU's result: the whole way through StableHLO, verifier and passes."""
    import jax
    from jax._src.lib import xla_client as xc
    from jaxlib import _hlo, _jax
    mlir = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(m.as_serialized_hlo_module_proto()))
    device = jax.local_devices()[0]
    exe = device.client.compile_and_load(mlir, _jax.DeviceList((device,)), xc.CompileOptions())
    return exe.hlo_modules()[0].to_string()


def mlir_text(path):
    """MLIR, text or bytecode, as jaxlib's own printer writes it. The context is a fresh one: jax 0.11 gives the same one several
    times, and in it a resource that an earlier file named, `__elided__` too, is printed with a number behind its name."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    make_context = getattr(mlir, "_create_ir_context", mlir.make_ir_context)
    with open(path, "rb") as f, make_context():
        return str(ir.Module.parse(f.read()))


def answer(req):
    from jaxlib import _hlo
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if req["kind"] == "mlir":
        with open(os.path.join(req["out"], "print.txt"), "w") as f:
            f.write(mlir_text(req["file"]))
        return {}
    with open(req["file"], "rb") as f:
        m = load(f.read(), req["kind"])
    make = dict(
        print=lambda: m.to_string(),
        proto=lambda: m.as_serialized_hlo_module_proto(),
        roundtrip=lambda: _hlo.HloModule.from_serialized_hlo_module_proto(m.as_serialized_hlo_module_proto()).to_string(),
        short=lambda: m.to_string(_hlo.HloPrintOptions.short_parsable()),
        canonical=lambda: m.to_string(_hlo.HloPrintOptions.canonical()),
        fingerprint=lambda: m.to_string(_hlo.HloPrintOptions.fingerprint()),
        compile=lambda: compiled(m))
    for what in req["want"]:
        s = make[what]()
        with open(os.path.join(req["out"], what + SUFFIX.get(what, ".txt")), "wb") as f:
            f.write(s if isinstance(s, bytes) else s.encode("utf-8", "surrogateescape"))
    return {}


def worker():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for line in sys.stdin:
        try:
            r = answer(json.loads(line))
        except Exception as e:
            r = dict(error=f"{type(e).__name__}: {e}")
        print(json.dumps(r), flush=True)


# ---- the caller's side

class Worker:
    def __init__(self, python=sys.executable, script=os.path.abspath(__file__)):
        self.p, self.python, self.script, self.env = None, python, script, None

    def start(self):
        self.err = tempfile.TemporaryFile()
        self.p = subprocess.Popen([self.python, self.script, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=self.err, text=True, start_new_session=True, env=self.env)

    def stop(self):
        if self.p:
            try:
                os.killpg(self.p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.p.wait()
            self.p = None

    def ask(self, req, timeout):
        if not self.p or self.p.poll() is not None:
            self.start()
        mark = self.err.seek(0, 2)
        try:
            self.p.stdin.write(json.dumps(req) + "\n")
            self.p.stdin.flush()
            if not select.select([self.p.stdout], [], [], timeout)[0]:
                self.stop()
                return dict(error=f"timeout: more than {timeout} s", crash=True)
            line = self.p.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        rc = self.p.wait()
        self.err.seek(mark)
        text = self.err.read().decode(errors="replace")
        fatal = [x for x in text.splitlines() if x.startswith("F") or "Check failed" in x]
        self.p = None
        return dict(error="crash: " + (fatal[0] if fatal else f"status {rc}; {text[-300:]}"), crash=True)


class Oracle:
    """ask(file, kind, want) gives {ok, error, crash?, <what>: path}; thread-safe, `jobs` workers."""

    def __init__(self, jobs=2, cache=None, timeout=300, python=sys.executable):
        self.temp = None if cache else tempfile.TemporaryDirectory(prefix="hilo-oracle-")
        self.dir = cache or self.temp.name
        self.timeout = timeout
        self.free = queue.Queue()
        for _ in range(jobs):
            self.free.put(Worker(python))
        self.jobs = jobs
        self.locks = [threading.Lock() for _ in range(64)]

    def ask(self, file, kind="text", want=("print",)):
        with open(file, "rb") as f:
            h = hashlib.sha256(kind.encode() + f.read()).hexdigest()
        with self.locks[int(h[:8], 16) % len(self.locks)]:      # the same content may be asked for twice at once
            return self.ask_once(file, kind, want, h)

    def ask_once(self, file, kind, want, h):
        out = os.path.join(self.dir, h[:2], h[2:])
        os.makedirs(out, exist_ok=True)
        status = os.path.join(out, "status.json")
        known = {}
        if os.path.exists(status):
            with open(status) as f:
                known = json.load(f)
        missing = [w for w in want if w not in known]
        if missing:
            w = self.free.get()
            try:
                r = w.ask(dict(file=os.path.abspath(file), kind=kind, want=missing, out=out), self.timeout)
                if "error" in r and len(missing) > 1:      # one thing may fail where the others do not
                    for one in missing:
                        known[one] = w.ask(dict(file=os.path.abspath(file), kind=kind, want=[one], out=out), self.timeout)
                else:
                    known.update((one, r) for one in missing)
            finally:
                self.free.put(w)
            with open(status + ".tmp%d" % threading.get_ident(), "w") as f:
                json.dump(known, f)
            os.replace(f.name, status)
        r = dict(ok=True, error=None, crash=False)
        for w in want:
            if "error" in known[w]:
                r.update(error=r["error"] or known[w]["error"], ok=False, crash=known[w].get("crash", False))
                r[w] = None
            else:
                r[w] = os.path.join(out, w + SUFFIX.get(w, ".txt"))
        return r

    def close(self):
        while not self.free.empty():
            self.free.get().stop()


def each(fn, items, jobs):
    """fn over items by `jobs` threads; yields (item, result) as they come."""
    from concurrent.futures import ThreadPoolExecutor, as_completed
    with ThreadPoolExecutor(jobs) as pool:
        todo = {pool.submit(fn, x): x for x in items}
        for f in as_completed(todo):
            yield todo[f], f.result()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="+")
    p.add_argument("--want", default="print")
    p.add_argument("--cache")
    a = p.parse_args()
    need_jax()
    o = Oracle(1, a.cache)
    bad = 0
    for f in a.files:
        r = o.ask(f, "proto" if f.endswith(".pb") else "text", a.want.split(","))
        for w in a.want.split(","):
            if r[w]:
                with open(r[w], "rb") as g:
                    sys.stdout.buffer.write(g.read())
        if not r["ok"]:
            bad = 1
            print(f"{f}: {r['error']}", file=sys.stderr)
        sys.stdout.flush()
    o.close()
    sys.exit(bad)


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["--worker"] else main()

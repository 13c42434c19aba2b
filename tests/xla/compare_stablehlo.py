"""Writes HLO programs as StableHLO with hilo and asks XLA, the one inside jaxlib, what it makes of them.

  compare_stablehlo.py [FILE_OR_FOLDER ...] [--files GLOB] [--accept] [--to stablehlo] [--timeout S]

The text that `hilo convert --to stablehlo` writes must parse and verify in jaxlib. Programs of jax/* are compiled by
XLA:CPU and run on args.npz: the results must be those of results.npz within the tolerance of meta.json. Any other
program of one device is run on random arguments beside XLA's own import of the same module; where XLA:CPU cannot
run it, or with --accept, XLA must accept it as HLO, with zeros for elided constants. What hilo says StableHLO cannot
express (exit status 4) is skipped, and so is what XLA rejects in its own import too. Without files: the corpus.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import oracle
from compare_run import differs

BIG = 300_000                                    # bytes of HLO beyond which nothing is run
ELEMENTS = 1 << 22                               # of all arguments


# ---- the worker: answers requests {mlir, module, kind, args, results, accept} in a process that XLA may abort

class Xla:
    def __init__(self):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import jax
        jax.config.update("jax_enable_x64", True)
        from jax._src.interpreters import mlir
        from jaxlib import _hlo, _jax, xla_client
        from jaxlib.mlir import ir
        try:
            from jaxlib import lapack            # XLA:CPU's custom calls want it set up
            lapack._lapack.initialize()
        except Exception:
            pass
        self.jax, self.hlo, self.jaxlib, self.ir = jax, _hlo, _jax, ir
        self.context = mlir.make_ir_context
        self.client = jax.devices()[0].client
        self.options = xla_client.CompileOptions()
        self.devices = _jax.DeviceList(tuple(self.client.devices()[:1]))

    def numpy_type(self, text):
        import ml_dtypes
        import numpy as np
        name = {"i1": "bool", "bf16": "bfloat16", "complex<f32>": "complex64", "complex<f64>": "complex128"}.get(text)
        if not name and re.fullmatch(r"f\d+", text):
            name = "float" + text[1:]
        elif not name and text[0] == "f":            # f8E4M3FN is float8_e4m3fn
            name = re.sub(r"^f(\d+)", r"float\1_", text).lower()
        elif not name:
            name = text.replace("ui", "uint") if text[0] == "u" else text.replace("i", "int")
        return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)

    def argument_types(self, module):
        main = next(op for op in module.body.operations if str(op.name).strip('"') == "main")
        types = main.type.inputs
        return [(self.numpy_type(str(t.element_type)), tuple(t.shape)) for t in map(self.ir.RankedTensorType, types)]

    def random(self, types):
        import numpy as np
        rng = np.random.default_rng(7)
        out = []
        if sum(np.prod(shape, dtype=float) for _, shape in types) > ELEMENTS:
            raise ValueError("arguments too big")
        for dtype, shape in types:
            if dtype.kind in "iu":
                out.append(rng.integers(0, 5, shape).astype(dtype))
            elif dtype.kind == "b":
                out.append(rng.integers(0, 2, shape).astype(bool))
            else:
                out.append(rng.normal(size=shape).astype(dtype))
        return out

    def run(self, module, args):
        import numpy as np
        exe = self.client.compile_and_load(module, self.devices, self.options)
        args = [self.jax.device_put(a, self.client.devices()[0]) for a in args]
        out = exe.execute_sharded(args).disassemble_into_single_device_arrays()
        return [np.asarray(x[0]) for x in out]

    def load(self, path):
        with open(path, "rb") as f:
            return oracle.load(f.read(), "proto" if path.endswith(".pb") else "text")

    def compare(self, got, want, tolerance):
        if len(got) != len(want):
            return f"{len(got)} results, expected {len(want)}"
        for k, (a, b) in enumerate(zip(got, want)):
            why = differs(a, b, tolerance)
            if why:
                return f"result {k}: {why}"
        return None

    def runs_alone(self, module):
        attrs = module.operation.attributes
        counts = [int(attrs[n]) for n in ("mhlo.num_partitions", "mhlo.num_replicas") if n in attrs]
        return all(n == 1 for n in counts)

    def own_import(self, req):
        return self.jaxlib.mlir.hlo_to_stablehlo(self.load(req["module"]).as_serialized_hlo_module_proto())

    def answer(self, req):
        import numpy as np
        with open(req["mlir"]) as f:
            text = f.read()
        with self.context():
            module = self.ir.Module.parse(text)
            if not module.operation.verify():
                return dict(error="it does not verify")
            if req["kind"] == "elided":
                self.jaxlib.mlir.mlir_module_to_xla_computation(filled(text), False, False)
                return dict(accepted=True)
            if req["kind"] == "own":
                self.jaxlib.mlir.mlir_module_to_xla_computation(str(self.ir.Module.parse(self.own_import(req))), False, False)
                return {}
            if req["kind"] == "saved":
                args, want = np.load(req["args"]), np.load(req["results"])
                got = self.run(module, [args[k] for k in args.files if k.startswith("a")])
                why = self.compare(got, [want[k] for k in want.files], req["tolerance"])
                return dict(error=why) if why else {}
            accepted = lambda text: self.jaxlib.mlir.mlir_module_to_xla_computation(text, False, False)
            if req["kind"] == "run" and self.runs_alone(module):
                try:
                    args = self.random(self.argument_types(module))
                    theirs = self.ir.Module.parse(self.own_import(req))
                    want = self.run(theirs, args)
                except Exception as e:
                    req["why"] = str(e)
                else:
                    why = self.compare(self.run(module, args), want, 1e-5)
                    return dict(error=why) if why else {}
            try:
                accepted(text)
            except Exception as e:
                try:
                    accepted(str(self.ir.Module.parse(self.own_import(req))))
                except Exception as theirs:
                    return dict(skip=f"XLA rejects its own import: {theirs}"[:200])
                return dict(error=f"not accepted: {e}")
            return dict(accepted=True)


def filled(text):
    """The text with a zero for each constant whose value is not known; XLA has no word for those."""
    def zero(found):
        element = re.split(r"\d+x", found[1])[-1]
        value = "false" if element == "i1" else "(0.0, 0.0)" if element.startswith("complex") else \
            "0" if re.fullmatch(r"u?i\d+", element) else "0.0"
        return f"dense<{value}> : tensor<{found[1]}>"
    return re.sub(r"dense_resource<__elided__> : tensor<([^#<>]*(?:<[^<>]*>)?)>", zero, text)


def worker():
    xla = Xla()
    for line in sys.stdin:
        try:
            r = xla.answer(json.loads(line))
        except Exception as e:
            r = dict(error=f"{type(e).__name__}: {str(e)[:600]}")
        print(json.dumps(r), flush=True)


class Worker(oracle.Worker):
    def start(self):
        self.err = tempfile.TemporaryFile()
        self.p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=self.err, text=True, start_new_session=True)


# ---- the caller's side

def programs(a):
    root = oracle.corpus()
    files = []
    for p in a.paths:
        if os.path.isdir(p):
            files += [os.path.join(d, n) for d, _, ns in os.walk(p) for n in ns
                      if n.endswith((".hlo.pb", ".snapshot.pb")) or n.endswith((".hlo", ".txt"))
                      and oracle.is_hlo_text(os.path.join(d, n))]
        else:
            files.append(p)
    if not a.paths:
        files = oracle.corpus_modules(root)
    return root, sorted(oracle.choose(files, root, a.files), key=os.path.getsize)


def request(path, mlir, a):
    d = os.path.dirname(path)
    saved = [os.path.join(d, n) for n in ("args.npz", "results.npz", "meta.json")]
    req = dict(mlir=mlir, module=os.path.abspath(path))
    with open(mlir, "rb") as f:
        if b"__elided__" in f.read():
            return dict(req, kind="elided")
    if all(map(os.path.exists, saved)) and not a.accept:
        with open(saved[2]) as f:
            tolerance = json.load(f)["tolerance"]
        return dict(req, kind="saved", args=saved[0], results=saved[1], tolerance=tolerance)
    return dict(req, kind="accept" if a.accept or os.path.getsize(path) > BIG else "run")


def main():
    p = oracle.options(__doc__)
    p.add_argument("paths", nargs="*")
    p.add_argument("--accept", action="store_true", help="run nothing")
    p.add_argument("--to", default="stablehlo")
    p.add_argument("--timeout", type=float, default=120, help="seconds a program")
    a = p.parse_args()
    a.accept |= a.to != "stablehlo"              # XLA:CPU does not run programs that have fusions already
    oracle.need_jax()
    oracle.hilo()
    root, files = programs(a)
    t = oracle.Tally(a.verbose)
    free = oracle.queue.Queue()
    for _ in range(a.jobs):
        free.put(Worker())

    def one(path, tmp):
        name = os.path.relpath(path, root)
        mlir = os.path.join(tmp, re.sub(r"\W", "_", name) + ".mlir")
        rc, out, err = oracle.run_hilo(["convert", path, "--to", a.to, "--large-constants", "-o", mlir], a.timeout)
        if rc == 4:
            return t.skip(name, oracle.status_text(rc, err))
        if rc != 0:
            return t.fail(name, oracle.status_text(rc, err or out.decode(errors="replace")))
        w = free.get()
        try:
            req = request(path, mlir, a)
            r = w.ask(req, a.timeout)
            if r.get("crash") and req["kind"] == "run":      # perhaps in XLA's own import, or for want of devices
                r = w.ask(dict(req, kind="accept"), a.timeout)
            if r.get("crash") and w.ask(dict(req, kind="own"), a.timeout).get("error"):
                r = dict(skip="XLA does not take its own import either: " + r["error"])
        finally:
            free.put(w)
            os.remove(mlir)
        if "skip" in r:
            t.skip(name, r["skip"])
        elif r.get("error"):
            t.fail(name, r["error"])
        else:
            t.ok(name)

    with tempfile.TemporaryDirectory(prefix="hilo-stablehlo-") as tmp:
        for _ in oracle.each(lambda path: one(path, tmp), oracle.spread(files, a.limit), a.jobs):
            pass
    while not free.empty():
        free.get().stop()
    t.end(200, a)


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["--worker"] else main()

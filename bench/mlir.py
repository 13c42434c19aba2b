"""Hilo beside jaxlib's MLIR, reading the same StableHLO in the same run.

  mlir.py [--hilo PROGRAM] [--json] [--repeats N] [FILE.hlo...]

Each HLO file is made StableHLO by XLA (hlo_to_stablehlo), printed as text with and without locations, and serialised as
a portable artifact. Then `hilo bench parse` reads them, against ir.Module.parse and deserialize_portable_artifact of
jaxlib: best of N, from memory, one thread. By default clip's training step of HILO_CORPUS/models.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import bench


def artifacts(path, folder):
    """The files made of one HLO module, by kind."""
    from jaxlib import _hlo, _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with open(path) as f:
        proto = _hlo.hlo_module_from_text(f.read()).as_serialized_hlo_module_proto()
    made = _jax.mlir.hlo_to_stablehlo(proto)
    from jax._src.interpreters import mlir as jax_mlir
    with jax_mlir.make_ir_context() as context:
        module = ir.Module.parse(made, context)
        texts = {"text": module.operation.get_asm(), "text with locations": module.operation.get_asm(enable_debug_info=True)}
        artifact = _jax.mlir.serialize_portable_artifact(texts["text"], stablehlo.get_current_version(), False)
    out = {}
    for kind, content in [*texts.items(), ("artifact", artifact)]:
        name = os.path.join(folder, kind.replace(" ", "_") + (".mlir" if kind != "artifact" else ".mlirbc"))
        with open(name, "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        out[kind] = name
    return out


def xla_ms(kind, name, repeats):
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with open(name, "rb") as f:
        content = f.read()
    if kind == "artifact":
        def read():
            with jax_mlir.make_ir_context() as context:
                return stablehlo.deserialize_portable_artifact(context, content)
    else:
        text = content.decode()

        def read():
            with jax_mlir.make_ir_context() as context:
                return ir.Module.parse(text, context)
    with jax_mlir.make_ir_context():
        empty = bench.best_ms(jax_mlir.make_ir_context, repeats)
    return bench.best_ms(read, repeats) - empty


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hilo", default=os.path.join(bench.ROOT, "build", "hilo"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    files = args.files or [f for f in bench.default_files() if "clip" in f and "train" in f]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            for kind, name in artifacts(path, folder).items():
                done = subprocess.run([args.hilo, "bench", "parse", name, "--json"], capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr)
                ours, theirs = json.loads(done.stdout)[0]["parse_ms"], xla_ms(kind, name, args.repeats)
                rows.append({"file": os.path.basename(path), "form": kind, "bytes": os.path.getsize(name), "hilo_ms": ours,
                             "jaxlib_ms": theirs, "ratio": theirs / ours})
    if args.json:
        print(json.dumps(rows))
        return
    for r in rows:
        print(f"{r['file']:40} {r['form']:20} {r['bytes'] / 2**20:7.2f} MiB {r['hilo_ms']:9.2f} ms, jaxlib {r['jaxlib_ms']:9.2f} ms: "
              f"{r['ratio']:.1f}x")


if __name__ == "__main__":
    main()

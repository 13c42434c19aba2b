"""Reproducers: a program with its arguments, results and versions in one file, to be run somewhere else.

The file is a .zip: module.mlir, args.npz (a0, a1, ...), results.npz (r0, r1, ..., as the program gave them where it was
written), about.json (versions, flags, the error there was). `hilo.jax.reproduce` writes one; `python -m hilo reproduce FILE`
compiles and runs the module, beside the interpreter and beside the results in the file. It runs no Python of the file's, and
needs no JAX. Its parts are files that `hilo` takes: `hilo run module.mlir --args args.npz --expect results.npz`.
"""
from __future__ import annotations

import io
import json
import os
import platform
import sys
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from hilo import _arrays, _compare
from hilo.errors import Error
from hilo.module import Module

FORMAT = 1
_PACKAGES = ("python", "hilo", "jax", "jaxlib", "numpy", "ml_dtypes")


def versions() -> dict[str, Any]:
  """Of all that takes part, without loading any of it."""
  from importlib import metadata
  import hilo
  found: dict[str, Any] = {"python": platform.python_version(), "hilo": hilo.version, "machine": platform.machine(), "system": platform.platform()}
  for package in _PACKAGES:
    try:
      found.setdefault(package, metadata.version(package))
    except metadata.PackageNotFoundError:
      pass
  return found


def _stored(array: Any) -> np.ndarray:
  """As hilo/npy.h has arrays in files: what NumPy itself has no type for as one that holds it."""
  a = np.asarray(array)
  if a.dtype.kind in "biufc" and a.dtype.isbuiltin:
    return a
  name = a.dtype.name
  return a.astype(np.int8 if name.startswith("int") else np.uint8 if name.startswith("uint") else np.float32)


def _pack(letter: str, arrays: Sequence[Any]) -> bytes:
  out = io.BytesIO()
  np.savez(out, **{f"{letter}{k}": _stored(a) for k, a in enumerate(arrays)})  # type: ignore[arg-type]
  return out.getvalue()


def write(path: str | os.PathLike[str], module: str, args: Sequence[Any], results: Sequence[Any] | None,
          about: dict[str, Any]) -> None:
  """Writes a reproducer of a program (MLIR or HLO as text) with the arrays of its arguments and results."""
  facts = {"format": FORMAT, "versions": versions(), "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""), **about}
  with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("module.mlir", module)
    z.writestr("args.npz", _pack("a", args))
    if results is not None:
      z.writestr("results.npz", _pack("r", results))
    z.writestr("about.json", json.dumps(facts, indent=1, default=str) + "\n")


def _unpack(z: zipfile.ZipFile, name: str, letter: str) -> list[np.ndarray] | None:
  if name not in z.namelist():
    return None
  with np.load(io.BytesIO(z.read(name)), allow_pickle=False) as arrays:
    return [arrays[f"{letter}{k}"] for k in range(len(arrays.files))]


class Reproducer:
  """What stands in a file."""

  def __init__(self, path: str | os.PathLike[str]):
    with zipfile.ZipFile(path) as z:
      self.about: dict[str, Any] = json.loads(z.read("about.json"))
      self.module = Module(z.read("module.mlir"))
      self.args = _unpack(z, "args.npz", "a") or []
      self.results = _unpack(z, "results.npz", "r")


def _leaf_shapes(shape: dict[str, Any]) -> list[dict[str, Any]]:
  if "tuple" in shape:
    return [leaf for element in shape["tuple"] for leaf in _leaf_shapes(element)]
  return [] if shape["dtype"] in ("token", "opaque") else [shape]


def _nested(shape: dict[str, Any], leaves: list[np.ndarray]) -> Any:
  if "tuple" in shape:
    return tuple(_nested(element, leaves) for element in shape["tuple"])
  return None if shape["dtype"] in ("token", "opaque") else leaves.pop(0).astype(_arrays.dtype_of(shape["dtype"]))


def flat(value: Any) -> list[np.ndarray]:
  """The arrays of a result, in order."""
  if isinstance(value, tuple):
    return [leaf for element in value for leaf in flat(element)]
  return [] if value is None else [value]


def run(path: str | os.PathLike[str], out: Any = None) -> int:
  """Runs a reproducer and says what comes out: 0, all is equal; 1, something differs; 5, it does not run."""
  out = out or sys.stdout
  found = Reproducer(path)
  m = found.module
  origin = ", ".join(f"{package} {version}" for package, version in found.about["versions"].items() if package in _PACKAGES)
  print(f"{os.fspath(path)}: module {m.name}, written by {origin}", file=out)
  if found.about.get("error"):
    print(f"  error then: {str(found.about['error']).strip().splitlines()[-1]}", file=out)
  results: dict[str, list[np.ndarray]] = {}
  for side in ("cpu", "reference"):
    leaves = list(found.args)
    try:
      args = [_nested(shape, leaves) for shape in m.interface["parameters"]]
      results[side] = flat(m.run(*args, platform=side))
    except (Error, ValueError, TypeError, IndexError) as e:
      print(f"  {side} does not run: {e}", file=out)
  if "cpu" not in results:
    return 5
  comparisons = []
  names = [f"r{k}" for k in range(len(results["cpu"]))]
  if "reference" in results:
    comparisons.append(_compare.compare(("cpu", "reference"), names, results["cpu"], results["reference"]))
  if found.results is not None:
    shapes = _leaf_shapes(m.interface["result"])
    expected = [a.astype(_arrays.dtype_of(s["dtype"])) for a, s in zip(found.results, shapes)]
    side = f"what {found.about.get('backend', 'it')} gave then"
    comparisons.append(_compare.compare(("cpu", side), names, results["cpu"], expected))
  for comparison in comparisons:
    print(comparison, file=out)
  return 0 if all(c.equal for c in comparisons) else 1

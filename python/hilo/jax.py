"""Helpers for functions of JAX: what they are compiled to, whether two backends agree, what to report where not.

Each takes a function, jitted or not, and the arguments to call it with. What is compiled is compiled by JAX, for the backend
it would run on (JAX_PLATFORMS, jax.default_device).
"""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from hilo import _compare, reproducer
from hilo._compare import Comparison
from hilo.errors import Error
from hilo.module import Computation, Instruction, Module

__all__ = ["Comparison", "compare", "compile", "dump", "harvest", "lower", "reproduce", "show_fusions"]


def _jitted(fun: Any) -> Any:
  return fun if hasattr(fun, "lower") else jax.jit(fun)


def _text_of(lowered: Any) -> str:
  """StableHLO with the places in the source."""
  return lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)


def lower(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
  """The program as JAX hands it to the compiler."""
  return Module(_text_of(_jitted(fun).lower(*args, **kwargs)))


def _module_of(compiled: Any) -> Module:
  modules = compiled.runtime_executable().hlo_modules()
  return Module(modules[0].as_serialized_hlo_module_proto(), verify=False)


def compile(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
  """The optimised program that JAX's backend runs."""
  return _module_of(_jitted(fun).lower(*args, **kwargs).compile())


def _file_name(name: str) -> str:
  return re.sub(r"[^\w.-]+", "_", name)


def dump(fun: Callable[..., Any], *args: Any, dir: str | os.PathLike[str], passes: bool = False,
         **kwargs: Any) -> list[pathlib.Path]:
  """Writes each stage into a folder: NAME.jaxpr, NAME.stablehlo.mlir, NAME.before.hlo and, optimised, NAME.after.hlo. With
  `passes` also the state after each pass of Hilo's pipeline for processors, named as XLA names its dumps. The files."""
  folder = pathlib.Path(dir)
  folder.mkdir(parents=True, exist_ok=True)
  jitted = _jitted(fun)
  lowered = jitted.lower(*args, **kwargs)
  before = Module(_text_of(lowered))
  name = _file_name(before.name)
  texts = {"jaxpr": str(jitted.trace(*args, **kwargs).jaxpr) + "\n", "stablehlo.mlir": lowered.as_text(),
           "before.hlo": before.to_string(), "after.hlo": _module_of(lowered.compile()).to_string()}
  files = [folder / f"{name}.{ending}" for ending in texts]
  for file, text in zip(files, texts.values()):
    file.write_text(text, encoding="utf-8")
  if passes:
    had = set(folder.iterdir())
    before.opt(pipeline="cpu", xla_flags=f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text")
    files += sorted(set(folder.iterdir()) - had)
  return files


@contextlib.contextmanager
def harvest(dataset: Any, origin: str) -> Iterator[Any]:
  """While it is open, every program that JAX compiles goes into a data set (hilo.dataset.Dataset, or the folder of one), each
  graph once:

      with hilo.jax.harvest("data", origin="my-model"):
        train()
  """
  from jax._src import compiler

  from hilo.dataset import Dataset
  data = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
  name = next(n for n in ("compile_or_get_cached", "backend_compile_and_load", "backend_compile") if hasattr(compiler, n))
  plain = getattr(compiler, name)

  def compile_and_keep(backend: Any, computation: Any, *args: Any, **kwargs: Any) -> Any:
    try:
      data.add_text(computation.operation.get_asm(enable_debug_info=False), origin)
    except Error as e:
      data.note_unreadable(origin, str(e))
    return plain(backend, computation, *args, **kwargs)

  setattr(compiler, name, compile_and_keep)
  try:
    yield data
  finally:
    setattr(compiler, name, plain)
    data.close()


# --- Two backends beside each other -------------------------------------------------------------------


def _device(backend: str) -> Any:
  try:
    return jax.devices(backend)[0]
  except RuntimeError as e:
    raise Error(f"JAX has no backend '{backend}': leave JAX_PLATFORMS unset, or set it to hilo,cpu") from e


@contextlib.contextmanager
def _on(device: Any) -> Iterator[None]:
  with jax.default_device(device):
    yield


def _run_on(device: Any, fun: Any, args: Any, kwargs: Any) -> Any:
  def move(leaf: Any) -> Any:
    return jax.device_put(leaf, device) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf

  with _on(device):
    moved_args, moved_kwargs = jax.tree_util.tree_map(move, (args, kwargs))
    return _jitted(fun)(*moved_args, **moved_kwargs)


def _plain(leaf: Any) -> np.ndarray:
  """An array of NumPy, also of keys of random numbers."""
  if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    leaf = jax.random.key_data(leaf)
  return np.asarray(leaf)


def compare(fun: Callable[..., Any], *args: Any, backends: tuple[str, str] = ("hilo", "cpu"), **kwargs: Any) -> Comparison:
  """Runs the function on two backends of JAX and compares the results, leaf by leaf; the second is what is expected. Prints as a
  table; `equal` says how it ended."""
  devices = [_device(b) for b in backends]
  if devices[0] == devices[1]:
    raise Error(f"'{backends[0]}' and '{backends[1]}' are one backend here: leave JAX_PLATFORMS unset, or set it to hilo,cpu")
  found = [_run_on(d, fun, args, kwargs) for d in devices]
  (paths, tree), (others, other_tree) = map(jax.tree_util.tree_flatten_with_path, found)
  if tree != other_tree:
    raise Error(f"the results have different structures: {tree} and {other_tree}")
  names = ["result" + jax.tree_util.keystr(path) for path, _ in paths]
  return _compare.compare(backends, names, [_plain(v) for _, v in paths], [_plain(v) for _, v in others])


# --- Fusions ----------------------------------------------------------------------------------------


def _inside(instruction: Instruction, bodies: dict[str, Computation]) -> collections.Counter[str]:
  """How often each op stands in a fusion, and in fusions in it."""
  ops: collections.Counter[str] = collections.Counter()
  for name in instruction.calls:
    for inner in bodies[name].instructions:
      if inner.opcode == "fusion":
        ops += _inside(inner, bodies)
      elif inner.opcode not in ("parameter", "constant"):
        ops[inner.opcode] += 1
  return ops


def _words(ops: collections.Counter[str]) -> str:
  return ", ".join(op if n == 1 else f"{op} x{n}" for op, n in sorted(ops.items(), key=lambda row: (-row[1], row[0])))


def _place(instruction: Instruction) -> str:
  place = f"{os.path.basename(instruction.file)}:{instruction.line}" if instruction.file else ""
  return " ".join(word for word in (place, instruction.op_name) if word)


def _table(rows: Sequence[Sequence[str]]) -> str:
  widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
  return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)


def _find_module(what: Any, args: Any, kwargs: Any) -> Module:
  if isinstance(what, Module):
    return what
  return _module_of(what) if hasattr(what, "runtime_executable") else compile(what, *args, **kwargs)


def show_fusions(what: Any, *args: Any, **kwargs: Any) -> str:
  """A table of the fusions of a compiled program, of a function with arguments, or of a hilo.Module: name, kind, result, the ops
  inside, and where in the source the result comes from."""
  module = _find_module(what, args, kwargs)
  bodies = {c.name: c for c in module.computations}
  rows = [("fusion", "kind", "result", "ops", "source")]
  for computation in module.computations:
    if computation.fusion:
      continue
    for i in computation.instructions:
      if i.opcode == "fusion":
        rows.append((i.name, i.kind, i.shape, _words(_inside(i, bodies)), _place(i)))
  return _table(rows) if len(rows) > 1 else f"{module.name}: no fusions"


# --- Reproducers ------------------------------------------------------------------------------------


def _jit_info(jitted: Any) -> Any:
  """What jax.jit was told, static arguments among it; None: it does not say. Releases before 0.6 keep it in closures."""
  if hasattr(jitted, "_jit_info"):
    return jitted._jit_info
  for function in (jitted.eval_shape, getattr(jitted.eval_shape, "__wrapped__", None)):
    for cell in getattr(function, "__closure__", None) or ():
      if hasattr(cell.cell_contents, "static_argnums"):
        return cell.cell_contents
  return None


def _dynamic_leaves(jitted: Any, args: Any, kwargs: Any) -> list[Any]:
  """The leaves of the arguments that are no static ones."""
  info = _jit_info(jitted)
  numbers = {n % len(args) for n in info.static_argnums if -len(args) <= n < len(args)} if info and args else set()
  names = set(info.static_argnames) if info else set()
  return jax.tree_util.tree_leaves(([a for k, a in enumerate(args) if k not in numbers],
                                    {k: v for k, v in kwargs.items() if k not in names}))


def _module_arguments(lowered: Any, leaves: list[Any]) -> list[np.ndarray]:
  """The arrays that the program's parameters take: constants that JAX hands over, then the arguments that it uses."""
  lowering = lowered._lowering
  kept = lowering.compile_args["kept_var_idx"]
  avals = jax.tree_util.tree_leaves(lowered.in_avals)
  if len(avals) != len(leaves):
    raise Error(f"the program takes {len(avals)} arrays, but {len(leaves)} are given: bind what is no array by a lambda")
  used = [_plain(leaf).astype(np.dtype(aval.dtype) if not _is_key(aval) else np.uint32)
          for k, (leaf, aval) in enumerate(zip(leaves, avals)) if k in kept]
  return [*map(np.asarray, getattr(lowering, "const_args", None) or ()), *used]


def _is_key(aval: Any) -> bool:
  return bool(jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key))


def reproduce(fun: Callable[..., Any], *args: Any, path: str | os.PathLike[str] | None = None, run: bool = True,
              **kwargs: Any) -> pathlib.Path:
  """Writes a reproducer of a call: module, arguments, versions and, with `run`, what JAX's backend gives for it, or its error, in
  one file (NAME.zip without a path). `python -m hilo reproduce FILE` runs it. The file holds the arguments as they are."""
  jitted = _jitted(fun)
  lowered = jitted.lower(*args, **kwargs)
  text = _text_of(lowered)
  found = re.search(r"module @([\w.$-]+)", text)
  file = pathlib.Path(path if path is not None else _file_name(found[1] if found else "program") + ".zip")
  about: dict[str, Any] = {"backend": " ".join(jax.devices()[0].client.platform_version.split()), "devices": [str(d) for d in jax.devices()],
                           "jax_platforms": str(jax.config.jax_platforms or ""), "x64": bool(jax.config.jax_enable_x64)}
  results = None
  if run:
    try:
      results = [_plain(leaf) for leaf in jax.tree_util.tree_leaves(jitted(*args, **kwargs))]
    except Exception:
      about["error"] = traceback.format_exc()
  reproducer.write(file, text, _module_arguments(lowered, _dynamic_leaves(jitted, args, kwargs)), results, about)
  return file

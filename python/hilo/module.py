"""Programs: what they consist of, other forms, passes, runs."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from hilo import _arrays, _core

Source = Union[str, bytes, bytearray, memoryview, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Instruction:
  name: str
  opcode: str
  shape: str                   # "f32[2,3]"
  operands: tuple[str, ...]    # names
  calls: tuple[str, ...] = ()  # names of computations
  root: bool = False
  kind: str = ""               # of a fusion: "kLoop"
  target: str = ""             # of a custom call
  op_name: str = ""            # "jit(f)/add": where it comes from; of a fusion, where what is in it does
  file: str = ""
  line: int = 0


@dataclasses.dataclass(frozen=True)
class Computation:
  name: str
  entry: bool
  fusion: bool                 # the body of a fusion
  instructions: tuple[Instruction, ...]


class Optimized(NamedTuple):
  """What passes have left, and a report: {"instructions_before", "instructions_after", "rewrites", "seconds", "bytes",
  "passes": [{"pipeline", "pass", "changed", "rewrites", "before", "after", "ms"}]}: as `hilo opt --json` tells them."""
  module: Module
  report: dict[str, Any]


def _is_text(source: str) -> bool:
  """A path has no lines."""
  return "\n" in source


def _read(source: Source, options: dict[str, Any]) -> list[int]:
  with _core.Call() as call:
    if isinstance(source, (bytes, bytearray, memoryview)):
      content: bytes | None = bytes(source)
    else:
      content = source.encode() if isinstance(source, str) and _is_text(source) else None
    if content is None:
      n = call.run("read", os.fsencode(source), None, 0, options)  # type: ignore[arg-type]
    else:
      n = call.run("read", b"<text>" if isinstance(source, str) else b"<bytes>", content, len(content), options)
    return [call.take(k) for k in range(n)]


class Module:
  """A program in HLO, which does not change: any number of threads may use one.

  The source is a path, the bytes of a file, or a text (of several lines), in whatever form: HLO text, protos and snapshots,
  StableHLO and MHLO, portable artifacts, what jax.export serialises, jaxprs. Options: `which` is the name or number of a module
  of several; `entry` the function to take of MLIR; `arg_shapes` ("f32[2,3],s64[]=4") types of a dynamic program's
  arguments; `args` a .npz with the constants of a jaxpr; `xla` ("0.11") the release of XLA as which it is printed; `verify`:
  whether what is not valid is refused.
  """

  def __init__(self, source: Source, *, which: str | int | None = None, entry: str | None = None,
               arg_shapes: str | None = None, args: str | None = None, xla: str | None = None, verify: bool = True):
    found = Module.all(source, entry=entry, arg_shapes=arg_shapes, args=args, xla=xla, verify=verify)
    if which is None and len(found) != 1:
      raise ValueError(f"there are {len(found)} modules: say which (0 to {len(found) - 1}, or a name)")
    chosen = found[0] if which is None else _pick(found, which)
    self._handle, chosen._handle = chosen._handle, None
    self._start()

  @classmethod
  def all(cls, source: Source, *, entry: str | None = None, arg_shapes: str | None = None, args: str | None = None,
          xla: str | None = None, verify: bool = True) -> list[Module]:
    """Every module of a source; options are those of Module."""
    options = {"entry": entry, "arg_shapes": arg_shapes, "args": args, "xla": xla, "verify": verify,
               "consts_as_parameters": args is None, "fill_hidden": False}
    return [cls._of(handle) for handle in _read(source, options)]

  @classmethod
  def _of(cls, handle: int) -> Module:
    module = cls.__new__(cls)
    module._handle = handle
    module._start()
    return module

  def _start(self) -> None:
    self._lock = threading.RLock()
    self._known: dict[str, Any] = {}

  def __del__(self) -> None:
    handle = getattr(self, "_handle", None)
    if handle is not None:
      _core.lib().hilo_core_module_free(handle)

  def __reduce__(self) -> Any:
    return Module, (self.convert("hloproto"),)

  def _ask(self, name: str, *arguments: Any) -> bytes:
    with _core.Call() as call:
      call.run(name, self._handle, *arguments)
      return call.output()

  def _known_once(self, key: str, make: Any) -> Any:
    with self._lock:
      if key not in self._known:
        self._known[key] = make()
      return self._known[key]

  # --- What it is ---

  @property
  def interface(self) -> dict[str, Any]:
    """{"name", "parameters", "result", "replicas", "partitions", "scheduled", "xla"}; a shape is {"dtype", "dims"}, or
    {"tuple": [shape, ...]}."""
    return self._known_once("interface", lambda: json.loads(self._ask("interface")))

  @property
  def name(self) -> str:
    return self.interface["name"]

  @property
  def devices(self) -> int:
    """On how many devices it runs."""
    return _core.lib().hilo_core_devices(self._handle)

  @property
  def computations(self) -> tuple[Computation, ...]:
    """All of them, callees before callers, instructions in the order in which they are printed."""
    return self._known_once("computations", lambda: tuple(
        Computation(c["name"], c["entry"], c["fusion"], tuple(_instruction(i) for i in c["instructions"]))
        for c in json.loads(self._ask("list"))))

  @property
  def entry(self) -> Computation:
    return next(c for c in self.computations if c.entry)

  @property
  def instructions(self) -> Iterator[Instruction]:
    """Those of every computation."""
    return (i for c in self.computations for i in c.instructions)

  def __eq__(self, other: object) -> bool:
    """Whether both compute the same by the same graph: names, metadata and the order of what is independent do not count."""
    if not isinstance(other, Module):
      return NotImplemented
    with _core.Call() as call:
      return self is other or call.ask("graph_equal", self._handle, other._handle)

  def __hash__(self) -> int:
    return _core.lib().hilo_core_graph_hash(self._handle)

  def __repr__(self) -> str:
    return f"<hilo.Module {self.name}>"

  # --- Other forms ---

  def __str__(self) -> str:
    return self.to_string()

  def to_string(self, preset: str = "default", **switches: bool) -> str:
    """The text as XLA prints it. Presets: default, short, canonical, fingerprint, module-fingerprint; switches are those of
    HloPrintOptions: metadata, large_constants, layouts, operand_shapes, percent, and others (HlTextOptions in
    include/hilo/text.h)."""
    return self._ask("print", {"preset": preset, **switches}).decode()

  def convert(self, form: str, **options: bool) -> str | bytes:
    """The program in another form: hlo, stablehlo, mhlo, pbtxt, json, dot, svg, html are texts, proto (HloModuleProto),
    hloproto, snapshot, mlirbc or mlirbc=VERSION (a portable artifact) are bytes. Options of MLIR: generic, locations; of
    pictures: closed_fusions."""
    out = self._ask("convert", form.encode(), options)
    return out.decode() if _core.lib().hilo_core_form_is_text(form.encode()) else out

  def check(self) -> None:
    """Raises hilo.Error with every rule of HLO that is broken."""
    with _core.Call() as call:
      call.run("check", self._handle)

  def stats(self, computations: bool = False) -> dict[str, Any]:
    """Counts and costs, as `hilo stats --json` has them; with `computations` also of each."""
    return json.loads(self._ask("stats", computations))

  # --- Passes ---

  def opt(self, pipeline: str | None = None, *, passes: str | Sequence[str] | None = None, target: str | None = None,
          fuel: int | None = None, verify_each: bool = False, partitions: int | None = None,
          replicas: int | None = None, xla: str | None = None, xla_flags: str | None = None) -> Optimized:
    """Runs a pipeline ("simplify", the default; "cpu", "gpu"), or passes. `target` is a device (`hilo targets`), `fuel` how
    many rewrites may happen, `xla` the release of XLA whose pipelines are run; flags come from XLA_FLAGS where none are
    given."""
    if pipeline is not None and passes is not None:
      raise ValueError("give a pipeline or passes, not both")
    if pipeline is None and passes is None:
      pipeline = "simplify"
    text = passes if passes is None or isinstance(passes, str) else ",".join(passes)
    with _core.Call() as call:
      compiled = call.run("compile", self._handle, {
          "pipeline": pipeline, "passes": text, "target": target, "fuel": fuel, "verify_each": verify_each,
          "partitions": partitions, "replicas": replicas, "xla": xla, "no_buffers": True, "xla_flags": _flags(xla_flags)})
    try:
      return Optimized(*_outcome(compiled))
    finally:
      _core.lib().hilo_core_compiled_free(compiled)

  # --- Running ---

  def compile(self, platform: str = "cpu", **options: Any) -> Program:
    """A program for the processor, or with platform "reference" for the interpreter; options are those of Program."""
    return Program(self, platform, **options)

  def run(self, *args: Any, platform: str = "cpu") -> Any:
    """Runs it on arrays, one for each parameter (tuples for tuples): the result, or a tuple of results. What was compiled is
    kept for the next time."""
    return self._known_once("program " + platform, lambda: self.compile(platform))(*args)

  def run_devices(self, args: Sequence[Sequence[Any]], platform: str = "cpu") -> list[Any]:
    """The same on several devices: the arguments and results of each."""
    return self._known_once("program " + platform, lambda: self.compile(platform)).run_devices(args)

  def fake_args(self, seed: int = 0) -> list[Any]:
    """Arguments made up, the same everywhere, such that the program can do with them what it does: indices are in range."""
    with _core.Call() as call:
      results = call.run("fake", self._handle, seed)
    leaves = _Leaves(results)
    try:
      return [leaves.next(shape) for shape in self.interface["parameters"]]
    finally:
      leaves.free()


class Program:
  """What a module was compiled to. Options: `passes` in the place of the platform's; `threads` (0: as many as may be used);
  `onednn` ("auto", "on", "off"); `elided` ("random", "zero", "refuse") says how constants without a value are filled, `seed`
  from which numbers; `partitions` and `replicas` in the place of what the module says; `xla_flags` (XLA_FLAGS where none are given)."""

  def __init__(self, module: Module, platform: str = "cpu", *, passes: str | None = None, threads: int = 0,
               onednn: str | None = None, elided: str | None = None, seed: int = 0, partitions: int | None = None,
               replicas: int | None = None, xla_flags: str | None = None):
    self._compiled = self._program = None
    self._options = {"threads": threads, "onednn": onednn, "elided": elided, "seed": seed}
    self.platform = platform
    if platform == "reference":
      self.module, self.report = module, {}
      return
    with _core.Call() as call:
      self._compiled = call.run("compile", module._handle, {
          "platform": platform, "passes": passes, "partitions": partitions, "replicas": replicas,
          "xla_flags": _flags(xla_flags)})
    self.module, self.report = _outcome(self._compiled)
    with _core.Call() as call:
      self._program = call.run("program", self._compiled, self._options)

  def __del__(self) -> None:
    if getattr(self, "_program", None) is not None:
      _core.lib().hilo_core_program_free(self._program)
    if getattr(self, "_compiled", None) is not None:
      _core.lib().hilo_core_compiled_free(self._compiled)

  def __call__(self, *args: Any) -> Any:
    if self.module.devices != 1:
      raise ValueError(f"{self.module.name} runs on {self.module.devices} devices: give the arguments of each to run_devices")
    return self.run_devices([args])[0]

  def run_devices(self, args: Sequence[Sequence[Any]]) -> list[Any]:
    """Runs on every device: args[d] are the arguments of device d."""
    parameters, n = self.module.interface["parameters"], self.module.devices
    if len(args) != n:
      raise ValueError(f"{self.module.name} runs on {n} devices, but there are arguments for {len(args)}")
    arrays: list[np.ndarray] = []
    for given in args:
      if len(given) != len(parameters):
        raise TypeError(f"{self.module.name} takes {len(parameters)} arguments, but {len(given)} are given")
      for k, (value, shape) in enumerate(zip(given, parameters)):
        _flatten(value, shape, f"argument {k}", arrays)
    addresses = (ctypes.c_int64 * (len(arrays) + 1))(*(a.ctypes.data for a in arrays))
    with _core.Call() as call:
      results = call.run("run", self.module._handle, self._program, ctypes.addressof(addresses), len(arrays),
                         self._options)
    leaves = _Leaves(results)
    try:
      return [leaves.next(self.module.interface["result"]) for _ in range(n)]
    finally:
      leaves.free()


class _Leaves:
  """The arrays of results, one after the other."""

  def __init__(self, handle: int):
    self._lib, self._handle, self._k = _core.lib(), handle, 0

  def free(self) -> None:
    self._lib.hilo_core_results_free(self._handle)

  def next(self, shape: dict[str, Any]) -> Any:
    """A value of a shape; None for a token."""
    if "tuple" in shape:
      return tuple(self.next(element) for element in shape["tuple"])
    if shape["dtype"] in ("token", "opaque"):
      return None
    k, self._k = self._k, self._k + 1
    array = _arrays.copy(self._lib.hilo_core_result_data(self._handle, k), _arrays.dtype_of(shape["dtype"]),
                         tuple(shape["dims"]))
    if "dynamic" not in shape:
      return array
    extents = [self._lib.hilo_core_result_extent(self._handle, k, d) for d in range(array.ndim)]
    return array[tuple(slice(None if e < 0 else e) for e in extents)].copy()


def _flatten(value: Any, shape: dict[str, Any], what: str, out: list[np.ndarray]) -> None:
  if "tuple" in shape:
    if not isinstance(value, (tuple, list)) or len(value) != len(shape["tuple"]):
      raise TypeError(f"{what} is no tuple of {len(shape['tuple'])}")
    for k, (v, s) in enumerate(zip(value, shape["tuple"])):
      _flatten(v, s, f"{what}[{k}]", out)
  elif shape["dtype"] not in ("token", "opaque"):
    out.append(_arrays.to_array(value, _arrays.dtype_of(shape["dtype"]), tuple(shape["dims"]), what))


def _flags(given: str | None) -> str | None:
  return os.environ.get("XLA_FLAGS") if given is None else given


def _outcome(compiled: int) -> tuple[Module, dict[str, Any]]:
  with _core.Call() as call:
    module = Module._of(call.run("compiled_module", compiled))
    call.run("compiled_report", compiled)
    return module, json.loads(call.output())


def _instruction(row: dict[str, Any]) -> Instruction:
  return Instruction(**{**row, "operands": tuple(row["operands"]), "calls": tuple(row.get("calls", ()))})


def _pick(found: list[Module], which: str | int) -> Module:
  if isinstance(which, int):
    return found[which]
  for module in found:
    if module.name == which:
      return module
  raise KeyError(f"no module is named {which!r}: {', '.join(m.name for m in found)}")

"""The environment: a module, and what is done with it."""
from __future__ import annotations

import ctypes
import json
import time
from typing import Any

import numpy as np

from hilo import _core
from hilo import module as _hilo_module
from hloenv import _lib
from hloenv.backend import GpuBackend
from hloenv.graph import HloGraph
from hloenv.module import HloModule
from hloenv.pipeline import PassInterface
from hloenv.rewrites import HloRewriteGraph, RewriteStatus, _Proposals

WARM_UPS = 3
SEED = 53
TOLERANCE = 1e-6
# Puts what is inside fusions where they stand.
UNFUSE = b"(defuser,tuple-simplifier,cse{layout_sensitive},dce)*"
# What the processor must have of a module: the rest is left as it is, fusions too.
OPTIONS = b'{"elided": "zero"}'  # constants whose values a dump leaves out: the same ones in all modules made from it
BACKEND_ONLY = "flatten-call-graph,copy-insertion,cpu-scheduler"


class EvaluationResult:
  """What runs of a module came to: times in nanoseconds, and the output of the last one."""

  def __init__(self, durations: list[int], full_durations: list[int], output: list[list[Any]]):
    self.durations = durations                # from when the program starts until it has ended
    self.compute_durations = list(durations)  # the same here: the device is the host
    self.full_durations = full_durations      # with what the call takes besides
    self.output = output

  def __repr__(self) -> str:
    return f"<EvaluationResult of {len(self.durations)} runs, best {min(self.durations, default=0)} ns>"


class _Executable:
  """A module as a program of the processor's, or for the interpreter, with HloEnv's made-up arguments."""

  def __init__(self, module: HloModule, platform: str = "cpu", passes: str = BACKEND_ONLY):
    self._compiled = self._program = None
    self._module = module
    self._interface = module._interface()
    if platform == "cpu":
      self._module = module = HloModule._of(_lib.run("plain", module._handle))
      how = json.dumps({"platform": "cpu", "passes": passes, "xla_flags": ""}).encode()
      self._compiled = _lib.run("compile", module._handle, how)
      self._program = _lib.run("program", self._compiled, OPTIONS)
    elif platform != "reference":
      raise ValueError(f"programs run on 'cpu' or 'reference', not {platform!r}")
    # Arrays that stay with their results, whose memory they are.
    results = _lib.run("normal_args", module._handle, SEED)
    self._arguments = results
    n = _lib.lib().hilo_core_result_count(results)
    self._addresses = (ctypes.c_int64 * (n + 1))(*(_lib.lib().hilo_core_result_data(results, k) or 0 for k in range(n)))
    self._n = n

  def __del__(self) -> None:
    lib = _lib.lib()
    if self._program is not None:
      lib.hilo_core_program_free(self._program)
    if self._compiled is not None:
      lib.hilo_core_compiled_free(self._compiled)
    if getattr(self, "_arguments", None) is not None:
      lib.hilo_core_results_free(self._arguments)

  def run(self) -> Any:
    """The result: an array, or a tuple."""
    results = _lib.run("run", self._module._handle, self._program, ctypes.addressof(self._addresses), self._n, OPTIONS)
    leaves = _hilo_module._Leaves(results)
    try:
      return leaves.next(self._interface["result"])
    finally:
      leaves.free()

  def time(self, times: int) -> list[int]:
    """Nanoseconds of each of so many runs."""
    if times <= 0:
      return []
    _lib.run("time", self._module._handle, self._program, ctypes.addressof(self._addresses), self._n, times, OPTIONS)
    return np.frombuffer(_lib.call().output(), np.int64).tolist()


def _differs(a: Any, b: Any, tolerance: float) -> bool:
  if isinstance(a, tuple) or isinstance(b, tuple):
    return type(a) is not type(b) or len(a) != len(b) or any(_differs(x, y, tolerance) for x, y in zip(a, b))
  if a is None or b is None:  # tokens
    return a is not b
  if a.shape != b.shape or a.dtype != b.dtype:
    return True
  if np.array_equal(a, b):
    return False
  if a.dtype.kind in "biu":
    return True
  wide = np.complex128 if a.dtype.kind == "c" else np.float64
  return not np.allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)


def _unfused(module: HloModule) -> HloModule:
  copy = module.clone()
  _lib.run("passes", copy._handle, UNFUSE, GpuBackend._target)
  return copy


def _is_same_graph(first: HloModule, second: HloModule) -> bool:
  a, b = _unfused(first), _unfused(second)
  return bool(_lib.lib().hilo_core_graph_equal(_lib.call()._handle, a._handle, b._handle))


class HloEnv:
  """An environment around a module: HloEnv(path, platform), HloEnv(data, format, platform) with the format "path" or "txt", or
  HloEnv(hlo_module, platform), which takes the module as it is. The platform, "gpu" or "cpu", says for what passes optimise."""

  def __init__(self, *args: Any, **named: Any):
    names = ["hlo_data", "format", "platform"] if len(args) + len(named) == 3 else ["hlo_data", "platform"]
    given = dict(zip(names, args))
    for name, value in named.items():
      name = {"hlo_filepath": "hlo_data", "alt_hlo_module": "hlo_data"}.get(name, name)
      if name not in names or name in given:
        raise TypeError(f"HloEnv takes no such argument: {name!r}")
      given[name] = value
    if len(given) != len(names):
      raise TypeError("HloEnv takes a path, a text with its format, or a module; and a platform")
    if given["platform"] not in ("gpu", "cpu"):
      raise ValueError(f"the platform is 'gpu' or 'cpu', not {given['platform']!r}")
    self._platform: str = given["platform"]
    self._proposals: _Proposals | None = None
    data = given["hlo_data"]
    self._module: HloModule = data if isinstance(data, HloModule) else HloModule(data, given.get("format", "path"))
    self._xla: PassInterface | None = None

  def __getstate__(self) -> dict[str, Any]:
    """A copy, or what is pickled, has the module, and alternatives that wait, but no rewrites."""
    return {**self.__dict__, "_proposals": None, "_xla": None}

  # --- Running passes (what pipelines call) ---

  @property
  def _target(self) -> bytes:
    return GpuBackend._target if self._platform == "gpu" else b"cpu"

  def _edit(self, name: str, *arguments: Any) -> Any:
    """A call that changes the module: one that is broken off leaves it halfway."""
    try:
      return _lib.run(name, self._module._handle, *arguments)
    except (ValueError, TypeError, _lib.Error):
      raise
    except BaseException:
      self._proposals = None
      self._module._void()
      raise

  @_lib.alone
  def _passes(self, text: str) -> bool:
    self._proposals = None
    return self._edit("passes", text.encode(), self._target) == 1

  @_lib.alone
  def _dry(self, text: str) -> bool:
    self._proposals = None
    proposals = _Proposals(self._edit("propose", text.encode(), self._target), self._module)
    return self._edit("alternatives", proposals.handle) > 0

  @_lib.alone
  def _propose(self, text: str) -> bool:
    self._proposals = _Proposals(self._edit("propose", text.encode(), self._target), self._module)
    return len(self._proposals) > 0

  @_lib.alone
  def run(self, pass_pipeline: PassInterface) -> bool:
    """Runs a pipeline, or goes on with it; true: alternatives (or rewrites) wait for a decision."""
    if not isinstance(pass_pipeline, PassInterface):
      raise TypeError(f"run takes a Pass or a pipeline, not {type(pass_pipeline).__name__}: Pass(HloPass.HloDCE())")
    return pass_pipeline._run(self)

  @_lib.alone
  def optimize_hlo_module(self) -> None:
    """Runs the whole of XLA's GPU pipeline of 2022, in place."""
    if self._xla is None:
      from hloenv.xla import xla_pipeline
      self._xla = xla_pipeline(self)
    self.run(self._xla)

  def prepare_for_eval(self) -> None:
    """In place what evaluation does on a copy: calls get computations of their own, copies are inserted."""
    self._passes("flatten-call-graph,copy-insertion")

  # --- Deciding ---

  @_lib.alone
  def apply_alternatives(self, decisions: Any) -> None:
    """A row for each `alternatives`: which (by the index of its node, or by its uid), and the operand that is to stand in its
    place, 0 being the original."""
    rows = _lib.whole_numbers(decisions, "decisions")
    if rows.size == 0:
      rows = rows.reshape(0, 2)
    if rows.ndim != 2 or rows.shape[1] != 2:
      raise ValueError(f"decisions have the sizes {list(rows.shape)}; expected [number of alternatives, 2]")
    if not _lib.lib().hilo_core_decide(_lib.call()._handle, self._module._handle, rows.ctypes.data, len(rows)):
      try:
        _lib.fail()
      except _lib.Error as error:
        raise ValueError(error.diagnostics[0].text if error.diagnostics else str(error)) from None

  @_lib.alone
  def get_hlo_rewrite_graph(self) -> HloRewriteGraph:
    """The rewrites that a RewritePipeline has found; none are left once some have been applied."""
    return HloRewriteGraph(self._proposals)

  @_lib.alone
  def apply_rewrites(self, decisions: Any) -> list[tuple[int, RewriteStatus]]:
    """Applies rewrites by their numbers, in this order; what became of each."""
    which = _lib.whole_numbers(list(decisions), "decisions").tolist()
    if self._proposals is None:
      if which:
        raise ValueError("there are no rewrites: run a RewritePipeline first")
      return []
    out = [(k, RewriteStatus(s)) for k, s in zip(which, self._proposals.apply(which))]
    if any(s in (RewriteStatus.OK, RewriteStatus.PRUNED) for _, s in out):
      self._proposals = None
    return out

  def apply_all_rewrites_debug(self) -> None:
    self.apply_rewrites(range(len(self._proposals) if self._proposals is not None else 0))

  # --- The module ---

  def get_hlo_module(self) -> HloModule:
    """The module itself, which goes on changing."""
    return self._module

  def clone_hlo(self) -> HloModule:
    return self._module.clone()

  save_hlo = clone_hlo

  def load_hlo(self, hlo_data: HloModule | str, format: str = "path") -> None:
    """Goes on with a copy of a module, or with a file or text."""
    self._proposals = None
    self._module = hlo_data.clone() if isinstance(hlo_data, HloModule) else HloModule(hlo_data, format)

  def export_hlo_to_str(self) -> str:
    return self._module.to_string()

  def get_hlo_module_hash(self) -> int:
    return self._module.hash()

  def get_hlo_graph(self, debug: bool = False, inline_fused_comp: bool = False,
                    do_hash_verification: bool = False) -> HloGraph:
    return HloGraph(self._module, debug, inline_fused_comp, do_hash_verification)

  @_lib.alone
  def verify_module(self) -> bool:
    return bool(_lib.lib().hilo_core_check(_lib.call()._handle, self._module._handle))

  # --- What it computes ---

  def evaluate(self, times: int = 20, do_not_prep_for_eval: bool = False, platform: str = "cpu") -> EvaluationResult:
    """Runs the module on this processor, three times and then `times` times. It stays as it is: what evaluation needs is
    added to a copy."""
    times = _core.whole(times, "times", -2**31)
    with self._module._lock:
      program = _Executable(self._module.clone(), platform)
    output: Any = None
    for _ in range(WARM_UPS):
      output = program.run()
    start = time.perf_counter_ns()
    durations = program.time(times)
    whole = time.perf_counter_ns() - start
    rest = max(0, whole - sum(durations)) // max(1, times)
    return EvaluationResult(durations, [d + rest for d in durations], [[output]])

  def has_equal_output(self, first_module: HloModule, second_module: HloModule, times: int = 1, *,
                       tolerance: float = TOLERANCE, platform: str = "cpu") -> bool:
    """Whether both compute the same: by the same graph, once what is inside fusions stands where the fusions do; or else, on
    HloEnv's arguments, with results that are equal in every run, integers exactly, floats within the tolerance, absolute or
    relative. Where results of the processor's kernels, which may add up in another order for every fusion, are not, the
    interpreter decides. Both modules stay as they are."""
    if _is_same_graph(first_module, second_module):
      return True
    for where in dict.fromkeys((platform, "reference")):
      first, second = _Executable(first_module, where), _Executable(second_module, where)
      if not any(_differs(first.run(), second.run(), tolerance) for _ in range(max(1, times))):
        return True
    return False

  def has_equal_output_as(self, other_module: HloModule, times: int = 1, **options: Any) -> bool:
    return self.has_equal_output(self._module, other_module, times, **options)

"""Modules of HLO, and how they were to be compiled."""
from __future__ import annotations

import os
import secrets
import threading
from typing import Any

from hilo import _core
from hloenv import _lib

_MASK = (1 << 64) - 1

# What XLA of spring 2022 takes where nothing is said.
_DEBUG_OPTIONS: dict[str, Any] = {
    "xla_llvm_enable_alias_scope_metadata": True, "xla_llvm_enable_noalias_metadata": True,
    "xla_llvm_enable_invariant_load_metadata": True, "xla_llvm_disable_expensive_passes": False,
    "xla_backend_optimization_level": 3, "xla_gpu_deterministic_ops": False, "xla_gpu_autotune_level": 4,
    "xla_cpu_multi_thread_eigen": True, "xla_gpu_cuda_data_dir": "./cuda_sdk_lib", "xla_gpu_asm_extra_flags": "",
    "xla_eliminate_hlo_implicit_broadcast": True, "xla_dump_hlo_as_html": False, "xla_dump_fusion_visualization": False,
    "xla_dump_include_timestamp": False, "xla_dump_max_hlo_modules": -1, "xla_dump_module_metadata": False,
    "xla_dump_hlo_as_long_text": False, "xla_cpu_use_mkl_dnn": True, "xla_gpu_max_kernel_unroll_factor": 4,
    "xla_gpu_disable_multi_streaming": False, "xla_cpu_enable_fast_math": False, "xla_cpu_fast_math_honor_nans": True,
    "xla_cpu_fast_math_honor_infs": True, "xla_cpu_fast_math_honor_functions": True,
    "xla_cpu_fast_math_honor_division": True, "xla_cpu_enable_fast_min_max": True,
    "xla_gpu_enable_cudnn_frontend": False, "xla_gpu_enable_fast_min_max": True,
    "xla_gpu_strict_conv_algorithm_picker": True, "xla_allow_excess_precision": True,
    "xla_force_host_platform_device_count": 1, "xla_gpu_all_reduce_combine_threshold_bytes": 30 << 20,
    "xla_gpu_all_reduce_contiguous": False, "xla_gpu_all_reduce_blueconnect_num_devices_per_host": 0,
    "xla_gpu_enable_async_all_reduce": False, "xla_cpu_enable_xprof_traceme": False,
    "xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found": False, "xla_multiheap_size_constraint_per_heap": -1,
    "xla_detailed_logging_and_dumping": True, "xla_gpu_bef_executable": False, "xla_gpu_bef_thunk": False,
    "xla_gpu_nccl_termination_timeout_seconds": -1, "xla_gpu_enable_shared_constants": True,
    "xla_gpu_redzone_scratch_max_megabytes": 4096}


class _ReadOnly:
  """An object whose members are a dictionary's, and stay as they are."""

  def __init__(self, values: dict[str, Any]):
    self.__dict__.update(values)

  def __setattr__(self, name: str, value: Any) -> None:
    raise AttributeError(f"{name} cannot be set")

  def __repr__(self) -> str:
    return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class DebugOptions(_ReadOnly):
  """XLA's flags."""

  def __init__(self, values: dict[str, Any] | None = None):
    super().__init__({**_DEBUG_OPTIONS, **(values or {})})


class HloModuleConfig(_ReadOnly):
  """How a module is to be compiled."""

  def __init__(self, values: dict[str, Any] | None = None):
    super().__init__({
        "debug_options": DebugOptions(), "seed": 42, "launch_id": 0, "replica_count": 1, "num_partitions": 1,
        "use_spmd_partitioning": False, "use_auto_spmd_partitioning": False, "deduplicate_hlo": False,
        "intra_op_parallelism_threads": -1, "has_static_device_assignment": False, "alias_passthrough_params": False,
        "content_aware_computation_sorting": False, "phase_index": 0,
        "allow_spmd_sharding_propagation_to_output": False, **(values or {})})


class CostAnalysisProperties(dict):
  """Costs by their names."""


class Literal:
  """A value; HloEnv has nothing of it but that it can be shown."""

  def __init__(self, text: str = ""):
    self._text = text

  def __repr__(self) -> str:
    return self._text


def _read(source: str, form: str) -> int:
  options = {"verify": True, "fill_hidden": False, "consts_as_parameters": True}
  with _core.Call() as call:
    if form == "path":
      n = call.run("read", _core.text(source), None, 0, options)
    elif form == "txt":
      content = source.encode()
      n = call.run("read", b"<text>", content, len(content), options)
    else:
      raise ValueError(f"the format of a module is 'path' or 'txt', not {form!r}")
    if n != 1:
      raise ValueError(f"there are {n} modules in {source if form == 'path' else 'the text'}")
    return call.take(0)


class HloModule:
  """A module, which an environment changes in place. `input` is the path of a file in any form that holds a program, or with the
  format "txt" HLO text.

  Several threads may use one: each call waits for the one before. A copy (copy.copy, copy.deepcopy) is a clone."""

  def __init__(self, input: str, format: str = "path"):
    self._at: int | None = None
    self._at = _read(os.fspath(input), format)
    self._lock = threading.RLock()

  @classmethod
  def _of(cls, handle: int) -> HloModule:
    module = cls.__new__(cls)
    module._at, module._lock = handle, threading.RLock()
    return module

  @property
  def _handle(self) -> int:
    if self._at is None:
      raise ValueError("the module is void: passes were broken off in the middle of it")
    return self._at

  def _void(self) -> None:
    """What was broken off, by a signal say, has left the module halfway."""
    handle, self._at = self._at, None
    _lib.lib().hilo_core_module_free(handle)

  def __del__(self) -> None:
    if getattr(self, "_at", None) is not None:
      _lib.lib().hilo_core_module_free(self._at)

  def __copy__(self) -> HloModule:
    return self.clone()

  def __deepcopy__(self, memo: Any) -> HloModule:
    return self.clone()

  def __reduce__(self) -> Any:
    return HloModule, (self.to_string(), "txt")

  def __repr__(self) -> str:
    return f"<HloModule of {self.instruction_count} instructions>"

  @_lib.alone
  def to_string(self) -> str:
    """The text, from which the module can be read again."""
    _lib.run("print", self._handle, None)
    return _lib.call().output().decode()

  @_lib.alone
  def hash(self) -> int:
    """The DAG hash: what is computed, whatever the names (docs/env.md)."""
    return _lib.lib().hilo_core_dag_hash(self._handle) & _MASK

  @_lib.alone
  def clone(self) -> HloModule:
    return HloModule._of(_lib.run("clone", self._handle))

  @property
  @_lib.alone
  def instruction_count(self) -> int:
    return _lib.lib().hilo_core_count(self._handle, False)

  @property
  @_lib.alone
  def computation_count(self) -> int:
    return _lib.lib().hilo_core_count(self._handle, True)

  @property
  def config(self) -> HloModuleConfig:
    interface = self._interface()
    return HloModuleConfig({"replica_count": interface["replicas"], "num_partitions": interface["partitions"],
                            "use_spmd_partitioning": interface["partitions"] > 1})

  @_lib.alone
  def _interface(self) -> dict[str, Any]:
    import json
    _lib.run("interface", self._handle)
    return json.loads(_lib.call().output())

  def is_bef_enabled(self) -> bool:
    """Whether programs run on TensorFlow's runtime of 2022: no."""
    return False

  @_lib.alone
  def cost_analysis(self) -> CostAnalysisProperties:
    """What the entry costs: "flops", "transcendentals", "bytes accessed", "optimal_seconds" (of the bytes, at the bandwidth of the
    model of a device)."""
    import json

    from hloenv.backend import GpuBackend
    _lib.run("stats", self._handle, False)
    stats = json.loads(_lib.call().output())
    flops, moved = float(stats["flops"]), float(stats["bytes_read"] + stats["bytes_written"])
    seconds = max(flops / GpuBackend._flops, moved / GpuBackend._bandwidth)
    return CostAnalysisProperties({"flops": flops, "transcendentals": float(stats["transcendentals"]),
                                   "bytes accessed": moved, "optimal_seconds": seconds})

  # --- Parts ---

  @_lib.alone
  def _parts(self, what: str, repeat: int) -> list[tuple[str, HloModule]]:
    n = _lib.run("parts", self._handle, what.encode(), _core.whole(repeat, "repeat", -2**63, 2**63 - 1))
    texts = _lib.call().output().decode().split("\0")
    return [(texts[k], HloModule._of(_lib.call().take(k))) for k in range(n)]

  def extract_instructions_as_module(self, repeat: int, /) -> list[tuple[str, HloModule]]:
    """For every instruction that calls nothing and is no parameter: its text, and a module with `repeat` copies of it, one after
    the other."""
    return self._parts("instructions", repeat)

  def extract_fusions_as_module(self, repeat: int, /) -> list[HloModule]:
    """The same for each fusion of the entry."""
    return [module for _, module in self._parts("fusions", repeat)]

  @_lib.alone
  def extract_random_submodule(self, instruction_count_threshold: int, height: int, /,
                               seed: int | None = None) -> HloModule | None:
    """A part with the operands of some instruction, `height` deep; None if none was found with so many instructions."""
    most = 2**63 - 1
    least = _core.whole(instruction_count_threshold, "instruction_count_threshold", -most, most)
    seed = secrets.randbits(62) if seed is None else _core.whole(seed, "seed", -most, most)
    handle = _lib.lib().hilo_core_random_part(_lib.call()._handle, self._handle, least,
                                              _core.whole(height, "height", -most, most), seed)
    if handle is None:
      _lib.call()._tell(bool(_lib.lib().hilo_core_failed(_lib.call()._handle)))
      return None
    return HloModule._of(handle)

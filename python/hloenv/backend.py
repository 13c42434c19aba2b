"""The device for which programs are made. There need be none: passes ask a model of it."""
from __future__ import annotations

import enum


class _CudaComputeCapability(enum.IntEnum):
  PASCAL = 6
  VOLTA = 7
  AMPERE = 8


# By Hilo's names (hilo targets): compute capability, flops and bytes a second.
_DEVICES = {"a100": (8, 0, 19.5e12, 2.04e12), "h100": (9, 0, 66.9e12, 3.35e12), "h200": (9, 0, 66.9e12, 4.8e12),
            "b200": (10, 0, 80e12, 8e12)}


class _Backend(type):
  """So that stream_exec_platform is a property of the class."""

  @property
  def stream_exec_platform(cls) -> str:
    return "CUDA"


class GpuBackend(metaclass=_Backend):
  """What is asked of the GPU. Passes take an A100, as HloEnv was built for, or what `use` says."""

  CudaComputeCapability = _CudaComputeCapability
  PASCAL = _CudaComputeCapability.PASCAL
  VOLTA = _CudaComputeCapability.VOLTA
  AMPERE = _CudaComputeCapability.AMPERE

  _target = b"a100"
  _major, _minor, _flops, _bandwidth = _DEVICES["a100"]

  @classmethod
  def use(cls, device: str) -> None:
    """Another model, for all environments: a100, h100, h200, b200. (HloEnv has nothing of the kind.)"""
    if device not in _DEVICES:
      raise ValueError(f"unknown device {device!r}: {', '.join(_DEVICES)}")
    cls._target = device.encode()
    cls._major, cls._minor, cls._flops, cls._bandwidth = _DEVICES[device]

  @classmethod
  def cuda_is_at_least(cls, other_major: int, other_minor: int = 1) -> bool:
    """As in HloEnv, whose default of 1 makes an 8.0 less than AMPERE."""
    return (cls._major, cls._minor) >= (int(other_major), other_minor)

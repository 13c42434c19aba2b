"""Comparing results, leaf by leaf, by the rule of `hilo run`: a float differs if its absolute and its relative error are both
beyond the bound of its type; nan equals nan, whole numbers must be equal."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

_BOUNDS = {"float64": 1e-6, "complex128": 1e-6, "float32": 1e-3, "complex64": 1e-3, "float16": 1e-2, "bfloat16": 2e-2}
_NARROW = 0.25


@dataclasses.dataclass(frozen=True)
class Leaf:
  """One array of a result, of two runs."""
  name: str
  dtype: str
  dims: tuple[int, ...]
  equal: bool
  n_different: int = 0
  worst_abs: float = 0.0
  worst_rel: float = 0.0
  at: tuple[int, ...] = ()     # of the largest error
  actual: Any = None           # there
  expected: Any = None
  why: str = ""                # of what cannot be compared

  def __str__(self) -> str:
    kind = f"{self.dtype}[{','.join(map(str, self.dims))}]"
    if self.why:
      return f"{self.name}  {kind}  differs: {self.why}"
    said = f"{self.name}  {kind}  " + ("equal" if self.equal else f"differs in {self.n_different} elements")
    if self.at or self.worst_abs:
      said += (f"  largest error {self.worst_abs:.3g} (relative {self.worst_rel:.3g}) at {list(self.at)}: {self.actual}, "
               f"expected {self.expected}")
    return said


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Results of the first of two beside those of the second, which is what is expected."""
  sides: tuple[str, str]
  leaves: tuple[Leaf, ...]

  @property
  def equal(self) -> bool:
    return all(leaf.equal for leaf in self.leaves)

  def __str__(self) -> str:
    n = sum(not leaf.equal for leaf in self.leaves)
    total = f"{len(self.leaves)} result" + ("" if len(self.leaves) == 1 else "s")
    end = f"equal: {total}" if n == 0 else f"{n} of {total} differ"
    return "\n".join([f"{self.sides[0]} beside {self.sides[1]}", *(f"  {leaf}" for leaf in self.leaves), f"  {end}"])


def _wide(array: np.ndarray) -> np.ndarray:
  if array.dtype.kind == "c":
    return array.astype(np.complex128)
  if array.dtype.kind in "biu" or array.dtype.name.startswith(("int", "uint")):
    return array
  return array.astype(np.float64)


def _errors(a: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  same = (a == e) | ((a != a) & (e != e))
  with np.errstate(all="ignore"):
    absolute = np.where(same, 0.0, np.abs(a - e))
    relative = np.where(same, 0.0, absolute / np.abs(e))
  return np.where(np.isnan(absolute), np.inf, absolute), np.where(np.isnan(relative), np.inf, relative)


def _compare_whole(name: str, a: np.ndarray, e: np.ndarray) -> Leaf:
  different = a.view(np.uint8).reshape(*a.shape, -1) != e.view(np.uint8).reshape(*e.shape, -1) if a.size else np.zeros((0, 1), bool)
  wrong = different.any(-1)
  if not wrong.any():
    return Leaf(name, a.dtype.name, a.shape, True)
  at = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), a.shape))
  off = abs(int(a[at]) - int(e[at]))
  return Leaf(name, a.dtype.name, a.shape, False, int(wrong.sum()), off, off / abs(int(e[at])) if e[at] else float("inf"), at,
              a[at], e[at])


def compare_leaf(name: str, actual: Any, expected: Any) -> Leaf:
  a, e = np.asarray(actual), np.asarray(expected)
  if a.shape != e.shape or a.dtype != e.dtype:
    why = f"{a.dtype.name}{list(a.shape)} beside {e.dtype.name}{list(e.shape)}"
    return Leaf(name, a.dtype.name, a.shape, False, why=why)
  wide_a, wide_e = _wide(a), _wide(e)
  if wide_a.dtype.kind not in "fc":
    return _compare_whole(name, np.ascontiguousarray(a), np.ascontiguousarray(e))
  absolute, relative = _errors(wide_a, wide_e)
  bound = _BOUNDS.get(a.dtype.name, _NARROW)
  wrong = (absolute > bound) & (relative > bound)
  if a.size == 0 or not absolute.any():
    return Leaf(name, a.dtype.name, a.shape, True)
  ranked = np.where(wrong, np.inf, absolute) if wrong.any() else absolute
  at = tuple(int(i) for i in np.unravel_index(int(ranked.argmax()), a.shape))
  return Leaf(name, a.dtype.name, a.shape, not wrong.any(), int(wrong.sum()), float(absolute[at]), float(relative[at]), at,
              a[at], e[at])


def compare(sides: tuple[str, str], names: Sequence[str], actual: Sequence[Any], expected: Sequence[Any]) -> Comparison:
  return Comparison(sides, tuple(compare_leaf(n, a, e) for n, a, e in zip(names, actual, expected)))

"""What passes would do, as a graph of rewrites that get into each other's way or not."""
from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from hloenv import _lib

if TYPE_CHECKING:
  from hloenv.graph import HloGraph
  from hloenv.module import HloModule


class RewriteStatus(enum.IntEnum):
  """What became of a rewrite that was to be applied."""

  OK = 0
  ADJACENCY = 1          # one applied before it has changed one of its edges
  CYCLE = 2              # a value would depend on itself
  PRUNED = 3             # applied, but dead in the end
  ORIG_INST_DELETED = 4
  ALREADY_APPLIED = 5


class _Proposals:
  """Proposals of a dry run, and the module that they are about."""

  def __init__(self, handle: int, module: HloModule):
    self.handle, self.module = handle, module

  def __del__(self) -> None:
    _lib.lib().hilo_core_proposals_free(self.handle)

  def __reduce__(self) -> Any:
    raise TypeError("rewrites cannot be copied or pickled: they are about one module")

  def __len__(self) -> int:
    return _lib.lib().hilo_core_proposal_count(self.handle)

  def describe(self) -> list[dict[str, Any]]:
    _lib.run("describe_proposals", self.module._handle, self.handle)
    return json.loads(_lib.call().output())

  def adjacency(self) -> np.ndarray:
    _lib.run("adjacency", self.handle)
    n = len(self)
    return np.frombuffer(_lib.call().output(), np.bool_).reshape(n, n)

  def part(self, k: int, replacement: bool) -> HloModule:
    from hloenv.module import HloModule
    return HloModule._of(_lib.run("proposal_part", self.module._handle, self.handle, k, replacement))

  def apply(self, which: list[int]) -> list[int]:
    rows = np.ascontiguousarray(which, np.int64)
    _lib.run("apply", self.module._handle, self.handle, _lib.int64s(rows), len(rows))
    return np.frombuffer(_lib.call().output(), np.int32).tolist()


class Rewrite:
  """A value that would be read in the place of another. What it consists of is made as long as nothing has been applied."""

  def __init__(self, proposals: _Proposals, index: int, about: dict[str, Any]):
    self._proposals, self._about = proposals, about
    self.order_idx = index
    self.pass_name: str = about["pass"]
    self.rule: str = about["rule"]
    self.orig_subgraph_uids: list[int] = about["uids"]
    self._parts: dict[bool, HloModule] = {}

  def _part(self, replacement: bool) -> HloModule:
    if replacement not in self._parts:
      with self._proposals.module._lock:
        self._parts[replacement] = self._proposals.part(self.order_idx, replacement)
    return self._parts[replacement]

  def _graph(self, replacement: bool) -> HloGraph:
    from hloenv.graph import HloGraph
    return HloGraph(self._part(replacement))

  @property
  def orig_subgraph(self) -> HloGraph:
    return self._graph(False)

  @property
  def replacement_subgraph(self) -> HloGraph:
    return self._graph(True)

  def orig_subgraph_to_str(self) -> str:
    return self._part(False).to_string()

  def replacement_subgraph_to_str(self) -> str:
    return self._part(True).to_string()

  def __repr__(self) -> str:
    about = self._about
    return f"<Rewrite {self.order_idx}: {about['pass']} {about['rule']} of {about['instruction']}>"


class HloRewriteGraph:
  """The rewrites that wait for a decision."""

  def __init__(self, proposals: _Proposals | None):
    self.rewrite_data = [] if proposals is None else [Rewrite(proposals, k, about)
                                                      for k, about in enumerate(proposals.describe())]
    self._adjacency = np.zeros((0, 0), np.bool_) if proposals is None else proposals.adjacency()
    self._list: list[list[bool]] | None = None

  @property
  def num_rewrites(self) -> int:
    return len(self.rewrite_data)

  @property
  def adjacency_matrix(self) -> list[list[bool]]:
    """Of each pair whether both would change one edge."""
    if self._list is None:
      self._list = self._adjacency.tolist()
    return self._list

  def log(self) -> None:
    """Prints all of it."""
    for k, rewrite in enumerate(self.rewrite_data):
      about = rewrite._about
      others = [j for j in np.flatnonzero(self._adjacency[k]).tolist() if j != k]
      print(f"rewrite {k}: {about['pass']} {about['rule']} at {about['instruction']} in {about['computation']}"
            + (f" with {about['with']}" if about["with"] else "") + f"; adjacent: {others}")

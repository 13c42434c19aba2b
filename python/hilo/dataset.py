"""Data sets of programs: harvested from JAX or from dumps, each graph once, split by where they come from.

    from hilo.dataset import Dataset
    data = Dataset("data")
    data.add_files(["dumps/resnet"], origin="resnet")    # or, with hilo.jax: with hilo.jax.harvest(data, origin="resnet"): ...
    print(data.statistics()["programs"])
    data.export_tpugraphs("npz")

A folder holds a text for each program, without metadata and with names that say nothing, and index.jsonl, a line for each: URI, file,
origin, name, hash, size, split.
"""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Union

import numpy as np

from hilo import _core, _game
from hilo.errors import Error
from hilo.module import Module

Path = Union[str, "os.PathLike[str]"]
SPLITS = (("train", 0.8), ("valid", 0.1), ("test", 0.1))
_SUFFIXES = (".txt", ".hlo", ".mlir", ".pb", ".mlirbc", ".hlo.gz", ".hlo.zst")


def split_of(origin: str) -> str:
  """Programs of one origin are all in one split, always the same."""
  at = int.from_bytes(hashlib.sha256(origin.encode()).digest()[:8], "big") / 2**64
  for name, part in SPLITS:
    if at < part:
      return name
    at -= part
  return SPLITS[-1][0]


def _hash(module: Module) -> str:
  return f"{_core.lib().hilo_core_dag_hash(module._handle) & (1 << 64) - 1:016x}"


class Dataset:
  """The data set in a folder, which is made where it is not there."""

  def __init__(self, folder: Path):
    self.folder = pathlib.Path(folder)
    self.folder.mkdir(parents=True, exist_ok=True)
    self._index = self.folder / "index.jsonl"
    self.rows: list[dict[str, Any]] = []
    if self._index.exists():
      with open(self._index, encoding="utf-8") as f:
        self.rows = [json.loads(line) for line in f]
    self._seen = {row["hash"] for row in self.rows}
    self._texts: set[bytes] = set()
    self.duplicates = 0
    self.unreadable: list[tuple[str, str]] = []
    self._out = open(self._index, "a", encoding="utf-8")

  def close(self) -> None:
    self._out.close()

  def __enter__(self) -> Dataset:
    return self

  def __exit__(self, *_: Any) -> None:
    self.close()

  def __len__(self) -> int:
    return len(self.rows)

  def add(self, module: Module, origin: str, source: str = "") -> bool:
    """Adds a program; False: its graph is there already."""
    text = module.to_string("short", metadata=False, frames=False, large_constants=True, layouts=True)
    code = _hash(Module(text))  # as whoever reads the file has it, whatever form it came in
    if code in self._seen:
      self.duplicates += 1
      return False
    name = re.sub(r"[^\w.-]+", "_", module.name)[:80] or "module"
    place = re.sub(r"[^\w.-]+", "_", origin) or "unknown"
    file = pathlib.Path(place) / f"{name}.{code}.hlo"
    (self.folder / place).mkdir(exist_ok=True)
    (self.folder / file).write_text(text, encoding="utf-8")
    row = {"uri": f"hilo://{place}/{name}@{code}", "file": file.as_posix(), "origin": origin, "name": module.name,
           "source": source, "hash": code, "instructions": sum(len(c.instructions) for c in module.computations),
           "split": split_of(origin)}
    self._seen.add(code)
    self.rows.append(row)
    self._out.write(json.dumps(row) + "\n")
    self._out.flush()
    return True

  def add_text(self, text: str, origin: str, source: str = "") -> bool:
    """The same of a program as text, in any form; a text that was there before is not read again."""
    key = hashlib.sha256(text.encode()).digest()
    if key in self._texts:
      self.duplicates += 1
      return False
    self._texts.add(key)
    return self.add(Module(text), origin, source)

  def note_unreadable(self, source: str, why: str) -> None:
    self.unreadable.append((source, why))

  def add_files(self, paths: Iterable[Path], origin: str | None = None) -> int:
    """Adds the programs of files and folders; the origin is the folder's name where none is given. How many were new."""
    new = 0
    for path in paths:
      top = pathlib.Path(path)
      files = sorted(f for f in top.rglob("*") if f.is_file() and f.name.endswith(_SUFFIXES)) if top.is_dir() else [top]
      for file in files:
        try:
          for module in Module.all(file):
            new += self.add(module, origin or (file.parent.name or "unknown"), str(file))
        except (Error, OSError) as e:
          self.note_unreadable(str(file), str(e))
    return new

  def add_random(self, n: int, *, origin: str = "generated", first: int = 0, **options: Any) -> int:
    """Adds random programs of seeds from `first` on; options are those of hilo.games.generate."""
    return sum(self.add(_game.generate(seed, **options), origin, f"seed {seed}") for seed in range(first, first + n))

  def modules(self, split: str | None = None) -> Iterator[tuple[dict[str, Any], Module]]:
    for row in self.rows:
      if split is None or row["split"] == split:
        yield row, Module(self.folder / row["file"])

  def statistics(self) -> dict[str, Any]:
    """{"programs", "origins", "splits", "instructions": {...}, "ops": {...}}."""
    sizes = np.array([row["instructions"] for row in self.rows]) if self.rows else np.zeros(1, int)
    ops: dict[str, int] = {}
    for _, module in self.modules():
      for op, n in module.stats()["ops"].items():
        ops[op] = ops.get(op, 0) + n
    return {"programs": len(self.rows), "origins": len({row["origin"] for row in self.rows}),
            "splits": {name: sum(row["split"] == name for row in self.rows) for name, _ in SPLITS},
            "instructions": {"sum": int(sizes.sum()), "median": float(np.median(sizes)), "largest": int(sizes.max())},
            "ops": dict(sorted(ops.items(), key=lambda item: (-item[1], item[0])))}

  def export_tpugraphs(self, folder: Path, target: str | None = None) -> int:
    """Writes SPLIT/NAME.npz as TpuGraphs' layout collection has them: node_feat, node_opcode, edge_index, node_splits, and one
    configuration, the layouts as they are: node_config_ids, node_config_feat, config_runtime (nanoseconds by the roofline of the
    target). How many."""
    n = 0
    for row, module in self.modules():
      place = pathlib.Path(folder) / row["split"]
      place.mkdir(parents=True, exist_ok=True)
      arrays = _game.observe(module, "tpugraphs-v1")
      ids, feat = _configuration(arrays)
      seconds = _game.Game(module, env="algebra", target=target).costs["seconds"]
      np.savez(place / (pathlib.Path(row["file"]).stem + ".npz"), **arrays, node_config_ids=ids, node_config_feat=feat,
               config_runtime=np.array([max(1, round(seconds * 1e9))], np.int64))
      n += 1
    return n


def _configuration(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """Nodes whose layouts a compiler may choose (convolutions, dots, reshapes: 26, 34, 75), and these layouts: of the result and of
  two operands six numbers each, -1 beyond the rank."""
  configurable = np.flatnonzero(np.isin(arrays["node_opcode"], (26, 34, 75))).astype(np.int64)
  feat = np.full((1, len(configurable), 18), -1, np.float32)
  ranks = (arrays["node_feat"][:, 21:27] > 0).sum(axis=1)
  edges = arrays["edge_index"]
  for k, node in enumerate(configurable.tolist()):
    operands = edges[edges[:, 0] == node][:2, 1].tolist()
    for slot, one in enumerate([node, *operands]):
      rank = int(ranks[one])
      feat[0, k, 6 * slot:6 * slot + rank] = arrays["node_feat"][one, 134:134 + rank]
  return configurable, feat

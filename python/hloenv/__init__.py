"""HloEnv on Hilo: passes over HLO whose rewrites are chosen one by one.

The classes of https://github.com/sail-sg/hloenv (version 0.0.1, main, and the rewrites branch), by name, signature and meaning, on
any processor: no GPU, no TensorFlow. docs/env.md says what differs, and why.

    from hloenv import AltPipeline, HloEnv, HloPass, Pass
    env = HloEnv("module.hlo", "gpu")
    env.run(AltPipeline(Pass(HloPass.GpuInstructionFusion(True))))
    graph = env.get_hlo_graph()
    env.apply_alternatives([[node, 1] for node in graph.alternative_indices])

Nothing is loaded before it is used.
"""
from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it to be true; importing typing takes longer than all else here
if TYPE_CHECKING:
  from typing import Any

  from hloenv import hlo_pass as HloPass
  from hloenv.backend import GpuBackend
  from hloenv.env import EvaluationResult, HloEnv
  from hloenv.graph import EdgeFeats, HloGraph, NodeFeats
  from hloenv.module import CostAnalysisProperties, DebugOptions, HloModule, HloModuleConfig, Literal
  from hloenv.pipeline import AltPipeline, Pass, PassInterface, Pipeline, RewritePipeline
  from hloenv.rewrites import HloRewriteGraph, Rewrite, RewriteStatus

__version__ = "0.0.1"

_HOMES = {
    "HloEnv": "env", "EvaluationResult": "env", "HloGraph": "graph", "NodeFeats": "graph", "EdgeFeats": "graph",
    "HloModule": "module", "HloModuleConfig": "module", "DebugOptions": "module", "CostAnalysisProperties": "module",
    "Literal": "module", "PassInterface": "pipeline", "Pass": "pipeline", "Pipeline": "pipeline",
    "AltPipeline": "pipeline", "RewritePipeline": "pipeline", "GpuBackend": "backend", "RewriteStatus": "rewrites",
    "HloRewriteGraph": "rewrites", "Rewrite": "rewrites"}

__all__ = ["HloPass", *_HOMES]


def __getattr__(name: str) -> Any:
  import importlib
  if name == "HloPass":
    value: Any = importlib.import_module("hloenv.hlo_pass")
  elif name in _HOMES:
    value = getattr(importlib.import_module(f"hloenv.{_HOMES[name]}"), name)
  else:
    raise AttributeError(f"module 'hloenv' has no attribute {name!r}")
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted([*globals(), *__all__])

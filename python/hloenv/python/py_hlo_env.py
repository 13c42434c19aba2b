"""Everything under the name that HloEnv's extension module has."""
from __future__ import annotations

from hloenv import hlo_pass
from hloenv.backend import GpuBackend
from hloenv.env import EvaluationResult, HloEnv
from hloenv.graph import EdgeFeats, HloGraph, NodeFeats
from hloenv.module import CostAnalysisProperties, DebugOptions, HloModule, HloModuleConfig, Literal
from hloenv.pipeline import AltPipeline, Pass, PassInterface, Pipeline, RewritePipeline
from hloenv.rewrites import HloRewriteGraph, Rewrite, RewriteStatus

OK, ADJACENCY, CYCLE, PRUNED, ORIG_INST_DELETED, ALREADY_APPLIED = RewriteStatus

__all__ = ["ADJACENCY", "ALREADY_APPLIED", "AltPipeline", "CYCLE", "CostAnalysisProperties", "DebugOptions", "EdgeFeats",
           "EvaluationResult", "GpuBackend", "HloEnv", "HloGraph", "HloModule", "HloModuleConfig", "HloRewriteGraph",
           "Literal", "NodeFeats", "OK", "ORIG_INST_DELETED", "PRUNED", "Pass", "PassInterface", "Pipeline", "Rewrite",
           "RewritePipeline", "RewriteStatus", "hlo_pass"]

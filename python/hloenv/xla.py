"""XLA's GPU pipeline of spring 2022, of the passes of HloPass: what HloEnv.optimize_hlo_module runs."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloenv import hlo_pass as H
from hloenv.backend import GpuBackend
from hloenv.pipeline import Pipeline

if TYPE_CHECKING:
  from hloenv.env import HloEnv


def _pipeline(name: str, *members: Any, loop_count: int = 1) -> Pipeline:
  """Members that are to run to a fixed point stand in a list."""
  out = Pipeline(name, loop_count)
  for member in members:
    if isinstance(member, list):
      out.add_pass(member[0], -1)
    else:
      out.add_pass(member)
  return out


def _algebra(flags: Any, **options: Any) -> Any:
  return H.AlgebraicSimplifier({"replace_transpose_with_bitcast": False,
                                "minmax_propagate_nan": flags.xla_gpu_enable_fast_min_max, **options})


def _spmd(config: Any, flags: Any) -> list[Pipeline]:
  if config.num_partitions <= 1:
    return []
  return [_pipeline(
      "spmd-partitioner", H.CallInliner(), H.ZeroSizedHloElimination(), H.ConditionalCanonicalizer(),
      _pipeline("spmd-simplify", _algebra(flags, enable_conv_operand_swap=False), H.SortSimplifier(),
                H.TupleSimplifier(), H.ScatterExpander(H.ScatterExpander.Mode.kEliminateSimpleScatters),
                H.GatherExpander(H.GatherExpander.Mode.kEliminateSimpleGathers), H.WhileLoopConstantSinking(),
                H.WhileLoopSimplifier(), H.ReshapeMover(), H.HloConstantFolding(), H.ConditionalSimplifier(), H.HloDCE(),
                loop_count=-1),
      H.ShardingPropagation(True), H.StatefulRngSpmdPartitioner(config.num_partitions, config.replica_count))]


def _optimization(flags: Any) -> Pipeline:
  scatters = (H.ScatterExpander(H.ScatterExpander.Mode.kEliminateAllScatters) if flags.xla_gpu_deterministic_ops
              else H.GpuScatterExpander())
  return _pipeline(
      "optimization", H.AllToAllDecomposer(), H.OperandUpcaster(), H.ResultCaster(), H.RngExpander(),
      H.RngBitGeneratorExpander(H.RngBitGeneratorExpander.RandomAlgorithm.RNG_PHILOX), H.ComparisonExpander(),
      H.ZeroSizedHloElimination(), scatters, H.QrExpander(), H.EighExpander(), H.DynamicIndexSplitter(),
      H.CallInliner(), H.DotDecomposer(), H.Convolution4DExpander(), H.StableSortExpander(),
      H.BFloat16Normalization(True), H.BatchNormExpander(True, True, True),
      H.LogisticExpander(H.LogisticExpander.LogisticExpansionType.kExp), H.ConditionalCanonicalizer(),
      H.DynamicDimensionSimplifier(), H.DynamicPadder({"shape_check_mode": H.DynamicPadder.ShapeCheckMode.kCompileTime}),
      _pipeline("simplification", H.ZeroSizedHloElimination(),
                H.GatherExpander(H.GatherExpander.Mode.kEliminateSimpleGathers),
                H.ScatterExpander(H.ScatterExpander.Mode.kEliminateSimpleScatters), _algebra(flags),
                H.BitcastDtypesExpander(), H.DotDecomposer(), H.DotMerger(16 << 20), H.SortSimplifier(),
                H.TupleSimplifier(), H.WhileLoopConstantSinking(), H.WhileLoopSimplifier(), H.ReshapeMover(),
                H.HloConstantFolding(), H.ConditionalSimplifier(), H.RealImagExpander(), H.TransposeFolding(),
                H.HloCSE(False), H.HloDCE(), loop_count=-1),
      H.WhileLoopTripCountAnnotator())


def _collectives(config: Any, flags: Any) -> list[Pipeline]:
  if config.num_partitions * config.replica_count <= 1:
    return []
  return [_pipeline("collective-optimizations", H.AllReduceFolder(), H.ReduceScatterCreator(), H.AllReduceReassociate(),
                    _algebra(flags, enable_conv_operand_swap=False), H.AllGatherBroadcastReorder())]


def _convolutions() -> Pipeline:
  algebra = H.AlgebraicSimplifier({"replace_transpose_with_bitcast": False, "enable_conv_operand_swap": False})
  return _pipeline("conv-canonicalization", H.GpusolverRewriter(), H.GpuConvRewriter(), H.CudnnFusedConvRewriter(),
                   H.GpuConvPaddingLegalization(), H.CudnnPadForConvolutions(), H.CudnnVectorizeConvolutions(),
                   H.CallInliner(), H.TupleSimplifier(), [algebra], H.HloConstantFolding())


def _pads() -> list[Any]:
  kinds = H.CublasPadForGemms.PrimitiveType
  capability = GpuBackend.CudaComputeCapability
  out: list[Any] = []
  if GpuBackend.cuda_is_at_least(capability.AMPERE):
    out.append(H.CublasPadForGemms(kinds.BF16, 8))
  if GpuBackend.cuda_is_at_least(capability.VOLTA):
    out += [H.CublasPadForGemms(kinds.S8, 4), H.CublasPadForGemms(kinds.F16, 8)]
  return out


def _layouts(env: HloEnv, flags: Any) -> list[Pipeline]:
  algebra = _algebra(flags, is_layout_sensitive=True, enable_conv_operand_swap=False)
  return [
      _pipeline("layout-assignment", H.FlattenCallGraph(), H.GpuLayoutAssignment(env.get_hlo_module())),
      _pipeline("post-layout-assignment-nv-pre", *_pads(), H.HloConstantFolding()),
      _pipeline("post-layout-assignment", H.ReductionDegenerateDimRemover(), H.ReductionLayoutNormalizer(),
                H.ReductionDimensionGrouper(), [H.ReductionSplitter()], [H.GpuTreeReductionRewriter()], [algebra],
                H.TransposeFolding(), H.GemmRewriter(), H.GemmBroadcastFoldingRewriter(), H.BFloat16Normalization(False),
                H.GpuConvAlgorithmPicker(), H.TupleSimplifier(), H.HloCSE(True)),
      _pipeline("post-layout-assignment-nv-post", H.GemmAlgorithmPicker(), H.TriangularSolveRewriter())]


def _fusion() -> list[Pipeline]:
  return [
      _pipeline("vertical-fusion", H.VariadicOpSplitter(), H.GpuInstructionFusion(False), H.GpuInstructionFusion(True),
                H.FusionMerger(), H.GpuMultiOutputFusion(), H.HloCSE(True, True), H.HloDCE(), loop_count=-1),
      _pipeline("horizontal-fusion", H.GpuHorizontalLoopFusion(), H.GpuHorizontalInputFusion(), H.HloCSE(True, True),
                H.HloDCE(), loop_count=-1)]


def _post_fusion(flags: Any) -> Pipeline:
  members: list[Any] = [H.AllGatherCombiner(1 << 30, 256),
                        H.AllReduceCombiner(flags.xla_gpu_all_reduce_combine_threshold_bytes, 256),
                        H.ReduceScatterCombiner(30 << 20, 256)]
  if flags.xla_gpu_all_reduce_contiguous:
    members.append(H.AllReduceContiguous())
  if flags.xla_gpu_all_reduce_blueconnect_num_devices_per_host > 0:
    members.append(H.AllReduceBlueConnect(flags.xla_gpu_all_reduce_blueconnect_num_devices_per_host))
  if flags.xla_gpu_enable_async_all_reduce:
    members.append(H.AsyncCollectiveCreator())
  return _pipeline("post-fusion", *members, H.CollectivesScheduleLinearizer(),
                   _algebra(flags, is_layout_sensitive=True, enable_conv_operand_swap=False),
                   H.OptimizationBarrierExpander(), H.TupleSimplifier())


def xla_pipeline(env: HloEnv) -> Pipeline:
  """All of it, for the module that the environment holds."""
  config = env.get_hlo_module().config
  flags = config.debug_options
  return _pipeline("xla", *_spmd(config, flags), _optimization(flags), *_collectives(config, flags), _convolutions(),
                   *_layouts(env, flags), *_fusion(), _post_fusion(flags))

"""HloEnv's passes, by its names and arguments, and the passes of Hilo's that they are (docs/env.md lists them).

A pass that Hilo does not have is an error that names it; so is an argument that no pass of Hilo's honours.
"""
from __future__ import annotations

import enum
from typing import Any


class HloPassInterface:
  """What all passes are. `text` is the pass as Hilo's pipelines write it: "algsimp{layout_sensitive=true}"."""

  text = ""
  name = ""

  def __repr__(self) -> str:
    return f"<HloPass.{type(self).__name__}: {self.text or 'nothing'}>"


def _option(value: Any) -> str:
  return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _with(name: str, **options: Any) -> str:
  written = " ".join(f"{key}={_option(value)}" for key, value in options.items())
  return f"{name}{{{written}}}" if written else name


class _Unsupported(NotImplementedError):
  """A pass, or an argument of one, that Hilo does not have."""


# --- Passes without arguments: HloEnv's class, its name string, Hilo's pass ---

_PLAIN = """
AllGatherBroadcastReorder           all-gather-bcast-reorder
AllReduceContiguous                 all-reduce-contiguous
AllReduceFolder                     all-reduce-folder
AllReduceReassociate                all-reduce-reassociate
BitcastDtypesExpander               bitcast_dtypes_expander
CollectivesScheduleLinearizer       collectives-schedule-linearizer
ComparisonExpander                  comparison-expander
ConditionalCanonicalizer            conditional-canonicalizer         conditional canonicalizer
ConditionalSimplifier               simplify-conditional
Convolution4DExpander               convolution_4d_expander
CudnnFusedConvRewriter              cudnn-fused-convolution-rewriter
CudnnPadForConvolutions             cudnn_pad_for_convolutions
DotDecomposer                       dot_decomposer
DynamicDimensionSimplifier          dynamic-dimension-simplifier      dynamic dimension simplifier
DynamicIndexSplitter                dynamic-index-splitter
EighExpander                        eigh_expander
FlattenCallGraph                    flatten-call-graph
FusionMerger                        fusion_merger
GemmBroadcastFoldingRewriter        cublas-gemm-broadcast-folding-rewriter
GemmRewriter                        cublas-gemm-rewriter
GeneralFusion                       general-fusion                    general_fusion
GpuConvPaddingLegalization          conv-padding-legalization         gpu-conv-padding-legalization
GpuConvRewriter                     conv-rewriter                     gpu-conv-rewriter
GpuHorizontalInputFusion            horizontal_input_fusion
GpuHorizontalLoopFusion             horizontal_loop_fusion
GpuMultiOutputFusion                multi_output_fusion
GpuScatterExpander                  gpu_scatter_expander
GpusolverRewriter                   gpusolver-rewriter
GpuTreeReductionRewriter            tree-reduction-rewriter           gpu-tree-reduction-rewriter
HloConstantFolding                  constant_folding
OperandUpcaster                     operand_upcaster
OptimizationBarrierExpander         cse_barrier_expander              optimization-barrier-expander
QrExpander                          qr_expander
RealImagExpander                    real_imag_expander
ReduceScatterCreator                reduce-scatter-creator
ReductionDegenerateDimRemover       reduction-degenerate-dim-remover
ReductionDimensionGrouper           reduction-dimension-grouper
ReductionLayoutNormalizer           reduction-layout-normalizer
ReductionSplitter                   reduction-splitter
ReshapeMover                        reshape-mover
ResultCaster                        result_caster
RngExpander                         rng-expander
ShardingRemover                     sharding-remover
SliceSinker                         slice-sinker
SortSimplifier                      simplify-sorts
StableSortExpander                  stable-sort-expander
TransposeFolding                    transpose-folding
TriangularSolveRewriter             triangular-solve-rewriter
VariadicOpSplitter                  variadic-op-splitter
WhileLoopConstantSinking            while-loop-constant-sinking
WhileLoopSimplifier                 simplify-while-loops
WhileLoopTripCountAnnotator         while-loop-trip-count-annotator
ZeroSizedHloElimination             zero_sized_hlo_elimination
"""

# HloEnv left these unbound; Hilo has them.
_MORE = """
BatchDotSimplification              batch-dot-simplification
BFloat16ConversionFolding           bfloat16-fold
BFloat16Propagation                 bfloat16-propagation
CholeskyExpander                    cholesky_expander
ConditionalCodeMotion               conditional-code-motion
ConditionalToSelect                 conditional-to-select
ConvertOperandFolding               convert_operand_folding
CopyInsertion                       copy-insertion
Defuser                             defuser
Despecializer                       despecializer
HloMemoryScheduler                  hlo-memory-scheduler
HloModuleDCE                        hlo-module-dce
HloRematerialization                hlo-memory-scheduler,rematerialization  rematerialization
HloSubcomputationUnification        computation-deduplicator
LayoutAssignment                    layout-assignment
MapInliner                          map-inline
SpaceToBatchConverter               space-to-batch-converter
SpmdPartitioner                     spmd-partitioning
TopkRewriter                        topk-rewriter
TreeReductionRewriter               tree_reduction_rewriter
TriangularSolveExpander             triangular_solve_expander
WhileLoopAllReduceCodeMotion        while-loop-all-reduce-code-motion
WhileLoopInvariantCodeMotion        while-loop-invariant-code-motion
"""


def _add_plain(table: str, doc: str) -> None:
  for line in table.split("\n"):
    if not line.strip():
      continue
    cls, text, *name = line.split(None, 2)
    globals()[cls] = type(cls, (HloPassInterface,), {
        "text": text, "name": name[0] if name else text, "__module__": __name__, "__doc__": doc.format(text)})


_add_plain(_PLAIN, "Hilo's {}.")
_add_plain(_MORE, "Hilo's {}; HloEnv does not bind it.")


# --- With arguments ---


def _export(enumeration: type[enum.Enum]) -> Any:
  """A decorator: words of an enumeration are members of the class, too."""
  def add(cls: type) -> type:
    for member in enumeration:
      setattr(cls, member.name, member)
    return cls
  return add


# HloEnv's options of AlgebraicSimplifier, and Hilo's.
_ALGEBRA = {"is_layout_sensitive": "layout_sensitive", **{name: name for name in (
    "enable_dot_strength_reduction", "enable_dot_to_multiply_rewrite", "enable_conv_simplification",
    "enable_conv_operand_swap", "enable_scalar_multiply_reduction", "enable_floats_are_real",
    "enable_window_reduce_to_reduce_replacement", "very_small_gather_size", "enable_reduce_of_reshape",
    "enable_negative_padding_replacement", "enable_sink_broadcast", "minmax_propagate_nan")}}


class AlgebraicSimplifier(HloPassInterface):
  name = "algsimp"

  def __init__(self, options: dict[str, Any] | None = None):
    out = {}
    for key, value in (options or {}).items():
      if key in _ALGEBRA:
        out[_ALGEBRA[key]] = int(value) if key == "very_small_gather_size" else bool(value)
      elif key == "replace_transpose_with_bitcast":
        # Hilo's simplifier leaves transposes to layout_normalization, which is another pass.
        if value:
          raise _Unsupported("AlgebraicSimplifier: Hilo has no replace_transpose_with_bitcast")
      elif key == "cudnn_batchnorm_forward_training_metadata":
        if value:
          raise _Unsupported("AlgebraicSimplifier: Hilo has no cudnn_batchnorm_forward_training_metadata")
      else:
        raise ValueError(f"AlgebraicSimplifier has no option {key!r}")
    self.text = _with("algsimp", **out)


class _Combiner(HloPassInterface):
  def __init__(self, combine_threshold_in_bytes: int, combine_threshold_count: int):
    self.text = _with(self.name, combine_threshold_in_bytes=int(combine_threshold_in_bytes),
                      combine_threshold_count=int(combine_threshold_count))


class AllGatherCombiner(_Combiner):
  name = "all-gather-combiner"


class AllReduceCombiner(_Combiner):
  name = "all-reduce-combiner"


class ReduceScatterCombiner(_Combiner):
  name = "reduce-scatter-combiner"


class AllReduceBlueConnect(HloPassInterface):
  name = "all-reduce-blueconnect"

  def __init__(self, num_devices_per_host: int):
    self.text = _with(self.name, num_devices_per_host=int(num_devices_per_host))


class AllToAllDecomposer(HloPassInterface):
  name = "all_to_all_decomposer"

  def __init__(self, decompose_to_tuple: bool = True, min_array_rank: int = 0):
    self.text = _with(self.name, decompose_to_tuple=bool(decompose_to_tuple), min_array_rank=int(min_array_rank))


class AsyncCollectiveCreator(HloPassInterface):
  """Of all-reduces alone, as HloEnv has it."""
  name = "async-collective-creator"

  def __init__(self) -> None:
    self.text = _with(self.name, all_gather=False, collective_permute=False, all_to_all=False, reduce_scatter=False,
                      collective_broadcast=False, ragged_all_to_all=False)


class BatchNormExpander(HloPassInterface):
  name = "batchnorm_expander"

  def __init__(self, rewrite_training_op: bool = False, rewrite_inference_op: bool = False,
               rewrite_grad_op: bool = False):
    self.text = _with(self.name, rewrite_training_op=bool(rewrite_training_op),
                      rewrite_inference_op=bool(rewrite_inference_op), rewrite_grad_op=bool(rewrite_grad_op))


class BFloat16Normalization(HloPassInterface):
  """Hilo asks the model of the device what it computes in bf16."""
  name = "bf16-normalization"
  text = "float-normalization-bf16"

  def __init__(self, supports_matrix_multiplication: bool, /):
    self.supports_matrix_multiplication = bool(supports_matrix_multiplication)


class CallInliner(HloPassInterface):
  name = "CallInliner"

  def __init__(self, single_call_site: bool = False, update_domain: bool = False):
    if update_domain:
      raise _Unsupported("CallInliner: Hilo has no update_domain")
    self.text = _with("call-inliner", single_call_site=bool(single_call_site))


class _PrimitiveType(enum.IntEnum):
  PRIMITIVE_TYPE_INVALID = 0
  PRED = 1
  S8 = 2
  S16 = 3
  S32 = 4
  S64 = 5
  U8 = 6
  U16 = 7
  U32 = 8
  U64 = 9
  F16 = 10
  F32 = 11
  F64 = 12
  TUPLE = 13
  OPAQUE_TYPE = 14
  C64 = 15
  BF16 = 16
  TOKEN = 17
  C128 = 18


@_export(_PrimitiveType)
class CublasPadForGemms(HloPassInterface):
  PrimitiveType = _PrimitiveType
  name = "cublas-pad-for-gemms"

  def __init__(self, datatype: _PrimitiveType, pad_to_multiple_of: int):
    self.text = _with(self.name, type=_PrimitiveType(datatype).name.lower(), multiple=int(pad_to_multiple_of))


class DotMerger(HloPassInterface):
  name = "dot-merger"

  def __init__(self, max_size_to_merge: int):
    self.text = _with(self.name, max_size=int(max_size_to_merge))


class _ShapeCheckMode(enum.IntEnum):
  kInvalid = 0
  kCompileTime = 1
  kRuntimeTime = 2
  kIgnore = 3


@_export(_ShapeCheckMode)
class DynamicPadder(HloPassInterface):
  """Hilo checks shapes when it compiles, whatever the mode."""
  ShapeCheckMode = _ShapeCheckMode
  name = "dynamic_padder"

  def __init__(self, options: dict[str, Any] | None = None, /):
    options = dict(options or {})
    mode = options.pop("shape_check_mode", _ShapeCheckMode.kCompileTime)
    if _ShapeCheckMode(mode) == _ShapeCheckMode.kRuntimeTime:
      raise _Unsupported("DynamicPadder: Hilo has no checks of shapes at run time")
    slices = options.pop("slice_dynamic_output", True)
    if options:
      raise ValueError(f"DynamicPadder has no option {next(iter(options))!r}")
    self.text = _with(self.name, slice_dynamic_output=bool(slices))


class _GatherMode(enum.IntEnum):
  kEliminateAllGathers = 0
  kEliminateSimpleGathers = 1


@_export(_GatherMode)
class GatherExpander(HloPassInterface):
  Mode = _GatherMode
  name = "gather_expander"

  def __init__(self, m: _GatherMode):
    self.text = _with(self.name, simple=_GatherMode(m) == _GatherMode.kEliminateSimpleGathers)


class _ScatterMode(enum.IntEnum):
  kEliminateAllScatters = 0
  kEliminateSimpleScatters = 1


@_export(_ScatterMode)
class ScatterExpander(HloPassInterface):
  Mode = _ScatterMode
  name = "scatter_expander"

  def __init__(self, m: _ScatterMode):
    self.text = _with(self.name, simple=_ScatterMode(m) == _ScatterMode.kEliminateSimpleScatters)


class GpuInstructionFusion(HloPassInterface):
  name = "fusion"

  def __init__(self, may_duplicate: bool):
    self.text = _with(self.name, may_duplicate=bool(may_duplicate))


class GpuLayoutAssignment(HloPassInterface):
  """The entry's layout is that of the module it runs on."""
  name = text = "layout-assignment"

  def __init__(self, hlo_module: Any = None, /):
    del hlo_module


class HloCSE(HloPassInterface):
  """In all computations; with `only_fusion_computations` XLA leaves the others out, where after fusion it would find the same."""
  name = "cse"

  def __init__(self, is_layout_sensitive: bool, only_fusion_computations: bool = False):
    self.only_fusion_computations = bool(only_fusion_computations)
    self.text = _with(self.name, layout_sensitive=bool(is_layout_sensitive))


class HloDCE(HloPassInterface):
  name = text = "dce"

  def __init__(self, remove_cross_partition_collective_ops: bool = False):
    if remove_cross_partition_collective_ops:
      raise _Unsupported("HloDCE: Hilo has no remove_cross_partition_collective_ops")


class HloVerifier(HloPassInterface):
  name = "hlo-verifier"

  def __init__(self, layout_sensitive: bool, allow_mixed_precision: bool):
    self.text = _with(self.name, layout_sensitive=bool(layout_sensitive),
                      allow_mixed_precision=bool(allow_mixed_precision))


class _LogisticExpansionType(enum.IntEnum):
  kTanh = 0
  kExp = 1


@_export(_LogisticExpansionType)
class LogisticExpander(HloPassInterface):
  LogisticExpansionType = _LogisticExpansionType
  name = text = "logistic-expander"

  def __init__(self, expansion_type: _LogisticExpansionType):
    if _LogisticExpansionType(expansion_type) != _LogisticExpansionType.kExp:
      raise _Unsupported("LogisticExpander: Hilo expands by exp alone, not by tanh (kTanh)")


class _RandomAlgorithm(enum.IntEnum):
  RNG_DEFAULT = 0
  RNG_THREE_FRY = 1
  RNG_PHILOX = 2


@_export(_RandomAlgorithm)
class RngBitGeneratorExpander(HloPassInterface):
  RandomAlgorithm = _RandomAlgorithm
  name = "rng-bit-generator-expander"

  def __init__(self, default_algorithm: _RandomAlgorithm):
    algorithm = _RandomAlgorithm(default_algorithm)
    self.text = _with(self.name, default="threefry" if algorithm == _RandomAlgorithm.RNG_THREE_FRY else "philox")


class ShardingPropagation(HloPassInterface):
  """Hilo's takes what the module says of the output's shardings."""
  name = text = "sharding-propagation"

  def __init__(self, is_spmd: bool = False, propagate_metadata: bool = False,
               allow_spmd_sharding_propagation_to_output: bool = False, cse_prevention_only: bool = False):
    if cse_prevention_only:
      raise _Unsupported("ShardingPropagation: Hilo has no cse_prevention_only")


class StatefulRngSpmdPartitioner(HloPassInterface):
  """Hilo's spmd-partitioning, for as many partitions as the module says."""
  name = text = "spmd-partitioning"

  def __init__(self, num_partitions: int, num_replicas: int):
    self.num_partitions, self.num_replicas = int(num_partitions), int(num_replicas)


class TupleSimplifier(HloPassInterface):
  name = "tuple-simplifier"

  def __init__(self, exclude_entry_computation: bool = False):
    self.text = _with(self.name, exclude_entry_computation=bool(exclude_entry_computation))


# --- What depends on a GPU that is there, or that Hilo does not have ---


class _Measuring(HloPassInterface):
  """Measures kernels on the GPU and writes down which is best. There is none, so the module stays as it is."""


class GemmAlgorithmPicker(_Measuring):
  name = "gemm-algorithm-picker"


class GpuConvAlgorithmPicker(_Measuring):
  name = "gpu-conv-algorithm-picker"


class CudnnVectorizeConvolutions(HloPassInterface):
  """Packs the channels of convolutions of bytes, for cuDNN. Hilo does not have it: a module with such convolutions stays as it is."""
  name = "cudnn_vectorize_convolutions"


class FusionBitcastLift(HloPassInterface):
  def __init__(self) -> None:
    raise _Unsupported("Hilo has no pass FusionBitcastLift")


__all__ = sorted(name for name, value in globals().items()
                 if isinstance(value, type) and issubclass(value, HloPassInterface) and not name.startswith("_"))

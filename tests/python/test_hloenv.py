"""hloenv: HloEnv's classes on Hilo. (HloEnv's own tests and examples are fetched, not kept here: docs/env.md says how to run them.)"""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import hloenv
from hloenv import (AltPipeline, GpuBackend, HloEnv, HloGraph, HloModule, HloPass, Pass, Pipeline, RewritePipeline,
                    RewriteStatus)
from hloenv.env import _Executable

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRAIN = str(ROOT / "tests" / "fixtures" / "mlp_train" / "before.hlo")

SOFTMAX = """HloModule softmax, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,16]{1,0} parameter(0)
  e = f32[8,16]{1,0} exponential(x)
  zero = f32[] constant(0)
  sum = f32[8]{0} reduce(e, zero), dimensions={1}, to_apply=add
  n = f32[8]{0} negate(sum)
  wide = f32[8,16]{1,0} broadcast(n), dimensions={0}
  ROOT d = f32[8,16]{1,0} divide(e, wide)
}
"""


def softmax():
  return HloEnv(SOFTMAX, "txt", "gpu")


def fusion():
  return AltPipeline(Pass(HloPass.GpuInstructionFusion(True)))


def cleanup():
  out = Pipeline("cleanup")
  for p in (HloPass.FusionMerger(), HloPass.GpuMultiOutputFusion(), HloPass.HloCSE(True, True), HloPass.HloDCE()):
    out.add_pass(p)
  return out


class Modules(unittest.TestCase):
  def test_text_and_hash_survive(self):
    m = HloModule(SOFTMAX, "txt")
    again = HloModule(m.to_string(), "txt")
    self.assertEqual((m.to_string(), m.hash()), (again.to_string(), again.hash()))
    self.assertEqual(m.hash(), m.clone().hash())
    self.assertEqual((m.instruction_count, m.computation_count), (10, 2))

  def test_the_hash_is_what_it_was(self):
    # Its definition is part of the contract: other processes, machines and versions have the same numbers.
    self.assertEqual(HloModule(SOFTMAX, "txt").hash(), SOFTMAX_HASH)
    renamed = SOFTMAX.replace(" n = ", " other = ").replace("broadcast(n)", "broadcast(other)")
    self.assertEqual(HloModule(renamed, "txt").hash(), SOFTMAX_HASH)
    self.assertNotEqual(HloModule(SOFTMAX.replace("negate(", "sqrt("), "txt").hash(), SOFTMAX_HASH)

  def test_reflected_fusions_agree_and_others_do_not(self):
    text = """HloModule m
f {
  p = f32[4]{0} parameter(0)
  q = f32[4]{0} parameter(1)
  ROOT r = f32[4]{0} subtract(p, q)
}
ENTRY main {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} parameter(1)
  ROOT z = f32[4]{0} fusion(x, y), kind=kLoop, calls=f
}
"""
    h = HloModule(text, "txt").hash()
    both = text.replace("subtract(p, q)", "subtract(q, p)").replace("fusion(x, y)", "fusion(y, x)")
    self.assertEqual(HloModule(both, "txt").hash(), h)
    self.assertNotEqual(HloModule(text.replace("subtract(p, q)", "subtract(q, p)"), "txt").hash(), h)

  def test_wrong_arguments_are_exceptions(self):
    for bad in (lambda: HloModule(SOFTMAX, "yaml"), lambda: HloEnv(SOFTMAX, "txt", "tpu"),
                lambda: softmax().apply_alternatives([[1, 2]]), lambda: HloPass.AlgebraicSimplifier({"no": True}),
                lambda: softmax().apply_rewrites([0])):
      with self.assertRaises(ValueError):
        bad()
    with self.assertRaisesRegex(NotImplementedError, "FusionBitcastLift"):
      HloPass.FusionBitcastLift()
    with self.assertRaisesRegex(NotImplementedError, "kTanh"):
      HloPass.LogisticExpander(HloPass.LogisticExpander.kTanh)
    with self.assertRaises(hloenv._lib.Error):
      HloModule("/nowhere/module.hlo")
    self.assertGreater(softmax().run(fusion()), 0)  # what failed before is forgotten

  def test_parts(self):
    m = HloModule(TRAIN)
    parts = m.extract_instructions_as_module(3)
    self.assertTrue(all(text and part.instruction_count >= 3 for text, part in parts))
    self.assertIsNone(softmax().get_hlo_module().extract_random_submodule(1000, 3))
    part = m.extract_random_submodule(5, 6, seed=3)
    self.assertTrue(part is None or part.instruction_count >= 5)
    env = HloEnv(TRAIN, "gpu")
    env.optimize_hlo_module()
    self.assertTrue(env.get_hlo_module().extract_fusions_as_module(2))
    self.assertGreater(m.cost_analysis()["flops"], 0)


class Graphs(unittest.TestCase):
  def test_arrays(self):
    g = HloEnv(TRAIN, "gpu").get_hlo_graph()
    n, e = len(g.node_features.uids), len(g.in_edge_features.uids)
    types = {"uids": "i4", "gids": "u8", "fused_comp_ids": "u8", "num_users": "i4", "num_operands": "i4",
             "opcodes": "i4", "is_alternative": "u1", "is_in_fusion": "u1", "in_tensor_sizes": "i8",
             "out_tensor_sizes": "i8", "has_max_in_tensor": "u1", "has_max_out_tensor": "u1",
             "normalized_num_group_inst": "f4"}
    for name, dtype in types.items():
      array = getattr(g.node_features, name)
      self.assertEqual((array.dtype, array.shape), (np.dtype(dtype), (n,)), name)
    self.assertEqual(g.node_features.opcode_attrs.size, g.node_features.num_opcode_attrs.sum())
    for edges in (g.in_edge_features, g.out_edge_features):
      for name, dtype, width in (("uids", "i8", 1), ("srcs", "i4", 1), ("dsts", "i4", 1), ("dims", "i8", 8),
                                 ("layouts", "i8", 8), ("lehmercodes", "i8", 8), ("types", "u1", 1), ("dtypes", "i4", 1)):
        array = getattr(edges, name)
        self.assertEqual((array.dtype, array.size), (np.dtype(dtype), e * width), name)
    for offsets, indices in ((g.in_edge_offsets, g.in_edge_indices), (g.out_edge_offsets, g.out_edge_indices)):
      self.assertEqual((offsets.dtype, indices.dtype, offsets.size), (np.uint64, np.uint64, n + 1))
      self.assertEqual(offsets[-1], e)
    self.assertEqual((g.opcode_attr_counts.dtype, g.opcode_attr_counts.size), (np.int32, 236))
    self.assertEqual(len(g.node_features.names), n)

  def test_numbers(self):
    """Each by hand."""
    g = softmax().get_hlo_graph()
    names = g.node_features.names
    d, e, b, total, zero = (names.index(x) for x in ("d", "e", "wide", "sum", "zero"))
    f = g.node_features
    self.assertEqual([int(f.opcodes[k]) for k in (d, e, b, total, zero)], [42, 47, 21, 82, 34])
    self.assertEqual((f.num_operands[d], f.num_users[e], f.in_tensor_sizes[d], f.out_tensor_sizes[e]), (2, 2, 256, 256))
    self.assertEqual((f.in_tensor_sizes[total], f.out_tensor_sizes[d]), (129, 0))
    self.assertEqual((f.has_max_in_tensor[d], f.has_max_out_tensor[e], f.gids[d], f.gids[names.index("s")]), (1, 1, 0, 1))
    self.assertEqual(f.fused_comp_ids[total], 1)
    self.assertAlmostEqual(float(f.normalized_num_group_inst[names.index("s")]), 1 / 3, 6)
    starts = np.concatenate([[0], f.num_opcode_attrs.reshape(-1, 2).sum(1).cumsum()])
    attrs = f.opcode_attrs[starts[b]:starts[b + 1]].reshape(6, 7)
    np.testing.assert_array_equal(attrs.argmax(1), [0, 6, 6, 6, 6, 6])
    edge = int(g.in_edge_offsets[d])
    np.testing.assert_array_equal(g.in_edge_features.dims.reshape(-1, 8)[edge], [8, 16] + [-1] * 6)
    np.testing.assert_array_equal(g.in_edge_features.layouts.reshape(-1, 8)[edge], [1, 0] + [-1] * 6)
    np.testing.assert_array_equal(g.in_edge_features.lehmercodes.reshape(-1, 8)[edge], [0, 1] + [0] * 6)
    self.assertEqual((g.in_edge_features.dtypes[edge], g.in_edge_features.types[edge]), (11, 0))
    self.assertEqual(g.in_edge_features.get_tensor_size(edge), 128)
    self.assertEqual(int(g.in_edge_features.uids[edge]), int(f.uids[e]) << 32 | int(f.uids[d]))

  def test_arrays_outlive_the_graph(self):
    uids = softmax().get_hlo_graph().node_features.uids
    before = uids.copy()
    for _ in range(20):
      HloGraph(HloModule(TRAIN))
    np.testing.assert_array_equal(uids, before)

  def test_inlined(self):
    env = HloEnv(TRAIN, "gpu")
    env.optimize_hlo_module()
    g = env.get_hlo_graph(debug=True, inline_fused_comp=True)
    self.assertIn(2, g.in_edge_features.types.tolist())
    self.assertEqual(g.hash(), env.get_hlo_graph(inline_fused_comp=True).hash())


class Choices(unittest.TestCase):
  def test_every_choice_computes_the_same(self):
    rng = np.random.default_rng(0)
    env = HloEnv(TRAIN, "gpu")
    before = env.clone_hlo()
    dry, clean = AltPipeline(Pass(HloPass.GeneralFusion())), cleanup()
    rounds = 0
    while rounds < 4 and env.run(dry):
      g = env.get_hlo_graph()
      self.assertTrue(len(g.alternative_indices))
      self.assertEqual(env.clone_hlo().hash(), env.get_hlo_module_hash())
      env.apply_alternatives([[i, rng.integers(g.node_features.num_operands[i])] for i in g.alternative_indices])
      env.run(clean)
      rounds += 1
    self.assertGreater(rounds, 1)
    self.assertTrue(env.verify_module())
    self.assertTrue(env.has_equal_output_as(before))

  def test_originals_give_back_the_module_by_index_and_uid(self):
    for by_uid in (False, True):
      env = softmax()
      text = env.export_hlo_to_str()
      self.assertTrue(env.run(fusion()))
      g = env.get_hlo_graph()
      which = g.node_features.uids[g.alternative_indices] if by_uid else g.alternative_indices
      env.apply_alternatives(np.stack([which, np.zeros_like(which)], 1))
      self.assertEqual(env.export_hlo_to_str(), text)

  def test_decisions_are_checked(self):
    env = softmax()
    env.run(fusion())
    nodes = env.get_hlo_graph().alternative_indices.tolist()
    for bad in ([[n, 99] for n in nodes], [[nodes[0], 0]] * (len(nodes) + 1), [[n + 1, 0] for n in nodes], [1, 2, 3]):
      with self.assertRaises(ValueError):
        env.apply_alternatives(bad)
    env.apply_alternatives([[n, 0] for n in nodes])

  def test_pipelines_are_coroutines(self):
    env = softmax()
    pipeline = Pipeline("p")
    pipeline.add_pass(HloPass.HloDCE())
    pipeline.add_pass(fusion())
    pipeline.add_pass(cleanup())
    self.assertTrue(env.run(pipeline))
    env.apply_alternatives([[i, 1] for i in env.get_hlo_graph().alternative_indices])
    self.assertFalse(env.run(pipeline))
    self.assertEqual(AltPipeline(Pass(HloPass.HloDCE())).name, "alt_dce")
    with self.assertRaises(TypeError):
      env.run(HloPass.HloDCE())

  def test_rewrites(self):
    env = HloEnv(TRAIN, "gpu")
    before = env.clone_hlo()
    self.assertTrue(env.run(RewritePipeline(Pass(HloPass.GeneralFusion()))))
    graph = env.get_hlo_rewrite_graph()
    matrix = np.array(graph.adjacency_matrix)
    self.assertEqual(matrix.shape, (graph.num_rewrites,) * 2)
    self.assertTrue(matrix.diagonal().all() and (matrix == matrix.T).all())
    for rewrite in graph.rewrite_data[:5]:
      HloModule(rewrite.orig_subgraph_to_str(), "txt")
      HloModule(rewrite.replacement_subgraph_to_str(), "txt")
      self.assertEqual(rewrite.pass_name, "general-fusion")
      self.assertTrue(rewrite.orig_subgraph_uids)
    statuses = dict(env.apply_rewrites(range(graph.num_rewrites)))
    self.assertEqual(statuses[0], RewriteStatus.OK)
    self.assertIn(RewriteStatus.ADJACENCY, statuses.values())
    self.assertEqual(env.get_hlo_rewrite_graph().num_rewrites, 0)
    self.assertTrue(env.verify_module() and env.has_equal_output_as(before))

  def test_every_pass_runs(self):
    needs = {"AllGatherCombiner": (1, 1), "AllReduceCombiner": (1, 1), "ReduceScatterCombiner": (1, 1),
             "AllReduceBlueConnect": (1,), "BFloat16Normalization": (True,), "DotMerger": (1,),
             "CublasPadForGemms": (HloPass.CublasPadForGemms.F16, 8), "GatherExpander": (1,), "ScatterExpander": (1,),
             "GpuInstructionFusion": (True,), "HloCSE": (True,), "HloVerifier": (False, False),
             "LogisticExpander": (1,), "RngBitGeneratorExpander": (2,), "StatefulRngSpmdPartitioner": (1, 1)}
    for name in HloPass.__all__:
      if name in ("HloPassInterface", "FusionBitcastLift"):
        continue
      env = softmax()
      before = env.clone_hlo()
      env.run(Pass(getattr(HloPass, name)(*needs.get(name, ()))))
      self.assertTrue(env.verify_module(), name)
      self.assertTrue(env.has_equal_output_as(before), name)


class Evaluation(unittest.TestCase):
  def test_times_and_output(self):
    result = softmax().evaluate(5)
    self.assertEqual((len(result.durations), len(result.full_durations), len(result.output)), (5, 5, 1))
    self.assertTrue(all(d > 0 for d in result.durations))
    x = _Executable(HloModule(SOFTMAX, "txt"), "reference").run()
    np.testing.assert_allclose(result.output[0][0], x, rtol=1e-6)

  def test_arguments_are_hloenvs(self):
    # minstd_rand0 and normal_distribution<double> of GCC's C++ library, seed 53.
    text = "HloModule m\nENTRY main {\n  ROOT x = f64[3]{0} parameter(0)\n}\n"
    np.testing.assert_array_equal(_Executable(HloModule(text, "txt"), "reference").run(), NORMAL)

  def test_differences_are_found_in_every_result(self):
    text = """HloModule m
ENTRY main {
  x = f32[4]{0} parameter(0)
  n = f32[4]{0} negate(x)
  ROOT t = (f32[4]{0}, f32[4]{0}) tuple(x, n)
}
"""
    env = HloEnv(text, "txt", "gpu")
    self.assertFalse(env.has_equal_output_as(HloModule(text.replace("negate", "abs"), "txt")))
    self.assertTrue(env.has_equal_output_as(HloModule(text.replace("negate(x)", "negate(x), metadata={op_name=\"a\"}"), "txt")))

  def test_backend(self):
    self.assertEqual(GpuBackend.stream_exec_platform, "CUDA")
    self.assertTrue(GpuBackend.cuda_is_at_least(GpuBackend.VOLTA))
    self.assertTrue(GpuBackend.cuda_is_at_least(GpuBackend.AMPERE, 0))
    self.assertFalse(GpuBackend.cuda_is_at_least(GpuBackend.AMPERE))


class Page(unittest.TestCase):
  def test_examples(self):
    """The Python of the page prints what stands behind it."""
    page = (ROOT / "docs" / "env.md").read_text(encoding="utf-8")
    part = re.split(r"\n## ", page.split("## `import hloenv`", 1)[1], maxsplit=1)[0]
    blocks = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```\n", part, re.S)
    self.assertGreaterEqual(len(blocks), 2)
    names = {}
    for code, expected in blocks:
      out = io.StringIO()
      with contextlib.redirect_stdout(out):
        exec(compile(code.replace('"before.hlo"', repr(TRAIN)), "docs/env.md", "exec"), names)
      self.assertEqual(out.getvalue(), expected, code)


class Loading(unittest.TestCase):
  def test_importing_loads_nothing(self):
    """The best of several: other programs run on this machine."""
    code = ("import sys, time; t = time.perf_counter(); import hloenv; t = time.perf_counter() - t;"
            "print(t, 'numpy' in sys.modules, 'ctypes' in sys.modules)")
    best = 1.0
    for _ in range(7):
      out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
      self.assertEqual(out[1:], ["False", "False"])
      best = min(best, float(out[0]))
    self.assertLess(best, 0.05)

  def test_a_step_of_python(self):
    """A step takes Python 30 microseconds: all of it, with the library's functions answering at once what they answered in a step
    before, and as much for each as a call of one that does nothing takes. The best of many, for other programs run here."""
    answers, calls = {}, [0]

    def noted(name, function):
      def call(*arguments):
        answers[name] = function(*arguments)
        return answers[name]
      return call if not name.endswith("_free") else lambda *_: None

    def answered(name):
      def call(*_):
        calls[0] += 1
        return answers.get(name)
      return call

    class Library:
      def __init__(self, of):
        self.__dict__.update({name: of(name) for name in vars(real) if name.startswith("hilo_core_")})

    env, dry, clean = HloEnv(TRAIN, "gpu"), AltPipeline(Pass(HloPass.GeneralFusion())), cleanup()
    call, real, ask = hloenv._lib.call(), hloenv._lib.lib(), hloenv._lib.lib

    def step():
      env.run(dry)
      nodes = env.get_hlo_graph().alternative_indices
      decisions = np.ones((len(nodes), 2), np.int64)
      decisions[:, 0] = nodes
      env.apply_alternatives(decisions)
      env.run(clean)

    def best(of, times):
      least = 1.0
      for _ in range(times):
        start = time.perf_counter()
        of()
        least = min(least, time.perf_counter() - start)
      return least

    try:
      for library, times in ((Library(lambda name: noted(name, getattr(real, name))), 1), (Library(answered), 3000)):
        call._lib, hloenv._lib.lib = library, lambda library=library: library
        least = best(step, times)
    finally:
      call._lib, hloenv._lib.lib = real, ask
    nothing = best(lambda: real.hilo_core_count(env.get_hlo_module()._handle, True), 3000)
    self.assertGreater(calls[0] // 3000, 5)
    self.assertLess(least + nothing * (calls[0] // 3000), 30e-6)


SOFTMAX_HASH = 10936279178764631880
NORMAL = [0.26112290686687711, 0.057052101697761579, 1.8345837359925585]

class Tools(unittest.TestCase):
  """HloEnv's programs: python -m hloenv."""

  def run_tool(self, *words, status=0, text=None):
    done = subprocess.run([sys.executable, "-m", "hloenv", *words], input=text, capture_output=True, text=True, timeout=300)
    self.assertEqual(done.returncode, status, done.stderr)
    return done.stdout if status == 0 else done.stderr

  def test_extract_subgraphs(self):
    with tempfile.TemporaryDirectory() as folder:
      told = self.run_tool("extract_subgraphs", f"--hlo={TRAIN}", "-o", folder, "--num_inst_lower_bound=8", "--num_inst_upper_bound=12")
      names = sorted(os.listdir(folder))
      self.assertIn(f"{len(names)} of them different", told)
      self.assertGreater(len(names), 10)
      for name in names:
        part = hloenv.HloModule(os.path.join(folder, name))
        self.assertEqual(name, f"{part.hash():016x}.txt")
        self.assertTrue(8 <= part.instruction_count < 12)
        self.assertNotIn(" call(", part.to_string())
    module = hloenv.HloModule(TRAIN)
    for bad in ((0, 5), (5, 5), (5, 2**40)):
      with self.assertRaises(ValueError):
        next(module.extract_subgraphs(*bad))

  def test_evaluate(self):
    with open(TRAIN, encoding="utf-8") as f:
      told = self.run_tool("evaluate", "--hlo_fn=-", "--times=2", "--gpu", "--rerun_hlo", text=f.read())
    self.assertEqual([line.split(":")[0] for line in told.splitlines()], ["run 0", "run 1", "the same results again"])
    self.assertTrue(told.endswith("yes\n"))

  def test_compile(self):
    plain = hloenv.HloModule(self.run_tool("compile", f"--hlo={TRAIN}"), "txt")
    env = hloenv.HloEnv(TRAIN, "gpu")
    before = env.clone_hlo()
    env.optimize_hlo_module()
    self.assertEqual(plain.hash(), env.get_hlo_module_hash())
    texts = {self.run_tool("compile", f"--hlo={TRAIN}", "--dry=fusion", f"--seed={seed}") for seed in (0, 1)}
    self.assertEqual(len(texts), 2)
    for text in texts:
      decided = hloenv.HloModule(text, "txt")
      self.assertNotEqual(decided.hash(), plain.hash())
      self.assertTrue(hloenv.HloEnv(decided, "gpu").has_equal_output_as(before))

  def test_what_is_wrong(self):
    self.assertIn("no pass of the pipeline is named 'fusio'", self.run_tool("compile", f"--hlo={TRAIN}", "--dry=fusio", status=2))
    self.assertIn("cannot read", self.run_tool("compile", "--hlo=/no/such", status=3))
    self.assertIn("num_inst_upper_bound", self.run_tool("extract_subgraphs", f"--hlo={TRAIN}", "--num_inst_upper_bound=3", status=2))
    self.assertIn("usage", self.run_tool("no_such", status=2))


if __name__ == "__main__":
  unittest.main()

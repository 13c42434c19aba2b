"""hilo.Module and hilo.Program: every form in, every form out, runs beside saved results; errors, threads, memory."""
import gzip
import json
import os
import pathlib
import pickle
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import hilo

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIXTURES = sorted((ROOT / "tests" / "fixtures").iterdir())

SQUARES = """HloModule squares

ENTRY main {
  x = f32[3] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[3] broadcast(zero), dimensions={}
  same = f32[3] add(x, zeros)
  ROOT y = f32[3] multiply(same, same)
}
"""



def loop(turns):
  return f"""HloModule turns

body {{
  i = s64[] parameter(0)
  one = s64[] constant(1)
  ROOT next = s64[] add(i, one)
}}

condition {{
  i = s64[] parameter(0)
  end = s64[] constant({turns})
  ROOT less = pred[] compare(i, end), direction=LT
}}

ENTRY main {{
  i = s64[] parameter(0)
  ROOT w = s64[] while(i), condition=condition, body=body
}}
"""


def resident():
  with open("/proc/self/statm", encoding="ascii") as f:
    return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Reading(unittest.TestCase):

  def test_path_bytes_text_agree(self):
    path = FIXTURES[1] / "before.hlo"
    self.assertEqual(path.parent.name, "mlp_train")
    by_path = hilo.Module(path)
    text = path.read_text()
    for other in (str(path), text, text.encode(), bytearray(text.encode()), gzip.compress(text.encode())):
      self.assertEqual(str(hilo.Module(other)), str(by_path))
    said = subprocess.run([os.environ["HILO"], "convert", path], check=True, capture_output=True, text=True).stdout
    self.assertEqual(str(by_path), said)

  def test_every_form_is_read_back(self):
    m = hilo.Module(FIXTURES[1] / "before.hlo")
    binaries = ("proto", "hloproto", "snapshot", "mlirbc", "mlirbc=1.9.0")
    for form in ("hlo", "pbtxt", "stablehlo", "mhlo", *binaries):
      with self.subTest(form=form):
        converted = m.convert(form, large_constants=True)
        self.assertIsInstance(converted, bytes if form in binaries else str)
        again = hilo.Module(converted)
        self.assertEqual(again.interface["parameters"], m.interface["parameters"])
        if "mlir" not in form and form not in ("stablehlo", "mhlo"):
          self.assertEqual(again, m)
    for form in ("json", "dot", "html"):
      self.assertIsInstance(m.convert(form), str)
    json.loads(m.convert("json"))
    with self.assertRaisesRegex(hilo.Error, "unknown form 'hl'"):
      m.convert("hl")

  def test_several_modules(self):
    both = SQUARES + "\n// -----\n\n" + SQUARES.replace("squares", "others")
    self.assertEqual([m.name for m in hilo.Module.all(both)], ["squares", "others"])
    self.assertEqual(hilo.Module(both, which="others").name, "others")
    self.assertEqual(hilo.Module(both, which=0).name, "squares")
    with self.assertRaisesRegex(ValueError, "2 modules"):
      hilo.Module(both)
    with self.assertRaises(KeyError):
      hilo.Module(both, which="none")

  def test_errors_are_located(self):
    with self.assertRaises(hilo.Error) as caught:
      hilo.Module(SQUARES.replace("multiply(", "multipy("))
    d = caught.exception.diagnostics[0]
    self.assertEqual((d.severity, d.kind, d.line, d.column, d.hint), ("error", "invalid", 8, 19, "did you mean 'multiply'?"))
    self.assertIn("<text>:8:19: error: unknown opcode 'multipy'", str(caught.exception))
    self.assertIn("^", str(caught.exception))
    self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), str(caught.exception))
    for nothing in ("no such file", b"", b"\0\1\2"):
      with self.assertRaises(hilo.Error):
        hilo.Module(nothing)

  def test_check(self):
    wrong = SQUARES.replace("f32[3] multiply", "f32[4] multiply")
    with self.assertRaises(hilo.Error):
      hilo.Module(wrong)
    m = hilo.Module(wrong, verify=False)
    with self.assertRaisesRegex(hilo.Error, "4"):
      m.check()
    hilo.Module(SQUARES).check()


class Describing(unittest.TestCase):

  def test_print_switches(self):
    m = hilo.Module(FIXTURES[1] / "before.hlo")
    self.assertIn("metadata=", m.to_string())
    self.assertNotIn("metadata=", m.to_string(metadata=False))
    self.assertNotIn("%", hilo.Module(SQUARES).to_string("short"))
    with self.assertRaisesRegex(hilo.Error, "unknown preset"):
      m.to_string("shorter")

  def test_stats_are_those_of_the_program(self):
    program = pathlib.Path(os.environ["HILO"])
    for fixture in FIXTURES:
      said = subprocess.run([program, "stats", "--json", "--computations", fixture / "before.hlo"], check=True,
                            capture_output=True).stdout
      self.assertEqual(hilo.Module(fixture / "before.hlo").stats(computations=True), json.loads(said)[0]["modules"][0])

  def test_instructions(self):
    m = hilo.Module(FIXTURES[1] / "after.hlo")
    self.assertEqual(len(list(m.instructions)), m.stats()["instructions"])
    self.assertEqual(len(m.computations), m.stats()["computations"])
    kinds = [i.kind for i in m.instructions if i.opcode == "fusion"]
    self.assertEqual(len(kinds), m.stats()["fusions"]["count"])
    self.assertIn("kLoop", kinds)
    self.assertTrue(m.entry.instructions[-1].root)
    names = {i.name for i in m.entry.instructions}
    for i in m.entry.instructions:
      self.assertLessEqual(set(i.operands), names)
    self.assertTrue(any(i.op_name and i.file and i.line for i in m.instructions))

  def test_equality_is_of_graphs(self):
    a, b = hilo.Module(SQUARES), hilo.Module(SQUARES.replace("same", "like").replace("squares", "other"))
    c = hilo.Module(SQUARES.replace("multiply", "subtract"))
    self.assertEqual(a, b)
    self.assertEqual(hash(a), hash(b))
    self.assertNotEqual(a, c)
    self.assertNotEqual(a, "squares")
    self.assertEqual(pickle.loads(pickle.dumps(a)), a)


class Optimising(unittest.TestCase):

  def test_passes(self):
    m = hilo.Module(SQUARES)
    new, report = m.opt(passes=["algsimp", "dce"])
    self.assertEqual(m.stats()["instructions"], 5)
    self.assertEqual(new.stats()["instructions"], 2)
    self.assertEqual([(p["pass"], p["changed"]) for p in report["passes"]], [("algsimp", True), ("dce", False)])
    self.assertEqual((report["instructions_before"], report["instructions_after"]), (5, 2))
    self.assertEqual(m.opt(passes="algsimp,dce").module, new)
    self.assertEqual(m.opt(passes="algsimp", fuel=0).module, m)
    with self.assertRaisesRegex(hilo.Error, "nosuch"):
      m.opt(passes="nosuch")
    with self.assertRaises(ValueError):
      m.opt("cpu", passes="dce")

  def test_pipelines(self):
    m = hilo.Module(FIXTURES[1] / "before.hlo")
    for pipeline in (None, "cpu", "gpu"):
      new, report = m.opt(pipeline)
      new.check()
      self.assertGreater(report["rewrites"], 10)
    self.assertTrue(m.opt("cpu").module.interface["scheduled"])

  def test_dumps(self):
    with tempfile.TemporaryDirectory() as folder:
      hilo.Module(SQUARES).opt("cpu", xla_flags=f"--xla_dump_to={folder} --xla_dump_hlo_as_text")
      self.assertTrue([f for f in os.listdir(folder) if "before_optimizations" in f])


class Running(unittest.TestCase):

  def test_saved_results(self):
    n = 0
    for fixture in FIXTURES:
      m = hilo.Module(fixture / "before.hlo")
      with np.load(fixture / "args.npz") as saved:
        args = [saved[f"a{k}"] for k in range(len(saved.files))]
      with np.load(fixture / "results.npz") as saved:
        expected = [saved[f"r{k}"] for k in range(len(saved.files))]
      fitting = [self.typed(a, shape) for a, shape in zip(args, m.interface["parameters"])]
      for platform in ("cpu", "reference"):
        got = m.run(*fitting, platform=platform)
        got = got if isinstance(got, tuple) else (got,)
        self.assertEqual(len(got), len(expected))
        for g, e in zip(got, expected):
          self.assertEqual(g.shape, e.shape)
          np.testing.assert_allclose(g.astype(e.dtype), e, rtol=2e-2, atol=2e-2)
          n += 1
    self.assertGreater(n, 10)

  @staticmethod
  def typed(array, shape):
    if shape["dtype"] != "bf16":
      return array
    import ml_dtypes
    return array.astype(ml_dtypes.bfloat16)

  def test_every_element_type(self):
    try:
      import ml_dtypes
    except ImportError:
      ml_dtypes = None
    plain = {"pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8,
             "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
             "c64": np.complex64, "c128": np.complex128}
    small = {"bf16": "bfloat16", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2", "f8e4m3fn": "float8_e4m3fn",
             "f8e5m2": "float8_e5m2", "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e3m4": "float8_e3m4", "f8e8m0fnu": "float8_e8m0fnu",
             "f4e2m1fn": "float4_e2m1fn"}
    types = {**plain, **{t: getattr(ml_dtypes, name) for t, name in small.items() if hasattr(ml_dtypes, name)}}
    self.assertGreaterEqual(len(types), 14 if ml_dtypes is None else 20)
    for text, dtype in types.items():
      m = hilo.Module(f"HloModule m\n\nENTRY main {{\n  x = {text}[2,2] parameter(0)\n"
                      f"  ROOT y = {text}[2,2] transpose(x), dimensions={{1,0}}\n}}\n")
      x = np.array([[1, 0], [1, 1]]).astype(dtype) if text != "f8e8m0fnu" else np.array([[1, 2], [4, 8]]).astype(dtype)
      if text.startswith("s"):
        x = np.array([[-1, 0], [1, -2]]).astype(dtype)
      for platform in ("cpu", "reference"):
        y = m.run(x, platform=platform)
        self.assertEqual(y.dtype, x.dtype, text)
        self.assertEqual(y.tobytes(), x.T.tobytes(), text)
    if ml_dtypes is not None:
      m = hilo.Module("HloModule m\n\nENTRY main {\n  x = s4[3] parameter(0)\n  ROOT y = s32[3] convert(x)\n}\n")
      for platform in ("cpu", "reference"):
        self.assertEqual(m.run(np.array([-8, 7, -1]).astype(ml_dtypes.int4), platform=platform).tolist(), [-8, 7, -1])

  def test_arguments_are_checked(self):
    m = hilo.Module(SQUARES)
    np.testing.assert_array_equal(m.run([1, 2, 3]), np.float32([1, 4, 9]))
    np.testing.assert_array_equal(m.run(np.arange(6, dtype=np.float32)[::2]), np.float32([0, 4, 16]))
    for wrong, why in (((), "takes 1 arguments, but 0"), ((np.zeros(3),), "elements of float64; expected float32"),
                       ((np.zeros(4, np.float32),), r"the sizes \[4\]; expected \[3\]"), (("abc",), "no array"),
                       (([1, [2]],), "no array")):
      with self.assertRaisesRegex(TypeError, why):
        m.run(*wrong)

  def test_results_are_ones_own(self):
    m = hilo.Module("HloModule m\n\nENTRY main {\n  x = f32[2] parameter(0)\n  c = f32[2] constant({1, 2})\n"
                    "  ROOT t = (f32[2], f32[2]) tuple(x, c)\n}\n")
    x = np.float32([5, 6])
    for platform in ("cpu", "reference"):
      a, c = m.run(x, platform=platform)
      a[0] = c[0] = 100
      np.testing.assert_array_equal(x, [5, 6])
      np.testing.assert_array_equal(m.run(x, platform=platform)[1], [1, 2])

  def test_tuples_tokens_and_dynamic_sizes(self):
    m = hilo.Module("""HloModule m

ENTRY main {
  p = (f32[2], (s32[], token[])) parameter(0)
  n = s32[] parameter(1)
  x = f32[2] get-tuple-element(p), index=0
  d = f32[<=2] set-dimension-size(x, n), dimensions={0}
  k = token[] after-all()
  ROOT t = (f32[<=2], ((f32[2], (s32[], token[])), token[])) tuple(d, u)
}
""".replace("  ROOT", "  u = ((f32[2], (s32[], token[])), token[]) tuple(p, k)\n  ROOT"))
    for platform in ("cpu", "reference"):
      d, ((x, (i, t)), k) = m.run((np.float32([1, 2]), (7, None)), 1, platform=platform)
      np.testing.assert_array_equal(d, np.float32([1]))
      np.testing.assert_array_equal(x, np.float32([1, 2]))
      self.assertEqual((int(i), t, k), (7, None, None))

  def test_devices(self):
    m = hilo.Module("""HloModule sum, replica_count=3

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[2] parameter(0)
  ROOT y = f32[2] all-reduce(x), to_apply=add, replica_groups={}
}
""")
    self.assertEqual(m.devices, 3)
    for platform in ("cpu", "reference"):
      results = m.run_devices([[np.float32([d, 10 * d])] for d in range(3)], platform=platform)
      for r in results:
        np.testing.assert_array_equal(r, np.float32([3, 30]))
    with self.assertRaisesRegex(ValueError, "3 devices"):
      m.run(np.float32([0, 0]))

  def test_made_up_arguments(self):
    m = hilo.Module(FIXTURES[1] / "before.hlo")
    first, again = m.fake_args(), m.fake_args()
    for a, b in zip(first, again):
      np.testing.assert_array_equal(a, b)
    self.assertTrue(any((a != b).any() for a, b in zip(first, m.fake_args(seed=1))))
    m.run(*first)

  def test_programs(self):
    program = hilo.Module(FIXTURES[1] / "before.hlo").compile(threads=1)
    self.assertGreater(program.module.stats()["fusions"]["count"], 0)
    self.assertGreater(program.report["bytes"]["arguments"], 0)
    self.assertGreater(len(program.report["passes"]), 10)
    program.module.check()

  def test_warnings(self):
    m = hilo.Module("HloModule m\n\nENTRY main {\n  ROOT c = f32[20] constant({...})\n}\n")
    with warnings.catch_warnings(record=True) as seen:
      warnings.simplefilter("always")
      m.run(platform="reference")
    self.assertTrue(any(issubclass(w.category, hilo.HiloWarning) for w in seen), [str(w.message) for w in seen])
    with self.assertRaises(hilo.Error):
      hilo.Program(m, "reference", elided="refuse")()


class Threads(unittest.TestCase):

  def test_one_module_many_threads(self):
    m = hilo.Module(FIXTURES[1] / "before.hlo")
    args, failures = m.fake_args(), []
    expected, text = m.run(*args), str(m)

    def work():
      try:
        for _ in range(20):
          for got, e in zip(m.run(*args), expected):
            np.testing.assert_array_equal(got, e)
          assert str(m) == text
          assert m.opt(passes="dce").module.interface == m.interface
      except BaseException as e:  # pylint: disable=broad-except
        failures.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
      t.start()
    for t in threads:
      t.join()
    self.assertEqual(failures, [])

  def test_others_run_meanwhile(self):
    m, turns, done = hilo.Module(loop(3_000_000)), 0, threading.Event()

    def work():
      m.run(0, platform="reference")
      done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
      turns += 1
      time.sleep(0.001)
    thread.join()
    self.assertGreater(turns, 10)

  def test_interrupt(self):
    m = hilo.Module(loop(1 << 40))
    for platform in ("reference", "cpu"):
      signal.setitimer(signal.ITIMER_REAL, 0.3)
      before = signal.signal(signal.SIGALRM, signal.default_int_handler)
      start = time.monotonic()
      try:
        with self.assertRaises(KeyboardInterrupt):
          m.run(0, platform=platform)
      finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
      self.assertLess(time.monotonic() - start, 10)
    self.assertEqual(hilo.Module(loop(7)).run(0), 7)

  def test_memory_is_given_back(self):
    def work(n):
      for k in range(n):
        m = hilo.Module(SQUARES)
        m.run([1, 2, 3])
        m.opt(passes="algsimp")
        m.convert("hloproto")
        len(m.computations)
        try:
          hilo.Module("HloModule m\n nonsense")
        except hilo.Error:
          pass

    work(50)
    before = resident()
    work(400)
    self.assertLess(resident() - before, 4 << 20)


if __name__ == "__main__":
  unittest.main()

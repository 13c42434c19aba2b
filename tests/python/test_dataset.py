"""hilo.dataset: harvested from JAX, from files and from nowhere; each graph once; splits; export."""
# needs jax
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jax
import jax.numpy as jnp
import numpy as np

import hilo
import hilo.games
import hilo.jax
from hilo.dataset import Dataset, split_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIXTURE = ROOT / "tests" / "fixtures" / "mlp_train"


class Datasets(unittest.TestCase):

  def setUp(self):
    self._folder = tempfile.TemporaryDirectory()
    self.folder = pathlib.Path(self._folder.name)
    self.addCleanup(self._folder.cleanup)

  def test_each_graph_once(self):
    with Dataset(self.folder / "d") as data:
      new = data.add_files([FIXTURE], origin="mlp")
      self.assertGreaterEqual(new, 2)
      self.assertEqual(data.add_files([FIXTURE], origin="mlp"), 0)
      renamed = str(hilo.Module(FIXTURE / "before.hlo")).replace("tanh.1", "another.1")
      self.assertFalse(data.add(hilo.Module(renamed), "other"))
      (self.folder / "broken.hlo").write_text("HloModule broken\nENTRY main { ROOT x = f32[ }\n")
      data.add_files([self.folder / "broken.hlo"])
      self.assertEqual(len(data.unreadable), 1)
    with Dataset(self.folder / "e") as other:
      self.assertEqual((other.add_dataset(self.folder / "d"), other.add_dataset(self.folder / "d")), (new, 0))
      self.assertEqual({row["origin"] for row in other.rows}, {"mlp"})
    again = Dataset(self.folder / "d")
    self.assertEqual(len(again), new)
    for row, module in again.modules():
      self.assertEqual(row["split"], split_of("mlp"))
      self.assertTrue(row["uri"].startswith("hilo://mlp/"))
      self.assertNotIn("metadata=", (self.folder / "d" / row["file"]).read_text())
      module.check()
      self.assertEqual(f"{hash_of(module):016x}", row["hash"])
    self.assertEqual(again.statistics()["programs"], new)
    again.close()

  def test_harvest(self):
    with hilo.jax.harvest(self.folder / "h", origin="test") as data:
      jax.jit(lambda x: jnp.tanh(x) * 3 + jnp.flip(x))(np.ones(7, np.float32))
      n = len(data)
      jax.jit(lambda y: jnp.tanh(y) * 3 + jnp.flip(y))(np.ones(7, np.float32))
      self.assertEqual(len(data), n)
    self.assertGreaterEqual(n, 1)
    with Dataset(self.folder / "h") as data:
      self.assertIn("tanh", data.statistics()["ops"])
    jax.jit(lambda x: x - 41)(np.ones(3, np.float32))  # nothing is harvested any more
    with Dataset(self.folder / "h") as data:
      self.assertEqual(len(data), n)

  def test_random_programs(self):
    seen = set()
    for seed in range(40):
      m = hilo.games.generate(seed, loops=seed % 2 == 1)
      m.check()
      self.assertEqual(str(m), str(hilo.games.generate(seed, loops=seed % 2 == 1)))
      for result in m.run(*m.fake_args(0), platform="reference"):
        self.assertTrue(np.isfinite(result).all())
      seen.add(hash_of(m))
    self.assertEqual(len(seen), 40)

  def test_export(self):
    with Dataset(self.folder / "d") as data:
      data.add_files([FIXTURE / "before.hlo"], origin="mlp")
      data.add_random(5)
      self.assertEqual(data.export_tpugraphs(self.folder / "npz"), 6)
    files = sorted((self.folder / "npz").rglob("*.npz"))
    self.assertEqual(len(files), 6)
    for file in files:
      with np.load(file) as a:
        n = len(a["node_opcode"])
        self.assertEqual((a["node_feat"].shape, a["node_feat"].dtype), ((n, 140), np.float32))
        self.assertTrue(0 <= a["edge_index"].min() and a["edge_index"].max() < n)
        self.assertEqual(a["node_config_feat"].shape, (1, len(a["node_config_ids"]), 18))
        self.assertTrue(np.isin(a["node_opcode"][a["node_config_ids"]], (26, 34, 75)).all())
        self.assertGreater(a["config_runtime"][0], 0)


  def test_bench(self):
    script = [sys.executable, str(ROOT / "bench" / "dataset.py")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}

    def run(*args):
      done = subprocess.run([*script, *args], env=env, capture_output=True, text=True)
      self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
      return done.stdout
    has_harnesses = importlib.util.find_spec("absl") is not None  # which JAX's own tests need
    wish = ["--harnesses=cos,select_n"] if has_harnesses else []
    out = run("build", str(self.folder / "b"), *wish, "--examples=sigmoid", "--add", str(FIXTURE))
    with Dataset(self.folder / "b" / "all") as data:
      origins = {row["origin"] for row in data.rows}
      n = len(data)
    self.assertIn("sigmoid", origins, out)
    if has_harnesses:
      self.assertTrue({"harness-cos", "harness-select_n"} <= origins, out)
      self.assertGreater(n, 12)
    else:
      print("without harnesses: there is no absl")
      done = subprocess.run([*script, "build", str(self.folder / "c"), "--harnesses"], env=env, capture_output=True, text=True)
      self.assertEqual(done.returncode, 1)
      self.assertIn("No module named 'absl'", done.stdout)
    # Once more: what was there is not there twice.
    self.assertIn(f" 0 new, {n:6} in all", run("build", str(self.folder / "b"), "--add", str(FIXTURE)))
    self.assertEqual(run("export", str(self.folder / "b" / "all"), str(self.folder / "npz")), f"{n} files\n")
    with_all = ",".join(["plain", *(name for name, module in (("pyg", "torch_geometric"), ("jraph", "jraph"))
                                    if importlib.util.find_spec(module))])
    out = run("check", str(self.folder / "npz"), f"--with={with_all}")
    self.assertIn(f"plain: {n} files loaded", out)
    self.assertIn("none failed", out)
    # A file that is not right is named.
    broken = next((self.folder / "npz").rglob("*.npz"))
    with np.load(broken) as a:
      arrays = {key: a[key] for key in a.files}
    arrays["edge_index"] = np.array([[0, len(arrays["node_opcode"])]])
    np.savez(broken, **arrays)
    done = subprocess.run([*script, "check", str(self.folder / "npz"), "--with=plain"], env=env, capture_output=True, text=True)
    self.assertEqual(done.returncode, 1)
    self.assertIn(broken.name, done.stdout)


def hash_of(module):
  return hilo._core.lib().hilo_core_dag_hash(module._handle) & (1 << 64) - 1


if __name__ == "__main__":
  unittest.main()

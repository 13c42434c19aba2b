"""to_torch, to_pyg, to_dgl and to_jraph of hilo.env with the real libraries, as far as they are installed (pip install torch torch_geometric
jraph dgl); test_env.py has what can be said without them."""
import importlib.util
import pathlib
import sys
import unittest

import numpy as np


def has(name):
  return importlib.util.find_spec(name) is not None


if not has("gymnasium") or not any(map(has, ("torch", "jraph", "dgl"))):
  print("skipped: this Python has not Gymnasium and one of torch, jraph and dgl")
  sys.exit(77)

import hilo.env
from hilo.games import Game

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULE = ROOT / "tests" / "fixtures" / "mlp_train" / "before.hlo"
FORMS = ("hloenv-v1", "tpugraphs-v1", "hilo-v1")


def states():
  for form in FORMS:
    game = Game(MODULE, env="gpu-fusion", observation=form)
    yield form, game, game.arrays()


def sum_of_sources(x, edges):
  """What a round of messages gives: of each node the sum over those that it reads."""
  out = np.zeros_like(x)
  np.add.at(out, edges[1], x[edges[0]])
  return out


class Torch(unittest.TestCase):

  @unittest.skipUnless(has("torch"), "no torch")
  def test_memory_is_shared(self):
    for _, game, _ in states():
      views = game.arrays(copy=False)
      for name, tensor in hilo.env.to_torch(views).items():
        self.assertEqual(tensor.numpy().dtype, views[name].dtype)
        np.testing.assert_array_equal(tensor.numpy(), views[name])
        if tensor.numel():
          self.assertEqual(tensor.data_ptr(), views[name].ctypes.data)


class Graphs(unittest.TestCase):

  @unittest.skipUnless(has("torch") and has("torch_geometric"), "no torch_geometric")
  def test_pyg(self):
    import torch
    from torch_geometric.data import Batch
    from torch_geometric.nn import GCNConv, SimpleConv
    for form, _, arrays in states():
      with self.subTest(form=form):
        data = hilo.env.to_pyg(arrays)
        self.assertTrue(data.validate(raise_on_error=True))
        self.assertFalse(data.has_self_loops())
        self.assertEqual((data.x.dtype, data.edge_index.dtype), (torch.float32, torch.int64))
        x, edges = data.x.numpy(), data.edge_index.numpy()
        finite = np.nan_to_num(np.clip(x, -1e6, 1e6))
        got = SimpleConv(aggr="sum")(torch.from_numpy(finite), data.edge_index).numpy()
        np.testing.assert_allclose(got, sum_of_sources(finite, edges), rtol=1e-4, atol=1e-2)
        self.assertEqual(GCNConv(x.shape[1], 8)(torch.from_numpy(finite), data.edge_index).shape, (len(x), 8))
        two = Batch.from_data_list([data, hilo.env.to_pyg(arrays)])
        self.assertEqual((two.num_nodes, two.num_edges), (2 * data.num_nodes, 2 * data.num_edges))
        self.assertEqual(int(two.edge_index.max()), 2 * data.num_nodes - 1 - (data.num_nodes - 1 - int(data.edge_index.max())))

  @unittest.skipUnless(has("jraph"), "no jraph")
  def test_jraph(self):
    import jax.numpy as jnp
    import jraph
    for form, _, arrays in states():
      with self.subTest(form=form):
        graph = hilo.env.to_jraph(arrays)
        n, edges = len(graph.nodes), np.stack([graph.senders, graph.receivers])
        self.assertEqual((graph.n_node.tolist(), graph.n_edge.tolist()), ([n], [edges.shape[1]]))
        x = np.nan_to_num(np.clip(graph.nodes, -1e6, 1e6)).astype(np.float32)
        net = jraph.GraphNetwork(update_edge_fn=None, update_node_fn=lambda nodes, sent, received, g: received)
        messages = jraph.segment_sum(jnp.asarray(x)[graph.senders], graph.receivers, n)
        np.testing.assert_allclose(np.asarray(messages), sum_of_sources(x, edges), rtol=1e-4, atol=1e-2)
        two = jraph.batch([graph._replace(nodes=x), graph._replace(nodes=x)])
        self.assertEqual(int(two.n_node.sum()), 2 * n)
        self.assertEqual(net(graph._replace(nodes=x, edges=x[graph.senders])).nodes.shape, x.shape)

  @unittest.skipUnless(has("torch") and has("dgl"), "no dgl")
  def test_dgl(self):
    import dgl.function as fn
    import torch
    for form, _, arrays in states():
      with self.subTest(form=form):
        graph = hilo.env.to_dgl(arrays)
        x = np.nan_to_num(np.clip(graph.ndata["x"].numpy(), -1e6, 1e6))
        graph.ndata["x"] = torch.from_numpy(x)
        graph.update_all(fn.copy_u("x", "m"), fn.sum("m", "y"))
        edges = np.stack([e.numpy() for e in graph.edges()])
        np.testing.assert_allclose(graph.ndata["y"].numpy(), sum_of_sources(x, edges), rtol=1e-4, atol=1e-2)


if __name__ == "__main__":
  unittest.main()

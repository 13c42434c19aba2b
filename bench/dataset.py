"""A data set of programs out of JAX's tests, examples and folders of programs, and a look whether graph libraries can read it.

  dataset.py build DIR [--jax-tests FOLDER] [--tests NAME...] [--cases N] [--seconds S] [--python PYTHON]
                       [--harnesses[=GROUP,...]] [--examples[=NAME,...]] [--add FOLDER...]
  dataset.py export DIR NPZ [--target NAME]
  dataset.py check NPZ [--with plain,pyg,jraph]

`build` runs each of JAX's test files (a checkout's `tests`) in a process of its own with `hilo.jax.harvest` open, for at most S
seconds, with N cases of each test that draws its cases. Tests may fail: what they compiled counts. With --harnesses the programs
with which JAX's tests go through its primitives, which its wheel has, are lowered, which is quicker than running them. Then the scripts
in examples/ in the same way as tests; then what lies in folders. All goes into the data set DIR/all, each graph once; run again
it goes on where it was.

`export` writes TpuGraphs' files. `check` loads every one of them and counts: plain, by NumPy, whether every edge is between nodes and every
number finite; as a Data of PyTorch Geometric, whose own validate() must hold; as a GraphsTuple of jraph, in a batch of two.
"""
import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "python"))  # unless it is installed

EXAMPLES = "cnn_flax,equinox_mlp,lm_train,mlp_stages,pjit_square_dot,roberta_pmap,sigmoid"


# --- Harvesting -----------------------------------------------------------------------------------


def harvest(folder, script):
  """Runs a test file or a script; what JAX compiles meanwhile goes into the data set in the folder."""
  import runpy

  import hilo.jax
  script = pathlib.Path(script)
  with hilo.jax.harvest(folder, origin=script.stem):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # each program is in its file already
    if script.stem.endswith("_test"):
      import pytest
      pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", str(script)])
    else:
      sys.argv = [str(script)]
      runpy.run_path(str(script), run_name="__main__")


def lower_harnesses(folder, groups):
  """The programs with which JAX's tests go through all primitives (as `export_harnesses_multi_platform_test` does), only lowered."""
  import jax
  import numpy as np
  from jax._src.internal_test_util import test_harnesses

  from hilo.dataset import Dataset
  with Dataset(folder) as data:
    for harness in test_harnesses.all_harnesses:
      if groups and harness.group_name not in groups:
        continue
      try:
        args = harness.dyn_args_maker(np.random.RandomState(0))
        data.add_text(jax.jit(harness.dyn_fun).lower(*args).as_text(), f"harness-{harness.group_name}", harness.fullname)
      except Exception as e:  # what a platform does not have
        data.note_unreadable(harness.fullname, str(e))
    print(f"harnesses: {len(data)} programs, {data.duplicates} twice, {len(data.unreadable)} not", flush=True)


def run_one(args, script, folder):
  """How it ended: its status, None where its time was up, and the last line that it said of an error."""
  env = os.environ | {"JAX_ENABLE_X64": "1" if str(script) == "harnesses" else "0",
                      "JAX_NUM_GENERATED_CASES": str(args.cases), "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
                      "JAX_SKIP_SLOW_TESTS": "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
                      "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
  command = [args.python, os.path.abspath(__file__), "harvest", os.path.abspath(folder), str(script), args.harnesses or ""]
  with tempfile.TemporaryFile("w+", errors="replace") as said:
    process = subprocess.Popen(command, env=env, cwd=script.resolve().parent, stdout=subprocess.DEVNULL, stderr=said)
    try:
      status = process.wait(args.seconds)
    except subprocess.TimeoutExpired:
      status = None
      process.terminate()
      try:
        process.wait(20)
      except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    said.seek(0)
    lines = said.read().split("\n")
  return status, next((line for line in reversed(lines) if line.strip()), "")


def build(args):
  from hilo.dataset import Dataset
  folder = pathlib.Path(args.folder)
  scripts = []
  if args.jax_tests:
    tests = pathlib.Path(args.jax_tests)
    scripts += sorted(f for f in tests.glob("*_test.py") if not args.tests or f.stem in args.tests)
  if args.harnesses is not None:
    scripts.append(pathlib.Path("harnesses"))
  if args.examples is not None:
    scripts += [ROOT / "examples" / f"{name}.py" for name in args.examples.split(",") if name]
  nothing = []
  with Dataset(folder / "all") as data:
    for script in scripts:
      part, begin = folder / "parts" / script.stem, time.monotonic()
      if not (part / "done").exists():
        status, why = run_one(args, script, part)
        part.mkdir(parents=True, exist_ok=True)
        new = data.add_dataset(part)
        how = "" if status == 0 else ", its time was up" if status is None else f", ended with status {status}: {why}"
        print(f"{script.stem:40} {new:6} new, {len(data):6} in all, {time.monotonic() - begin:5.0f} s{how}", flush=True)
        with Dataset(part) as own:
          came = len(own)
        if status and came == 0:  # tests that fail are no news; but here none compiled anything
          nothing.append(script.stem)
        else:
          (part / "done").touch()
    for more in args.add:
      new = data.add_files([more])
      print(f"{more:40} {new:6} new, {len(data):6} in all, {len(data.unreadable)} not readable", flush=True)
    print(json.dumps(data.statistics()))
  if nothing:
    sys.exit(f"nothing came from {', '.join(nothing)}, and they failed")


# --- The files --------------------------------------------------------------------------------------


def load_plain(arrays):
  import numpy as np
  n, edges = len(arrays["node_opcode"]), arrays["edge_index"]
  assert arrays["node_feat"].shape[0] == n and edges.ndim == 2 and edges.shape[1] == 2
  assert len(edges) == 0 or (0 <= edges.min() and edges.max() < n)
  assert np.isfinite(arrays["node_feat"]).all() and arrays["config_runtime"].min() > 0
  return n, len(edges)


def load_pyg(arrays):
  import torch
  from torch_geometric.data import Data
  data = Data(x=torch.from_numpy(arrays["node_feat"]), edge_index=torch.from_numpy(arrays["edge_index"].T.copy()),
              opcode=torch.from_numpy(arrays["node_opcode"]), y=torch.from_numpy(arrays["config_runtime"]))
  data.validate(raise_on_error=True)
  assert data.num_nodes == len(arrays["node_opcode"]) and data.num_edges == len(arrays["edge_index"])
  assert bool(torch.isfinite(data.x).all())
  return data.num_nodes, data.num_edges


def load_jraph(arrays):
  import jraph
  import numpy as np
  n, edges = len(arrays["node_opcode"]), arrays["edge_index"]
  graph = jraph.GraphsTuple(nodes=arrays["node_feat"], edges=None, senders=edges[:, 0], receivers=edges[:, 1],
                            n_node=np.array([n]), n_edge=np.array([len(edges)]), globals=arrays["config_runtime"][None])
  both = jraph.batch_np([graph, graph])
  assert int(both.n_node.sum()) == 2 * n and len(both.senders) == 2 * len(edges)
  assert len(edges) == 0 or (int(both.senders.max()) < 2 * n and int(both.receivers.max()) < 2 * n)
  return n, len(edges)


LIBRARIES = {"plain": load_plain, "pyg": load_pyg, "jraph": load_jraph}


def check(args):
  import numpy as np
  counts = {name: collections.Counter() for name in args.libraries.split(",")}
  failed = []
  for file in sorted(pathlib.Path(args.folder).rglob("*.npz")):
    with np.load(file) as npz:
      arrays = {key: npz[key] for key in npz.files}
    for name, count in counts.items():
      try:
        nodes, edges = LIBRARIES[name](arrays)
        count.update(files=1, nodes=nodes, edges=edges)
      except Exception as e:
        failed.append(f"{file} ({name}): {type(e).__name__}: {e}")
  for name, count in counts.items():
    print(f"{name}: {count['files']} files loaded, {count['nodes']} nodes, {count['edges']} edges")
  print("\n".join(failed[:20]) if failed else "none failed")
  return 1 if failed or not all(count["files"] for count in counts.values()) else 0


def export(args):
  from hilo.dataset import Dataset
  with Dataset(args.folder) as data:
    print(data.export_tpugraphs(args.npz, target=args.target), "files")


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", required=True)
  one = commands.add_parser("build")
  one.add_argument("folder")
  one.add_argument("--jax-tests")
  one.add_argument("--tests", nargs="*", default=[])
  one.add_argument("--cases", type=int, default=10)
  one.add_argument("--seconds", type=float, default=300)
  one.add_argument("--python", default=sys.executable)
  one.add_argument("--harnesses", nargs="?", const="")
  one.add_argument("--examples", nargs="?", const=EXAMPLES)
  one.add_argument("--add", nargs="*", default=[])
  two = commands.add_parser("export")
  two.add_argument("folder")
  two.add_argument("npz")
  two.add_argument("--target", default="cpu")
  three = commands.add_parser("check")
  three.add_argument("folder")
  three.add_argument("--with", dest="libraries", default="plain,pyg,jraph")
  four = commands.add_parser("harvest")
  four.add_argument("folder")
  four.add_argument("script", help="'harnesses': those of JAX's primitives")
  four.add_argument("groups", nargs="?", default="")
  args = parser.parse_args()
  if args.command == "harvest":
    if args.script == "harnesses":
      lower_harnesses(args.folder, [group for group in args.groups.split(",") if group])
    else:
      harvest(args.folder, args.script)
    return 0
  return {"build": build, "export": export, "check": check}[args.command](args) or 0


if __name__ == "__main__":
  raise SystemExit(main())

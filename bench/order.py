"""How many operations are left of training steps by the best order of passes that is found, beside default orders.

  order.py [--hilo PROGRAM] [--folder DIR] [--tries N] [--seed N] [--metric NAME] [--policy NAME] [--small] [NAME...]

    gpt2     GPT-2 small: 12 blocks, width 768, 1,024 tokens, dropout, AdamW with clipped gradients
    bert     BERT base: 12 layers, width 768, 512 tokens, masked words and the next sentence, the same optimizer
    resnet   ResNet 50: images of 224 by 224, batch normalisation, SGD with momentum

The steps are plain JAX, and only lowered: nothing of this size is run. Columns are operations (--metric=kernels: those that one run
starts): as JAX lowers it; after what XLA:GPU ran of simplifiers in 2022, each once, and again and again until nothing
changes; after what it runs now, in the same two ways (the default order of `--env=order`); after the best order that is found. That
order is then run on the same program in a small size, pass by pass, and the results of each state are compared by the interpreter.
--small searches on the small sizes instead. The same seed and tries find the same order on any machine.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
from jax import lax

ROOT = pathlib.Path(__file__).resolve().parent.parent

# --- Parts of models ------------------------------------------------------------------------------


def array(*shape):
  return jax.ShapeDtypeStruct(shape, jnp.float32)


def norm(p, x):
  mean = x.mean(-1, keepdims=True)
  variance = ((x - mean) ** 2).mean(-1, keepdims=True)
  return (x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]


def norm_params(width):
  return {"scale": array(width), "shift": array(width)}


def dense(p, x):
  return x @ p["w"] + p["b"]


def dense_params(n, m):
  return {"w": array(n, m), "b": array(m)}


def attention(p, x, mask, heads):
  batch, length, width = x.shape
  q, k, v = jnp.split(dense(p["qkv"], x), 3, axis=-1)
  q, k, v = (y.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for y in (q, k, v))
  scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // heads)
  weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
  return dense(p["out"], (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width))


def block_params(width):
  return {"norm1": norm_params(width), "norm2": norm_params(width), "qkv": dense_params(width, 3 * width),
          "out": dense_params(width, width), "up": dense_params(width, 4 * width), "down": dense_params(4 * width, width)}


def dropped(key, x, rate):
  keep = jax.random.bernoulli(key, 1 - rate, x.shape)
  return jnp.where(keep, x / (1 - rate), 0)


def cross_entropy(logits, labels):
  picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)[..., 0]
  return -picked


# --- Optimizers -----------------------------------------------------------------------------------


def adamw(params, grads, state, rate=3e-4, b1=0.9, b2=0.999, decay=0.01):
  size = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
  grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (size + 1e-6)), grads)
  step = state["step"] + 1
  warm = rate * jnp.minimum(1.0, step.astype(jnp.float32) / 1000)
  m = jax.tree.map(lambda a, g: b1 * a + (1 - b1) * g, state["m"], grads)
  v = jax.tree.map(lambda a, g: b2 * a + (1 - b2) * g * g, state["v"], grads)

  def update(p, a, b):
    a = a / (1 - b1 ** step.astype(jnp.float32))
    b = b / (1 - b2 ** step.astype(jnp.float32))
    return p - warm * (a / (jnp.sqrt(b) + 1e-8) + decay * p)
  return jax.tree.map(update, params, m, v), {"m": m, "v": v, "step": step}


def adamw_state(params):
  return {"m": params, "v": params, "step": jax.ShapeDtypeStruct((), jnp.int32)}


def momentum(params, grads, state, rate=0.1, mu=0.9, decay=1e-4):
  state = jax.tree.map(lambda s, g, p: mu * s + g + decay * p, state, grads, params)
  return jax.tree.map(lambda p, s: p - rate * s, params, state), state


# --- The three steps ------------------------------------------------------------------------------


def gpt2(small):
  layers, width, heads, length, symbols, batch = (2, 16, 2, 8, 37, 2) if small else (12, 768, 12, 1024, 50257, 8)
  params = {"tokens": array(symbols, width), "places": array(length, width), "norm": norm_params(width),
            "blocks": [block_params(width) for _ in range(layers)]}

  def loss_of(params, text, key):
    keys = jax.random.split(key, 2 * layers + 1)
    x = dropped(keys[-1], params["tokens"][text[:, :-1]] + params["places"], 0.1)
    mask = jnp.tril(jnp.ones((length, length), bool))
    for k, p in enumerate(params["blocks"]):
      x = x + dropped(keys[2 * k], attention(p, norm(p["norm1"], x), mask, heads), 0.1)
      y = dense(p["down"], jax.nn.gelu(dense(p["up"], norm(p["norm2"], x))))
      x = x + dropped(keys[2 * k + 1], y, 0.1)
    return cross_entropy(norm(params["norm"], x) @ params["tokens"].T, text[:, 1:]).mean()

  def step(params, state, text, key):
    loss, grads = jax.value_and_grad(loss_of)(params, text, key)
    params, state = adamw(params, grads, state)
    return params, state, loss
  text = jax.ShapeDtypeStruct((batch, length + 1), jnp.int32)
  return step, (params, adamw_state(params), text, jax.ShapeDtypeStruct((2,), jnp.uint32))


def bert(small):
  layers, width, heads, length, symbols, batch = (2, 16, 2, 8, 37, 2) if small else (12, 768, 12, 512, 30522, 16)
  params = {"tokens": array(symbols, width), "places": array(length, width), "kinds": array(2, width),
            "norm": norm_params(width), "blocks": [block_params(width) for _ in range(layers)],
            "pool": dense_params(width, width), "next": dense_params(width, 2),
            "words": {"dense": dense_params(width, width), "norm": norm_params(width), "b": array(symbols)}}

  def loss_of(params, data, key):
    keys = jax.random.split(key, 2 * layers + 1)
    x = params["tokens"][data["text"]] + params["places"] + params["kinds"][data["kinds"]]
    x = dropped(keys[-1], norm(params["norm"], x), 0.1)
    mask = (data["text"] > 0)[:, None, None, :]
    for k, p in enumerate(params["blocks"]):
      x = norm(p["norm1"], x + dropped(keys[2 * k], attention(p, x, mask, heads), 0.1))
      y = dense(p["down"], jax.nn.gelu(dense(p["up"], x), approximate=False))
      x = norm(p["norm2"], x + dropped(keys[2 * k + 1], y, 0.1))
    pooled = jnp.tanh(dense(params["pool"], x[:, 0]))
    p = params["words"]
    words = norm(p["norm"], jax.nn.gelu(dense(p["dense"], x), approximate=False)) @ params["tokens"].T + p["b"]
    losses = cross_entropy(words, jnp.maximum(data["labels"], 0)) * (data["labels"] >= 0)
    return (losses.sum() / jnp.maximum((data["labels"] >= 0).sum(), 1)
            + cross_entropy(dense(params["next"], pooled), data["next"]).mean())

  def step(params, state, data, key):
    loss, grads = jax.value_and_grad(loss_of)(params, data, key)
    params, state = adamw(params, grads, state)
    return params, state, loss
  words = jax.ShapeDtypeStruct((batch, length), jnp.int32)
  data = {"text": words, "kinds": words, "labels": words, "next": jax.ShapeDtypeStruct((batch,), jnp.int32)}
  return step, (params, adamw_state(params), data, jax.ShapeDtypeStruct((2,), jnp.uint32))


def conv(w, x, stride=1):
  return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(p, s, x):
  mean, square = x.mean((0, 1, 2)), (x * x).mean((0, 1, 2))
  variance = square - mean * mean
  y = (x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]
  return y, {"mean": 0.9 * s["mean"] + 0.1 * mean, "variance": 0.9 * s["variance"] + 0.1 * variance}


def bottleneck(p, s, x, stride):
  out = {}
  y, out["n1"] = batch_norm(p["n1"], s["n1"], conv(p["c1"], x))
  y, out["n2"] = batch_norm(p["n2"], s["n2"], conv(p["c2"], jax.nn.relu(y), stride))
  y, out["n3"] = batch_norm(p["n3"], s["n3"], conv(p["c3"], jax.nn.relu(y)))
  if "c0" in p:
    x, out["n0"] = batch_norm(p["n0"], s["n0"], conv(p["c0"], x, stride))
  return jax.nn.relu(x + y), out


def resnet_params(stages, width, classes):
  params = {"stem": array(7, 7, 3, width), "norm": norm_params(width), "stages": []}
  stats = {"norm": {"mean": array(width), "variance": array(width)}, "stages": []}
  inner = width
  for k, n in enumerate(stages):
    mid = width * 2**k
    for i in range(n):
      p = {"c1": array(1, 1, inner, mid), "c2": array(3, 3, mid, mid), "c3": array(1, 1, mid, 4 * mid),
           "n1": norm_params(mid), "n2": norm_params(mid), "n3": norm_params(4 * mid)}
      if i == 0:
        p |= {"c0": array(1, 1, inner, 4 * mid), "n0": norm_params(4 * mid)}
      params["stages"].append(p)
      stats["stages"].append({name: {"mean": q["scale"], "variance": q["shift"]}
                              for name, q in p.items() if name[0] == "n"})
      inner = 4 * mid
  return params | {"head": dense_params(inner, classes)}, stats


def resnet(small):
  stages, width, size, classes, batch = ((1, 1), 4, 16, 5, 2) if small else ((3, 4, 6, 3), 64, 224, 1000, 32)
  params, stats = resnet_params(stages, width, classes)
  strides = [2 if i == 0 and k > 0 else 1 for k, n in enumerate(stages) for i in range(n)]

  def loss_of(params, stats, images, labels):
    new = {"stages": []}
    x, new["norm"] = batch_norm(params["norm"], stats["norm"], conv(params["stem"], images, 2))
    x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for p, s, stride in zip(params["stages"], stats["stages"], strides):
      x, out = bottleneck(p, s, x, stride)
      new["stages"].append(out)
    return cross_entropy(dense(params["head"], x.mean((1, 2))), labels).mean(), new

  def step(params, state, stats, images, labels):
    (loss, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params, stats, images, labels)
    params, state = momentum(params, grads, state)
    return params, state, stats, loss
  images = array(batch, size, size, 3)
  return step, (params, params, stats, images, jax.ShapeDtypeStruct((batch,), jnp.int32))


STEPS = {"gpt2": gpt2, "bert": bert, "resnet": resnet}


def write_program(name, small, folder):
  step, args = STEPS[name](small)
  file = pathlib.Path(folder) / f"{name}{'_small' if small else ''}.hlo"
  if not file.exists():
    lowered = jax.jit(step, donate_argnums=(0, 1)).lower(*args)
    file.write_text(lowered.compiler_ir("hlo").as_hlo_text(), encoding="utf-8")
  return file


# --- Orders ---------------------------------------------------------------------------------------

# Of XLA:GPU's passes in spring 2022 those that depend on no target (`hilo passes hloenv-pre-fusion`).
OLD = ("zero_sized_hlo_elimination, gather_expander{simple}, scatter_expander{simple}, algsimp, bitcast_dtypes_expander,"
       " dot_decomposer, dot-merger{max_size=16777216}, simplify-sorts, tuple-simplifier, while-loop-constant-sinking,"
       " simplify-while-loops, reshape-mover, constant_folding, simplify-conditional, real_imag_expander, transpose-folding, cse,"
       " dce")


def report(hilo, *args):
  return json.loads(subprocess.run([hilo, *args, "--json"], check=True, capture_output=True, text=True).stdout)[0]


def play(args, file, policy):
  game = report(args.hilo, "rewrite", file, "--env=order", f"--metric={args.metric}", f"--policy={policy}",
                f"--tries={args.tries}", f"--seed={args.seed}")
  return game["modules"][0]["games"][0] if "modules" in game else game["games"][0]


def after(args, file, passes):
  """The metric after these passes: what a game is that begins with them."""
  game = report(args.hilo, "rewrite", file, "--env=order", f"--metric={args.metric}", "--policy=none", f"--first={passes}")
  return (game["modules"][0]["games"][0] if "modules" in game else game["games"][0])["first"]


def check(args, name, folder, order):
  """Whether every pass of the order keeps the results of the small program."""
  out = subprocess.run([args.hilo, "opt", write_program(name, True, folder), f"--passes={order}", "--check-each", "--json"],
                       capture_output=True, text=True)
  return out.returncode == 0


def row(args, name, folder):
  file = write_program(name, args.small, folder)
  old = [after(args, file, f"call-inliner, {OLD}"), after(args, file, f"call-inliner, x({OLD})*")]
  default, best = play(args, file, "xla"), play(args, file, args.policy)
  new = [default["steps"][0]["metric"], default["last"]]
  kept = check(args, name, folder, best["order"])
  counts = [best["first"], *old, *new, best["last"]]
  changes = [100 * (best["last"] / before - 1) for before in old + new]
  print(f"{name:8}" + "".join(f"{n:9,.0f}" for n in counts) + "".join(f"{x:+8.1f}%" for x in changes)
        + ("   kept" if kept else "   DIFFER"), flush=True)
  n = len(default["steps"])
  once = default["order"][:(len(default["order"]) + 2) // n - 2]  # it stands there as often as there were steps
  return kept, changes, f"{name}: {best['order'].replace(once, '(default order)')}"


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--hilo", default=str(ROOT / "build" / "hilo"))
  parser.add_argument("--folder", help="where programs are kept (default: a temporary one)")
  parser.add_argument("--tries", type=int, default=8000)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--metric", default="instructions")
  parser.add_argument("--policy", default="evolve")
  parser.add_argument("--small", action="store_true")
  parser.add_argument("names", nargs="*", metavar="NAME", default=list(STEPS))
  args = parser.parse_args()
  heads = ["lowered", "2022", "2022*", "now", "now*", "found"]
  print(" " * 8 + "".join(f"{h:>9}" for h in heads) + "".join(f"{'/ ' + h:>9}" for h in heads[1:5]) + "   results")
  with tempfile.TemporaryDirectory() as scratch:
    rows = [row(args, name, args.folder or scratch) for name in args.names or STEPS]
  print(f"{'mean':62}" + "".join(f"{sum(x) / len(rows):+8.1f}%" for x in zip(*(changes for _, changes, _ in rows))))
  for _, _, order in rows:
    print(order)
  return 0 if all(kept for kept, _, _ in rows) else 1


if __name__ == "__main__":
  raise SystemExit(main())

"""A multi-layer perceptron, read through every stage: one command, five phases.

    JAX_PLATFORMS=hilo python mlp_stages.py      # or =cpu: the same numbers, another compiler

    1  jaxpr     what JAX traced
    2  HLO       what it hands to the compiler, and what the compiler makes of it
    3  fusions   which of those instructions became one loop
    4  grad      the same for the gradient: how much more there is
    5  vmap      the same for a batch: how little more there is
"""
import collections
import re

import jax
import jax.numpy as jnp


def mlp(params, x):
    (w1, b1), (w2, b2) = params
    hidden = jnp.tanh(x @ w1 + b1)
    return hidden @ w2 + b2


def loss(params, x, y):
    return jnp.mean((mlp(params, x) - y) ** 2)


def make_params(key, sizes=(8, 32, 1)):
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (n, m)) / n**0.5, jnp.zeros(m)) for k, n, m in zip(keys, sizes, sizes[1:])]


def before(lowered):
    """HLO as JAX hands it over."""
    return plain(lowered.as_text("hlo"))


def after(lowered):
    """HLO as the compiler leaves it: what runs."""
    return plain(lowered.compile().as_text())


def plain(hlo):
    """Without the tables and notes that lead back to the source."""
    hlo = re.sub(r", metadata=\{[^}]*\}|, backend_config=\{.*\}|/\*.*?\*/", "", hlo)
    keep = [line for line in hlo.split("\n") if re.match(r"HloModule|ENTRY|%|}| ", line)]
    return [line for line in keep if line.strip()]


def count(hlo):
    """Instructions by opcode."""
    ops = collections.Counter()
    for line in hlo:
        found = re.match(r"\s+(?:ROOT )?%?[\w.-]+ = (?:\([^=]*?\)|\S+) ([\w-]+)\(", line)
        if found:
            ops[found[1]] += 1
    return ops


def show(title, lines, limit=14):
    print(f"--- {title}")
    for line in lines[:limit]:
        print(line[:110])
    if len(lines) > limit:
        print(f"  ... {len(lines) - limit} more lines")


def summary(name, lowered):
    old, new = count(before(lowered)), count(after(lowered))
    print(f"{name:14} {sum(old.values()):3} instructions before, dots {old['dot']}; "
          f"after: dots {new['dot'] + new['custom-call']}, fusions {new['fusion']}")


def main():
    key = jax.random.key(0)
    params = make_params(key)
    x = jax.random.normal(key, (16, 8))
    y = jnp.sin(x.sum(axis=1, keepdims=True))

    show("1 jaxpr", str(jax.make_jaxpr(loss)(params, x, y)).split("\n"), 30)

    lowered = jax.jit(loss).lower(params, x, y)
    show("2 HLO before", before(lowered), 12)
    show("2 HLO after", after(lowered), 12)

    print("--- 3 fusions")
    summary("loss", lowered)

    print("--- 4 grad")
    step = jax.jit(jax.value_and_grad(loss))
    summary("loss and grad", step.lower(params, x, y))
    value, grads = step(params, x, y)
    print(f"loss {value:.4f}; gradient's norms " +
          " ".join(f"{jnp.linalg.norm(g):.4f}" for g in jax.tree.leaves(grads)))

    print("--- 5 vmap")
    one = jax.jit(lambda p, x: mlp(p, x[None])[0])
    many = jax.jit(jax.vmap(one, in_axes=(None, 0)))
    summary("one row", one.lower(params, x[0]))
    summary("16 rows", many.lower(params, x))
    far = jnp.abs(many(params, x) - jnp.stack([one(params, row) for row in x])).max()
    print("as row by row:", bool(far < 1e-5))


if __name__ == "__main__":
    main()

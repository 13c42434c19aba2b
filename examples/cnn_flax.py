"""A small convolutional network in flax learns to tell stripes by their direction: 20 steps of optax.

    JAX_PLATFORMS=hilo python cnn_flax.py

The images are made up: 12 x 12 pixels of noise with stripes that are level, upright, or slanting one way or the other.
"""
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

SIZE, CLASSES, BATCH, STEPS = 12, 4, 64, 20


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3))(x)
        x = nn.relu(x)
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.Conv(16, (3, 3))(x)
        x = nn.relu(x)
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(32)(x))
        return nn.Dense(CLASSES)(x)


@functools.partial(jax.jit, static_argnums=1)
def images(key, n):
    """n images and which way their stripes run: 0 level, 1 upright, 2 falling, 3 rising."""
    label_key, shift_key, noise_key = jax.random.split(key, 3)
    label = jax.random.randint(label_key, (n,), 0, CLASSES)
    row, column = jnp.mgrid[:SIZE, :SIZE]
    ramps = jnp.stack([row, column, row - column, row + column])[label]
    shift = jax.random.uniform(shift_key, (n, 1, 1), maxval=2 * jnp.pi)
    noise = 0.7 * jax.random.normal(noise_key, (n, SIZE, SIZE))
    return (jnp.sin(ramps * 1.2 + shift) + noise)[..., None], label


def loss_and_right(params, model, image, label):
    logits = model.apply(params, image)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()
    return loss, (logits.argmax(-1) == label).mean()


def main():
    model, optimizer = CNN(), optax.adam(1e-2)
    key = jax.random.key(0)
    params = model.init(key, jnp.zeros((1, SIZE, SIZE, 1)))
    state = optimizer.init(params)
    print("parameters", sum(p.size for p in jax.tree.leaves(params)))

    @jax.jit
    def step(params, state, key):
        image, label = images(key, BATCH)
        grad = jax.value_and_grad(loss_and_right, has_aux=True)
        (loss, right), grads = grad(params, model, image, label)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss, right

    for k in range(STEPS):
        params, state, loss, right = step(params, state, jax.random.fold_in(key, k))
        if k % 5 == 0 or k == STEPS - 1:
            print(f"step {k:2}  loss {loss:.2f}  right {right:.0%}")

    image, label = images(jax.random.key(1), 512)
    loss, right = jax.jit(loss_and_right, static_argnums=1)(params, model, image, label)
    print(f"new images: {'learnt' if right > 0.85 else f'only {right:.0%} right'}")


if __name__ == "__main__":
    main()

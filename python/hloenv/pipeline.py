"""Passes one after the other; those whose rewrites are to be chosen stop the run until they are.

A part of a pipeline in which nothing is to be chosen goes to the library as a whole, as a text: `simplification(algsimp,dce)*`.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hloenv.hlo_pass import HloPassInterface

if TYPE_CHECKING:
  from hloenv.module import HloModule

MAX_ROUNDS = 25  # of what runs to a fixed point

_edits = 0       # counts what is added to pipelines: texts made before are void


class _Runner(Protocol):
  """What passes run on: an environment."""

  def _passes(self, text: str) -> bool: ...
  def _dry(self, text: str) -> bool: ...
  def _propose(self, text: str) -> bool: ...


class PassInterface:
  """Something that runs, `loop_count` times, or with -1 until nothing changes."""

  _loops = True  # the text says how often

  def __init__(self, name: str, loop_count: int):
    if not isinstance(loop_count, int):
      raise TypeError(f"loop_count is a whole number, not {loop_count!r}")
    if loop_count < -1 or loop_count == 0 or loop_count >= 2**31:
      raise ValueError(f"loop_count is a number of rounds, or -1, but not {loop_count}")
    self._name, self._loop_count = name, loop_count
    self._complete, self._changed, self._k = True, False, 0
    self._known: tuple[int, str | None] = (-1, None)

  @property
  def name(self) -> str:
    return self._name

  @property
  def changed(self) -> bool:
    """Whether the run changed something."""
    return self._changed

  @property
  def _limit(self) -> int:
    return MAX_ROUNDS if self._loop_count == -1 else self._loop_count

  def _one_round(self) -> str | None:
    """The text of one round; None: something is to be chosen in it."""
    raise NotImplementedError

  def _text(self) -> str | None:
    """The text of all rounds."""
    if self._known[0] != _edits:
      text = self._one_round()
      if text and self._loop_count == -1:
        text = f"({text})*"
      elif text:
        text = ",".join([text] * self._loop_count)
      self._known = _edits, text
    return self._known[1]

  def _body(self, env: _Runner) -> tuple[bool, bool, bool]:
    """A round, or the rest of one: whether something is to be chosen, whether it changed something, whether it has ended."""
    raise NotImplementedError

  def _run(self, env: _Runner) -> bool:
    """Runs, or goes on; whether something is to be chosen."""
    text = self._text()
    if text is not None:
      self._changed = bool(text) and env._passes(text)
      return False
    if self._complete:
      self._complete, self._changed, self._k = False, False, 0
    while self._k < self._limit:
      chosen, changed, finished = self._body(env)
      if finished:
        self._k += 1
        self._changed = self._changed or changed
        self._complete = self._k >= self._limit
      if chosen:
        return True
      if self._loop_count == -1 and not changed:
        break
    self._complete = True
    return False

  def Run(self, hlo_pass: HloModule) -> bool:
    """Runs on a module (which is the argument, whatever its name)."""
    from hloenv.env import HloEnv
    return HloEnv(hlo_pass, "gpu").run(self)


class Pass(PassInterface):
  """One pass of HloPass."""

  def __init__(self, hlo_pass: HloPassInterface, loop_count: int = 1):
    if not isinstance(hlo_pass, HloPassInterface):
      raise TypeError(f"Pass takes a pass of HloPass, not {type(hlo_pass).__name__}")
    super().__init__(hlo_pass.name, loop_count)
    self._pass = hlo_pass

  def _one_round(self) -> str:
    return self._pass.text


def _member(hlo_pass: Any, loop_count: int) -> PassInterface:
  return hlo_pass if isinstance(hlo_pass, PassInterface) else Pass(hlo_pass, loop_count)


class Pipeline(PassInterface):
  """Members, one after the other."""

  def __init__(self, name: str, loop_count: int = 1):
    super().__init__(name, loop_count)
    self._members: list[PassInterface] = []
    self._checkers: list[PassInterface] = []
    self._next = 0
    self._round_changed = False  # the round that is under way

  def add_pass(self, hlo_pass: HloPassInterface | PassInterface, loop_count: int = 1) -> None:
    global _edits
    _edits += 1
    self._members.append(_member(hlo_pass, loop_count))

  def add_invariant_checker(self, hlo_pass: HloPassInterface | PassInterface) -> None:
    """Runs before and after each round, and must not change anything."""
    global _edits
    _edits += 1
    self._checkers.append(_member(hlo_pass, 1))

  def _check(self) -> str:
    return ",".join(c._text() or "" for c in self._checkers)

  def _one_round(self) -> str | None:
    texts = [m._text() for m in self._members]
    if None in texts:
      return None
    return ",".join(t for t in [self._check(), *texts, self._check()] if t)

  def _run_check(self, env: _Runner) -> None:
    if self._checkers and env._passes(self._check()):
      raise ValueError(f"an invariant checker of {self._name} changes the module")

  def _body(self, env: _Runner) -> tuple[bool, bool, bool]:
    if self._next == 0:
      self._round_changed = False
      self._run_check(env)
    while self._next < len(self._members):
      member = self._members[self._next]
      chosen = member._run(env)
      self._round_changed = self._round_changed or member.changed or chosen
      if member._complete:
        self._next += 1
      if chosen:
        # With the last member the round has ended, though something is to be chosen.
        finished = self._next == len(self._members)
        self._next = 0 if finished else self._next
        return True, self._round_changed, finished
    self._next = 0
    self._run_check(env)
    return False, self._round_changed, True


class AltPipeline(PassInterface):
  """Runs a pass, or all passes of a pipeline, dry: what each would do becomes alternatives, to be chosen from."""

  _collects = "_dry"

  def __init__(self, pass_: Pass | Pipeline | None = None, loop_count: int = 1, **named: Any):
    inner = named.pop("pass", pass_)
    if named:
      raise TypeError(f"unexpected argument {next(iter(named))!r}")
    if not isinstance(inner, (Pass, Pipeline)):
      raise TypeError(f"{type(self).__name__} takes a Pass or a Pipeline, not {type(inner).__name__}")
    super().__init__("alt_" + inner.name, loop_count)
    self._passes = list(_flat(inner))

  def add_pass(self, hlo_pass: HloPassInterface | PassInterface, loop_count: int = 1) -> None:
    global _edits
    _edits += 1
    self._passes.extend(_flat(_member(hlo_pass, loop_count)))

  def _one_round(self) -> None:
    return None

  def _body(self, env: _Runner) -> tuple[bool, bool, bool]:
    # Nothing is replaced in between, so more rounds of a pass would propose the same.
    chosen = getattr(env, self._collects)(",".join(p._one_round() for p in self._passes))
    return chosen, chosen, True


class RewritePipeline(AltPipeline):
  """The same; what passes would do is kept beside the module, as rewrites that can be applied one by one."""

  _collects = "_propose"


def _flat(member: PassInterface) -> list[Pass]:
  """The passes of a pipeline and of those in it."""
  if isinstance(member, Pass):
    return [member]
  if isinstance(member, AltPipeline):
    return list(member._passes)
  assert isinstance(member, Pipeline)
  return [p for m in member._members for p in _flat(m)]

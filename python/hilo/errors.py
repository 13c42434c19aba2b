"""What Hilo reports: errors, and warnings."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Diagnostic:
  """An error, warning or note about a place in a program.

  Lines and columns count from 1; line 0 is of a binary, whose column is the offset of a byte.
  """
  severity: str  # "error", "warning", "note"
  kind: str      # "invalid", "unsupported", "failed", "limit", "cancelled", "differs"
  file: str
  line: int
  column: int
  text: str
  hint: str
  rendered: str  # all of it, with the line of the source and a caret


class Error(Exception):
  """What went wrong: its text has every place, with the line of the program and a caret."""

  def __init__(self, message: str, diagnostics: list[Diagnostic] | None = None):
    super().__init__(message)
    self.diagnostics = list(diagnostics or [])

  @property
  def kind(self) -> str:
    """Of the first error: "invalid", "unsupported", "failed", "limit"; "failed" where none is known."""
    return next((d.kind for d in self.diagnostics if d.severity == "error"), "failed")

  def __reduce__(self):
    return type(self), (self.args[0], self.diagnostics)


class HiloWarning(UserWarning):
  """A warning of Hilo's about a program, of which more is said on its way."""

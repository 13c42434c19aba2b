"""HloEnv's command-line tools: `python -m hloenv TOOL [options]`, with the options of its own.

    python -m hloenv extract_subgraphs --hlo=m.hlo -o parts      each part of 10 to 19 instructions as parts/<hash>.txt
    python -m hloenv evaluate --hlo_fn=m.hlo --times=20          what runs take
    python -m hloenv compile --hlo=m.hlo --dry=fusion            XLA's pipeline of 2022, "fusion" decided by chance

A module is a file, or - for standard input.
"""
from __future__ import annotations

import argparse
import os
import random
import sys
from typing import Any

from hilo.errors import Error
from hloenv.env import HloEnv
from hloenv.module import HloModule
from hloenv.pipeline import AltPipeline, Pass, PassInterface, Pipeline
from hloenv.xla import xla_pipeline

FAILED, USAGE, UNREADABLE = 5, 2, 3


def _module(path: str) -> HloModule:
  return HloModule(sys.stdin.read(), "txt") if path == "-" else HloModule(path)


# --- extract_subgraphs ---


def _extract_options(parser: argparse.ArgumentParser) -> None:
  parser.add_argument("--hlo", required=True, metavar="FILE", help="the module; -: standard input")
  parser.add_argument("--num_inst_lower_bound", type=int, default=10, metavar="N", help="a part has at least so many instructions")
  parser.add_argument("--num_inst_upper_bound", type=int, default=20, metavar="N", help="and fewer than so many")
  parser.add_argument("-o", "--output", default=".", metavar="DIR", help="where <hash>.txt of each part is written")


def _extract(args: argparse.Namespace) -> None:
  module = _module(args.hlo)
  os.makedirs(args.output, exist_ok=True)
  seen, found = set(), 0
  for part in module.extract_subgraphs(args.num_inst_lower_bound, args.num_inst_upper_bound):
    found += 1
    name = f"{part.hash():016x}"
    if name not in seen:
      seen.add(name)
      with open(os.path.join(args.output, name + ".txt"), "w", encoding="utf-8") as f:
        f.write(part.to_string())
  print(f"{found} parts, {len(seen)} of them different")


# --- evaluate ---


def _evaluate_options(parser: argparse.ArgumentParser) -> None:
  parser.add_argument("--hlo_fn", required=True, metavar="FILE", help="the module; -: standard input")
  parser.add_argument("--times", type=int, default=1, metavar="N", help="how many runs are timed")
  parser.add_argument("--gpu", action="store_true", help="after the passes for a GPU; runs are on this processor all the same")
  parser.add_argument("--rerun_hlo", action="store_true", help="once more, of the module read again, and whether results are the same")


def _evaluate(args: argparse.Namespace) -> None:
  module = _module(args.hlo_fn)
  env = HloEnv(module.clone(), "gpu" if args.gpu else "cpu")
  if args.gpu:
    env.optimize_hlo_module()
  result = env.evaluate(args.times)
  for k, ns in enumerate(result.durations):
    print(f"run {k}: {ns} ns")
  if args.rerun_hlo:
    print("the same results again:", "yes" if env.has_equal_output_as(module) else "no")


# --- compile ---


def _compile_options(parser: argparse.ArgumentParser) -> None:
  parser.add_argument("--hlo", required=True, metavar="FILE", help="the module; -: standard input")
  parser.add_argument("--dry", default=os.environ.get("DRY", ""), metavar="PASS,...",
                      help="passes whose rewrites become alternatives, decided by chance; usually what the variable DRY says")
  parser.add_argument("--platform", choices=("gpu", "cpu"), default="gpu", help="the device that passes optimise for")
  parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the decisions")
  parser.add_argument("-o", "--output", metavar="FILE", help="where the module is written, instead of standard output")


def _names(member: PassInterface) -> set[str]:
  return set().union(*(_names(m) for m in member._members)) if isinstance(member, Pipeline) else {member.name}


def _with_dry(member: PassInterface, names: set[str]) -> PassInterface:
  """The same pipeline, in which passes of these names are run dry."""
  if isinstance(member, Pass):
    return AltPipeline(member) if member.name in names else member
  if not isinstance(member, Pipeline):
    return member
  out = Pipeline(member.name, member._loop_count)
  for part in member._members:
    out.add_pass(_with_dry(part, names))
  for checker in member._checkers:
    out.add_invariant_checker(checker)
  return out


def _compile(args: argparse.Namespace) -> None:
  env = HloEnv(_module(args.hlo), args.platform)
  pipeline: PassInterface = xla_pipeline(env)
  names = {name.strip() for name in args.dry.split(",") if name.strip()}
  unknown = names - _names(pipeline)
  if unknown:
    raise ValueError(f"no pass of the pipeline is named {sorted(unknown)[0]!r}: {', '.join(sorted(_names(pipeline)))}")
  pipeline = _with_dry(pipeline, names)
  chance = random.Random(args.seed)
  while env.run(pipeline):
    graph = env.get_hlo_graph()
    rows = [[k, chance.randrange(graph.node_features.num_operands[k])] for k in graph.alternative_indices]
    env.apply_alternatives(rows)
  text = env.export_hlo_to_str()
  if args.output:
    with open(args.output, "w", encoding="utf-8") as f:
      f.write(text)
  else:
    print(text)


TOOLS: dict[str, tuple[Any, Any, str]] = {
    "extract_subgraphs": (_extract_options, _extract, "cuts a module into small ones"),
    "evaluate": (_evaluate_options, _evaluate, "runs a module and tells how long it takes"),
    "compile": (_compile_options, _compile, "runs XLA's pipeline, some of its passes decided by chance"),
}


def main(argv: list[str] | None = None) -> int:
  parser = argparse.ArgumentParser(prog="python -m hloenv", description="HloEnv's tools.")
  parts = parser.add_subparsers(dest="tool", required=True, metavar="TOOL")
  for name, (options, _, meaning) in TOOLS.items():
    options(parts.add_parser(name, help=meaning, description=meaning))
  args = parser.parse_args(argv)  # what is wrong there ends with the status 2
  try:
    TOOLS[args.tool][1](args)
    sys.stdout.flush()
  except Error as e:
    print(e, file=sys.stderr)
    return UNREADABLE
  except (ValueError, UnicodeError) as e:
    print(f"python -m hloenv {args.tool}: {e}", file=sys.stderr)
    return USAGE
  except OSError as e:
    print(f"python -m hloenv {args.tool}: {e}", file=sys.stderr)
    sys.stdout = open(os.devnull, "w")  # what could not be written is not tried again at the end
    return FAILED
  return 0

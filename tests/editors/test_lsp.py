"""The language server driven by pygls' client, which knows the protocol and nothing of Hilo: every answer is unpacked into the
protocol's types, and compared with what an editor would show.

    test_lsp.py [-k WORD]     only tests with the word in their name
"""
import asyncio
import inspect
import os
import subprocess
import sys
import time

try:
    from client import HILO, Editor, lsp
    from pygls.exceptions import JsonRpcException
except ImportError as missing:
    print(f"skipped: {missing}; make venv")
    sys.exit(77)

HLO = """HloModule m

// Adds two numbers.
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (x: f32[4,8]) -> f32[4] {
  %x = f32[4,8] parameter(0)  // the input
  // Squares: 😀 é
  %y = f32[4,8] multiply(%x, %x), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=3}
  %zero = f32[] constant(0)
  ROOT %r = f32[4] reduce(%y, %zero), dimensions={1}, to_apply=%sum
}
"""

MLIR = """// A program.
module @jit_f {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>  // zero
    // Squares.
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<4x8xf32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = call @g(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @g(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %1:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<4xf32>
     cond {
      %2 = stablehlo.compare LT, %iterArg, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = stablehlo.negate %iterArg_0 : tensor<4xf32>
      stablehlo.return %n, %2 : tensor<i32>, tensor<4xf32>
    }
    return %1#1 : tensor<4xf32>
  }
}
"""
H, M = "file:///tmp/a.hlo", "file:///tmp/b.mlir"


async def both(e):
    e.open(H, HLO)
    e.open(M, MLIR, "mlir")
    assert not await e.diagnostics(H) and not await e.diagnostics(M)


async def test_diagnostics(e):
    await both(e)
    e.edit(H, e.find(H, "multiply"), e.find(H, "multiply") + 8, "multipyl")
    (d,) = await e.diagnostics(H)
    assert e.spot(H, d.range) == "multipyl" and "unknown opcode" in d.message and d.severity == 1
    (fix,) = await e.actions(H, d)
    assert e.apply(H, fix.edit.changes[H]) == HLO
    # What does not depend on it is still verified.
    e.edit(H, e.find(H, "dimensions={1}"), e.find(H, "dimensions={1}") + 14, "dimensions={7}")
    first, second = await e.diagnostics(H)
    assert "out-of-bounds" in second.message and e.spot(H, second.range) == "%r"
    e.edit(H, e.find(H, "multipyl"), e.find(H, "multipyl") + 8, "multiply")
    (d,) = await e.diagnostics(H)
    e.edit(H, e.find(H, "dimensions={7}"), e.find(H, "dimensions={7}") + 14, "dimensions={1}")
    assert not await e.diagnostics(H)
    # A name twice: the first is pointed at.
    e.edit(H, e.find(H, "%zero ="), e.find(H, "%zero =") + 5, "%y")
    found = await e.diagnostics(H)
    assert any(d.related_information for d in found)

    e.edit(M, e.find(M, "multiply"), e.find(M, "multiply") + 8, "multipyl")
    e.edit(M, e.find(M, "dimensions = [1]"), e.find(M, "dimensions = [1]") + 16, "dimensions = [7]")
    first, second = await e.diagnostics(M)
    assert e.spot(M, first.range) == "stablehlo.multipyl" and "is unknown" in first.message
    assert e.spot(M, second.range) == "stablehlo.reduce" and "dimensions" in second.message


async def test_positions(e):
    """Columns in the client's units, behind characters of one, two, three and four bytes."""
    line = '  %w = f32[4,8] negate(%x), metadata={op_name="é€😀"}, foo=1\n'
    e.open(H, HLO.replace("  %zero", line + "  %zero"))
    await e.diagnostics(H)
    e.edit(H, e.find(H, "foo=1"), e.find(H, "foo=1") + 5, 'sharding={replicated}, frontend_attributes={a="b"}')
    assert not await e.diagnostics(H)
    at = e.find(H, "😀\"}, shard") + 1
    e.edit(H, at, at, "😀")
    assert not await e.diagnostics(H)
    e.edit(H, e.find(H, "replicated"), e.find(H, "replicated") + 10, "replicatde")
    found = await e.diagnostics(H)
    assert e.spot(H, found[0].range).startswith("replicatde"), (found, e.spot(H, found[0].range))
    # Outside of the text, and backwards: the nearest place inside.
    e.client.text_document_did_change(lsp.DidChangeTextDocumentParams(
        lsp.VersionedTextDocumentIdentifier(version=99, uri=H),
        [lsp.TextDocumentContentChangePartial(range=lsp.Range(lsp.Position(9999, 7), lsp.Position(3, 2**31 - 1)), text="// end")]))
    e.texts[H] = [99, e.texts[H][1] + "// end"]
    await e.diagnostics(H)
    assert (await e.tokens(H))[-1][0] == "// end"


async def test_hover(e):
    await both(e)
    text = await e.hover(H, "%y", 0, 1)
    for part in ("**multiply**: product", "f32[4,8]{1,0}", "128 bytes", "32 flops", "reads 256 bytes", "f.py:3", "used by 1: `r`"):
        assert part in text, (part, text)
    assert "must be there" in await e.hover(H, "reduce")
    assert "3 instructions" in await e.hover(H, "%sum", 1, 2)
    assert "`{1,2}`" in await e.hover(H, "dimensions")
    assert "32 elements" in await e.hover(H, "f32[4,8]", 0, 2)
    assert "7 instructions in 2 computations" in await e.hover(H, "m\n")
    assert await e.hover(H, "\n\n//", 0, 1) is None
    text = await e.hover(M, "%0 =", 0, 1)
    assert "**stablehlo.multiply**: product" in text and "32 flops" in text and "used by 1" in text, text
    assert "an argument of `func.func`" in await e.hover(M, "%arg0", 1, 1)
    assert "an argument of `stablehlo.while`" in await e.hover(M, "%iterArg_0", 1, 2)
    assert "runs a function" in await e.hover(M, "call")
    # With an error elsewhere there is still something to say.
    e.edit(H, e.find(H, "constant"), e.find(H, "constant") + 8, "konstant")
    await e.diagnostics(H)
    assert "32 flops" in await e.hover(H, "multiply")


async def test_names(e):
    await both(e)
    at = e.find(H, "%y =") + 1
    assert await e.definition(H, "%y", 1, 1) == [at]
    assert await e.references(H, "%y", 0, 1) == [at, e.find(H, "(%y") + 2]
    assert await e.references(H, "%y", 0, 1, all=False) == [e.find(H, "(%y") + 2]
    assert await e.definition(H, "to_apply=%sum", 0, 11) == [e.find(H, "%sum (") + 1]
    assert await e.definition(H, "(%a, %b)", 0, 2) == [e.find(H, "%a =") + 1]
    renamed = await e.rename(H, "%a =", "first", 0, 1)
    assert renamed == HLO.replace("(a:", "(first:").replace("%a =", "%first =").replace("(%a,", "(%first,")
    assert await e.rename(H, "%sum (", "%plus", 0, 1) == HLO.replace("%sum", "%plus")
    for bad in ("f32", "a b", "", "zero", "1x", "__x"):
        try:
            await e.rename(H, "%y", bad, 0, 1)
            assert False, f"renamed to '{bad}'"
        except JsonRpcException:
            pass
    try:
        await e.rename(H, "add(", "x")
        assert False, "an op was renamed"
    except JsonRpcException:
        pass
    # In MLIR the regions of an op see its arguments, and no others do.
    assert await e.definition(M, "negate %iterArg_0", 0, 10) == [e.find(M, "%iterArg_0 =") + 1]
    assert await e.definition(M, "return %2", 0, 8) == [e.find(M, "%2 = call") + 1]
    assert await e.definition(M, "return %n, %2", 0, 12) == [e.find(M, "%2 = stablehlo.negate") + 1]
    assert await e.definition(M, "%1#1", 0, 1) == [e.find(M, "%1:2") + 1]
    assert await e.definition(M, "@g(%1", 0, 1) == [e.find(M, "@g(%arg0") + 1]
    assert await e.rename(M, "@g", "h", 0, 1) == MLIR.replace("@g", "@h")
    assert await e.rename(M, "%n =", "limit", 0, 1) == MLIR.replace("%n", "%limit")
    assert len(await e.references(M, "%arg0", 0, 1)) == 3


async def test_outline(e):
    await both(e)
    symbols = await e.symbols(H)
    assert [(s.name, len(s.children or [])) for s in symbols] == [("m", 0), ("sum", 3), ("main", 4)]
    assert [s.name for s in await e.symbols(M)] == ["main", "g"]
    assert (3, 6) in await e.folds(H) and (9, 14) in await e.folds(H)
    assert {(1, 22), (2, 8), (10, 21)} <= set(await e.folds(M)), await e.folds(M)
    tokens = await e.tokens(H)
    for one in (("HloModule", "keyword", False), ("sum", "function", True), ("sum", "function", False), ("y", "variable", True),
                ("multiply", "method", False), ("f32[4,8]", "type", False), ("to_apply", "property", False),
                ("// Squares: 😀 é", "comment", False), ('"f.py"', "string", False)):
        assert one in tokens, one
    tokens = await e.tokens(M)
    for one in (("stablehlo.multiply", "method", False), ("iterArg", "variable", True), ("tensor<4x8xf32>", "type", False)):
        assert one in tokens, one


async def test_formatting(e):
    await both(e)
    made = await e.format(H)
    for part in ("// Adds two numbers.\n%sum (", "%x = f32[4,8] parameter(0)  // the input\n", "  // Squares: 😀 é\n  %y = "):
        assert part in made, made
    untidy = HLO.replace("  %y =", "      %y   =").replace("add(%a, %b)", "add( %a,\n      %b )")
    e.open(H, untidy)
    assert await e.format(H) == made, await e.format(H)
    e.open(H, made)
    assert await e.format(H) == made
    e.open(H, made.replace("add(%a, ", "add(%a, /* both */ "))
    try:
        await e.format(H)
        assert False, "a comment was lost"
    except JsonRpcException as why:
        assert "line 7" in str(why), why
    e.open(H, "HloModule m\nENTRY main { ROOT x = f32[ parameter(0) }\n")
    try:
        await e.format(H)
        assert False, "a text with errors was formatted"
    except JsonRpcException:
        pass
    constant = "HloModule m\n\nENTRY main {\n  ROOT c = f32[16] constant({" + ", ".join(str(k) for k in range(16)) + "})\n}\n"
    e.open(H, constant)
    assert "14, 15})" in await e.format(H)
    made = await e.format(M)
    assert made.count("//") == 3 and "// Squares.\n    %0 = stablehlo.multiply" in made and "// zero\n" in made, made


def labels(items):
    return [item.label for item in items]


async def test_completion(e):
    await both(e)
    at = e.find(H, "  ROOT %r")
    e.edit(H, at, at, "  %n = f32[4,8] \n")
    at = e.find(H, "  %n = f32[4,8] ") + len("  %n = f32[4,8] ")
    offered = await e.complete(H, at)
    assert "negate" in labels(offered) and "multiply" in labels(offered)
    assert next(i for i in offered if i.label == "negate").detail == "minus x"

    def type_in(text):
        nonlocal at
        e.edit(H, at, at, text)
        at += len(text)

    type_in("red")
    assert "reduce" in labels(await e.complete(H, at)) and "add" not in labels(await e.complete(H, at))
    type_in("uce(%")
    assert labels(await e.complete(H, at)) == ["zero", "y", "x"]
    type_in("y, %zero), ")
    offered = await e.complete(H, at)
    assert labels(offered)[:2] == ["dimensions", "to_apply"] and "metadata" in labels(offered)
    type_in("dimensions={1}, to_apply=%")
    assert labels(await e.complete(H, at)) == ["sum"]
    type_in("sum, ")
    at0 = e.find(H, "f32[] add(%a")
    e.edit(H, at0, at0 + len("f32[] add(%a, %b)"), "pred[] compare(%a, %b), direction=")
    assert "LT" in labels(await e.complete(H, at0 + len("pred[] compare(%a, %b), direction=")))
    at = e.find(M, "    return %2")
    e.edit(M, at, at, "    %9 = stablehlo.n\n")
    at = e.find(M, "stablehlo.n\n") + len("stablehlo.n")
    assert "stablehlo.negate" in labels(await e.complete(M, at))
    e.edit(M, at, at, "egate %")
    offered = labels(await e.complete(M, at + len("egate %")))
    assert "cst" in offered and "arg0" in offered and "n" not in offered
    at = e.find(M, "@g(%1") + 1
    assert labels(await e.complete(M, at)) == ["main", "g"]


async def test_utf8(e):
    """A client that would rather count bytes."""
    async with Editor([lsp.PositionEncodingKind.Utf8, lsp.PositionEncodingKind.Utf16]) as other:
        assert other.server.capabilities.position_encoding == lsp.PositionEncodingKind.Utf8
        await test_positions(other)


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until_quiet(e, pid):
    """Until the server has nothing to do."""
    last = -1
    while last != (last := cpu_seconds(pid)):
        await asyncio.sleep(0.3)


def large(n):
    ops = ["add", "multiply", "subtract", "maximum"]
    rows = [f"  x.{k} = f32[128,256]{{1,0}} {ops[k % 4]}(x.{k - 1}, x.{max(0, k - 7)}), "
            f'metadata={{op_name="jit(f)/{k // 100}" source_line={k % 500}}}\n' for k in range(1, n)]
    return "HloModule big\n\nENTRY main {\n  x.0 = f32[128,256]{1,0} parameter(0)\n" + "".join(rows) + "}\n"


async def test_large(e):
    """A text of 100,000 lines: seconds of the server's work, which other programs do not lengthen as they do the clock's."""
    pid = e.client._server.pid
    text = large(100000)
    e.open(H, text)
    assert not await e.diagnostics(H)
    await until_quiet(e, pid)
    line = text[:len(text) // 2].count("\n")
    start = text.rindex("\n", 0, len(text) // 2) + 1
    row = text[start:text.index("\n", start)]
    place = row.index("} ") + 2
    times = {"wrong": [], "right": [], "hover": []}
    for k in range(6):
        before = cpu_seconds(pid)
        op, new = ("xx", row[place:place + 2]) if k % 2 else (row[place:place + 2], "xx")
        e.client.text_document_did_change(lsp.DidChangeTextDocumentParams(
            lsp.VersionedTextDocumentIdentifier(version=k + 2, uri=H), [lsp.TextDocumentContentChangePartial(
                range=lsp.Range(lsp.Position(line, place), lsp.Position(line, place + 2)), text=new)]))
        e.texts[H][0] = k + 2
        found = await e.diagnostics(H)
        times["right" if k % 2 else "wrong"].append(cpu_seconds(pid) - before)
        assert len(found) == (1 - k % 2) and (k % 2 or found[0].range.start.line == line)
        await until_quiet(e, pid)
        before = cpu_seconds(pid)
        for ask in range(10):
            found = await e.client.text_document_hover_async(lsp.HoverParams(
                lsp.TextDocumentIdentifier(H), lsp.Position(line + 5 + ask, place)))
            assert "flops" in found.contents.value
        times["hover"].append((cpu_seconds(pid) - before) / 10)
    for what, spent in times.items():
        print(f"  {what}: {min(spent):.3f} s to {max(spent):.3f} s")
    assert min(times["wrong"]) < 0.3 and min(times["right"]) < 0.3 and min(times["hover"]) < 0.05


async def test_manners(e):
    """What comes at the wrong time, or makes no sense."""
    nowhere = lsp.HoverParams(lsp.TextDocumentIdentifier("file:///none"), lsp.Position(0, 0))
    for method, params in (("textDocument/hover", nowhere), ("no/such", {}),
                           ("initialize", lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))):
        try:
            await e.client.protocol.send_request_async(method, params)
            assert False, method
        except JsonRpcException:
            pass
    e.open(H, HLO)
    e.client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(H)))
    while H not in e.told or e.told[H].diagnostics:
        await asyncio.sleep(0.01)


def frame(text):
    return f"Content-Length: {len(text.encode())}\r\n\r\n{text}".encode()


def test_pipes():
    """Pipes that close, and an end without a word: no crash, an exit status."""
    hello = frame('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}')
    done = subprocess.run([HILO, "lsp"], input=hello, capture_output=True, timeout=20)
    assert done.returncode == 1 and b"serverInfo" in done.stdout
    done = subprocess.run([HILO, "lsp", "--stdio"], input=hello + frame('{"jsonrpc":"2.0","id":2,"method":"shutdown"}') +
                          frame('{"jsonrpc":"2.0","method":"exit"}'), capture_output=True, timeout=20)
    assert done.returncode == 0
    assert subprocess.run([HILO, "lsp"], input=b"", capture_output=True, timeout=20).returncode == 1
    # Pipes that do not wait, one of them full.
    read, write = os.pipe()
    answers, out = os.pipe()
    for fd in (read, out):
        os.set_blocking(fd, False)
    process = subprocess.Popen([HILO, "lsp"], stdin=read, stdout=out)
    os.close(read)
    os.close(out)
    os.write(write, hello)
    time.sleep(0.5)
    for k in range(600):
        os.write(write, frame('{"jsonrpc":"2.0","id":%d,"method":"%s"}' % (k, "x" * 90)))
    time.sleep(0.5)
    os.write(write, frame('{"jsonrpc":"2.0","id":2,"method":"shutdown"}') + frame('{"jsonrpc":"2.0","method":"exit"}'))
    os.close(write)
    got = b""
    while more := os.read(answers, 65536):
        got += more
        time.sleep(0.01)
    os.close(answers)
    assert process.wait(20) == 0 and got.count(b"unknown method") == 600
    process = subprocess.Popen([HILO, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    try:
        for _ in range(100):
            process.stdin.write(hello)
            process.stdin.flush()
            time.sleep(0.01)
    except BrokenPipeError:
        pass
    assert process.wait(20) == 1, process.returncode
    assert b"Sanitizer" not in process.stderr.read()


async def run(test):
    async with Editor() as e:
        await asyncio.wait_for(test(e), 300)


def main():
    word = sys.argv[2] if sys.argv[1:2] == ["-k"] else ""
    tests = {name: f for name, f in globals().items() if name.startswith("test_") and word in name}
    for name, test in tests.items():
        start = time.time()
        asyncio.run(run(test)) if inspect.iscoroutinefunction(test) else test()
        print(f"{name}: {time.time() - start:.1f} s", flush=True)
    assert tests
    print(f"{len(tests)} tests")


main()

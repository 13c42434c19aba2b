"""A language client around pygls' own, for the tests: what an editor does, in a line each."""
import asyncio
import os

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

HILO = os.environ.get("HILO", "build/hilo")


class Editor:
    """Opens texts in a server, edits them, asks about places given as the text that stands there."""

    def __init__(self, encodings=None):
        self.client = LanguageClient("test", "1")
        self.encodings = encodings
        self.told = {}
        self.changed = asyncio.Event()
        self.texts = {}

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def told(params):
            self.told[params.uri] = params
            self.changed.set()

    async def __aenter__(self):
        await self.client.start_io(HILO, "lsp")
        general = lsp.GeneralClientCapabilities(position_encodings=self.encodings) if self.encodings else None
        symbols = lsp.DocumentSymbolClientCapabilities(hierarchical_document_symbol_support=True)
        self.server = await self.client.initialize_async(lsp.InitializeParams(
            process_id=os.getpid(), root_uri=None, capabilities=lsp.ClientCapabilities(
                general=general, text_document=lsp.TextDocumentClientCapabilities(document_symbol=symbols))))
        self.client.initialized(lsp.InitializedParams())
        return self

    async def __aexit__(self, *why):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        process = self.client._server
        status = await asyncio.wait_for(process.wait(), 20)
        if not any(why):
            assert status == 0, f"the server ended with {status}"

    # --- Texts ---

    def open(self, uri, text, language="hlo"):
        self.texts[uri] = [1, text]
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(
            lsp.TextDocumentItem(uri=uri, language_id=language, version=1, text=text)))

    def units(self, text):
        """What a text counts in a column."""
        utf8 = self.server.capabilities.position_encoding == lsp.PositionEncodingKind.Utf8
        return len(text.encode()) if utf8 else len(text.encode("utf-16-le")) // 2

    def place(self, uri, at):
        before = self.texts[uri][1][:at]
        line = before.count("\n")
        return lsp.Position(line, self.units(before[before.rfind("\n") + 1:]))

    def offset(self, uri, place):
        lines = self.texts[uri][1].split("\n")
        at, units = sum(len(line) + 1 for line in lines[:place.line]), 0
        for c in lines[place.line]:
            if units >= place.character:
                break
            units += self.units(c)
            at += 1
        return at

    def find(self, uri, what, which=0, into=0):
        """Where a text stands for the which-th time, plus `into`."""
        at = -1
        for _ in range(which + 1):
            at = self.texts[uri][1].index(what, at + 1)
        return at + into

    def edit(self, uri, at, end, new):
        """Replaces a part of the text; returns the version."""
        start, stop = self.place(uri, at), self.place(uri, end)
        version, text = self.texts[uri]
        self.texts[uri] = [version + 1, text[:at] + new + text[end:]]
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(
            lsp.VersionedTextDocumentIdentifier(version=version + 1, uri=uri),
            [lsp.TextDocumentContentChangePartial(range=lsp.Range(start, stop), text=new)]))
        return version + 1

    async def diagnostics(self, uri):
        """Those of the text as it is now."""
        while uri not in self.told or self.told[uri].version != self.texts[uri][0]:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)
        return self.told[uri].diagnostics

    def spot(self, uri, span):
        """The text of a range."""
        return self.texts[uri][1][self.offset(uri, span.start):self.offset(uri, span.end)]

    # --- Questions ---

    def at(self, uri, what, which=0, into=0):
        return dict(text_document=lsp.TextDocumentIdentifier(uri), position=self.place(uri, self.find(uri, what, which, into)))

    async def hover(self, uri, what, which=0, into=0):
        found = await self.client.text_document_hover_async(lsp.HoverParams(**self.at(uri, what, which, into)))
        return found.contents.value if found else None

    async def definition(self, uri, what, which=0, into=0):
        found = await self.client.text_document_definition_async(lsp.DefinitionParams(**self.at(uri, what, which, into)))
        return [self.offset(uri, one.range.start) for one in found or []]

    async def references(self, uri, what, which=0, into=0, all=True):
        found = await self.client.text_document_references_async(lsp.ReferenceParams(
            context=lsp.ReferenceContext(all), **self.at(uri, what, which, into)))
        return [self.offset(uri, one.range.start) for one in found or []]

    async def rename(self, uri, what, to, which=0, into=0):
        """The text after it; an error raises."""
        found = await self.client.text_document_rename_async(lsp.RenameParams(new_name=to, **self.at(uri, what, which, into)))
        return self.apply(uri, found.changes[uri])

    def apply(self, uri, edits):
        text = self.texts[uri][1]
        spans = [(self.offset(uri, e.range.start), self.offset(uri, e.range.end), e.new_text) for e in edits]
        for start, end, new in sorted(spans, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    async def format(self, uri):
        edits = await self.client.text_document_formatting_async(lsp.DocumentFormattingParams(
            lsp.TextDocumentIdentifier(uri), lsp.FormattingOptions(2, True)))
        return self.apply(uri, edits or [])

    async def symbols(self, uri):
        return await self.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(uri)))

    async def folds(self, uri):
        found = await self.client.text_document_folding_range_async(lsp.FoldingRangeParams(lsp.TextDocumentIdentifier(uri)))
        return [(one.start_line, one.end_line) for one in found]

    async def tokens(self, uri):
        """(text, kind, defines) of each."""
        found = await self.client.text_document_semantic_tokens_full_async(
            lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(uri)))
        kinds = self.server.capabilities.semantic_tokens_provider.legend.token_types
        line = column = 0
        out = []
        for k in range(0, len(found.data), 5):
            over, right, length, kind, modifiers = found.data[k:k + 5]
            line, column = line + over, right if over else column + right
            start = self.offset(uri, lsp.Position(line, column))
            end = self.offset(uri, lsp.Position(line, column + length))
            out.append((self.texts[uri][1][start:end], kinds[kind], bool(modifiers)))
        return out

    async def complete(self, uri, at):
        found = await self.client.text_document_completion_async(lsp.CompletionParams(
            text_document=lsp.TextDocumentIdentifier(uri), position=self.place(uri, at)))
        return sorted(found.items, key=lambda item: item.sort_text)

    async def actions(self, uri, diagnostic):
        return await self.client.text_document_code_action_async(lsp.CodeActionParams(
            lsp.TextDocumentIdentifier(uri), diagnostic.range, lsp.CodeActionContext([diagnostic])))

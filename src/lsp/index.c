// lsp/index.c: the table of names, and finding what stands at a byte.
#include "lsp/index.h"

#include <string.h>

void lsp_index_free(LspIndex *index) {
  vec_free(&index->tokens);
  vec_free(&index->names);
  vec_free(&index->statements);
  vec_free(&index->comps);
  vec_free(&index->folds);
  vec_free(&index->modules);
  map_free(&index->by_name);
  *index = (LspIndex){0};
}

int32_t lsp_add_token(LspIndex *index, uint32_t at, uint32_t n, LspKind kind) {
  vec_push(&index->tokens, ((LspToken){at, n, (uint8_t)kind, false, LSP_NONE}));
  return index->tokens.n - 1;
}

// --- Names ----------------------------------------------------------------------------------------

// The first occurrence of a name says how it is spelt: `token` of one that is not defined yet is the place of that
// occurrence, below LSP_NONE.
static HlStr spelling(const LspIndex *index, HlStr text, const LspName *name) {
  const int32_t token = name->token >= 0 ? name->token : -2 - name->token;
  return lsp_token_text(text, &index->tokens.at[token]);
}

int32_t lsp_find_name(const LspIndex *index, HlStr text, int32_t scope, HlStr name) {
  MapWalk walk = map_walk(&index->by_name, hl_hash_bytes(name.at, name.n, (uint32_t)scope + 1));
  for (uint64_t at; (at = map_next(&walk));) {
    const LspName *one = &index->names.at[at - 1];
    if (one->scope == scope && hl_str_equal(spelling(index, text, one), name))
      return (int32_t)(at - 1);
  }
  return LSP_NONE;
}

// The token that is about to be added spells a new name, or has been added last.
int32_t lsp_name(LspIndex *index, HlStr text, int32_t scope, HlStr name, LspKind kind) {
  const int32_t known = lsp_find_name(index, text, scope, name);
  if (known != LSP_NONE)
    return known;
  const LspName made = {(uint8_t)kind, -2 - (index->tokens.n - 1), scope, LSP_NONE, LSP_NONE};
  vec_push(&index->names, made);
  map_add(&index->by_name, hl_hash_bytes(name.at, name.n, (uint32_t)scope + 1),
          (uint64_t)index->names.n);
  return index->names.n - 1;
}

void lsp_refer(LspIndex *index, int32_t token, int32_t name, bool defines) {
  index->tokens.at[token].name = name;
  index->tokens.at[token].defines = defines;
  if (defines && index->names.at[name].token < 0)
    index->names.at[name].token = token;
}

// --- Finding --------------------------------------------------------------------------------------

int32_t lsp_token_at(const LspIndex *index, uint32_t at) {
  int low = 0, high = index->tokens.n;  // the first that starts beyond `at`
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (index->tokens.at[middle].at <= at)
      low = middle + 1;
    else
      high = middle;
  }
  for (int k = low - 1; k >= 0 && k >= low - 2; k--) {
    const LspToken *token = &index->tokens.at[k];
    if (at < token->at + token->n || (at == token->at + token->n && k == low - 1))
      return k;
  }
  // A cursor on the sign in front of a name is on the name.
  if (low < index->tokens.n && index->tokens.at[low].at == at + 1 &&
      index->tokens.at[low].name >= 0)
    return low;
  return LSP_NONE;
}

int32_t lsp_statement_at(const LspIndex *index, uint32_t at) {
  int low = 0, high = index->statements.n;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (index->statements.at[middle].all.at <= at)
      low = middle + 1;
    else
      high = middle;
  }
  // The innermost that holds it; those further out start before it.
  for (int k = low - 1, seen = 0; k >= 0 && seen < 4096; k--, seen++) {
    if (at <= index->statements.at[k].all.end)
      return k;
    if (index->statements.at[k].depth == 0)
      break;
  }
  return LSP_NONE;
}

int32_t lsp_comp_at(const LspIndex *index, uint32_t at) {
  for (int k = index->comps.n - 1; k >= 0; k--) {
    const LspComp *comp = &index->comps.at[k];
    if (comp->all.at <= at && at <= comp->all.end)
      return k;
  }
  return LSP_NONE;
}

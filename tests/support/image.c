// tests/support/image.c: what a module shows, and what it consists of.
#include "support/image.h"

#include "base/memory.h"
#include "hilo/proto.h"
#include "hilo/text.h"
#include "ir/state.h"

// --- What it shows --------------------------------------------------------------------------------

static void print_inst(const HlInst *inst, HlBuf *out) {
  hl_buf_printf(out, "%u/%u/%llu/%llu %s:", inst->id, inst->order, (unsigned long long)inst->serial,
                (unsigned long long)hl_place(inst), inst->name->text);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    hl_buf_printf(out, " %u.%d", use->user->id, use->number);
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    hl_buf_printf(out, " after %u", inst->control->preds[k]->id);
  for (int k = 0; inst->control && k < inst->control->n_succs; k++)
    hl_buf_printf(out, " before %u", inst->control->succs[k]->id);
  const HlLiteral *literal = inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
  if (literal)
    hl_buf_printf(out, " refs %d", literal->refs);
  hl_buf_putc(out, '\n');
}

static void print_comp(const HlComp *comp, HlBuf *out) {
  hl_buf_printf(out, "%s %u: next %u %u, params %d, journal %zu\n", comp->name->text, comp->id,
                comp->next_id, comp->next_order, comp->n_params, ir_comp_state(comp)->touched.n);
  for (const HlCall *call = comp->first_call; call; call = call->next)
    hl_buf_printf(out, " %s.%u.%d", call->caller->comp->name->text, call->caller->id, call->number);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    print_inst(inst, out);
  for (uint32_t id = 0; id < comp->next_id; id++)
    hl_buf_printf(out, " %d", comp->by_id[id] ? comp->op_by_id[id] : -1);
  for (uint32_t k = 0; comp->schedule && k < comp->n_insts; k++)
    hl_buf_printf(out, " %u", comp->schedule[k]->id);
  hl_buf_putc(out, '\n');
}

void image_print(HlCx *cx, const HlModule *m, HlBuf *out) {
  out->n = 0;
  hl_text_print(cx, m, &(HlTextOptions){.large_constants = HL_ON}, out);
  hl_buf_printf(out, "hash %llx, next %u %llu, symbols %u\n", (unsigned long long)hl_graph_hash(m),
                m->next_comp_id, (unsigned long long)m->next_serial, hl_syms_count(m->syms));
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    print_comp(comp, out);
  hl_proto_write(cx, m, HL_PROTO_MODULE, false, NULL, out);
}

// --- What it consists of --------------------------------------------------------------------------

static uint64_t add_buf(uint64_t hash, const HlBuf *buf) {
  return hl_hash_bytes(buf->at, buf->n, hash);
}

static uint64_t add_arena(uint64_t hash, const HlArena *arena) {
  return arena ? hl_hash_mix(hash, base_arena_hash(arena)) : hash;
}

uint64_t image_hash(const HlModule *m) {
  const ModuleState *state = ir_module_state(m);
  uint64_t hash = base_arena_hash(m->arena);
  if (hash == 0)
    return 0;
  hash = hl_hash_bytes(state, offsetof(ModuleState, marks), hash);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    const CompState *own = ir_comp_state(comp);
    hash = add_buf(hash, &own->by_id);
    hash = add_buf(hash, &own->op);
    hash = add_buf(hash, &own->label);
    hash = add_buf(hash, &own->touched);
  }
  hash = add_buf(hash, &state->literals);
  hash = add_buf(hash, &state->metadata);
  hash = add_arena(hash, ir_names_arena(state->inst_names));
  return add_arena(hash, ir_names_arena(state->comp_names));
}

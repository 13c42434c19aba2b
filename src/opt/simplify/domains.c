// opt/simplify/domains.c: borders of placement.
//
// domain_isolator puts a `domain` between an instruction and an operand that is placed otherwise,
// so that no pass moves values over that border unseen; domain_verifier checks that a border stands
// wherever the placement changes. (domain_remover, in tooling.c, takes them out again.)
//
//   x = f32[4] exp(a), sharding={maximal device=0}
//   y = f32[4] negate(x), sharding={maximal device=1}
//     =>
//   x = f32[4] exp(a), sharding={maximal device=0}
//   d = f32[4] domain(x), domain={kind="sharding", entry={maximal device=1}, exit={maximal device=0}}
//   y = f32[4] negate(d), sharding={maximal device=1}

#include "opt/passes.h"

// A side on which nothing is placed is read from text as {}, the sharding of no leaves.
static bool is_none(const HlSharding *sharding) {
  return !sharding || (sharding->kind == HL_SHARDING_TUPLE && sharding->n_elements == 0);
}

static bool is_same(const HlSharding *a, const HlSharding *b) {
  return is_none(a) || is_none(b) ? is_none(a) && is_none(b) : hl_sharding_equal(a, b);
}

// Taking an element of a tuple, or putting one together, moves nothing.
static bool is_wiring(const HlInst *inst) {
  return inst->op == HL_OP_GET_TUPLE_ELEMENT || inst->op == HL_OP_TUPLE || inst->op == HL_OP_DOMAIN;
}

static bool is_border(const HlInst *inst, const HlInst *operand) {
  return !is_wiring(inst) && operand->op != HL_OP_DOMAIN &&
         !(operand->op == HL_OP_GET_TUPLE_ELEMENT && !hl_sharding(operand)) &&
         !is_same(hl_sharding(inst), hl_sharding(operand));
}

// --- domain_isolator ------------------------------------------------------------------------------

// The domain that an earlier operand or user got for the same border, or NULL.
static HlInst *border_there(const HlInst *operand, const HlSharding *entry) {
  int tries = 0;
  for (const HlUse *use = operand->last_use; use && tries < 16; use = use->prev, tries++) {
    if (use->user->op != HL_OP_DOMAIN)
      continue;
    const HlDomain *domain = hl_attr_ptr(use->user, HL_A_DOMAIN);
    if (domain && is_same(domain->entry, entry))
      return use->user;
  }
  return NULL;
}

static HlInst *make_border(HlPass *p, HlInst *operand, const HlSharding *entry) {
  HlInst *domain = border_there(operand, entry);
  if (domain)
    return domain;
  HlDomain *attr = HL_NEW(p->m->arena, HlDomain);
  *attr = (HlDomain){hl_sym(p->m, "sharding"), entry, hl_sharding(operand)};
  domain = hl_inst_new(operand->comp, HL_OP_DOMAIN, operand->shape, NULL, 1, &operand);
  hl_set_attr(domain, &(HlAttr){.key = HL_A_DOMAIN, .ptr = attr});
  return domain;
}

static void isolate(HlPass *p, HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *operand = inst->operands[k];
    if (!is_border(inst, operand) || !hl_change(p, "border", inst, operand))
      continue;
    hl_set_operand(inst, (int)k, make_border(p, operand, hl_sharding(inst)));
    hl_changed(p);
  }
}

bool pass_domain_isolator(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, isolate);
  return true;
}

// --- domain_verifier ------------------------------------------------------------------------------

static const char *text_of(HlPass *p, const HlSharding *sharding) {
  HlBuf out = {0};
  if (!sharding)
    return "none";
  hl_sharding_print(&out, sharding, false);
  const char *text = hl_arena_printf(p->arena, "%.*s", (int)out.n, out.at);
  hl_buf_free(&out);
  return text;
}

static bool differs(HlPass *p, const HlInst *inst, const HlInst *other, const HlSharding *a,
                    const HlSharding *b) {
  return hl_inst_error(p->cx, inst, "no domain between '%s' (sharding %s) and '%s' (sharding %s)",
                       other->name->text, text_of(p, a), inst->name->text, text_of(p, b));
}

// The two sides of a domain are what its neighbours say.
static bool check_domain(HlPass *p, const HlInst *inst) {
  const HlDomain *domain = hl_attr_ptr(inst, HL_A_DOMAIN);
  const HlInst *operand = inst->operands[0];
  if (!domain)
    return true;
  if (!is_wiring(operand) && !is_same(domain->exit, hl_sharding(operand)))
    return hl_inst_error(p->cx, inst, "the domain's exit %s is not the sharding %s of '%s'",
                         text_of(p, domain->exit), text_of(p, hl_sharding(operand)),
                         operand->name->text);
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (!is_wiring(use->user) && !is_same(domain->entry, hl_sharding(use->user)))
      return hl_inst_error(p->cx, inst, "the domain's entry %s is not the sharding %s of '%s'",
                           text_of(p, domain->entry), text_of(p, hl_sharding(use->user)),
                           use->user->name->text);
  return true;
}

bool pass_domain_verifier(HlPass *p) {
  for (const HlComp *comp = p->m->first; comp; comp = comp->next) {
    if (comp->is_fusion)
      continue;
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (inst->op == HL_OP_DOMAIN && !check_domain(p, inst))
        return false;
      for (uint32_t k = 0; k < inst->n_operands; k++)
        if (is_border(inst, inst->operands[k]))
          return differs(p, inst, inst->operands[k], hl_sharding(inst->operands[k]),
                         hl_sharding(inst));
    }
  }
  return true;
}

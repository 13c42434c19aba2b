// What the data says, as objects: states of a module, computations, instructions, the tree of boxes.
//
// A state numbers all its instructions through, computation after computation. What is drawn are boxes: an instruction, a group
// of the map, or a computation that an instruction calls. A box knows its children when it is asked for them.

const GROUP = {TOP: 0, SCOPE: 1, REPEAT: 2, ALIKE: 3, UNIT: 4, PIECE: 5, RUN: 6, PARAMETERS: 7};
const ROW = {OP: 0, COLOUR: 1, NAME: 2, SHAPE: 3, ATTRS: 4, SCOPE: 5, FILE: 6, LINE: 7, FLOPS: 8, BYTES: 9, TIME: 10, LISTS: 11};

class Model {
  constructor(data) {
    this.data = data;
    this.strings = data.strings;
    this.ops = data.ops;
    const r = data.rows, start = [];
    for (let at = 0; at < r.length;) {
      start.push(at);
      at += ROW.LISTS;
      for (let list = 0; list < 3; list++) at += 1 + r[at];
    }
    this.rows = r;
    this.start = start;
    this.states = data.states.map(() => null);
    this.marks = data.states.map(() => new Map());
    for (const [state, kind, name, comp, partner, note] of data.changes)
      this.marks[state].set(comp && this.strings[comp] ? `${comp}/${name}` : `/${name}`, {kind, partner, note});
  }
  state(k) {
    return this.states[k] || (this.states[k] = new State(this, k));
  }
  get n() { return this.states.length; }
}

// The numbers of [first, count, first, count, ...]; step 0: the first, count times.
function* unrolled(runs, step) {
  for (let k = 0; k < runs.length; k += 2)
    for (let i = 0; i < runs[k + 1]; i++) yield runs[k] + step * i;
}

class State {
  constructor(model, k) {
    const data = model.data.states[k];
    Object.assign(this, {model, number: k, title: data.title, peak: data.peak, data});
    this.comps = [];
    this.row = [];
    this.compOf = [];
    this.readComps(data);
    this.n = this.row.length;
    this.link();
    this.hide();
    this.sum();
    this.top = this.comps[data.entry] ? new Box(this, 'comp', this.comps[data.entry], null) : null;
  }
  readComps(data) {
    for (const c of data.computations) {
      const comp = {number: this.comps.length, name: this.model.strings[c.name], nameId: c.name, fusion: c.kind == 1, times: c.times,
                    first: this.row.length, callers: [], alive: c.alive || []};
      for (const row of unrolled(c.rows, 1)) { this.row.push(row); this.compOf.push(comp.number); }
      comp.end = this.row.length;
      comp.root = c.root < 0 ? -1 : comp.first + c.root;
      comp.groups = this.readGroups(c.groups || []);
      comp.of = c.of ? Int32Array.from(unrolled(c.of, 0)) : new Int32Array(comp.end - comp.first);
      comp.own = comp.groups.map(() => []);
      for (let i = comp.first; i < comp.end; i++) comp.own[comp.of[i - comp.first]].push(i);
      this.comps.push(comp);
    }
  }
  readGroups(flat) {
    const groups = [];
    for (let k = 0; k < flat.length; k += 4)
      groups.push({label: this.model.strings[flat[k]], parent: flat[k + 1], kind: flat[k + 2], copies: flat[k + 3], children: []});
    if (!groups.length) groups.push({label: '', parent: -1, kind: GROUP.TOP, copies: 1, children: []});
    groups.forEach((g, k) => { if (g.parent >= 0) groups[g.parent].children.push(k); });
    return groups;
  }
  // Edges: names become numbers, computation by computation.
  link() {
    const {rows, start} = this.model, n = this.n;
    const byName = new Int32Array(this.model.strings.length).fill(-1), compByName = new Map();
    this.comps.forEach((c, k) => compByName.set(c.nameId, k));
    this.operandStart = new Int32Array(n + 1);
    this.operandList = [];
    this.calls = new Map();
    this.control = new Map();
    for (const comp of this.comps) {
      for (let i = comp.first; i < comp.end; i++) byName[rows[start[this.row[i]] + ROW.NAME]] = i;
      for (let i = comp.first; i < comp.end; i++) {
        let at = start[this.row[i]] + ROW.LISTS;
        this.operandStart[i] = this.operandList.length;
        for (let k = rows[at++]; k > 0; k--) this.operandList.push(byName[rows[at++]]);
        const calls = [];
        for (let k = rows[at++]; k > 0; k--) calls.push(compByName.get(rows[at++]));
        if (calls.length) this.calls.set(i, calls.filter(c => c !== undefined));
        const control = [];
        for (let k = rows[at++]; k > 0; k--) control.push(byName[rows[at++]]);
        if (control.length) this.control.set(i, control);
      }
    }
    this.operandStart[n] = this.operandList.length;
    for (const [i, calls] of this.calls) for (const c of calls) this.comps[c].callers.push(i);
    this.makeUsers();
  }
  makeUsers() {
    const n = this.n, start = new Int32Array(n + 2);
    for (const u of this.operandList) start[u + 2]++;
    for (let k = 2; k <= n + 1; k++) start[k] += start[k - 1];
    const list = new Int32Array(this.operandList.length);
    for (let i = 0; i < n; i++)
      for (let k = this.operandStart[i]; k < this.operandStart[i + 1]; k++) list[start[this.operandList[k] + 1]++] = i;
    this.userStart = start;
    this.userList = list;
  }
  operands(i) { return this.operandList.slice(this.operandStart[i], this.operandStart[i + 1]); }
  users(i) { return [...new Set(this.userList.subarray(this.userStart[i], this.userStart[i + 1]))]; }
  field(i, f) { return this.model.rows[this.model.start[this.row[i]] + f]; }
  text(i, f) { return this.model.strings[this.field(i, f)]; }
  op(i) { return this.model.ops[this.field(i, ROW.OP)]; }
  name(i) { return this.text(i, ROW.NAME); }
  comp(i) { return this.comps[this.compOf[i]]; }
  // Constants and what is made of scalar ones are words of their users; elements of tuples are looked through.
  hide() {
    this.hidden = new Uint8Array(this.n);
    const ops = this.model.ops, constant = ops.indexOf('constant'), element = ops.indexOf('get-tuple-element');
    const passing = new Set(['broadcast', 'convert', 'reshape', 'bitcast', 'copy'].map(op => ops.indexOf(op)));
    for (let i = 0; i < this.n; i++) {
      const op = this.field(i, ROW.OP), root = this.comp(i).root == i;
      if (root) continue;
      if (op == constant || op == element) this.hidden[i] = op == constant ? 1 : 2;
      else if (passing.has(op) && this.hidden[this.operandList[this.operandStart[i]]] == 1) this.hidden[i] = 1;
    }
  }
  // The drawn instruction that a value comes from; -1: a word.
  source(i) {
    while (i >= 0 && this.hidden[i] == 2) i = this.operandList[this.operandStart[i]];
    return i < 0 || this.hidden[i] ? -1 : i;
  }
  // Sums of costs of groups, those in them included, as often as they run.
  sum() {
    this.alive = new Map();
    for (const comp of this.comps)
      for (let k = 0; k < comp.alive.length; k += 2) this.alive.set(comp.first + comp.alive[k], comp.alive[k + 1]);
    this.inside = new Map();  // bytes alive within what an instruction calls
    for (const comp of this.comps) {
      comp.weight = 0;  // instructions, with those of what is called
      for (let i = comp.first; i < comp.end; i++) comp.weight += this.weight(i);
      comp.groups.forEach((g, k) => {
        g.n = comp.own[k].length; g.flops = g.bytes = g.time = g.mem = g.marked = g.weight = 0;
        for (const i of comp.own[k]) {
          g.flops += this.cost(i, 'flops'); g.bytes += this.cost(i, 'bytes'); g.time += this.cost(i, 'time');
          g.mem += this.cost(i, 'mem'); g.marked += this.mark(i) ? 1 : 0; g.weight += this.weight(i);
        }
      });
      for (let k = comp.groups.length - 1; k > 0; k--) {
        const g = comp.groups[k], up = comp.groups[g.parent];
        for (const what of ['n', 'flops', 'bytes', 'time', 'mem', 'marked', 'weight']) up[what] += g[what];
      }
      if (comp.callers.length) {
        const i = comp.callers[0];
        this.inside.set(i, (this.inside.get(i) || 0) + comp.groups[0].mem);
      }
    }
  }
  weight(i) {
    let n = 1;
    for (const c of this.calls.get(i) || []) n += this.comps[c].weight || 0;
    return n;
  }
  cost(i, what) {
    const times = this.comp(i).times;
    switch (what) {
    case 'flops': return this.field(i, ROW.FLOPS) * times;
    case 'bytes': return this.comp(i).fusion ? 0 : this.field(i, ROW.BYTES) * times;
    case 'time': return this.field(i, ROW.TIME) * 1e-12 * times;
    default: return (this.alive.get(i) || 0) + (this.inside.get(i) || 0);
    }
  }
  mark(i) {
    const marks = this.model.marks[this.number];
    if (!marks.size) return null;
    const name = this.field(i, ROW.NAME);
    return marks.get(`${this.comp(i).nameId}/${name}`) || marks.get(`/${name}`) || null;
  }
  find(name) {
    const slash = name.indexOf('/');
    for (const at of [name, slash > 0 ? name.slice(slash + 1) : null]) {
      if (at === null) continue;
      const inComp = at === name ? null : name.slice(0, slash);
      for (let k = this.comps.length - 1; k >= 0; k--) {
        const comp = this.comps[k];
        if (inComp !== null && comp.name != inComp) continue;
        for (let i = comp.first; i < comp.end; i++) if (this.name(i) == at) return i;
      }
    }
    return -1;
  }
  // What an instruction runs that is worth looking at: not the addition of a reduction, nor the counting of a loop.
  shownCalls(i) {
    const calls = this.calls.get(i) || [], op = this.op(i);
    if (op == 'while') return calls.slice(0, this.shown(calls[1]) > 12 ? 2 : 1);
    return calls.filter(c => this.comps[c].end - this.comps[c].first > 4 || op == 'fusion' || op == 'call');
  }
  // Instructions of a computation that are drawn.
  shown(c) {
    const comp = this.comps[c];
    let n = 0;
    for (let i = comp.first; i < comp.end; i++) n += this.hidden[i] ? 0 : 1;
    return n;
  }
}

class Box {
  // kind: 'inst' of an instruction's number, 'group' of {comp, k}, 'comp' of a computation
  constructor(state, kind, what, parent) {
    Object.assign(this, {state, kind, what, parent, kids: null, layout: null});
    this.key = this.makeKey();
  }
  makeKey() {
    const {state, what} = this;
    if (this.kind == 'inst') return `${state.comp(what).name}/${state.name(what)}`;
    if (this.kind == 'comp') return `${what.name}/`;
    let path = [];
    for (let k = what.k; k > 0; k = what.comp.groups[k].parent) {
      const g = what.comp.groups[k], same = what.comp.groups[g.parent].children.filter(c => what.comp.groups[c].label == g.label);
      path.unshift(same.length > 1 ? `${g.label}~${same.indexOf(k)}` : g.label);
    }
    return `${what.comp.name}/:${path.join(':')}`;
  }
  get group() { return this.kind == 'group' ? this.what.comp.groups[this.what.k] : this.kind == 'comp' ? this.what.groups[0] : null; }
  get compIn() { return this.kind == 'inst' ? null : this.kind == 'group' ? this.what.comp : this.what; }
  get opens() { return this.kind != 'inst' || this.state.shownCalls(this.what).length > 0; }
  children() {
    return this.kids || (this.kids = this.makeChildren());
  }
  makeChildren() {
    const {state, what} = this;
    if (this.kind == 'inst') {
      const calls = state.shownCalls(what);
      return calls.length == 1 ? this.childrenOf(state.comps[calls[0]], 0) : calls.map(c => new Box(state, 'comp', state.comps[c], this));
    }
    return this.kind == 'comp' ? this.childrenOf(what, 0) : this.childrenOf(what.comp, what.k);
  }
  childrenOf(comp, k) {
    const groups = comp.groups[k].children.filter(g => comp.groups[g].n > 0).map(g => new Box(this.state, 'group', {comp, k: g}, this));
    const insts = comp.own[k].filter(i => !this.state.hidden[i]).map(i => new Box(this.state, 'inst', i, this));
    return groups.filter(g => g.members().some(i => !this.state.hidden[i])).concat(insts);
  }
  // All instructions of its computation that are in it.
  members() {
    if (this.kind == 'inst') return [this.what];
    if (this.all) return this.all;
    const comp = this.compIn, all = [], todo = [this.kind == 'comp' ? 0 : this.what.k];
    while (todo.length) {
      const k = todo.pop();
      for (const i of comp.own[k]) all.push(i);
      for (const c of comp.groups[k].children) todo.push(c);
    }
    return this.all = all;
  }
  // Edges between children: [from, to, how many values].
  edges() {
    const {state} = this, kids = this.children(), at = new Map(), edges = new Map();
    kids.forEach((kid, k) => { if (kid.kind != 'comp') for (const i of kid.members()) at.set(i, k); });
    kids.forEach((kid, to) => {
      if (kid.kind == 'comp') return;
      for (const i of kid.members())
        for (let k = state.operandStart[i]; k < state.operandStart[i + 1]; k++) {
          const from = at.get(state.source(state.operandList[k]));
          if (from === undefined || from == to) continue;
          const key = from * 1048576 + to, edge = edges.get(key);
          if (edge) edge[2]++; else edges.set(key, [from, to, 1]);
        }
    });
    return [...edges.values()];
  }
  cost(what) {
    return this.kind == 'inst' ? this.state.cost(this.what, what) : this.group[what];
  }
  get label() {
    const {state, what} = this;
    if (this.kind == 'comp') return this.parent ? `${this.role}: ${what.name}` : what.name;
    if (this.kind == 'group') return this.group.label;
    const name = state.name(what), op = state.op(what);
    if (op == 'parameter') { const scope = state.text(what, ROW.SCOPE); return scope || name; }
    return name;
  }
  // What the computation is to the instruction that calls it.
  get role() {
    const {state} = this, caller = this.parent.what, op = state.op(caller), k = state.calls.get(caller).indexOf(this.what.number);
    return op == 'while' ? ['body', 'condition'][k] : op == 'conditional' ? `branch ${k}` : 'calls';
  }
  // Loops that are known to run n times, and repeats.
  get copies() {
    if (this.kind == 'group') return this.group.copies;
    if (this.kind != 'inst' || this.state.op(this.what) != 'while') return 1;
    const body = this.state.calls.get(this.what)[0], outer = this.state.comp(this.what).times;
    return outer > 0 ? Math.round(this.state.comps[body].times / outer) || 1 : 1;
  }
  get count() {
    if (this.kind != 'inst') return this.group.n;
    return this.state.shownCalls(this.what).reduce((n, c) => n + this.state.comps[c].end - this.state.comps[c].first, 0);
  }
  get weight() { return this.kind == 'inst' ? this.state.weight(this.what) : this.group.weight; }
  get marked() {
    if (this.kind != 'inst') return this.group.marked;
    if (this.state.mark(this.what)) return 1;
    return this.state.shownCalls(this.what).reduce((n, c) => n + this.state.comps[c].groups[0].marked, 0);
  }
}

// --- Words ---------------------------------------------------------------------------------------

function amount(x, unit, base) {
  const names = base == 1024 ? ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'] : ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  let k = 0;
  while (x >= base && k < names.length - 1) { x /= base; k++; }
  return `${k == 0 || x >= 100 ? Math.round(x) : x.toPrecision(3)} ${names[k]}${unit}`.trim();
}
const bytesText = x => amount(x, 'B', 1024), flopsText = x => amount(x, 'flop', 1000);
function timeText(s) {
  return s >= 1 ? `${s.toPrecision(3)} s` : s >= 1e-3 ? `${(s * 1e3).toPrecision(3)} ms` : `${(s * 1e6).toPrecision(3)} \u00b5s`;
}
const plainShape = shape => shape.replace(/\{[^{}]*\}/g, '');

// --- Search --------------------------------------------------------------------------------------

const FIELDS = {op: ROW.OP, name: ROW.NAME, shape: ROW.SHAPE, attr: ROW.ATTRS, scope: ROW.SCOPE, source: ROW.FILE};

// Tries each distinct string once, then instructions by their strings' numbers.
function search(state, text) {
  const {strings, ops} = state.model, tests = [];
  for (const word of text.trim().split(/\s+/).filter(w => w)) {
    const field = /^(\w+):(.+)$/.exec(word), known = field && FIELDS[field[1]] !== undefined;
    const wanted = known ? field[2] : word;
    let matches;
    const re = /^\/(.+)\/$/.exec(wanted);
    try { const r = re && new RegExp(re[1], 'i'); matches = re ? s => r.test(s) : null; } catch { return null; }
    const lower = wanted.toLowerCase();
    matches = matches || (s => s.toLowerCase().includes(lower));
    const hit = new Uint8Array(strings.length), opHit = new Uint8Array(ops.length);
    for (let k = 0; k < strings.length; k++) hit[k] = matches(strings[k]) ? 1 : 0;
    for (let k = 0; k < ops.length; k++) opHit[k] = matches(ops[k]) ? 1 : 0;
    tests.push({hit, opHit, only: known ? FIELDS[field[1]] : -1});
  }
  if (!tests.length) return [];
  const found = [], {rows, start} = state.model;
  for (let i = 0; i < state.n; i++) {
    const at = start[state.row[i]];
    if (tests.every(t => t.only == ROW.OP ? t.opHit[rows[at]]
      : t.only >= 0 ? t.hit[rows[at + t.only]]
      : t.opHit[rows[at]] || t.hit[rows[at + ROW.NAME]] || t.hit[rows[at + ROW.SHAPE]] || t.hit[rows[at + ROW.ATTRS]] || t.hit[rows[at + ROW.SCOPE]] || t.hit[rows[at + ROW.FILE]]))
      found.push(i);
  }
  return found;
}

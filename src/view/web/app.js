// The page: what is open, selected, found; mouse, keys, address; the words beside the map.

const $ = id => document.getElementById(id);
const begun = performance.now();

const app = {
  model: null, state: null, top: null, near: null,
  open: new Set(), selected: null, hits: [], hitAt: -1, radius: 1,
  timing: {},
};

// --- Beginning -----------------------------------------------------------------------------------

async function readData() {
  const element = $('data');
  if (element.type == 'application/json') return JSON.parse(element.textContent);
  const packed = atob(element.textContent), bytes = new Uint8Array(packed.length);
  for (let k = 0; k < packed.length; k++) bytes[k] = packed.charCodeAt(k);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
}

async function start() {
  const data = await readData();
  $('data').remove();
  app.timing.read = performance.now() - begun;
  app.model = new Model(data);
  app.drawing = new Drawing($('canvas'));
  $('title').textContent = data.title;
  setTheme(remembered('theme') || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
  makeHeats();
  makeSlider();
  listen();
  setState(app.model.n - 1, true);
  app.timing.model = performance.now() - begun;
  if (app.top) showBox(app.focus, true);
  app.drawing.draw(shownTop(), marks());
  app.timing.first = performance.now() - begun;
  if (!goToAddress() && data.open) goTo(data.open);
  showDetails();
}

// Pages of files may have no memory of their own.
function remembered(key) { try { return localStorage.getItem(`hilo-${key}`); } catch { return null; } }
function remember(key, value) { try { localStorage.setItem(`hilo-${key}`, value); } catch { /* it is not kept */ } }

function makeHeats() {
  const heats = [['op', 'op'], ['bytes', 'bytes moved'], ['flops', 'flops']];
  if (app.model.data.target) heats.push(['time', `time on ${app.model.data.target}`]);
  if (app.model.data.states.some(s => s.peak > 0)) heats.push(['mem', 'peak memory']);
  if (app.model.data.changes.length) heats.push(['changes', 'changes']);
  for (const [value, text] of heats) $('heat').add(new Option(text, value));
  if (app.model.data.changes.length) { $('heat').value = 'changes'; app.drawing.heat = 'changes'; }
}

function makeSlider() {
  const n = app.model.n;
  $('states').classList.toggle('on', n > 1);
  $('state').max = n - 1;
}

// What is open at first: the large boxes, as long as what is seen can be read; then the largest alone, until there is none that
// holds most of it.
const FEW = 30, READABLE = 0.6;
function openSome() {
  const {top, open, drawing} = app;
  open.clear();
  app.focus = top;
  if (!top) return;
  open.add(top.key);
  let seen = [...top.children()];
  const refused = new Set(), opens = b => b.opens && !refused.has(b) && b.copies < 2;
  for (;;) {
    const next = seen.filter(b => opens(b) && b.weight > app.focus.weight * 0.2 && b.children().length <= 2 * FEW).sort((a, b) => b.weight - a.weight)[0];
    if (!next) break;
    open.add(next.key);
    drawing.place(top, open);
    const fits = box => Math.min((drawing.canvas.clientWidth - 30) / box.layout.w, (drawing.canvas.clientHeight - 30 - roomBelow()) / box.layout.h) >= READABLE;
    if (seen.length + next.children().length <= FEW && fits(app.focus)) seen = seen.filter(b => b !== next).concat(next.children());
    else if (next.weight > app.focus.weight * 0.6) { app.focus = next; seen = [...next.children()]; }
    else { open.delete(next.key); refused.add(next); }
  }
  drawing.place(top, open);
}

function setState(k, first) {
  if (k < 0 || k >= app.model.n || (app.state && k == app.state.number)) return;
  const name = app.selected ? app.selected.key : null;
  app.state = app.model.state(k);
  app.top = app.state.top;
  app.near = null;
  $('back').hidden = true;
  legend();
  if (first) openSome();
  $('state').value = k;
  $('statename').textContent = `${k + 1} of ${app.model.n}: ${app.state.title}`;
  app.selected = name ? findBox(name) : null;
  place();
  find($('find').value, true);
  redraw();
  showDetails();
}

// --- Boxes ---------------------------------------------------------------------------------------

const shownTop = () => app.near || app.top;
function place() {
  const top = shownTop();
  if (!top) return;
  const began = performance.now();
  app.drawing.place(top, app.open);
  app.drawing.total = app.top.cost(app.drawing.heat) || 1;
  app.timing.layout = performance.now() - began;
}

// The box of an instruction: the boxes it is in, from without, are made on the way.
function boxOf(i) {
  const {state} = app, comp = state.comp(i);
  let outer;
  if (comp.number == app.top.what.number) outer = app.top;
  else if (comp.callers.length) outer = boxOf(visible(comp.callers[0]));
  if (!outer) return null;
  if (outer !== app.top) {
    const inner = outer.children().find(b => b.kind == 'comp' && b.what === comp);
    if (inner) outer = inner;
    else if (!state.shownCalls(outer.what).includes(comp.number)) return outer;
  }
  let k = comp.of[i - comp.first];
  const path = [];
  for (; k > 0; k = comp.groups[k].parent) path.unshift(k);
  for (const g of path) { outer = outer.children().find(b => b.kind == 'group' && b.what.k == g) || outer; }
  return outer.children().find(b => b.kind == 'inst' && b.what == i) || outer;
}
// What is drawn in place of a hidden instruction: for a constant its first user.
function visible(i) {
  const {state} = app;
  for (let steps = 0; state.hidden[i] && steps < 50; steps++) {
    const next = state.hidden[i] == 2 ? state.operands(i)[0] : state.users(i)[0];
    if (next === undefined || next < 0) break;
    i = next;
  }
  return i;
}
function findBox(key) {
  const walk = [app.top];
  if (!app.top) return null;
  const i = app.state.find(key);
  if (i >= 0) return boxOf(visible(i));
  while (walk.length) {
    const b = walk.pop();
    if (b.key == key) return b;
    if (app.open.has(b.key) && b.opens) walk.push(...b.children());
  }
  return null;
}
function openTo(box) {
  for (let up = box.parent; up; up = up.parent) app.open.add(up.key);
}
function toggle(box) {
  if (!box || !box.opens || box === app.top || box === app.near) return;
  const {x, y, w} = box.screen || {x: 0, y: 0, w: 0};
  if (app.open.has(box.key)) app.open.delete(box.key); else openBox(box);
  place();
  keepAt(box, x + (w - box.layout.w * app.drawing.scale) / 2, y);
  redraw();
}
// With what it alone holds.
function openBox(box) {
  app.open.add(box.key);
  const kids = box.children();
  if (kids.length == 1 && kids[0].opens) openBox(kids[0]);
}
// Where a box is in the picture, in its units.
function placeOf(box) {
  let x = 0, y = 0;
  for (let b = box; b.parent && b !== shownTop(); b = b.parent) { x += b.at.x; y += b.at.y; }
  return {x, y};
}
function keepAt(box, x, y) {
  const d = app.drawing, at = placeOf(box);
  d.x = x - at.x * d.scale;
  d.y = y - at.y * d.scale;
  const w = box.layout.w * d.scale, h = box.layout.h * d.scale;
  if (w > d.canvas.clientWidth || h > d.canvas.clientHeight || x < 0 || y < 0 || x + w > d.canvas.clientWidth + 1 || y + h > d.canvas.clientHeight + 1) showBox(box, true);
}
// Moves the picture so that the box is in it; large ones fill it.
function showBox(box, whole) {
  const d = app.drawing, at = placeOf(box), W = d.canvas.clientWidth, H = d.canvas.clientHeight, {w, h} = box.layout;
  const below = roomBelow(), fits = Math.min((W - 30) / w, (H - 30 - below) / h);
  if (whole) d.scale = Math.min(1.2, fits); else d.scale = Math.min(Math.max(d.scale, 0.75), Math.max(fits, 0.02));
  d.x = W / 2 - (at.x + w / 2) * d.scale;
  d.y = (H - below) / 2 - (at.y + h / 2) * d.scale;
}
// What the legend takes.
function roomBelow() { return $('legend').offsetHeight + 12; }
function fitAll() {
  const top = shownTop();
  if (top && top.layout) showBox(top, true);
  redraw();
}

// --- Neighbourhood -------------------------------------------------------------------------------

class Near extends Box {
  constructor(state, centre, radius) {
    super(state, 'comp', state.comp(centre), null);
    this.key = `near/${state.name(centre)}/${radius}`;
    this.centre = centre;
    this.around = near(state, centre, radius);
  }
  makeChildren() { return this.around.map(i => new Box(this.state, 'inst', i, this)); }
  members() { return this.around; }
  get label() { return `near ${this.state.name(this.centre)}`; }
}
// At most so many steps away; what very many use is no way on.
function near(state, centre, radius) {
  const steps = new Map([[centre, 0]]), queue = [centre];
  for (let q = 0; q < queue.length && queue.length < 400; q++) {
    const i = queue[q], s = steps.get(i);
    if (s == radius) continue;
    const users = state.users(i).flatMap(u => state.hidden[u] ? state.users(u) : [u]);
    for (const o of state.operands(i).map(o => state.source(o)).concat(users.length > 16 && i != centre ? [] : users))
      if (o >= 0 && !state.hidden[o] && !steps.has(o)) { steps.set(o, s + 1); queue.push(o); }
  }
  return queue;
}
function showNear(i, radius) {
  app.radius = radius;
  app.near = new Near(app.state, i, radius);
  app.open.add(app.near.key);
  $('back').hidden = false;
  place();
  app.selected = app.near.children().find(b => b.what == i) || null;
  fitAll();
  showDetails();
}
function leaveNear() {
  if (!app.near) return false;
  const i = app.selected && app.selected.kind == 'inst' ? app.selected.what : app.near.centre;
  app.near = null;
  $('back').hidden = true;
  select(boxOf(i));
  place();
  if (app.selected) showBox(app.selected);
  redraw();
  return true;
}

// --- Selection and address -----------------------------------------------------------------------

function select(box) {
  app.selected = box;
  const hash = box && box.kind == 'inst' ? `#${encodeURIComponent(app.state.name(box.what))}${app.model.n > 1 ? `@${app.state.number}` : ''}` : '';
  if (hash) try { history.replaceState(null, '', hash); } catch { /* an address that cannot be written */ }
  showDetails();
  redraw();
}
function goTo(name) {
  const i = app.state.find(name);
  if (i < 0) return false;
  goToInst(i);
  return true;
}
function goToInst(i) {
  app.near = null;
  $('back').hidden = true;
  const box = boxOf(visible(i));
  if (!box) return;
  openTo(box);
  place();
  select(box);
  showBox(box);
  redraw();
}
function goToAddress() {
  let hash = '';
  try { hash = decodeURIComponent(location.hash.slice(1)); } catch { return false; }
  const at = /^(.*)@(\d+)$/.exec(hash);
  if (at && +at[2] < app.model.n) { setState(+at[2]); hash = at[1]; }
  return hash ? goTo(hash) : false;
}

// Boxes that are drawn and stand for an instruction: it, or what it is in.
function drawnBox(i) {
  if (app.near) return app.near.children().find(b => b.what == i) || null;
  let box = boxOf(i), shown = box;
  for (let b = box; b; b = b.parent) if (b.parent && !app.open.has(b.parent.key)) shown = b.parent;
  return shown;
}
function marks() {
  const m = {selected: app.selected, hits: new Set(), operands: [], users: []};
  if (app.hits.length && app.hits.length <= 2000) for (const i of app.hits) { const b = drawnBox(visible(i)); if (b && b !== app.top) m.hits.add(b); }
  const box = app.selected;
  if (box && box.kind == 'inst') {
    const {state} = app;
    for (const o of new Set(state.operands(box.what).map(o => state.source(o)))) if (o >= 0) { const b = drawnBox(o); if (b) m.operands.push([b, box]); }
    for (const u of state.users(box.what).flatMap(u => state.hidden[u] ? state.users(u) : [u]).slice(0, 300)) { const b = drawnBox(visible(u)); if (b) m.users.push([box, b]); }
  }
  return m;
}
let waiting = false, marked = null;
function redraw(keepMarks) {
  if (!keepMarks) marked = null;
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const began = performance.now();
    marked = marked || marks();
    app.drawing.draw(shownTop(), marked);
    legend();
    app.timing.draw = performance.now() - began;
  });
}

// --- Search --------------------------------------------------------------------------------------

function find(text, quiet) {
  const began = performance.now();
  app.hits = search(app.state, text) || [];
  app.hitAt = -1;
  $('count').textContent = text.trim() ? `${app.hits.length.toLocaleString('en')} found` : '';
  if (!quiet) listHits();
  app.timing.search = performance.now() - began;
  redraw();
}
const MAX_LISTED = 100;
function listHits() {
  const list = $('hits'), {state} = app;
  list.textContent = '';
  list.classList.toggle('on', app.hits.length > 0 && document.activeElement === $('find'));
  app.hits.slice(0, MAX_LISTED).forEach((i, k) => {
    const row = document.createElement('div');
    row.setAttribute('role', 'option');
    row.innerHTML = `<b></b> <span class="dim"></span>`;
    row.firstChild.textContent = state.name(i);
    row.lastChild.textContent = `${state.op(i)} ${plainShape(state.text(i, ROW.SHAPE))} ${state.text(i, ROW.SCOPE)}`;
    row.onmousedown = e => { e.preventDefault(); goToHit(k); };
    list.append(row);
  });
}
function goToHit(k) {
  if (!app.hits.length) return;
  app.hitAt = (k + app.hits.length) % app.hits.length;
  $('count').textContent = `${app.hitAt + 1} of ${app.hits.length.toLocaleString('en')}`;
  [...$('hits').children].forEach((row, r) => row.classList.toggle('at', r == app.hitAt));
  goToInst(app.hits[app.hitAt]);
}

// --- Words beside the map ------------------------------------------------------------------------

function element(name, text, parent) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}
function row(list, name, value) {
  if (value === '' || value === undefined || value === null) return null;
  element('dt', name, list);
  const dd = element('dd', typeof value == 'string' ? value : undefined, list);
  if (typeof value != 'string') dd.append(value);
  return dd;
}
function links(ids, most) {
  const span = document.createElement('span');
  ids.slice(0, most).forEach((i, k) => {
    if (k) span.append(', ');
    if (i < 0) { span.append('?'); return; }
    const a = element('a', app.state.name(i), span);
    a.title = `${app.state.op(i)} ${app.state.text(i, ROW.SHAPE)}`;
    a.onclick = () => goToInst(i);
  });
  if (ids.length > most) span.append(` and ${ids.length - most} more`);
  return ids.length ? span : '';
}
function costRows(list, box) {
  const share = what => { const all = app.top.cost(what); return all > 0 ? ` (${(100 * box.cost(what) / all).toPrecision(3)}%)` : ''; };
  if (box.cost('flops')) row(list, 'flops', flopsText(box.cost('flops')) + share('flops'));
  if (box.cost('bytes')) row(list, 'bytes', bytesText(box.cost('bytes')) + share('bytes'));
  if (box.cost('time')) row(list, `on ${app.model.data.target}`, timeText(box.cost('time')) + share('time'));
  if (app.state.peak && box.cost('mem')) row(list, 'at the peak', `${bytesText(box.cost('mem'))} (${(100 * box.cost('mem') / app.state.peak).toPrecision(3)}%)`);
}
function showDetails() {
  const panel = $('details'), box = app.selected || app.top;
  panel.textContent = '';
  if (!box) { panel.textContent = 'The module has no entry computation.'; return; }
  if (box.kind == 'inst') instDetails(panel, box); else groupDetails(panel, box);
}
function instDetails(panel, box) {
  const {state} = app, i = box.what, list = document.createElement('dl'), comp = state.comp(i);
  element('h2', state.name(i), panel);
  element('div', state.op(i), panel).className = 'dim';
  panel.append(list);
  row(list, 'shape', element('code', state.text(i, ROW.SHAPE)));
  if (state.text(i, ROW.ATTRS)) row(list, 'attributes', element('code', state.text(i, ROW.ATTRS)));
  row(list, 'operands', links(state.operands(i), 40));
  row(list, 'users', links(state.users(i), 40));
  row(list, 'after', links(state.control.get(i) || [], 40));
  row(list, 'calls', (state.calls.get(i) || []).map(c => state.comps[c].name).join(', '));
  row(list, 'in', comp.name + (comp.times > 1 ? `, runs ${comp.times.toLocaleString('en')} times` : ''));
  row(list, 'scope', state.text(i, ROW.SCOPE));
  if (state.text(i, ROW.FILE)) row(list, 'source', `${state.text(i, ROW.FILE)}${state.field(i, ROW.LINE) ? `:${state.field(i, ROW.LINE)}` : ''}`);
  costRows(list, box);
  const mark = state.mark(i);
  if (mark) {
    const strings = app.model.strings, partner = strings[mark.partner], dd = row(list, 'change', app.model.data.marks[mark.kind]);
    if (partner) dd.append(`, there ${partner}`);
    if (strings[mark.note]) dd.append(`: ${strings[mark.note]}`);
  }
  const button = element('button', 'what is near it (n)', panel);
  button.onclick = () => showNear(i, 2);
}
function groupDetails(panel, box) {
  const {state} = app, list = document.createElement('dl'), group = box.group, comp = box.compIn;
  element('h2', box === app.top ? app.model.data.title : box.label, panel);
  const kinds = ['computation', 'scope', 'equal parts', 'parts that are alike', 'part', 'part', 'instructions in a row', 'parameters that several parts use'];
  element('div', kinds[group.kind] + (box.copies > 1 ? ` \u00d7${box.copies}` : ''), panel).className = 'dim';
  panel.append(list);
  row(list, 'instructions', group.n.toLocaleString('en'));
  if (box === app.top) { row(list, 'in all', `${state.n.toLocaleString('en')} in ${state.comps.length.toLocaleString('en')} computations`); if (state.peak) row(list, 'peak memory', bytesText(state.peak)); }
  if (comp.times > 1) row(list, 'runs', `${comp.times.toLocaleString('en')} times`);
  costRows(list, box);
  if (box.marked) row(list, 'changes', box.marked.toLocaleString('en'));
  const counts = new Map();
  for (const i of box.members()) counts.set(state.op(i), (counts.get(state.op(i)) || 0) + 1);
  row(list, 'ops', [...counts].sort((a, b) => b[1] - a[1]).slice(0, 14).map(([op, n]) => `${n} ${op}`).join(', '));
  const dear = box.members().filter(i => state.cost(i, 'flops') > 0).sort((a, b) => state.cost(b, 'flops') - state.cost(a, 'flops')).slice(0, 8);
  row(list, 'most flops', links(dear, 8));
}
function legend() {
  const d = app.drawing, parts = [], c = d.colours, data = app.model.data;
  const key = `${d.heat} ${d.theme} ${app.state.number}`;
  if (legend.key == key) return;
  legend.key = key;
  if (d.heat == 'op') OP_NAMES.forEach((name, k) => parts.push([c.ops[k][0], name]));
  else if (d.heat == 'changes') {
    const used = new Set([...app.model.marks[app.state.number].values()].map(m => m.kind));
    data.marks.forEach((word, k) => { if (k && used.has(k)) parts.push([c.marks[k], word]); });
    if (!used.size) parts.push([c.cold, 'nothing changed']);
  } else for (const share of [0.001, 0.01, 0.1, 0.5, 1]) parts.push([d.heatFill({cost: () => share * d.total})[0], `${share * 100}%`]);
  $('legend').textContent = '';
  for (const [colour, text] of parts) { const span = element('span', undefined, $('legend')), i = element('i', undefined, span); i.style.background = colour; span.append(text); }
}

// --- Hands ---------------------------------------------------------------------------------------

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  app.drawing.theme = theme;
  $('theme').textContent = theme == 'dark' ? 'light' : 'dark';
  remember('theme', theme);
  redraw(true);
}
function setHeat(heat) {
  app.drawing.heat = heat;
  $('heat').value = heat;
  app.drawing.total = app.top ? app.top.cost(heat) || 1 : 1;
  redraw();
}
function zoom(by, x, y) {
  const d = app.drawing, scale = Math.max(0.005, Math.min(4, d.scale * by)), f = scale / d.scale;
  d.x = x - (x - d.x) * f;
  d.y = y - (y - d.y) * f;
  d.scale = scale;
  redraw(true);
}
function collapse() {
  app.near = null;
  $('back').hidden = true;
  openSome();
  app.selected = null;
  place();
  showDetails();
  if (app.top) showBox(app.focus, true);
  redraw();
}
function savePicture() {
  $('canvas').toBlob(blob => {
    const a = document.createElement('a');
    a.href = URL.createObjectURL(blob);
    a.download = `${app.model.data.title}.png`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  });
}
function listen() {
  const canvas = $('canvas');
  listenMouse(canvas);
  $('find').oninput = e => find(e.target.value);
  $('find').onfocus = listHits;
  $('find').onblur = () => $('hits').classList.remove('on');
  $('find').onkeydown = e => {
    if (e.key == 'Enter') goToHit(app.hitAt + (e.shiftKey ? -1 : 1));
    if (e.key == 'ArrowDown' || e.key == 'ArrowUp') { e.preventDefault(); goToHit(app.hitAt + (e.key == 'ArrowUp' ? -1 : 1)); }
    if (e.key == 'Escape') { e.target.value = ''; find(''); canvas.focus(); }
    e.stopPropagation();
  };
  $('heat').onchange = e => { setHeat(e.target.value); canvas.focus(); };
  $('state').oninput = e => setState(+e.target.value);
  $('before').onclick = () => setState(app.state.number - 1);
  $('after').onclick = () => setState(app.state.number + 1);
  $('back').onclick = leaveNear;
  $('fit').onclick = fitAll;
  $('fold').onclick = collapse;
  $('png').onclick = savePicture;
  $('theme').onclick = () => { setTheme(app.drawing.theme == 'dark' ? 'light' : 'dark'); };
  $('ask').onclick = () => $('help').classList.toggle('on');
  $('help').onclick = () => $('help').classList.remove('on');
  document.onkeydown = key;
  window.onhashchange = goToAddress;
  new ResizeObserver(() => redraw(true)).observe($('view'));
}
function listenMouse(canvas) {
  const d = app.drawing;
  let drag = null;
  canvas.onpointerdown = e => { drag = {x: e.offsetX, y: e.offsetY, moved: false}; canvas.setPointerCapture(e.pointerId); };
  canvas.onpointermove = e => {
    if (!drag) { hover(d.hit(e.offsetX, e.offsetY), e); return; }
    const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    drag = {x: e.offsetX, y: e.offsetY, moved: true};
    d.x += dx; d.y += dy;
    redraw(true);
  };
  canvas.onpointerup = e => {
    if (drag && !drag.moved) click(d.hit(e.offsetX, e.offsetY), e);
    drag = null;
  };
  canvas.onpointerleave = () => { $('tip').style.display = 'none'; };
  canvas.ondblclick = e => { const box = d.hit(e.offsetX, e.offsetY); if (box && app.open.has(box.key) && Date.now() - (click.opened || 0) > 600) toggle(box); };
  canvas.addEventListener('wheel', e => { e.preventDefault(); zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.offsetX, e.offsetY); }, {passive: false});
}
function click(box, e) {
  if (!box) { select(null); return; }
  const onHead = app.open.has(box.key) && box.opens && e.offsetY - Math.max(box.screen.y, 0) < 22 && e.offsetX - Math.max(box.screen.x, 0) < 26;
  select(box === app.top ? null : box);
  if (box.opens && (!app.open.has(box.key) || onHead)) { click.opened = Date.now(); toggle(box); }
}
function hover(box, e) {
  const tip = $('tip');
  if (!box || box === app.top || box.layout.open) { tip.style.display = 'none'; return; }
  const state = app.state, lines = [box.label];
  if (box.kind == 'inst') { lines.push(`${state.op(box.what)} ${state.text(box.what, ROW.SHAPE)}`, state.text(box.what, ROW.SCOPE)); } else lines.push(`${box.count} instructions`);
  tip.textContent = lines.filter(l => l).join('\n').slice(0, 600);
  tip.style.display = 'block';
  tip.style.left = `${Math.min(e.offsetX + 14, app.drawing.w - 300)}px`;
  tip.style.top = `${Math.min(e.offsetY + 14, app.drawing.h - 80)}px`;
}
function step(way) {
  const box = app.selected, {state} = app;
  if (!box || box.kind != 'inst') return;
  const next = way < 0 ? state.operands(box.what).map(o => state.source(o)).find(o => o >= 0) : state.users(box.what).map(visible)[0];
  if (next === undefined) return;
  if (app.near) { const b = app.near.children().find(k => k.what == next); if (b) { select(b); return; } }
  goToInst(next);
}
function beside(way) {
  const parent = app.selected && app.selected.parent;
  if (!parent) { if (app.top) select(app.top.children()[0] || null); return; }
  const kids = parent.children(), next = kids[kids.indexOf(app.selected) + way];
  if (next) { select(next); showBox(next); redraw(); }
}
const KEYS = {
  '/': () => $('find').focus(), f: fitAll, F: () => { if (app.selected) { showBox(app.selected, true); redraw(); } }, c: collapse,
  e: () => toggle(app.selected), u: () => { if (app.selected && app.selected.parent) { select(app.selected.parent); showBox(app.selected); redraw(); } },
  n: () => { const box = app.selected; if (box && box.kind == 'inst') showNear(box.what, app.near && app.near.centre == box.what ? app.radius + 1 : 2); },
  h: () => { const list = [...$('heat').options].map(o => o.value); setHeat(list[(list.indexOf(app.drawing.heat) + 1) % list.length]); },
  '[': () => setState(app.state.number - 1), ']': () => setState(app.state.number + 1), d: () => $('theme').click(), '?': () => $('ask').click(),
  '+': () => zoom(1.25, app.drawing.w / 2, app.drawing.h / 2), '=': () => zoom(1.25, app.drawing.w / 2, app.drawing.h / 2), '-': () => zoom(0.8, app.drawing.w / 2, app.drawing.h / 2),
  ArrowUp: () => step(-1), ArrowDown: () => step(1), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
  Enter: () => toggle(app.selected),
  Escape: () => { $('help').classList.remove('on'); if (!leaveNear()) select(null); },
};
function key(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName)) return;
  const does = KEYS[e.key];
  if (!does || (e.key == 'Enter' && e.target.tagName == 'BUTTON')) return;
  e.preventDefault();
  does();
}

// For scripts and tests.
window.hilo = {app, find, goTo, toggle, setState, setHeat, select, collapse, fitAll, showNear, findBox, redraw,
  seen: () => app.drawing.drawn.map(b => ({label: b.label, badge: app.drawing.badge(b), kind: b.kind, open: b.layout.open, ...b.screen}))};
window.hilo.ready = start();

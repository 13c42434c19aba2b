// Draws boxes on a canvas: what is in sight, and no more of it than can be read.

const PALETTES = {
  light: {back: '#fafafa', text: '#1c2329', dim: '#65717c', edge: '#9aa5af', line: '#b0bac3', box: ['#ffffff', '#f1f4f7'], box2: '#dfe5ea', accent: '#1565c0', hit: '#b71c1c', operand: '#d32f2f', user: '#1976d2',
    ops: [['#ffffff', '#9e9e9e', '#000'], ['#fff9c4', '#cbc693', '#000'], ['#c8e6c9', '#97b498', '#000'], ['#1565c0', '#003c8f', '#fff'], ['#ffe0b2', '#cbae82', '#000'],
      ['#ffb74d', '#c88719', '#000'], ['#e1bee7', '#af8eb5', '#000'], ['#cfd8dc', '#9ea7aa', '#000'], ['#bcaaa4', '#8c7b75', '#000'], ['#2e7d32', '#005005', '#fff']],
    marks: [null, '#ffd54f', '#64b5f6', '#81c784', '#e57373', '#ba68c8', '#b0bec5', '#90a4ae'], cold: '#eef1f4'},
  dark: {back: '#15191d', text: '#e4e8ec', dim: '#98a4af', edge: '#5b6670', line: '#48525c', box: ['#1e242a', '#242b32'], box2: '#323c46', accent: '#64b5f6', hit: '#ff8a80', operand: '#ef5350', user: '#64b5f6',
    ops: [['#333c45', '#66717c', '#e8ecef'], ['#57532a', '#8a8447', '#fdf8d0'], ['#2c4a2f', '#54805a', '#dcf0dd'], ['#1a5dab', '#5a9ae6', '#fff'], ['#54432a', '#8a6f46', '#ffe9cc'],
      ['#7a5218', '#b98435', '#ffedd0'], ['#4d3453', '#8a6292', '#f2e0f6'], ['#3b474d', '#6d7d85', '#e3ecf0'], ['#4f413c', '#84716b', '#efe2dd'], ['#256a2b', '#58a45e', '#fff']],
    marks: [null, '#8a6d1b', '#1f5f9c', '#2f7a38', '#a13c3c', '#7a3a87', '#56636b', '#4b5a63'], cold: '#262d34'},
};
const MARK_NAMES = {changed: 'changed', moved: 'moved', new: 'new', gone: 'gone', fused: 'fused', folded: 'folded', inlined: 'inlined'};
const OP_NAMES = ['elementwise', 'broadcast', 'moves', 'matrix', 'small input', 'input', 'reduces', 'fusion', 'collective', 'calls'];
const FONT = 'system-ui, "DejaVu Sans", sans-serif';
const HEAD = 26, PAD = 16, LINE_H = 16;

class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext('2d');
    this.widths = new Map();
    this.cuts = new Map();
    this.x = 0; this.y = 0; this.scale = 1;
    this.theme = 'light';
    this.heat = 'op';
    this.drawn = [];
  }
  get colours() { return PALETTES[this.theme]; }

  // --- Sizes ---
  textWidth(text, font) {
    const key = font + text;
    let w = this.widths.get(key);
    if (w === undefined) {
      this.ctx.font = font;
      w = this.ctx.measureText(text).width;
      if (this.widths.size > 50000) this.widths.clear();
      this.widths.set(key, w);
    }
    return w;
  }
  // Cut in the middle: paths differ at their ends.
  fit(text, font, room) {
    if (this.textWidth(text, font) <= room) return text;
    const key = `${Math.round(room)}|${font}|${text}`, known = this.cuts.get(key);
    if (known !== undefined) return known;
    if (this.cuts.size > 20000) this.cuts.clear();
    const found = this.cut(text, font, room);
    this.cuts.set(key, found);
    return found;
  }
  cut(text, font, room) {
    this.ctx.font = font;
    let low = 0, high = Math.min(text.length, 400);
    const cut = n => `${text.slice(0, Math.ceil(n / 2))}\u2026${text.slice(text.length - Math.floor(n / 2))}`;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.ctx.measureText(cut(mid)).width <= room) low = mid; else high = mid - 1; }
    return low ? cut(low) : '';
  }
  lines(box) {
    if (box.lines) return box.lines;
    const lines = [{text: box.label, font: `600 12.5px ${FONT}`}], small = `11px ${FONT}`, {state} = box;
    if (box.kind == 'inst') {
      const i = box.what, op = state.op(i), shape = plainShape(state.text(i, ROW.SHAPE));
      const target = op == 'custom-call' && /custom_call_target="([^"]*)"/.exec(state.text(i, ROW.ATTRS));
      const kind = op == 'fusion' && /kind=k(\w+)/.exec(state.text(i, ROW.ATTRS));
      const said = target ? target[1] : kind ? `${kind[1].toLowerCase()} fusion` : op;
      lines.push({text: box.label.startsWith(said) ? shape : `${said} \u00b7 ${shape}`, font: small});
      const words = this.words(state, i);
      if (words) lines.push({text: words, font: small, dim: true});
    } else {
      const n = box.count;
      lines.push({text: `${n.toLocaleString('en')} instruction${n == 1 ? '' : 's'}${box.cost('flops') ? ` \u00b7 ${flopsText(box.cost('flops'))}` : ''}`, font: small, dim: true});
    }
    return box.lines = lines;
  }
  // Constants that it takes.
  words(state, i) {
    const words = [], operands = state.operands(i);
    operands.forEach((o, k) => {
      if (o < 0 || state.hidden[o] != 1 || words.length > 2) return;
      let c = o;
      while (state.op(c) != 'constant' && state.operands(c).length) c = state.operands(c)[0];
      const value = state.text(c, ROW.ATTRS);
      words.push(`${operands.length > 1 ? `#${k} = ` : ''}${value.length && value.length < 20 ? value : state.name(c)}`);
    });
    return words.join(', ');
  }
  badge(box) {
    const kind = box.group && box.kind == 'group' ? box.group.kind : -1;
    return box.copies > 1 ? `\u00d7${box.copies}${kind == GROUP.ALIKE ? ' alike' : ''}` : '';
  }
  sizeClosed(box) {
    const lines = this.lines(box), badge = this.badge(box);
    const extra = (box.opens ? 22 : 0) + (badge ? this.textWidth(badge, `600 12px ${FONT}`) + 18 : 0);
    let w = 60;
    lines.forEach((line, k) => { w = Math.max(w, Math.min(this.textWidth(line.text, line.font), 250) + 20 + (k == 0 ? extra : 0)); });
    return {w, h: 12 + LINE_H * lines.length};
  }

  // --- Layout: open boxes from within ---
  place(box, open) {
    const isOpen = open.has(box.key) && box.opens, mine = `${isOpen}`;
    if (!isOpen) {
      if (box.layout && box.layout.open === false) return false;
      box.layout = {open: false, ...this.sizeClosed(box)};
      return true;
    }
    const kids = box.children();
    let changed = !box.layout || !box.layout.open;
    for (const kid of kids) changed = this.place(kid, open) || changed;
    if (!changed) return false;
    const nodes = kids.map(kid => ({w: kid.layout.w, h: kid.layout.h, order: this.orderOf(kid), kid}));
    const edges = (box.edgeList = box.edgeList || box.edges()).filter(([a, b]) => this.isDrawn(kids, a, b)).map(([from, to, n]) => ({from, to, n}));
    const size = layout(nodes, edges);
    nodes.forEach(n => { n.kid.at = {x: n.x + PAD, y: n.y + HEAD + PAD}; });
    const head = this.textWidth(`${box.label} ${this.badge(box)}`, `600 13px ${FONT}`) * 1.4 + 50;
    const w = Math.max(size.w + 2 * PAD, Math.min(head, 460));
    const shift = (w - size.w - 2 * PAD) / 2;
    nodes.forEach(n => { n.kid.at.x += shift; });
    for (const e of edges) for (let p = 0; p < e.points.length; p += 2) { e.points[p] += PAD + shift; e.points[p + 1] += HEAD + PAD; }
    box.layout = {open: true, w, h: size.h + HEAD + 2 * PAD, edges};
    return true;
  }
  orderOf(box) {
    if (box.kind == 'inst') return box.what;
    if (box.kind == 'comp') return box.what.number;
    if (box.group.kind == GROUP.PARAMETERS) return -1;
    if (box.mean === undefined) { const all = box.members().filter(i => !box.state.hidden[i]); box.mean = all.reduce((s, i) => s + i, 0) / (all.length || 1); }
    return box.mean;
  }
  // Lines from the box of all parameters say nothing.
  isDrawn(kids, a, b) {
    return !(kids[a].kind == 'group' && kids[a].group.kind == GROUP.PARAMETERS);
  }

  // --- Colours ---
  fill(box) {
    const c = this.colours;
    if (this.heat == 'changes') return this.markFill(box);
    if (this.heat != 'op') return this.heatFill(box);
    if (box.kind == 'inst') return c.ops[box.state.field(box.what, ROW.COLOUR)];
    return [box.copies > 1 ? c.box2 : c.box[1], c.line, c.text];
  }
  markFill(box) {
    const c = this.colours, plain = [c.cold, c.line, c.text];
    if (box.kind == 'inst') { const mark = box.state.mark(box.what); if (mark) return [c.marks[mark.kind], c.line, c.text]; }
    return box.marked ? [mix(c.cold, c.marks[1], 0.35), c.line, c.text] : plain;
  }
  heatFill(box) {
    const c = this.colours, all = this.total || 1, share = Math.min(1, box.cost(this.heat) / all);
    if (share <= 0) return [c.cold, c.line, c.dim];
    const t = Math.pow(share, 0.4), fill = this.theme == 'light' ? (t < 0.5 ? mix('#fff3e0', '#ffab6b', t * 2) : mix('#ffab6b', '#d84315', t * 2 - 1)) : (t < 0.5 ? mix('#33302c', '#8a4b20', t * 2) : mix('#8a4b20', '#ff6d3a', t * 2 - 1));
    return [fill, c.line, this.theme == 'light' ? (t > 0.85 ? '#fff' : '#000') : '#fff'];
  }

  // --- Drawing ---
  draw(top, mark) {
    const {ctx, canvas} = this, ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width != Math.round(w * ratio) || canvas.height != Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = this.colours.back;
    ctx.fillRect(0, 0, w, h);
    ctx.textBaseline = 'middle';
    this.drawn = [];
    this.mark = mark;
    this.w = w; this.h = h;
    this.crumbs = [];
    if (top) this.drawBox(top, this.x, this.y, 0, -1e9);
    this.drawMarked(mark);
    this.drawCrumbs();
  }
  // What the middle of the picture is in, where heads are out of sight.
  drawCrumbs() {
    if (!this.crumbs.length) return;
    const {ctx} = this, c = this.colours, font = `600 12px ${FONT}`, room = this.w - 20;
    let text = this.crumbs.join(' \u203a ');
    for (let k = 1; this.textWidth(text, font) > room && k < this.crumbs.length; k++) text = ['\u2026', ...this.crumbs.slice(k)].join(' \u203a ');
    const cut = this.fit(text, font, room), w = this.textWidth(cut, font);
    ctx.globalAlpha = 0.93; ctx.fillStyle = c.box[0]; ctx.fillRect(0, 0, w + 20, 22); ctx.globalAlpha = 1;
    ctx.strokeStyle = c.line; ctx.lineWidth = 1; ctx.strokeRect(-1, -1, w + 21, 23);
    ctx.font = font; ctx.fillStyle = c.text; ctx.fillText(cut, 10, 11.5);
  }
  inSight(x, y, w, h) { return x < this.w && y < this.h && x + w > 0 && y + h > 0; }
  drawBox(box, x, y, depth, below) {
    const s = this.scale, w = box.layout.w * s, h = box.layout.h * s;
    box.screen = {x, y, w, h};
    if (!this.inSight(x, y, w, h)) return;
    if (w < 1.5 && h < 1.5) return;
    this.drawn.push(box);
    if (!box.layout.open) this.drawClosed(box, x, y, w, h);
    else if (w < 46 || h < 30) this.drawFar(box, x, y, w, h);
    else this.drawOpen(box, x, y, w, h, depth, below);
  }
  frame(x, y, w, h, fill, line, width, round) {
    const {ctx} = this;
    ctx.beginPath();
    ctx.roundRect(x, y, w, h, Math.min(round, w / 4, h / 4));
    ctx.fillStyle = fill; ctx.fill();
    if (width) { ctx.lineWidth = width; ctx.strokeStyle = line; ctx.stroke(); }
  }
  edgeOf(box) {
    const m = this.mark, c = this.colours;
    return box === m.selected ? [c.hit, 3] : m.hits.has(box) ? [c.hit, 2] : null;
  }
  drawClosed(box, x, y, w, h) {
    const {ctx, scale: s} = this, [fill, line, text] = this.fill(box), strong = this.edgeOf(box), c = this.colours;
    if (box.copies > 1) for (const k of [2, 1]) this.frame(x + 4 * k * s, y + 4 * k * s, w, h, fill, line, 1, 5 * s);
    this.frame(x, y, w, h, fill, strong ? strong[0] : line, strong ? strong[1] : 1, (box.kind == 'inst' && !box.opens ? 4 : 7) * s);
    if (box.kind == 'inst' && box.state.comp(box.what).root == box.what && s > 0.25) { ctx.fillStyle = line; ctx.fillRect(x + 3 * s, y + h - 4 * s, w - 6 * s, 2 * s); }
    if (this.heat != 'changes' && box.marked) { ctx.fillStyle = c.marks[1]; ctx.beginPath(); ctx.arc(x + w - 4 * s, y + 4 * s, 4 * s, 0, 7); ctx.fill(); }
    if (s < 0.33) { this.label(box, x, y, w, h, text); return; }
    const badge = this.badge(box), badgeW = badge ? this.textWidth(badge, `600 12px ${FONT}`) + 10 : 0;
    ctx.save();
    ctx.translate(x, y); ctx.scale(s, s);
    let left = 10;
    if (box.opens) { this.plus(10, 15, false, text); left = 26; }
    this.lines(box).forEach((l, k) => {
      const room = box.layout.w - 20 - (k == 0 ? left - 10 + (badge ? badgeW + 8 : 0) : 0);
      ctx.font = l.font; ctx.fillStyle = text; ctx.globalAlpha = l.dim ? 0.72 : 1;
      ctx.fillText(this.fit(l.text, l.font, room), k == 0 ? left : 10, 15 + k * LINE_H);
    });
    ctx.globalAlpha = 1;
    if (badge) this.badgeAt(badge, box.layout.w - badgeW - 7, 15, badgeW);
    ctx.restore();
  }
  plus(x, y, minus, colour) {
    const {ctx} = this;
    ctx.strokeStyle = colour; ctx.lineWidth = 1.2;
    ctx.strokeRect(x, y - 5.5, 11, 11);
    ctx.beginPath(); ctx.moveTo(x + 2.5, y); ctx.lineTo(x + 8.5, y);
    if (!minus) { ctx.moveTo(x + 5.5, y - 3); ctx.lineTo(x + 5.5, y + 3); }
    ctx.stroke();
  }
  badgeAt(text, x, y, w) {
    const {ctx} = this;
    ctx.fillStyle = this.colours.accent;
    ctx.beginPath(); ctx.roundRect(x, y - 8.5, w, 17, 8); ctx.fill();
    ctx.font = `600 12px ${FONT}`; ctx.fillStyle = this.theme == 'light' ? '#fff' : '#000';
    ctx.fillText(text, x + 5, y + 0.5);
  }
  // The name, or at least the op, as large as fits, where the words of the box would be too small to read.
  label(box, x, y, w, h, colour) {
    const size = Math.min(12, h * 0.55), font = `600 ${size.toFixed(1)}px ${FONT}`;
    if (size < 5.5 || w < 20) return;
    const badge = this.badge(box), names = [badge ? `${box.label} ${badge}` : box.label];
    if (badge) names.push(badge);
    if (box.kind == 'inst') names.push(box.state.op(box.what));
    const name = names.find(n => this.textWidth(n, font) <= w - 4) || (w > 70 ? this.fit(names[0], font, w - 6) : '');
    this.ctx.font = font; this.ctx.fillStyle = colour;
    this.ctx.fillText(name, x + (w - this.textWidth(name, font)) / 2, y + h / 2);
  }
  drawFar(box, x, y, w, h) {
    const [fill, line, text] = this.fill(box), strong = this.edgeOf(box);
    this.frame(x, y, w, h, fill, strong ? strong[0] : line, strong ? strong[1] : 1, 4);
    this.label(box, x, y, w, h, text);
  }
  // `below`: where the head of what it is in ends; heads do not lie on each other.
  drawOpen(box, x, y, w, h, depth, below) {
    const {scale: s} = this, c = this.colours, strong = this.edgeOf(box);
    this.frame(x, y, w, h, c.box[depth % 2], strong ? strong[0] : c.line, strong ? strong[1] : 1, 8 * s);
    this.drawEdges(box, x, y);
    const size = Math.max(Math.min(13, HEAD * s * 0.62), Math.min(10, h / 10)), line = y + Math.max(HEAD * s / 2, size * 0.8);
    const shown = size >= 5 && y >= -HEAD * s * 0.4 && line - size * 0.7 >= below && line < y + h - 4;
    for (const kid of box.children()) this.drawBox(kid, x + kid.at.x * s, y + kid.at.y * s, depth + 1, shown ? line + size * 0.7 : below);
    const badge = this.badge(box), title = badge ? `${box.label}  ${badge}` : box.label;
    if (y < -HEAD * s * 0.4 && x < this.w / 2 && x + w > this.w / 2 && y + h > this.h / 2) this.crumbs.unshift(title);
    if (shown) this.drawHead(title, Math.max(x, 0) + 8, Math.min(x + w, this.w), line, size, depth);
  }
  drawHead(title, left, right, line, size, depth) {
    const {ctx} = this, c = this.colours, font = `600 ${size.toFixed(1)}px ${FONT}`, room = right - left - 8;
    if (room < 30) return;
    const cut = this.fit(title, font, room - size * 1.5), w = this.textWidth(cut, font) + size * 1.5 + 8;
    ctx.globalAlpha = 0.9; ctx.fillStyle = c.box[depth % 2]; ctx.fillRect(left - 3, line - size * 0.75, w, size * 1.5); ctx.globalAlpha = 1;
    ctx.save(); ctx.translate(left, line); ctx.scale(size / 13, size / 13); this.plus(0, 0, true, c.dim); ctx.restore();
    ctx.font = font; ctx.fillStyle = c.text;
    ctx.fillText(cut, left + size * 1.3, line + 0.5);
  }
  drawEdges(box, x, y) {
    const {ctx, scale: s} = this, c = this.colours;
    if (s < 0.04) return;
    const far = s < 0.2;
    ctx.lineWidth = Math.max(0.6, Math.min(1.3, s * 1.3));
    ctx.strokeStyle = ctx.fillStyle = c.edge;
    const many = box.layout.edges.length > 400;
    ctx.globalAlpha = many ? 0.55 : 0.9;
    for (const e of box.layout.edges) {
      const p = e.points, n = p.length;
      let top = Infinity, bottom = -Infinity, left = Infinity, right = -Infinity;
      for (let k = 0; k < n; k += 2) { left = Math.min(left, p[k]); right = Math.max(right, p[k]); top = Math.min(top, p[k + 1]); bottom = Math.max(bottom, p[k + 1]); }
      if (!this.inSight(x + left * s - 2, y + top * s - 2, (right - left) * s + 4, (bottom - top) * s + 4)) continue;
      if (e.turned) ctx.setLineDash([5, 4]);
      this.curve(p, x, y, s);
      if (e.turned) ctx.setLineDash([]);
      if (!far) this.arrow(x + p[e.turned ? 0 : n - 2] * s, y + p[e.turned ? 1 : n - 1] * s, e.turned ? -1 : 1, s);
    }
    ctx.globalAlpha = 1;
  }
  curve(p, x, y, s) {
    const {ctx} = this;
    ctx.beginPath();
    ctx.moveTo(x + p[0] * s, y + p[1] * s);
    for (let k = 2; k < p.length; k += 2) {
      const x0 = p[k - 2], y0 = p[k - 1], x1 = p[k], y1 = p[k + 1];
      if (x0 == x1) { ctx.lineTo(x + x1 * s, y + y1 * s); continue; }
      const bend = (y1 - y0) / 2;
      ctx.bezierCurveTo(x + x0 * s, y + (y0 + bend) * s, x + x1 * s, y + (y1 - bend) * s, x + x1 * s, y + y1 * s);
    }
    ctx.stroke();
  }
  arrow(x, y, way, s) {
    const {ctx} = this, a = Math.min(6, 6 * s);
    ctx.beginPath(); ctx.moveTo(x, y); ctx.lineTo(x - a * 0.6, y - a * 1.3 * way); ctx.lineTo(x + a * 0.6, y - a * 1.3 * way); ctx.fill();
  }
  // From where the operands of the selected are drawn, to where its users are.
  drawMarked(mark) {
    const {ctx} = this, c = this.colours;
    ctx.lineWidth = 2.2;
    for (const [list, colour] of [[mark.operands, c.operand], [mark.users, c.user]])
      for (const [from, to] of list) {
        const a = from.screen, b = to.screen;
        if (!a || !b || from === to) continue;
        const x0 = a.x + a.w / 2, y0 = a.y + a.h, x1 = b.x + b.w / 2, y1 = b.y, bend = Math.max(20, Math.abs(y1 - y0) / 2);
        if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > this.w || Math.max(y0, y1) < 0 || Math.min(y0, y1) > this.h) continue;
        ctx.strokeStyle = ctx.fillStyle = colour;
        ctx.beginPath(); ctx.moveTo(x0, y0); ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1); ctx.stroke();
        this.arrow(x1, y1, 1, 1);
      }
  }
  // The innermost box at a place of the screen.
  hit(x, y) {
    for (let k = this.drawn.length - 1; k >= 0; k--) {
      const s = this.drawn[k].screen;
      if (x >= s.x && x <= s.x + s.w && y >= s.y && y <= s.y + s.h) return this.drawn[k];
    }
    return null;
  }
}

function mix(a, b, t) {
  const at = (c, k) => parseInt(c.slice(1 + 2 * k, 3 + 2 * k), 16);
  return '#' + [0, 1, 2].map(k => Math.round(at(a, k) + (at(b, k) - at(a, k)) * t).toString(16).padStart(2, '0')).join('');
}

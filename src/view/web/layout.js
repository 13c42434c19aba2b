// Places for the nodes of a graph, layer by layer (Sugiyama): for what one box holds, which is some hundred nodes at most.
//
//   parts     what hangs together is laid out by itself; parts stand beside each other, single nodes in a grid
//   ranks     every edge goes down; those that would close a circle are turned round
//   chains    an edge over several ranks goes through a point in each; those from one node share their points
//   order     within a rank by the mean place of the neighbours, up and down again; the best is kept
//   places    each node as near to its neighbours as the others of its rank let it
//
// layout(nodes, edges): nodes have w, h and `order`, a wish for what comes first; they get x, y (of the upper left corner). Edges
// are {from, to}; they get `points` [x, y, x, y, ...] and `turned`. Returns {w, h}.

const GAP_X = 22, GAP_Y = 40, CHAIN_W = 14, MAX_POINTS = 6000, LONG = 60;

function layout(nodes, edges) {
  const parts = partsOf(nodes, edges), placed = [], singles = [];
  for (const part of parts) if (part.nodes.length == 1) singles.push(part.nodes[0]); else placed.push(layoutPart(nodes, part));
  if (singles.length) placed.push(layoutGrid(nodes, singles));
  return shelve(nodes, placed);
}

function partsOf(nodes, edges) {
  const set = nodes.map((_, k) => k);
  const find = k => { while (set[k] != k) k = set[k] = set[set[k]]; return k; };
  for (const e of edges) set[find(e.from)] = find(e.to);
  const parts = new Map();
  nodes.forEach((_, k) => { const s = find(k); if (!parts.has(s)) parts.set(s, {nodes: [], edges: []}); parts.get(s).nodes.push(k); });
  for (const e of edges) parts.get(find(e.from)).edges.push(e);
  return [...parts.values()];
}

function layoutGrid(nodes, ids) {
  ids.sort((a, b) => nodes[a].order - nodes[b].order);
  const w = Math.max(...ids.map(k => nodes[k].w)), area = ids.reduce((s, k) => s + (w + GAP_X) * (nodes[k].h + 16), 0);
  const columns = Math.max(1, Math.min(ids.length, Math.round(Math.sqrt(area * 1.5) / (w + GAP_X))));
  let y = 0;
  for (let from = 0; from < ids.length; from += columns) {
    let tallest = 0;
    ids.slice(from, from + columns).forEach((k, c) => { nodes[k].x = c * (w + GAP_X); nodes[k].y = y; tallest = Math.max(tallest, nodes[k].h); });
    y += tallest + 16;
  }
  return {ids, edges: [], w: columns * (w + GAP_X) - GAP_X, h: y - 16, order: nodes[ids[0]].order};
}

// Parts in rows, about half again as wide as high.
function shelve(nodes, parts) {
  parts.sort((a, b) => a.order - b.order);
  const area = parts.reduce((s, p) => s + (p.w + 2 * GAP_X) * (p.h + 2 * GAP_X), 0), widest = Math.max(0, ...parts.map(p => p.w));
  const limit = Math.max(widest, Math.sqrt(area * 1.5));
  let x = 0, y = 0, tallest = 0, w = 0;
  for (const part of parts) {
    if (x > 0 && x + part.w > limit) { x = 0; y += tallest + 2 * GAP_X; tallest = 0; }
    for (const k of part.ids) { nodes[k].x += x; nodes[k].y += y; }
    for (const e of part.edges) for (let p = 0; p < e.points.length; p += 2) { e.points[p] += x; e.points[p + 1] += y; }
    w = Math.max(w, x + part.w);
    x += part.w + 2 * GAP_X;
    tallest = Math.max(tallest, part.h);
  }
  return {w, h: y + tallest};
}

function layoutPart(nodes, part) {
  const g = {v: part.nodes.map(k => ({id: k, w: nodes[k].w, h: nodes[k].h, order: nodes[k].order, down: [], up: [], rank: 0, x: 0}))};
  const at = new Map(part.nodes.map((k, v) => [k, v]));
  g.e = part.edges.map(e => ({edge: e, a: at.get(e.from), b: at.get(e.to)}));
  turnCircles(g);
  findRanks(g);
  makeChains(g);
  orderRanks(g);
  placeRanks(g);
  const h = placeRows(g);
  let left = Infinity, right = -Infinity;
  for (const v of g.v) { left = Math.min(left, v.x - v.w / 2); right = Math.max(right, v.x + v.w / 2); }
  for (const v of g.v) {
    v.x -= left;
    if (v.id >= 0) { nodes[v.id].x = v.x - v.w / 2; nodes[v.id].y = v.y - v.h / 2; }
  }
  routeEdges(g);
  return {ids: part.nodes, edges: part.edges, w: right - left, h, order: Math.min(...part.nodes.map(k => nodes[k].order))};
}

// Nodes are taken once all before them are; where a circle lets none be, the one that wishes to be first. What then still comes
// into it is turned.
function turnCircles(g) {
  const n = g.v.length, left = new Int32Array(n), out = g.v.map(() => []), taken = new Uint8Array(n);
  for (const e of g.e) { left[e.b]++; out[e.a].push(e); }
  const byOrder = g.v.map((_, k) => k).sort((a, b) => g.v[a].order - g.v[b].order);
  const ready = byOrder.filter(k => left[k] == 0);
  g.sequence = [];
  for (let first = 0; g.sequence.length < n;) {
    let k = ready.length ? ready.shift() : -1;
    if (k < 0) { while (taken[byOrder[first]]) first++; k = byOrder[first]; }
    if (taken[k]) continue;
    taken[k] = 1;
    g.sequence.push(k);
    for (const e of out[k]) if (!taken[e.b] && --left[e.b] == 0) ready.push(e.b);
  }
  const place = new Int32Array(n);
  g.sequence.forEach((k, p) => { place[k] = p; });
  for (const e of g.e) {
    e.turned = place[e.a] > place[e.b];
    if (e.turned) [e.a, e.b] = [e.b, e.a];
  }
}

function findRanks(g) {
  const down = g.v.map(() => []), up = g.v.map(() => []);
  for (const e of g.e) { down[e.a].push(e.b); up[e.b].push(e.a); }
  for (const k of g.sequence) for (const u of up[k]) g.v[k].rank = Math.max(g.v[k].rank, g.v[u].rank + 1);
  // What feeds others, and has more of them below than above, moves down to them; twice, for chains of such.
  for (let pass = 0; pass < 2; pass++)
    for (let p = g.sequence.length - 1; p >= 0; p--) {
      const k = g.sequence[p];
      if (!down[k].length || down[k].length < up[k].length || (up[k].length && down[k].length == up[k].length && pass)) continue;
      const lowest = Math.min(...down[k].map(d => g.v[d].rank)) - 1;
      if (up[k].length == 0 || down[k].length > up[k].length) g.v[k].rank = Math.max(g.v[k].rank, lowest);
    }
  const used = [...new Set(g.v.map(v => v.rank))].sort((a, b) => a - b), number = new Map(used.map((r, k) => [r, k]));
  for (const v of g.v) v.rank = number.get(v.rank);
  g.ranks = used.length;
}

function makeChains(g) {
  const shared = new Map();
  let points = 0;
  const join = (a, b) => { g.v[a].down.push(b); g.v[b].up.push(a); };
  for (const e of [...g.e].sort((x, y) => (g.v[x.b].rank - g.v[x.a].rank) - (g.v[y.b].rank - g.v[y.a].rank))) {
    const length = g.v[e.b].rank - g.v[e.a].rank;
    e.via = [];
    if (length > LONG || points > MAX_POINTS) continue;  // drawn straight
    let from = e.a;
    for (let r = g.v[e.a].rank + 1; r < g.v[e.b].rank; r++) {
      const key = e.a * 4096 + r;
      let at = shared.get(key);
      if (at === undefined) {
        at = g.v.length;
        shared.set(key, at);
        g.v.push({id: -1, w: CHAIN_W, h: 0, order: g.v[e.a].order, down: [], up: [], rank: r, x: 0});
        join(from, at);
        points++;
      }
      e.via.push(at);
      from = at;
    }
    join(from, e.b);
  }
}

function crossings(g) {
  let n = 0;
  for (let r = 0; r + 1 < g.ranks; r++) {
    const ends = [];
    for (const k of g.rows[r]) ends.push(...g.v[k].down.map(d => g.v[d].pos).sort((a, b) => a - b));
    const size = g.rows[r + 1].length, tree = new Int32Array(size + 2);
    for (let i = ends.length - 1; i >= 0; i--) {
      for (let p = ends[i]; p > 0; p -= p & -p) n += tree[p];
      for (let p = ends[i] + 1; p <= size; p += p & -p) tree[p]++;
    }
  }
  return n;
}

function setRows(g, rows) {
  g.rows = rows;
  for (const row of rows) row.forEach((k, p) => { g.v[k].pos = p; });
}

function orderRanks(g) {
  const rows = Array.from({length: g.ranks}, () => []);
  // At first as a walk from above meets them.
  const seen = new Uint8Array(g.v.length), stack = [];
  const roots = g.v.map((_, k) => k).filter(k => !g.v[k].up.length).sort((a, b) => g.v[b].order - g.v[a].order);
  stack.push(...roots);
  while (stack.length) {
    const k = stack.pop();
    if (seen[k]) continue;
    seen[k] = 1;
    rows[g.v[k].rank].push(k);
    for (let d = g.v[k].down.length - 1; d >= 0; d--) stack.push(g.v[k].down[d]);
  }
  g.v.forEach((v, k) => { if (!seen[k]) rows[v.rank].push(k); });
  setRows(g, rows);
  let best = rows.map(r => [...r]), fewest = crossings(g);
  const sweeps = g.v.length > 3000 ? 6 : 14;
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep++) {
    const downward = sweep % 2 == 0;
    for (let i = 1; i < g.ranks; i++) {
      const r = downward ? i : g.ranks - 1 - i, row = g.rows[r];
      for (const k of row) {
        const near = downward ? g.v[k].up : g.v[k].down;
        g.v[k].wish = near.length ? near.reduce((s, u) => s + g.v[u].pos, 0) / near.length : g.v[k].pos;
      }
      row.sort((a, b) => g.v[a].wish - g.v[b].wish || g.v[a].pos - g.v[b].pos);
      row.forEach((k, p) => { g.v[k].pos = p; });
    }
    const n = crossings(g);
    if (n < fewest) { fewest = n; best = g.rows.map(r => [...r]); }
  }
  setRows(g, best);
}

// Of a row the places nearest to the wishes that keep order and distance: neighbours that push each other become blocks.
function settleRow(g, row) {
  const blocks = [];
  let offset = 0;
  row.forEach((k, p) => {
    const v = g.v[k];
    if (p > 0) offset += (g.v[row[p - 1]].w + v.w) / 2 + (v.id < 0 && g.v[row[p - 1]].id < 0 ? 4 : GAP_X);
    v.offset = offset;
    let block = {sum: (v.wish - offset) * v.weight, weight: v.weight, from: p, to: p};
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight > block.sum / block.weight) {
      const last = blocks.pop();
      block = {sum: last.sum + block.sum, weight: last.weight + block.weight, from: last.from, to: p};
    }
    blocks.push(block);
  });
  for (const b of blocks) for (let p = b.from; p <= b.to; p++) g.v[row[p]].x = b.sum / b.weight + g.v[row[p]].offset;
}

function placeRanks(g) {
  for (const row of g.rows) {
    let x = 0;
    for (const k of row) { const v = g.v[k]; v.x = x + v.w / 2; x += v.w + (v.id < 0 ? 4 : GAP_X); }
    for (const k of row) g.v[k].x -= x / 2;
  }
  const pull = (row, near) => {
    for (const k of row) {
      const v = g.v[k], others = near(v);
      let sum = 0, weight = 0;
      for (const u of others) { const w = v.id < 0 && g.v[u].id < 0 ? 4 : v.id < 0 || g.v[u].id < 0 ? 1.5 : 1; sum += g.v[u].x * w; weight += w; }
      v.wish = weight ? sum / weight : v.x;
      v.weight = weight ? (v.id < 0 ? 2 : 1) : 0.05;
    }
    settleRow(g, row);
  };
  for (let sweep = 0; sweep < 10; sweep++) {
    if (sweep % 2 == 0) for (let r = 1; r < g.ranks; r++) pull(g.rows[r], v => v.up);
    else for (let r = g.ranks - 2; r >= 0; r--) pull(g.rows[r], v => v.down);
  }
  for (let r = 0; r < g.ranks; r++) pull(g.rows[r], v => v.up.concat(v.down));
}

function placeRows(g) {
  let y = 0;
  g.rows.forEach((row, r) => {
    const tallest = Math.max(...row.map(k => g.v[k].h));
    for (const k of row) g.v[k].y = y + tallest / 2;
    row.top = y;
    row.bottom = y + tallest;
    const edges = row.reduce((n, k) => n + g.v[k].down.length, 0);
    y += tallest + GAP_Y + Math.min(30, edges * 0.5);
  });
  return g.rows[g.rows.length - 1].bottom;
}

// Edges end beside each other at a node, in the order in which they come.
function routeEdges(g) {
  const ins = g.v.map(() => []);
  for (const e of g.e) { e.last = e.via.length ? e.via[e.via.length - 1] : e.a; ins[e.b].push(e); }
  ins.forEach((list, b) => {
    list.sort((x, y) => g.v[x.last].x - g.v[y.last].x);
    const room = Math.min(g.v[b].w * 0.6, list.length * 16);
    list.forEach((e, k) => { e.end = g.v[b].x + (list.length > 1 ? room * ((k + 0.5) / list.length - 0.5) : 0); });
  });
  for (const e of g.e) {
    const a = g.v[e.a], b = g.v[e.b], points = [a.x, a.y + a.h / 2];
    for (const k of e.via) points.push(g.v[k].x, g.rows[g.v[k].rank].top, g.v[k].x, g.rows[g.v[k].rank].bottom);
    points.push(e.end, b.y - b.h / 2);
    e.edge.points = points;
    e.edge.turned = e.turned;
  }
}

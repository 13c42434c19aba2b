'use strict';
// The page of a run: where the time goes, a timeline to zoom and drag, exchanges by kind and line, the longest steps.
const data = JSON.parse(document.getElementById('data').textContent);
const colors = ['#3b7dd8', '#e0803a', '#4aa564', '#b3589e', '#c9a227', '#5aa7b5', '#8a6fd1', '#c2545b', '#7f8c8d'];
const names = [...new Set(data.steps.map(s => data.words[s[4]]))];
const color = name => colors[names.indexOf(name) % colors.length];
const time = s => s >= 1 ? s.toPrecision(4) + ' s' : s >= 1e-3 ? (s * 1e3).toPrecision(4) + ' ms' : (s * 1e6).toPrecision(4) + ' \u00b5s';
const bytes = b => b >= 1e9 ? (b / 1e9).toPrecision(4) + ' GB' : b >= 1e6 ? (b / 1e6).toPrecision(4) + ' MB' : (b / 1e3).toPrecision(4) + ' kB';
const add = (parent, tag, text, name) => {
  const e = parent.appendChild(document.createElement(tag));
  if (text !== undefined) e.textContent = text;
  if (name) e.className = name;
  return e;
};
const body = document.body;
add(body, 'h1', data.program);
add(body, 'p', `${data.devices} devices of ${data.system} (${data.about}), simulated as ${data.classes}; one run takes ${time(data.seconds)}`);

const shares = [['computing', data.compute, colors[0]]];
for (const k of data.kinds) shares.push(['waiting for ' + k[0], k[3], color(k[0])]);
const bar = add(body, 'div', undefined, 'bar'), key = add(body, 'div', undefined, 'key');
for (const [name, seconds, c] of shares) {
  if (!(seconds > 0)) continue;
  const part = add(bar, 'div');
  part.style.cssText = `flex:${seconds};background:${c}`;
  part.title = `${name}: ${time(seconds)}`;
  const entry = add(key, 'span');
  add(entry, 'i').style.background = c;
  entry.append(`${name} ${time(seconds)} (${(100 * seconds / data.seconds).toFixed(1)}%)`);
}

const table = (title, heads, rows) => {
  if (!rows.length) return;
  add(body, 'h2', title);
  const t = add(body, 'table'), head = add(t, 'tr');
  for (const h of heads) add(head, 'th', h.replace('>', ''), h[0] === '>' ? 'n' : '');
  for (const row of rows) {
    const tr = add(t, 'tr');
    row.forEach((cell, k) => add(tr, 'td', cell, heads[k][0] === '>' ? 'n' : ''));
  }
};

add(body, 'h2', 'Timeline');
add(body, 'p', 'One device; the wheel zooms, dragging moves. What runs beside the device is below it, memory at the bottom.');
const canvas = add(body, 'canvas'), tip = add(body, 'div'), g = canvas.getContext('2d');
tip.id = 'tip';
let from = 0, to = data.seconds;
const rows = 5, high = 30, at = x => from + (to - from) * x / canvas.clientWidth, x = t => (t - from) / (to - from) * canvas.clientWidth;
const draw = () => {
  const w = canvas.clientWidth, ratio = devicePixelRatio || 1;
  canvas.width = w * ratio; canvas.height = rows * high * ratio; canvas.style.height = rows * high + 'px';
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, rows * high);
  for (const s of data.steps) {
    if (s[1] < from || s[0] > to) continue;
    g.fillStyle = color(data.words[s[4]]);
    g.fillRect(x(s[0]), s[2] * high + 3, Math.max(x(s[1]) - x(s[0]) - 0.5, 0.5), high - 6);
  }
  const most = Math.max(1, ...data.memory.map(m => m[1]));
  g.fillStyle = '#8a6fd1';
  data.memory.forEach((m, k) => {
    const end = k + 1 < data.memory.length ? data.memory[k + 1][0] : data.seconds;
    const h = (high - 4) * m[1] / most;
    g.fillRect(x(m[0]), rows * high - h, Math.max(x(end) - x(m[0]), 0.5), h);
  });
};
const find = (px, py) => data.steps.find(s => s[2] === Math.floor(py / high) && x(s[0]) <= px && px <= Math.max(x(s[1]), x(s[0]) + 1));
canvas.addEventListener('wheel', e => {
  e.preventDefault();
  const t = at(e.offsetX), f = Math.exp(e.deltaY / 400);
  from = Math.max(0, t - (t - from) * f); to = Math.min(data.seconds, t + (to - t) * f);
  draw();
}, {passive: false});
canvas.addEventListener('pointermove', e => {
  if (e.buttons) {
    const d = Math.max(-from, Math.min(data.seconds - to, -e.movementX * (to - from) / canvas.clientWidth));
    from += d; to += d;
    draw();
  }
  const s = find(e.offsetX, e.offsetY);
  tip.textContent = s ? `${s[3]}: ${data.words[s[4]]}, ${time(s[1] - s[0])} from ${time(s[0])}` : '';
});
addEventListener('resize', draw);
draw();

table('Exchanges', ['kind', '>times', '>bytes', '>takes', '>exposed', '>waiting for others'],
  data.kinds.map(k => [k[0], k[1], bytes(k[2]), time(k[5]), time(k[3]), time(k[4])]));
table('By source line', ['line', '>times', '>bytes', '>takes', '>exposed'],
  data.lines.map(k => [k[0], k[1], bytes(k[2]), time(k[4]), time(k[3])]));
table('Longest steps', ['step', 'what', '>time', '>share'],
  data.longest.map(k => [k[0], k[1], time(k[2]), (100 * k[2] / data.seconds).toFixed(1) + '%']));
table('What if', ['change', '>time', '>faster'], data.whatif.map(k => [k[0], time(k[1]), (data.seconds / k[1]).toFixed(3)]));
document.documentElement.dataset.ready = 'yes';

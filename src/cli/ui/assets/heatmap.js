// The nodes as squares, by zone or pool.

import { address, amount, count, el, percent } from './dom.js';

const STEPS = 6;

/** What the colour of a node shows: a share from 0 to 1. */
export function colourings(nodes) {
  const names = new Set(nodes.flatMap((node) => Object.keys(node.resources)));
  const share = (name) => (node) => percent(...(node.resources[name] ?? [0, 0]));
  const all = [
    ['most', 'most requested of CPU and memory', (node) => Math.max(share('cpu')(node), share('memory')(node))],
    ['cpu', 'CPU requested', share('cpu')],
    ['memory', 'memory requested', share('memory')],
    ['pods', 'pods', (node) => percent(...node.pods)],
    ['fragmented', 'fragmented: one of CPU and memory free, the other requested',
      (node) => Math.abs(share('cpu')(node) - share('memory')(node))],
  ];
  names.delete('cpu');
  names.delete('memory');
  for (const name of [...names].sort()) {
    const has = (node) => (node.resources[name]?.[1] ?? 0) > 0;
    all.push([name, `${name} requested`, (node) => (has(node) ? share(name)(node) : null)]);
  }
  return all.map(([key, title, value]) => ({ key, title, value }));
}

export function tipOf(node) {
  const lines = Object.entries(node.resources).map(([name, [requested, all]]) =>
    el('div', {}, `${name}: ${amount(name, requested)} of ${amount(name, all)} (${Math.round(percent(requested, all) * 100)} %)`));
  return [el('b', {}, node.name), node.unschedulable ? el('span', { class: 'bad' }, ' cordoned') : null,
    el('div', { class: 'faint' }, [node.zone, node.pool].filter(Boolean).join(' · ')),
    el('div', {}, `pods: ${node.pods[0]} of ${node.pods[1]}`), lines];
}

/** Draws the map. The canvas takes the focus: arrow keys move, Enter opens a node. `edges` has colours of edges by node. */
export function heatmap(nodes, colouring, group, edges = new Map()) {
  const groups = new Map();
  for (const node of nodes) {
    const key = group === 'none' ? '' : node[group] ?? `no ${group}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(node);
  }
  const sorted = [...groups].sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  const canvas = el('canvas', {
    tabindex: '0', role: 'application',
    'aria-label': `${count(nodes.length, 'node')}; arrow keys move, Enter opens a node`,
  });
  const tip = el('div', { class: 'tip', hidden: true, role: 'status' });
  const frame = el('div', { class: 'map' }, canvas, tip);
  let places = [];
  let selected = -1;
  let columns = 1;

  function draw() {
    const width = frame.clientWidth || 800;
    const size = nodes.length > 8000 ? 7 : nodes.length > 2500 ? 10 : nodes.length > 600 ? 14 : 22;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const shades = Array.from({ length: STEPS + 1 }, (_, step) => colour(`--h${step}`));
    columns = Math.max(1, Math.floor(width / size));
    let y = 0;
    places = [];
    const titles = [];
    for (const [name, members] of sorted) {
      if (name) { titles.push([name, members.length, y + 15]); y += 22; }
      members.forEach((node, index) => places.push({ node, x: (index % columns) * size, y: y + Math.floor(index / columns) * size }));
      y += Math.ceil(members.length / columns) * size + 8;
    }
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = y * ratio;
    canvas.style.height = `${y}px`;
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.font = '13px system-ui, sans-serif';
    context.fillStyle = colour('--faint');
    for (const [name, members, at] of titles) context.fillText(`${name}  (${count(members, 'node')})`, 0, at);
    const gap = size > 8 ? 2 : 1;
    places.forEach(({ node, x, y: top }, index) => {
      const value = colouring.value(node);
      context.fillStyle = value === null ? colour('--panel') : shades[value >= 0.995 ? STEPS : Math.min(STEPS - 1, Math.floor(value * STEPS))];
      context.fillRect(x, top, size - gap, size - gap);
      if (node.unschedulable) {
        context.strokeStyle = colour('--bad');
        context.strokeRect(x + 0.5, top + 0.5, size - gap - 1, size - gap - 1);
      }
      if (edges.has(node.name)) {
        context.strokeStyle = colour(edges.get(node.name));
        context.lineWidth = size > 8 ? 2 : 1;
        context.strokeRect(x + 1, top + 1, size - gap - 2, size - gap - 2);
        context.lineWidth = 1;
      }
      if (index === selected) {
        context.strokeStyle = colour('--text');
        context.lineWidth = 2;
        context.strokeRect(x, top, size - gap, size - gap);
        context.lineWidth = 1;
      }
    });
    frame.cell = size;
  }

  function at(event) {
    const { left, top } = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return places.findIndex((own) => x >= own.x && x < own.x + frame.cell && y >= own.y && y < own.y + frame.cell);
  }

  function select(index) {
    selected = index;
    draw();
    tip.hidden = index < 0;
    if (index < 0) return;
    const { node, x, y } = places[index];
    tip.replaceChildren(...[tipOf(node)].flat(Infinity).filter(Boolean));
    tip.style.left = `${Math.max(0, Math.min(x + frame.cell + 4, frame.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${y + frame.cell + 4}px`;
  }

  const open = (index) => { if (index >= 0) location.hash = address(['node', places[index].node.name]); };
  canvas.addEventListener('mousemove', (event) => { const own = at(event); if (own !== selected) select(own); });
  canvas.addEventListener('mouseleave', () => select(-1));
  canvas.addEventListener('blur', () => select(-1));
  canvas.addEventListener('click', (event) => open(at(event)));
  canvas.addEventListener('keydown', (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -Infinity, End: Infinity };
    if (event.key === 'Enter') return open(selected);
    if (!(event.key in moves)) return null;
    event.preventDefault();
    return select(Math.max(0, Math.min(places.length - 1, (selected < 0 ? 0 : selected + moves[event.key]))));
  });
  new ResizeObserver(() => draw()).observe(frame);
  return frame;
}

export function legend() {
  const title = (step) => (step === STEPS ? 'full' : `${Math.round((step / STEPS) * 100)} %`);
  return el('div', { class: 'legend' }, Array.from({ length: STEPS + 1 }, (_, step) =>
    el('span', {}, el('span', { class: 'swatch', style: { background: `var(--h${step})` } }), title(step))),
    el('span', {}, el('span', { class: 'swatch', style: { outline: '1px solid var(--bad)' } }), 'cordoned'));
}

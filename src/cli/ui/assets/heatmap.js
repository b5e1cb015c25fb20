// The nodes as squares, by zone or pool.

import { address, amount, count, el, percent } from './dom.js';

const STEPS = 6;
const FONT = '13px system-ui, sans-serif';

/** The resource of which the largest share of a node is requested, and that share. Pods count, too: nodes have a limit. */
export function scarcest(node) {
  const shares = Object.entries(node.resources).filter(([, [, all]]) => all > 0)
    .map(([name, [requested, all]]) => [name, percent(requested, all)]);
  shares.push(['pods', percent(...node.pods)]);
  return shares.reduce((most, own) => (own[1] > most[1] ? own : most));
}

/** What the colour of a node shows: a share from 0 to 1. */
export function colourings(nodes) {
  const names = new Set(nodes.flatMap((node) => Object.keys(node.resources)));
  const share = (name) => (node) => percent(...(node.resources[name] ?? [0, 0]));
  const all = [
    ['scarcest', 'scarcest resource of each node', (node) => scarcest(node)[1]],
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
  const [most] = scarcest(node);
  const lines = Object.entries(node.resources).map(([name, [requested, all]]) =>
    el('div', { class: name === most ? 'most' : null }, `${name}: ${amount(name, requested)} of ${amount(name, all)} (${Math.round(percent(requested, all) * 100)} %)`));
  return [el('b', {}, node.name), node.unschedulable ? el('span', { class: 'bad' }, ' cordoned') : null,
    el('div', { class: 'faint' }, [node.label, node.zone, node.pool].filter(Boolean).join(' · ')),
    el('div', {}, `pods: ${node.pods[0]} of ${node.pods[1]}`), lines];
}

/** Draws the map. The canvas takes the focus: arrow keys move, Enter opens a node. `edges` has colours of edges by node. */
export function heatmap(nodes, colouring, group, edges = new Map()) {
  const groups = new Map();
  for (const node of nodes) {
    const own = group.startsWith('label:') ? node.label : node[group];
    const key = group === 'none' ? '' : own ?? `no ${group.replace('label:', '')}`;
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

  function draw() {
    const width = frame.clientWidth || 800;
    const size = nodes.length > 8000 ? 7 : nodes.length > 2500 ? 10 : nodes.length > 600 ? 14 : nodes.length > 150 ? 22 : 28;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const shades = Array.from({ length: STEPS + 1 }, (_, step) => colour(`--h${step}`));
    const context = canvas.getContext('2d');
    context.font = FONT;
    const columns = Math.max(1, Math.floor(width / size));
    let [x, y, lowest] = [0, 0, 0];
    places = [];
    const titles = [];
    // Small groups share a line.
    for (const [name, members] of sorted) {
      const title = name ? `${name}  (${count(members.length, 'node')})` : '';
      const across = members.length > columns / 2 ? columns : members.length;
      const needed = Math.max(across * size, Math.ceil(context.measureText(title).width));
      if (x > 0 && x + needed > width) [x, y] = [0, lowest];
      const top = y + (title ? 22 : 0);
      if (title) titles.push([title, x, y + 15]);
      members.forEach((node, index) => places.push({ node, x: x + (index % across) * size, y: top + Math.floor(index / across) * size }));
      lowest = Math.max(lowest, top + Math.ceil(members.length / across) * size + 8);
      x += needed + 24;
    }
    y = lowest;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = y * ratio;
    canvas.style.height = `${y}px`;
    context.scale(ratio, ratio);
    context.font = FONT;
    context.fillStyle = colour('--faint');
    for (const [title, left, at] of titles) context.fillText(title, left, at);
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

  /** The nearest node on the next line below (1) or above (-1). */
  function beside(direction) {
    const { x, y } = places[selected];
    const distance = (own) => Math.abs(own.y - y) * 4096 + Math.abs(own.x - x);
    const others = places.map((own, index) => [own, index]).filter(([own]) => (own.y - y) * direction > 0);
    return others.reduce((best, own) => (best && distance(best[0]) <= distance(own[0]) ? best : own), null)?.[1] ?? selected;
  }

  const open = (index) => { if (index >= 0) location.hash = address(['node', places[index].node.name]); };
  canvas.addEventListener('mousemove', (event) => { const own = at(event); if (own !== selected) select(own); });
  canvas.addEventListener('mouseleave', () => select(-1));
  canvas.addEventListener('blur', () => select(-1));
  canvas.addEventListener('click', (event) => open(at(event)));
  canvas.addEventListener('keydown', (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (event.key === 'Enter') return open(selected);
    if (!(event.key in moves) && event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return null;
    event.preventDefault();
    if (selected < 0) return select(0);
    if (event.key in moves) return select(Math.max(0, Math.min(places.length - 1, selected + moves[event.key])));
    return select(beside(event.key === 'ArrowDown' ? 1 : -1));
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

// The stream of decisions of a running scheduler. It is closed while the page is hidden.

import { duration, el, nodeLink, podLink } from './dom.js';

const KEPT = 12;
const kept = [];
let body = null;
let stream = null;

/** What an attempt found, in words. */
function finding({ outcome, node, nominated, rejections, message }) {
  if (outcome === 'chosen') return ['on ', nodeLink(node)];
  const why = rejections.map((own) => `${own.count} ${own.reasons.join(', ')}`).join('; ') || message || outcome;
  return [el('span', { class: 'bad' }, outcome === 'failed' ? 'failed' : 'no node'), `: ${why}`, nominated ? [', nominated to ', nodeLink(nominated)] : null];
}

function draw() {
  if (!body) return;
  const now = Date.now();
  body.replaceChildren(...kept.map(({ at, decision: { namespace, name, attempt } }) => el('li', {},
    el('span', { class: 'faint' }, `${duration(Math.max(0, Math.round((now - at) / 1000)))} ago `),
    podLink(`${namespace}/${name}`), ' ', finding(attempt))));
}

/** The latest decisions, while there is a stream. */
export function latest() {
  if (!stream) return null;
  body = el('ul', { class: 'decisions' });
  draw();
  return [el('h2', {}, 'Latest decisions'), kept.length ? null : el('p', { class: 'faint' }, 'None since the page was opened.'), body];
}

function take(event, changed) {
  const now = Date.now();
  for (const decision of JSON.parse(event.data).decisions) kept.unshift({ at: now - decision.attempt.secondsAgo * 1000, decision });
  kept.length = Math.min(kept.length, KEPT);
  draw();
  changed();
}

/** Follows the decisions. `changed` is called after new ones, `told` with what the scheduler says of its stream. */
export function follow(changed, told) {
  const open = () => {
    stream = new EventSource('/decisions');
    stream.addEventListener('open', () => told('live'));
    stream.addEventListener('decisions', (event) => { told('live'); take(event, changed); });
    stream.addEventListener('trouble', (event) => told(event.data));
    stream.addEventListener('error', () => told('The connection is lost; it is tried again.'));
  };
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { stream?.close(); stream = null; told('paused'); } else if (!stream) { open(); changed(); }
  });
  if (!document.hidden) open();
  setInterval(() => { if (!document.hidden) draw(); }, 5000);
}

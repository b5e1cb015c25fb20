// Shows the view that the address names.

import { follow } from './decisions.js';
import { el, place } from './dom.js';
import { groups, podGroups, pods } from './lists.js';
import { quotas } from './quotas.js';
import { complete } from './search.js';
import * as views from './views.js';
import { whatIf } from './whatif.js';

const main = document.getElementById('main');
const routes = { '': views.cluster, nodes: views.nodes, pods, groups, node: views.node, pod: views.pod, group: views.group, podgroups: podGroups, podgroup: views.podGroup, quotas, whatif: whatIf };
/** Views that are shown again by themselves. */
const followed = ['', 'pod', 'group', 'podgroup', 'node', 'quotas'];
let asked = 0;

async function ask(path) {
  const response = await fetch(`/explain/${path}`);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.message ?? `The page got no answer (status ${response.status}).`);
  return answer;
}

/** Shows the view. `quiet` keeps what is shown until the answer is there, and on an error. */
async function show(quiet = false) {
  const { parts: [view = '', ...names], query } = place();
  const own = ++asked;
  const shown = (title, content) => {
    if (own !== asked) return;
    document.title = title === 'Cluster' ? 'Loadmaster' : `${title} · Loadmaster`;
    main.replaceChildren(el('h1', {}, title), ...el('div', {}, content).childNodes);
    main.dataset.ready = view || 'cluster';
  };
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#/${view}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (!quiet) delete main.dataset.ready;
  const busy = quiet ? null : setTimeout(() => { if (own === asked) main.replaceChildren(el('p', { class: 'busy' }, 'Asking')); }, 150);
  try {
    const route = routes[view];
    if (!route || route.length > 2 + names.length) throw new Error('There is no such view.');
    shown(...await route(ask, query, ...names));
  } catch (error) {
    if (!quiet) shown('No answer', [el('p', { class: 'error' }, error.message),
      el('p', { class: 'faint' }, 'The search field takes namespace/pod, node NAME, group NAMESPACE/NAME or podgroup NAMESPACE/NAME. ',
        el('a', { href: '#/' }, 'The cluster'), ' lists pending pods by cause.')]);
  } finally {
    clearTimeout(busy);
  }
}

const question = document.getElementById('question');
complete(document.getElementById('search'), question, ask);
document.getElementById('reload').addEventListener('click', () => show());
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === '/') { event.preventDefault(); question.focus(); }
  if (event.key === 'r') show();
});
window.addEventListener('hashchange', () => { show(); main.focus({ preventScroll: true }); window.scrollTo(0, 0); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show());

/** Whether a person is at work in the view, which would be lost. */
const isBusy = () => main.contains(document.activeElement) && document.activeElement !== main && /^(INPUT|SELECT|TEXTAREA|CANVAS)$/.test(document.activeElement.tagName);

let due = 0;
let timer = null;

/** Shows the view again after decisions: not more often than every five seconds, and than a tenth of the time is spent on. */
function refresh() {
  if (timer !== null) return;
  timer = setTimeout(async () => {
    timer = null;
    if (document.hidden) return;
    const began = performance.now();
    const { parts: [view = ''] } = place();
    if (followed.includes(view) && !isBusy()) await show(true);
    due = performance.now() + Math.max(5000, 10 * (performance.now() - began));
  }, Math.max(0, due - performance.now()));
}

/** Says whether the page follows the scheduler. */
function told(state) {
  const chip = document.getElementById('live');
  chip.hidden = false;
  chip.className = state === 'live' ? 'live' : 'faint';
  chip.textContent = state === 'live' || state === 'paused' ? state : 'no answer';
  chip.title = state === 'live' ? 'The page follows the decisions of the scheduler' : state;
}

/** Shows the moment of the recording that the answers are about. */
function showMoment({ seconds, at, time }) {
  const slider = document.getElementById('at');
  slider.max = seconds;
  slider.value = at;
  slider.setAttribute('aria-valuetext', time);
  document.getElementById('time').textContent = time;
  document.getElementById('moment').hidden = false;
}

async function moveTo(seconds) {
  history.replaceState(null, '', `?at=${seconds}${location.hash}`);
  delete main.dataset.ready;
  showMoment(await ask(`moment?seconds=${seconds}`));
}

document.getElementById('moment').addEventListener('submit', (event) => event.preventDefault());
document.getElementById('at').addEventListener('change', (event) => moveTo(event.target.value).then(() => show()));

const { source, moment, live } = await (await fetch('/source')).json();
document.getElementById('source').textContent = source;
document.getElementById('source').title = source;
if (moment) {
  showMoment(moment);
  const at = new URLSearchParams(location.search).get('at');
  if (at !== null && at !== String(moment.at)) await moveTo(at).catch(() => {});
}
if (live) {
  due = performance.now() + 5000;
  follow(refresh, told);
}
show();

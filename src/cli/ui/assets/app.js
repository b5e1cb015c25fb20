// Shows the view that the address names.

import { address, el, place } from './dom.js';
import * as views from './views.js';
import { whatIf } from './whatif.js';

const main = document.getElementById('main');
const routes = { '': views.cluster, nodes: views.nodes, node: views.node, pod: views.pod, group: views.group, whatif: whatIf };
let asked = 0;

async function ask(path) {
  const response = await fetch(`/explain/${path}`);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.message ?? `The page got no answer (status ${response.status}).`);
  return answer;
}

async function show() {
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
  delete main.dataset.ready;
  const busy = setTimeout(() => { if (own === asked) main.replaceChildren(el('p', { class: 'busy' }, 'Asking')); }, 150);
  try {
    const route = routes[view];
    if (!route || route.length > 2 + names.length) throw new Error('There is no such view.');
    shown(...await route(ask, query, ...names));
  } catch (error) {
    shown('No answer', [el('p', { class: 'error' }, error.message),
      el('p', { class: 'faint' }, 'The search field takes namespace/pod, node NAME or group NAMESPACE/NAME. ',
        el('a', { href: '#/' }, 'The cluster'), ' lists pending pods by cause.')]);
  } finally {
    clearTimeout(busy);
  }
}

/** Opens what the words of the search field name. */
function search(words) {
  const [first = '', second] = words.trim().split(/\s+/);
  const pair = (text) => (text.includes('/') ? text.split(/\/(.*)/).slice(0, 2) : ['default', text]);
  if (first === 'node' && second) return address(['node', second]);
  if (first === 'group' && second) return address(['group', ...pair(second)]);
  if (first === 'pod' && second) return address(['pod', ...pair(second)]);
  return address(['pod', ...pair(first)]);
}

const question = document.getElementById('question');
document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  if (question.value.trim()) location.hash = search(question.value);
});
document.getElementById('reload').addEventListener('click', show);
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === '/') { event.preventDefault(); question.focus(); }
  if (event.key === 'r') show();
});
window.addEventListener('hashchange', () => { show(); main.focus({ preventScroll: true }); window.scrollTo(0, 0); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);

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
document.getElementById('at').addEventListener('change', (event) => moveTo(event.target.value).then(show));

const { source, moment } = await (await fetch('/source')).json();
document.getElementById('source').textContent = source;
document.getElementById('source').title = source;
if (moment) {
  showMoment(moment);
  const at = new URLSearchParams(location.search).get('at');
  if (at !== null && at !== String(moment.at)) await moveTo(at).catch(() => {});
}
show();

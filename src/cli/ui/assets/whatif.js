// A change that is tried: what moves, waits or is evicted, and the nodes without and with it.

import { count, el, nodeLink, percent, place, podLink, setParameters } from './dom.js';
import { colourings, heatmap, legend } from './heatmap.js';
import { table } from './table.js';

const KEPT = 'whatif';
const HEAD = 'apiVersion: whatif.loadmaster.io/v1\nkind: Changes\n';
const EXAMPLES = [
  ['Drain', `${HEAD}drain: [NODE]\n`],
  ['Add nodes', `${HEAD}addNodes:\n- {like: NODE, count: 3}\n`],
  ['Upgrade', `${HEAD}upgrade:             # one node after the other\n- {nodes: [NODE]}\n`],
  ['Scale', `${HEAD}scale:\n- {kind: Deployment, namespace: default, name: NAME, replicas: 5}\n`],
  ['Taint', `${HEAD}taint:\n- {nodes: [NODE], taint: "team=ml:NoSchedule"}\n`],
  ['Pods', `apiVersion: v1\nkind: Pod\nmetadata: {name: try, namespace: default}\nspec:\n  containers:\n  - name: main
    image: registry.example.com/main:1\n    resources: {requests: {cpu: "1", memory: 1Gi}}\n`],
];

const text = (title, value, link) => ({ title, value, cell: (row) => (link ? link(row) : value(row) ?? '') });
const number = (title, value) => ({ title, value, number: true, cell: (row) => value(row).toLocaleString('en') });
const name = (pod) => `${pod.namespace}/${pod.name}`;
const tile = (value, title, kind) => el('div', { class: 'tile' }, el('b', { class: value ? kind : null }, value.toLocaleString('en')), el('span', {}, title));
const words = (cause) => cause.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

async function attempt(change) {
  const response = await fetch('/whatif', { method: 'POST', body: change, headers: { 'Content-Type': 'application/yaml' } });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.message ?? `The page got no answer (status ${response.status}).`);
  return answer;
}

/** Rows as the map of the cluster has them: milli-CPU instead of cores. */
function rows(nodes) {
  return nodes.map(({ name: own, zone, pool, unschedulable, resources }) => {
    const amounts = Object.entries(resources).filter(([resource]) => resource !== 'pods').map(([resource, { requested, allocatable }]) => {
      const unit = resource === 'cpu' ? 1000 : 1;
      return [resource, [requested * unit, allocatable * unit]];
    });
    const pods = resources.pods ?? { requested: 0, allocatable: 0 };
    return { name: own, zone: zone || null, pool: pool || null, unschedulable, pods: [pods.requested, pods.allocatable], resources: Object.fromEntries(amounts) };
  });
}

/** The colours of the edges of nodes that the change adds, removes or fills differently. */
function edges(own, others, only) {
  const known = new Map(others.map((node) => [node.name, node]));
  const differs = (node, other) => JSON.stringify([node.pods, node.resources]) !== JSON.stringify([other.pods, other.resources]);
  return new Map(own.flatMap((node) => {
    const other = known.get(node.name);
    if (!other) return [[node.name, only]];
    return differs(node, other) ? [[node.name, '--c1']] : [];
  }));
}

function maps(nodes) {
  const sides = [rows(nodes.before), rows(nodes.after)];
  const ways = colourings(sides.flat());
  const own = { color: place().query.get('color') ?? 'scarcest', group: place().query.get('group') ?? 'zone' };
  const frames = [el('div'), el('div')];
  const marks = [edges(sides[0], sides[1], '--bad'), edges(sides[1], sides[0], '--good')];
  const show = () => {
    const way = ways.find(({ key }) => key === own.color) ?? ways[0];
    frames.forEach((frame, side) => frame.replaceChildren(heatmap(sides[side], way, own.group, marks[side])));
  };
  const choice = (key, title, options) => el('label', {}, `${title} `, el('select', {
    onchange: (event) => { own[key] = event.target.value; setParameters(own); show(); },
  }, options.map(([value, label]) => el('option', { value, selected: own[key] === value }, label))));
  show();
  const edge = (colour, title) => el('span', {}, el('span', { class: 'swatch', style: { outline: `2px solid var(${colour})`, 'outline-offset': '-2px' } }), title);
  return [
    el('h2', {}, 'Nodes without and with the change'),
    el('div', { class: 'controls' },
      choice('color', 'Colour:', ways.map(({ key, title }) => [key, title])),
      choice('group', 'Group by:', [['zone', 'zone'], ['pool', 'pool'], ['none', 'nothing']])),
    el('div', { class: 'controls' }, legend(),
      el('div', { class: 'legend' }, edge('--c1', 'other pods'), edge('--good', 'added'), edge('--bad', 'removed'))),
    el('div', { class: 'sides' },
      el('div', {}, el('h3', {}, `Without: ${count(sides[0].length, 'node')}`), frames[0]),
      el('div', {}, el('h3', {}, `With: ${count(sides[1].length, 'node')}`), frames[1])),
  ];
}

function list(title, columns, found, kind) {
  return found.length > 0 && [el('h2', { class: kind }, `${title} (${found.length.toLocaleString('en')})`), table(columns, found, { virtual: found.length > 200 })];
}

function utilisation({ before, after }) {
  const share = (side) => (resource) => side[resource]?.percent ?? null;
  const shown = (value) => (value === null ? '–' : `${value.toFixed(1)} %`);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const column = (title, side) => ({ title, value: (resource) => share(side)(resource) ?? 0, number: true, cell: (resource) => shown(share(side)(resource)) });
  return [el('h2', {}, 'Requested of allocatable'), table([text('Resource', (resource) => resource), column('Without', before), column('With', after)], names)];
}

const pod = text('Pod', name, (row) => podLink(name(row)));
const newPod = text('Pod', name, (row) => (row.isNew ? name(row) : podLink(name(row))));
const node = (title, key) => text(title, (row) => row[key] ?? '', (row) => (row[key] ? nodeLink(row[key]) : 'new'));

function result(answer) {
  const { summary: all } = answer;
  const isQuiet = ![all.moved, all.placed, all.pending, all.evicted, all.scaledDown, all.lost].some(Boolean);
  return [
    el('div', { class: 'tiles' },
      tile(all.moved, 'move'), tile(all.placed, 'get a node', 'good'), tile(all.pending, 'pending', 'bad'),
      tile(all.evicted, 'evicted', 'bad'), tile(all.lost, 'lost', 'bad'),
      all.scaledDown > 0 && tile(all.scaledDown, 'removed by scaling'),
      all.waitingForUpgrade > 0 && tile(all.waitingForUpgrade, 'wait during the upgrade', 'bad'),
      tile(all.running.after, `pods with a node, ${all.running.before.toLocaleString('en')} without the change`)),
    isQuiet && el('p', { class: 'good' }, 'No pod moves, and none is left without a node.'),
    answer.warnings.map((warning) => el('p', { class: 'faint' }, warning)),
    list('Pending because of the change', [newPod, node('Was on', 'from'), text('Why', (row) => row.reason), number('Priority', (row) => row.priority)], answer.pending, 'bad'),
    list('Evicted because of the change', [newPod, node('Node', 'node'), text('For', (row) => row.preemptor), number('Priority', (row) => row.priority)], answer.evicted, 'bad'),
    list('Lost: no controller makes them again', [pod, node('Node', 'node'), text('Cause', (row) => words(row.cause))], answer.lost, 'bad'),
    list('PodDisruptionBudgets that hold this up', [text('Budget', name), number('Disruptions allowed', (row) => row.allowed), number('Pods that leave at once', (row) => row.leaving)], answer.budgets, 'bad'),
    answer.nodes && maps(answer.nodes),
    list('Moved', [pod, node('From', 'from'), text('To', (row) => row.to, (row) => nodeLink(row.to)), text('Cause', (row) => words(row.cause))], answer.moved),
    list('Placed because of the change', [newPod, text('Node', (row) => row.node, (row) => nodeLink(row.node)), text('Before', (row) => (row.isNew ? 'new' : 'no node'))], answer.placed),
    list('Removed by workloads with fewer replicas', [pod, text('Node', (row) => row.node ?? '', (row) => (row.node ? nodeLink(row.node) : ''))], answer.scaledDown),
    list('Upgrade, node by node', [text('Node', (row) => row.node, (row) => nodeLink(row.node)), number('Pods that leave', (row) => row.displaced), text('Without a node meanwhile', (row) => row.waiting.join(', '))], answer.upgrade),
    utilisation(answer.utilisation),
  ];
}

export async function whatIf(_, query) {
  const drain = query.get('drain');
  const field = el('textarea', { rows: 8, spellcheck: 'false', 'aria-label': 'The change, in YAML', placeholder: 'Paste YAML, or drop files here' });
  field.value = drain ? EXAMPLES[0][1].replace('NODE', JSON.stringify(drain)) : sessionStorage.getItem(KEPT) ?? '';
  const shown = el('div', { 'aria-live': 'polite' });
  const button = el('button', { type: 'submit', class: 'main', title: 'Ctrl+Enter' }, 'Try it');
  const submit = async (event) => {
    event?.preventDefault();
    if (!field.value.trim()) { field.focus(); return; }
    sessionStorage.setItem(KEPT, field.value);
    button.disabled = true;
    shown.replaceChildren(el('p', { class: 'busy' }, 'Trying'));
    try {
      const answer = await attempt(field.value);
      shown.replaceChildren(...el('div', {}, result(answer)).childNodes);
    } catch (error) {
      shown.replaceChildren(el('pre', { class: 'error' }, error.message));
    } finally {
      button.disabled = false;
    }
  };
  const take = async (files) => {
    const texts = await Promise.all([...files].map((file) => file.text()));
    if (texts.length > 0) field.value = texts.join('\n---\n');
  };
  const files = el('input', { type: 'file', multiple: true, accept: '.yaml,.yml,.json', class: 'hidden', id: 'files', onchange: (event) => take(event.target.files) });
  const form = el('form', {
    class: 'change', onsubmit: submit,
    ondragover: (event) => { event.preventDefault(); form.classList.add('over'); },
    ondragleave: () => form.classList.remove('over'),
    ondrop: (event) => { event.preventDefault(); form.classList.remove('over'); take(event.dataTransfer.files); },
    onkeydown: (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event); },
  },
  field,
  el('div', { class: 'controls' }, button, el('label', { class: 'button', for: 'files' }, 'Open files'), files,
    el('span', { class: 'faint' }, 'Start with:'),
    EXAMPLES.map(([title, example]) => el('button', { type: 'button', class: 'plain', onclick: () => { field.value = example; field.focus(); } }, title))));
  if (drain) await submit();
  return ['What if', [
    el('p', { class: 'faint' }, 'Tries a change on a copy of the cluster: manifests, or a document of kind Changes. Nothing changes in the cluster.'),
    form, shown,
  ]];
}

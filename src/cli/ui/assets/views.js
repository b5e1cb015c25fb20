// The views: cluster, nodes, node, pod, group and PodGroup.

import { latest } from './decisions.js';
import { address, amount, count, duration, el, nodeLink, percent, podGroupState, podLink, quantity, setParameters } from './dom.js';
import { colourings, heatmap, legend } from './heatmap.js';
import { room } from './room.js';
import { table } from './table.js';

const text = (title, value, link) => ({ title, value, cell: (row) => (link ? link(row) : value(row) ?? '') });
const number = (title, value, cell) => ({ title, value, number: true, cell: cell ?? ((row) => value(row).toLocaleString('en')) });
const tile = (value, title, kind) => el('div', { class: 'tile' }, el('b', { class: kind }, value), el('span', {}, title));
/** A tile with the requested share of a resource. */
function share(name, [requested, all], title = name) {
  const part = percent(requested, all);
  return el('div', { class: 'tile' }, el('b', { class: part >= 0.95 ? 'bad' : null }, `${Math.round(part * 100)} %`), el('span', {}, `of ${title} requested`),
    el('div', { class: 'gauge' }, el('i', { style: { width: `${Math.min(100, part * 100)}%` } })),
    el('small', {}, `${amount(name, requested)} of ${amount(name, all)}`));
}
const noted = (notes = []) => notes.map((note) => el('p', { class: 'faint' }, `${note[0].toUpperCase()}${note.slice(1)}.`));
const section = (title, ...children) => [el('h2', {}, title), children];

function causes(rows) {
  return table([
    number('Pods', (row) => row.count),
    text('Cause', (row) => row.cause),
    text('Pods', (row) => row.pods[0] ?? '', (row) => row.pods.slice(0, 4).flatMap((pod, index) => [index ? ', ' : '', podLink(pod)])),
    ...(rows.some((row) => row.help) ? [text('What would help the first', (row) => row.help ?? '')] : []),
  ], rows, { sorted: { column: 0, descending: true } });
}

/** Says how many pending pods the causes leave out. `others` is the number of pods without a cause. */
function unevaluated(isIncomplete, pending, rows, others = 0) {
  if (!isIncomplete) return null;
  const left = pending - others - rows.reduce((all, row) => all + row.count, 0);
  return el('p', { class: 'faint' }, `${left.toLocaleString('en')} of ${count(pending, 'pending pod')} were not evaluated: they are of too many kinds.`);
}

function constraints(rows, what) {
  return table([
    text('Plugin', (row) => row.plugin),
    number(`${what} that it rejects`, (row) => row.rejects),
    number(`${what} that only it rejects`, (row) => row.alone),
  ], rows, { sorted: { column: 2, descending: true } });
}

/** The resources that have a tile beside CPU and memory. */
const BASIC = ['cpu', 'memory', 'ephemeral-storage'];

/** The labels by which nodes can be grouped: those that divide them, and the chosen one. */
function dividing(labels, nodes, chosen) {
  return Object.entries(labels).map(([key, values]) => [`label:${key}`, key, values])
    .filter(([value, , values]) => value === chosen || (values > 1 && values < nodes));
}

export async function cluster(ask, query) {
  const own = { color: query.get('color') ?? 'scarcest', group: query.get('group') ?? 'zone' };
  const listed = () => ask(own.group.startsWith('label:') ? `nodes?label=${encodeURIComponent(own.group.slice(6))}` : 'nodes');
  let [{ nodes, labels = {} }, answer] = await Promise.all([listed(), ask('cluster')]);
  const ways = colourings(nodes);
  const sum = (name) => nodes.reduce(([requested, all], node) => {
    const [of, whole] = node.resources[name] ?? [0, 0];
    return [requested + of, all + whole];
  }, [0, 0]);
  const extended = [...new Set(nodes.flatMap((node) => Object.keys(node.resources)))].sort()
    .map((name) => [name, sum(name)]).filter(([name, [requested, all]]) => !BASIC.includes(name) && (requested || all));
  const map = el('div');
  const show = () => {
    const way = ways.find(({ key }) => key === own.color) ?? ways[0];
    map.replaceChildren(heatmap(nodes, way, own.group));
  };
  const choice = (name, title, options) => el('label', {}, `${title} `, el('select', {
    onchange: async (event) => {
      own[name] = event.target.value;
      setParameters(own);
      if (own.group.startsWith('label:')) ({ nodes } = await listed());
      show();
    },
  }, options.map(([value, label]) => el('option', { value, selected: own[name] === value }, label))));
  show();
  return ['Cluster', [
    el('div', { class: 'tiles' },
      tile(answer.nodes.toLocaleString('en'), 'nodes'),
      tile(answer.placed.toLocaleString('en'), 'pods with a node'),
      el('a', { class: 'tile', href: address(['pods'], { pending: 'true' }) },
        el('b', { class: answer.pending ? 'bad' : 'good' }, answer.pending.toLocaleString('en')), el('span', {}, 'pending pods')),
      share('cpu', sum('cpu'), 'CPU'), share('memory', sum('memory')), extended.map(([name, sums]) => share(name, sums))),
    noted(answer.notes),
    section('Nodes', nodes.length === 0 ? el('p', { class: 'bad' }, 'The cluster has no nodes.') : [
      el('div', { class: 'controls' },
        choice('color', 'Colour:', ways.map(({ key, title }) => [key, title])),
        choice('group', 'Group by:', [['zone', 'zone'], ['pool', 'pool'], ['none', 'nothing'], ...dividing(labels, nodes.length, own.group)]), legend()), map]),
    section('Pending pods by cause', answer.causes.length ? causes(answer.causes) : el('p', { class: 'good' }, 'No pod waits.')),
    unevaluated(answer.isIncomplete, answer.pending, answer.causes),
    latest(),
    answer.stranded.length > 0 && section('Free, and of no use to any pending pod', table([
      text('Resource', (row) => row.resource), text('Free', (row) => quantity(row.resource, row.free)),
      text('Stranded', (row) => quantity(row.resource, row.stranded)), number('Share', (row) => row.percent, (row) => `${row.percent} %`),
    ], answer.stranded, { sorted: { column: 3, descending: true } })),
    answer.constraints.length > 0 && section('What each plugin rejects, summed over the kinds of pending pods',
      constraints(answer.constraints, 'Nodes')),
  ]];
}

export async function nodes(ask, query) {
  const { nodes: all } = await ask('nodes');
  const names = [...new Set(all.flatMap((node) => Object.keys(node.resources)))].filter((name) => name !== 'ephemeral-storage');
  const of = (node, name) => node.resources[name] ?? [0, 0];
  const meter = (requested, whole, label) => [el('meter', { min: 0, max: 1, high: 0.9, value: Math.min(1, percent(requested, whole)), title: label }), ` ${label}`];
  const columns = [
    text('Node', (node) => node.name, (node) => nodeLink(node.name)),
    text('Zone', (node) => node.zone ?? ''), text('Pool', (node) => node.pool ?? ''),
    { ...text('State', (node) => (node.unschedulable ? 'cordoned' : '')), has: (node) => node.unschedulable },
    number('Pods', (node) => node.pods[0], (node) => `${node.pods[0]} / ${node.pods[1]}`),
    ...names.map((name) => {
      const has = (node) => of(node, name).some(Boolean);
      return { ...number(name, (node) => percent(...of(node, name)), (node) => {
        const [requested, whole] = of(node, name);
        return has(node) ? meter(requested, whole, `${amount(name, requested)} / ${amount(name, whole)}`) : '';
      }), has };
    }),
  ];
  const sorted = { column: Number(query.get('sort') ?? 0), descending: query.get('order') === 'descending' };
  const onSort = ({ column, descending }) => setParameters({ sort: String(column), order: descending ? 'descending' : 'ascending' });
  const rows = table(columns, all, { sorted, onSort, virtual: true });
  const shown = el('span', { class: 'faint' });
  const filter = (word) => {
    const parts = word.toLowerCase().split(/\s+/).filter(Boolean);
    const own = all.filter((node) => parts.every((part) => [node.name, node.zone, node.pool, node.unschedulable ? 'cordoned' : '']
      .some((field) => field?.toLowerCase().includes(part))));
    rows.setRows(own);
    shown.textContent = `${own.length.toLocaleString('en')} of ${count(all.length, 'node')}`;
  };
  const input = el('input', { type: 'search', value: query.get('q') ?? '', placeholder: 'name, zone, pool, cordoned', 'aria-label': 'Filter',
    oninput: (event) => { setParameters({ q: event.target.value }); filter(event.target.value); } });
  filter(input.value);
  return ['Nodes', [el('div', { class: 'controls' }, input, shown), rows]];
}

export async function node(ask, _, name) {
  const answer = await ask(`nodes/${encodeURIComponent(name)}`);
  const resources = Object.entries(answer.resources);
  return [`Node ${name}`, [
    el('p', {}, answer.unschedulable ? el('span', { class: 'chip bad' }, 'cordoned') : null,
      answer.taints.map((taint) => el('span', { class: 'chip' }, taint)),
      el('a', { href: address(['whatif'], { drain: name }) }, 'What if it is drained?')),
    el('div', { class: 'tiles' }, tile(`${answer.pods[0]} / ${answer.pods[1]}`, 'pods'),
      resources.map(([resource, [requested, all]]) => tile(`${quantity(resource, requested)} / ${quantity(resource, all)}`, `${resource} requested`))),
    noted(answer.notes),
    section(`Pending pods (${answer.pending})`,
      answer.pending === 0 ? el('p', { class: 'good' }, 'No pod waits.')
        : el('p', {}, `${count(answer.fitting, 'pod')} of ${answer.pending} would fit here now.`),
      answer.rejections.length > 0 && causes(answer.rejections),
      unevaluated(answer.isIncomplete, answer.pending, answer.rejections, answer.fitting)),
    section(`Pods on this node (${answer.placed.length})`, table([
      text('Pod', (pod) => `${pod.namespace}/${pod.name}`, (pod) => podLink(`${pod.namespace}/${pod.name}`)),
      number('Priority', (pod) => pod.priority),
      text('Requests', (pod) => Object.entries(pod.requests).map(([key, value]) => `${key} ${quantity(key, value)}`).join(', ')),
    ], answer.placed)),
  ]];
}

/** How many nodes each plugin leaves, as bars. */
function funnel(now) {
  const byPlugin = new Map();
  for (const { plugin, count: rejected, reasons } of now.rejections) {
    const own = byPlugin.get(plugin) ?? { rejected: 0, reasons: [] };
    own.rejected += rejected;
    own.reasons.push(`${reasons.join(', ') || 'rejected'} (${rejected})`);
    byPlugin.set(plugin, own);
  }
  const width = (nodes) => `${Math.max(0.4, (nodes / Math.max(1, now.nodes)) * 70)}%`;
  let left = now.nodes;
  const step = (name, kept, gone, reasons) => [
    el('div', { class: 'name' }, name),
    el('div', { class: 'step' }, kept > 0 && el('i', { class: 'left', style: { width: width(kept) } }),
      gone > 0 && el('i', { class: 'gone', style: { width: width(gone) } }),
      gone > 0 ? `${kept.toLocaleString('en')} left, ${gone.toLocaleString('en')} rejected` : count(kept, 'node')),
    reasons && el('div', { class: 'reason' }, reasons),
  ];
  const steps = [...byPlugin].sort(([, a], [, b]) => b.rejected - a.rejected).map(([plugin, { rejected, reasons }]) => {
    left -= rejected;
    return step(plugin || 'the scheduler', left, rejected, reasons.slice(0, 4).join('; '));
  });
  return el('div', { class: 'funnel' }, step('all nodes', now.nodes, 0), steps, step('can take the pod', now.feasible, 0));
}

/** The scores of the best nodes, as stacked bars. */
function scores(best) {
  const plugins = [...new Set(best.flatMap(({ scores: own }) => own.map(({ plugin }) => plugin)))]
    .filter((plugin) => best.some(({ scores: own }) => own.some((one) => one.plugin === plugin && one.weighted > 0)));
  const colour = (plugin) => `var(--c${plugins.indexOf(plugin) % 10})`;
  const most = Math.max(1, ...best.map(({ total }) => total ?? 0));
  return [
    el('div', { class: 'legend' }, plugins.map((plugin) => el('span', {}, el('span', { class: 'swatch', style: { background: colour(plugin) } }), plugin))),
    table([
      text('Node', (row) => row.node, (row) => nodeLink(row.node)),
      number('Score', (row) => row.total ?? 0, (row) => row.total ?? 'the only one'),
      { title: 'By plugin', value: (row) => row.total ?? 0, cell: (row) => el('div', { class: 'bar' }, row.scores.filter(({ weighted }) => weighted > 0)
        .map(({ plugin, weighted, raw }) => el('i', {
          style: { width: `${(weighted / most) * 100}%`, background: colour(plugin) },
          title: `${plugin}: ${weighted}${raw === null || raw === undefined ? '' : ` (raw ${raw})`}`,
        }))) },
    ], best),
  ];
}

function suggestion({ text: what, effect, evicts, command }) {
  return el('li', {}, el('b', {}, what), ` — ${effect}`,
    evicts?.length > 0 && el('div', { class: 'bad' }, 'evicts ', evicts.flatMap((pod, index) => [index ? ', ' : '', podLink(pod)])),
    command && el('div', {}, el('code', {}, command), ' ',
      el('button', { type: 'button', onclick: (event) => { navigator.clipboard?.writeText(command); event.target.textContent = 'Copied'; } }, 'Copy')));
}

const STATES = {
  running: 'is placed', assumed: 'has a node, and its bind is under way', waitingOnPermit: 'has a node and waits in Permit',
  active: 'is ready for an attempt', backoff: 'backs off', errorBackoff: 'backs off after an error',
  unschedulable: 'fits on no node and waits for a change', gated: 'is gated', inFlight: 'is being tried', unknown: 'is not in the queue',
};

export async function pod(ask, query, namespace, name) {
  const node = query.get('node');
  const path = `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const { facts, now, node: check, help, helpIsIncomplete, notes = [] } = await ask(node ? `${path}?node=${encodeURIComponent(node)}` : path);
  const form = el('form', { class: 'controls', onsubmit: (event) => {
    event.preventDefault();
    location.hash = address(['pod', namespace, name], { node: event.target.elements.node.value.trim() });
  } }, el('label', {}, 'Why not on node ', el('input', { name: 'node', value: node ?? '', autocomplete: 'off' })), el('button', {}, 'Ask'));
  const waits = facts.node === null || facts.node === undefined;
  // A dump has made no attempt, and pods that fit nowhere are as ready for one as others.
  const isHopeless = facts.state === 'active' && now?.feasible === 0 && !now.preemption;
  const moves = waits && !now?.feasible ? room(namespace, name, query.has('room')) : null;
  await moves?.asked;
  const state = isHopeless ? 'waits, and fits on no node now' : STATES[facts.state] ?? facts.state;
  return [`Pod ${namespace}/${name}`, [
    el('p', {}, `It ${state}`, facts.node ? [' on ', nodeLink(facts.node)] : null,
      facts.nominated ? [', nominated to ', nodeLink(facts.nominated)] : null, '. ',
      facts.pendingSeconds ? `Pending for ${duration(facts.pendingSeconds)}, ${count(facts.attempts, 'attempt')}. ` : null,
      `Priority ${facts.priority}, scheduler ${facts.schedulerName}.`),
    noted(notes),
    now?.error && el('p', { class: 'error' }, now.error),
    now?.gate && el('p', { class: 'error' }, `Gated: ${now.gate}`),
    waits && now?.message && el('p', { class: 'error' }, now.message),
    waits && section('What would help',
      help.length ? el('ol', { class: 'help' }, help.map(suggestion)) : el('p', { class: 'faint' }, now?.feasible ? 'It fits: it waits for its turn.' : 'No single change was found that helps.'),
      helpIsIncomplete && el('p', { class: 'faint' }, 'The search ended early: it took too long.')),
    moves && section('Moves of other pods', moves.element),
    now && !now.gate && section('Nodes, filter by filter (now)', funnel(now)),
    now?.preemption && section('Evictions that the next attempt would ask for',
      el('p', {}, 'On ', nodeLink(now.preemption.node), ': ', now.preemption.victims.flatMap((victim, index) => [index ? ', ' : '', podLink(victim)]))),
    now?.best.length > 0 && section('The best nodes (now)', scores(now.best),
      now.without.length > 0 && el('p', { class: 'faint' }, now.without.map(({ plugin, node: other }) => `Without ${plugin}: ${other}. `))),
    (now?.nodes > 0 || check) && section('One node', form, check && el('div', {},
      el('p', { class: check.feasible ? 'good' : 'bad' }, !check.exists ? `There is no node ${check.node}.` : check.feasible
        ? `${check.node} can take the pod${check.total === null || check.total === undefined ? '' : `: score ${check.total}, ${count(check.better ?? 0, 'node')} better`}.`
        : `${check.node} cannot take the pod: ${check.reasons.join(', ')}.`),
      check.rejecting.length > 0 && el('p', {}, 'Rejecting plugins: ', check.rejecting.join(', ')),
      check.scores.length > 0 && scores([{ node: check.node, total: check.total, scores: check.scores }]))),
    now?.constraints.length > 0 && section('What each plugin rejects by itself (now)', constraints(now.constraints, 'Nodes')),
    facts.waitsFor.length > 0 && section('What it waits for', el('p', {}, 'The pod is tried again when one of these happens and may help:'),
      table([
        text('One of these', (row) => (row.words?.length ? row.words : row.events).join(', ')), text('Because of', (row) => row.plugin),
      ], facts.waitsFor)),
    facts.history.length > 0 && section('Attempts', table([
      number('No.', (row) => row.number),
      text('Ago', (row) => row.secondsAgo, (row) => duration(row.secondsAgo).replace(' ', '\u00a0')),
      text('Outcome', (row) => row.outcome),
      text('Node', (row) => row.node ?? '', (row) => (row.node ? nodeLink(row.node) : row.nominated ? ['nominated ', nodeLink(row.nominated)] : '')),
      text('Why', (row) => row.rejections.map((own) => `${own.count} ${own.reasons.join(', ')}`).join('; ') || row.message),
      text('Victims', (row) => row.victims.join(', ')),
    ], [...facts.history].reverse())),
  ]];
}

export async function group(ask, _, namespace, name) {
  const answer = await ask(`groups/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
  const waiting = answer.pods - answer.placed;
  return [`Group ${answer.group}`, [
    el('div', { class: 'tiles' }, tile(answer.pods, 'pods'), tile(answer.placed, 'with a node'), tile(waiting, 'pending', waiting ? 'bad' : 'good')),
    noted(answer.notes),
    answer.causes.length > 0 && section('Why pods wait', causes(answer.causes)),
    answer.nodes.length > 0 && section('Where its pods are', table([
      text('Node', (row) => row.node, (row) => nodeLink(row.node)), number('Pods', (row) => row.count),
    ], answer.nodes, { sorted: { column: 1, descending: true } })),
  ]];
}

/** The domains of a topology as a strip, the closest first: how many of the needed pods each takes. */
function strip(domains, needed) {
  return el('div', { class: 'domains', role: 'list' }, domains.map(({ name, placed, fit, isBound }) => {
    const takes = Math.min(1, percent(placed + fit, needed));
    const label = `${isBound ? 'at most ' : ''}${placed + fit} of ${needed}`;
    return el('div', { role: 'listitem', class: `domain ${takes >= 1 && !isBound ? 'enough' : ''}`, title: `${name}: ${label}` },
      el('div', { class: 'fill', style: { height: `${takes * 100}%` } }), el('b', {}, name), el('span', {}, label));
  }));
}

/** Formats free and allocatable amounts by resource. */
const freeOf = (resources) => Object.entries(resources).map(([key, [free, all]]) => `${key} ${quantity(key, free)} of ${quantity(key, all)}`).join(', ');

function domainsOf({ key, wish, summary, domains }, needed) {
  const other = ({ group: own, pods }) => {
    const [namespace, name] = own.split('/');
    return name ? [el('a', { href: address(['podgroup', namespace, name]) }, own), ` ${pods}`] : `${own} ${pods}`;
  };
  return section(`Domains of ${key}${wish ? ` (${wish})` : ''}`,
    summary && el('p', {}, `${summary}.`),
    domains.length === 0 ? el('p', { class: 'bad' }, 'No node has this label.') : [
      strip(domains.slice(0, 60), needed),
      table([
        text('Domain', (row) => row.name),
        number('Nodes', (row) => row.nodes),
        number('Pods there', (row) => row.placed),
        number('Fit now', (row) => row.fit, (row) => `${row.isBound ? 'at most ' : ''}${row.fit.toLocaleString('en')}`),
        text('Free', (row) => freeOf(row.resources)),
        text('Pods of other groups', (row) => row.heldBy.map((own) => own.group).join(' '), (row) => row.heldBy.flatMap((own, index) => [index ? ', ' : '', other(own)])),
        text('Missing', (row) => row.missing ?? ''),
      ], domains, { virtual: domains.length > 200 }),
    ]);
}

export async function podGroup(ask, _, namespace, name) {
  const answer = await ask(`podgroups/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
  const { topology, help, members, shortfall, state } = answer;
  const [words, kind] = podGroupState(state);
  const states = { placed: 'has a node', fits: 'fits', doesNotFit: 'does not fit' };
  return [`PodGroup ${answer.group}`, [
    el('p', {}, el('span', { class: kind }, words[0].toUpperCase() + words.slice(1)), `: ${answer.summary}. `,
      answer.pendingSeconds ? `Waiting for ${duration(answer.pendingSeconds)}. ` : null, el('span', { class: 'faint' }, answer.apiGroup)),
    el('div', { class: 'tiles' }, tile(answer.pods, 'pods'), tile(answer.placed, 'with a node'), tile(answer.minCount, 'needed together'),
      state !== 'running' && [tile(answer.fit, 'fit now'), tile(shortfall, 'missing', shortfall ? 'bad' : 'good')]),
    noted(answer.notes),
    answer.condition && el('p', { class: state === 'running' ? 'faint' : 'error' }, `Condition: ${answer.condition}`),
    topology && domainsOf(topology, answer.minCount),
    (answer.levels ?? []).map((level) => domainsOf(level, answer.minCount)),
    help.length > 0 && section('With which changes it starts', el('ol', { class: 'help' }, help.map(suggestion))),
    answer.causes.length > 0 && section('Why pods do not fit', causes(answer.causes)),
    members.length > 0 && section(`Pods (${members.length})`, table([
      text('Pod', (row) => row.pod, (row) => el('a', { href: address(['pod', namespace, row.pod]) }, row.pod)),
      text('State', (row) => states[row.state] ?? row.state, (row) => el('span', { class: row.state === 'doesNotFit' ? 'bad' : null }, states[row.state] ?? row.state)),
      text('Node', (row) => row.node ?? '', (row) => (row.node ? nodeLink(row.node) : '')),
      text('Why not', (row) => row.reason ?? ''),
    ], members, { virtual: members.length > 200 })),
  ]];
}

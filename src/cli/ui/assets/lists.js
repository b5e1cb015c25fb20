// The lists of pods, of groups and of PodGroups, with filters.

import { calm, count, duration, el, groupLink, nodeLink, podGroupLink, podGroupState, podLink, quantity, setParameters } from './dom.js';
import { table } from './table.js';

const ROWS = 500;
const text = (title, value, link) => ({ title, value, cell: (row) => (link ? link(row) : value(row) ?? '') });
const number = (title, value) => ({ title, value, number: true, cell: (row) => value(row).toLocaleString('en') });

/** A list that the scheduler filters. `kind` is the key of its rows, `one` a word for a row. */
async function list(ask, query, { kind, one, columns, hint }) {
  const own = { q: query.get('q') ?? '', pending: query.get('pending') ?? '' };
  const shown = el('span', { class: 'faint', role: 'status' });
  const asked = () => ask(`${kind}?limit=${ROWS}&q=${encodeURIComponent(own.q)}${own.pending ? '&pending=true' : ''}`);
  const say = (answer) => {
    const rows = answer[kind].length;
    const cut = rows < answer.matching ? `, the first ${rows.toLocaleString('en')} are shown` : '';
    const untried = answer.isIncomplete ? '; there was no time to try all of them' : '';
    shown.textContent = `${answer.matching.toLocaleString('en')} of ${count(answer.total, one)}${cut}${untried}`;
  };
  const first = await asked();
  const rows = table(columns, first[kind], { virtual: true });
  say(first);
  const change = async (changes) => {
    Object.assign(own, changes);
    setParameters(own);
    try {
      const answer = await asked();
      rows.setRows(answer[kind]);
      say(answer);
    } catch (error) { shown.textContent = error.message; }
  };
  const typed = calm((q) => change({ q }));
  return el('div', {},
    el('div', { class: 'controls' },
      el('input', { type: 'search', value: own.q, placeholder: hint, 'aria-label': 'Filter', oninput: (event) => typed(event.target.value) }),
      el('label', {}, el('input', { type: 'checkbox', checked: Boolean(own.pending), onchange: (event) => change({ pending: event.target.checked ? 'true' : '' }) }), ' only those that wait'),
      shown),
    rows);
}

export async function pods(ask, query) {
  return ['Pods', [await list(ask, query, {
    kind: 'pods', one: 'pod', hint: 'name, namespace, node, group',
    columns: [
      text('Pod', (row) => `${row.namespace}/${row.name}`, (row) => podLink(`${row.namespace}/${row.name}`)),
      text('Node', (row) => row.node ?? '', (row) => (row.node ? nodeLink(row.node) : el('span', { class: 'bad' }, 'waits'))),
      text('Group', (row) => row.group ?? '', (row) => (row.group ? groupLink(row.namespace, row.group) : '')),
      number('Priority', (row) => row.priority),
      text('Requests', (row) => Object.entries(row.requests).map(([key, value]) => `${key} ${quantity(key, value)}`).join(', ')),
    ],
  })]];
}

export async function groups(ask, query) {
  return ['Groups', [await list(ask, query, {
    kind: 'groups', one: 'group', hint: 'name, namespace, kind',
    columns: [
      text('Group', (row) => row.name, (row) => groupLink(row.namespace, row.name)),
      text('Namespace', (row) => row.namespace),
      text('Kind', (row) => row.kind),
      number('Pods', (row) => row.pods),
      number('With a node', (row) => row.placed),
      { ...number('Waiting', (row) => row.pods - row.placed), cell: (row) => (row.pods > row.placed ? el('span', { class: 'bad' }, (row.pods - row.placed).toLocaleString('en')) : '0') },
    ],
  })]];
}

export async function podGroups(ask, query) {
  const some = (title, value) => ({ ...number(title, (row) => value(row) ?? -1), cell: (row) => value(row)?.toLocaleString('en') ?? '', has: (row) => value(row) !== null && value(row) !== undefined });
  return ['PodGroups', [await list(ask, query, {
    kind: 'podgroups', one: 'PodGroup', hint: 'name, namespace',
    columns: [
      text('PodGroup', (row) => row.name, (row) => podGroupLink(row.namespace, row.name)),
      text('Namespace', (row) => row.namespace),
      text('State', (row) => podGroupState(row.state)[0], (row) => el('span', { class: podGroupState(row.state)[1] }, podGroupState(row.state)[0])),
      { ...number('Waiting for', (row) => row.pendingSeconds ?? -1), cell: (row) => duration(row.pendingSeconds) },
      number('Pods', (row) => row.pods),
      number('With a node', (row) => row.placed),
      { ...number('Needed', (row) => row.minCount), cell: (row) => (row.minCount ? row.minCount.toLocaleString('en') : '') },
      some('Fit now', (row) => row.fit),
      { ...some('Shortfall', (row) => row.shortfall), cell: (row) => (row.shortfall ? el('span', { class: 'bad' }, row.shortfall.toLocaleString('en')) : row.shortfall ?? '') },
      text('Domains', (row) => row.domains.join(', '), (row) => (row.domains.length ? el('span', { title: row.topology ?? '' }, row.placed ? row.domains.join(', ') : `closest: ${row.domains.join(', ')}`) : '')),
    ],
  })]];
}

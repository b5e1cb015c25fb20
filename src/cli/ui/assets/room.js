// Moves of running pods after which a pending pod fits.

import { count, el, nodeLink, podLink, setParameters } from './dom.js';
import { table } from './table.js';

const cost = (thousandths) => (thousandths / 1000).toFixed(2);
const pod = (row) => `${row.namespace}/${row.name}`;
const column = (title, value, cell) => ({ title, value, cell: cell ?? ((row) => value(row)) });

function summary({ outcome, node, moves, cost: all, reason }) {
  switch (outcome) {
    case 'fits': return el('p', { class: 'good' }, 'It fits on ', nodeLink(node), ' without a move.');
    case 'plan': return el('p', { class: 'good' }, 'It fits on ', nodeLink(node), ` after ${count(moves.length, 'move')}, at a cost of ${cost(all)}.`);
    case 'undecided': return el('p', { class: 'bad' }, `It cannot be decided: ${reason}.`);
    default: return el('p', { class: 'bad' }, 'No moves were found after which it fits.');
  }
}

function certainty({ outcome, isCertain }) {
  if (outcome !== 'plan' && outcome !== 'noPlan') return null;
  if (!isCertain) return 'The search ended early: there may be others.';
  return outcome === 'plan' ? 'No other moves cost less.' : 'There are none within the limit of moves.';
}

function plan(answer) {
  const kept = answer.outcome === 'fits' ? [] : Object.entries(answer.kept);
  return [
    summary(answer),
    el('p', { class: 'faint' }, certainty(answer)),
    answer.moves.length > 0 && table([
      column('Pod', pod, (row) => podLink(pod(row))),
      column('From', (row) => row.from, (row) => nodeLink(row.from)),
      column('To', (row) => row.to, (row) => nodeLink(row.to)),
      { ...column('Cost', (row) => row.cost, (row) => cost(row.cost)), number: true },
    ], answer.moves),
    kept.length > 0 && el('details', {}, el('summary', {}, 'Pods that are not moved'), table([
      { ...column('Pods', ([, pods]) => pods, ([, pods]) => pods.toLocaleString('en')), number: true },
      column('Because the pod', ([reason]) => reason),
    ], kept)),
    answer.warnings.map((warning) => el('p', { class: 'faint' }, warning)),
  ];
}

/** A button that looks for moves, and the moves. `isAsked` looks for them at once. */
export function room(namespace, name, isAsked) {
  const shown = el('div', { 'aria-live': 'polite' });
  const ask = async () => {
    button.disabled = true;
    shown.replaceChildren(el('p', { class: 'busy' }, 'Looking'));
    try {
      const response = await fetch(`/room/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
      const answer = await response.json().catch(() => ({}));
      if (!response.ok) throw new Error(answer.message ?? `The page got no answer (status ${response.status}).`);
      shown.replaceChildren(...el('div', {}, plan(answer)).childNodes);
    } catch (error) {
      shown.replaceChildren(el('p', { class: 'error' }, error.message));
    } finally {
      button.disabled = false;
    }
  };
  const button = el('button', { type: 'button', onclick: () => { setParameters({ room: 'yes' }); ask(); } }, 'Look for moves that make room');
  return { element: el('div', {}, button, shown), asked: isAsked ? ask() : null };
}

// The view of quotas: a tree with a bar for each resource.

import { el } from './dom.js';

/** A bar with what is used of the guarantee, what is borrowed and what waits, and lines for guarantee and share. */
function bar({ used, borrowed, wanted, min, share }, words) {
  const part = (name, width) => el('i', { class: name, style: { width: `${Math.max(0, width)}%` } });
  const line = (name, left) => el('b', { class: name, style: { left: `${Math.min(left, 99.5)}%` } });
  return el('div', { class: 'bar quota', role: 'img', title: words, 'aria-label': words },
    part('kept', used - borrowed), part('borrowed', borrowed), part('wanted', wanted - used), line('guaranteed', min), line('share', share));
}

const LEGEND = [['kept', 'used'], ['borrowed', 'borrowed: used beyond the guarantee'], ['wanted', 'asked for by pods without a node'],
  ['guaranteed', 'guaranteed (min)'], ['share', 'share: may be used now without owing it']];

function row(quota, resource, isFirst) {
  const { used, min = '0', share, borrowed = '', wanted } = resource ?? {};
  const cell = (title, text, kind) => el('td', { 'data-title': title, class: kind }, el('div', {}, text));
  const words = resource && `${resource.resource}: ${used} used of a share of ${share}, ${min} guaranteed, ${borrowed || 0} borrowed, ${wanted} wanted`;
  return el('tr', {},
    el('td', { 'data-title': 'Quota', style: { 'padding-left': `${quota.depth * 1.2}rem` } }, el('div', {}, isFirst ? quota.quota : '')),
    cell('Resource', resource?.resource ?? ''),
    el('td', {}, resource ? bar(resource.bar, words) : ''),
    cell('Used', used ?? '', 'number'), cell('Guaranteed', resource ? min : '', 'number'), cell('Share', share ?? '', 'number'),
    cell('Borrowed', borrowed, 'number'), cell('Pending', isFirst ? quota.pending.toLocaleString('en') : '', 'number'));
}

export async function quotas(ask) {
  const { summary, quotas: tree, ignored = [] } = await ask('quotas');
  const head = ['Quota', 'Resource', '', 'Used', 'Guaranteed', 'Share', 'Borrowed', 'Pending'];
  const rows = tree.flatMap((quota) => (quota.resources.length ? quota.resources : [null]).map((own, index) => row(quota, own, index === 0)));
  return ['Quotas', [
    el('p', {}, `${summary[0].toUpperCase()}${summary.slice(1)}.`),
    rows.length > 0 && [
      el('div', { class: 'legend quota' }, LEGEND.map(([kind, text]) => el('span', {}, el('span', { class: `swatch ${kind}` }), text))),
      el('table', { class: 'quotas' },
        el('thead', {}, el('tr', {}, head.map((title, index) => el('th', { class: index > 2 ? 'number' : null }, title)))),
        el('tbody', {}, rows)),
    ],
    ignored.length > 0 && el('p', { class: 'faint' }, `Without effect, beside an older quota of the namespace: ${ignored.join(', ')}.`),
  ]];
}

// Tables that sort, and of which only the visible rows exist.

import { el } from './dom.js';

/** Rows of a narrow page are cards. */
const narrow = matchMedia('(max-width: 640px)');

/**
 * Creates a table. A column has `title`, `value(row)` to sort by, `cell(row)` to show, and `number`. `has(row)` says whether a
 * cell has content, if not all have.
 * `sorted` is `{ column, descending }`, and `onSort` is called when it changes.
 */
export function table(columns, rows, { sorted = null, onSort = () => {}, virtual = false } = {}) {
  let state = sorted;
  const body = el('tbody');
  const heads = columns.map((column, index) => el('th', { class: column.number && 'number', scope: 'col' },
    el('button', { type: 'button', onclick: () => sort(index) }, column.title)));
  const height = (row) => (narrow.matches ? 26 * columns.filter(({ has }) => !has || has(row)).length + 14 : 30);
  const whole = el('table', { class: virtual ? null : 'flowing' }, el('thead', {}, el('tr', {}, heads)), body);
  const frame = virtual ? el('div', { class: 'rows', tabindex: '0', onscroll: () => draw() }, whole) : whole;
  let order = rows;
  /** Where each row begins, and the last one ends. */
  let starts = [0];

  function sort(index) {
    const descending = state?.column === index ? !state.descending : Boolean(columns[index].number);
    state = { column: index, descending };
    onSort(state);
    arrange();
  }

  function arrange() {
    order = [...rows];
    if (state && columns[state.column]) {
      const { value } = columns[state.column];
      const sign = state.descending ? -1 : 1;
      order.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        return sign * (typeof x === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true }));
      });
    }
    heads.forEach((head, index) => {
      const own = state?.column === index;
      if (own) head.setAttribute('aria-sort', state.descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
      head.firstChild.textContent = columns[index].title + (own ? (state.descending ? ' ↓' : ' ↑') : '');
    });
    measure();
    draw();
  }

  function measure() {
    starts = [0];
    if (virtual) for (const row of order) starts.push(starts.at(-1) + height(row));
  }

  /** The number of rows that end above a place. */
  function above(place) {
    let [low, high] = [0, order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle + 1] <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  const line = (row) => el('tr', virtual ? { style: { '--row': `${height(row)}px` } } : {}, columns.map((column) => el('td', { class: column.number && 'number', 'data-title': column.title || null }, el('div', {}, column.cell(row)))));
  const gap = (from, to) => el('tr', { 'aria-hidden': 'true' },
    el('td', { class: 'gap', colspan: columns.length, style: { height: `${starts[to] - starts[from]}px` } }));

  function draw() {
    if (!virtual) return body.replaceChildren(...order.map(line));
    const first = Math.max(0, above(frame.scrollTop) - 20);
    const last = Math.min(order.length, above(frame.scrollTop + (frame.clientHeight || 600)) + 20);
    if (body.dataset.first === String(first) && body.dataset.last === String(last) && body.order === order) return null;
    Object.assign(body.dataset, { first, last });
    body.order = order;
    const parts = order.slice(first, last).map(line);
    return body.replaceChildren(gap(0, first), ...parts, gap(last, order.length));
  }

  if (virtual) narrow.addEventListener('change', () => { body.order = null; measure(); draw(); });
  arrange();
  return Object.assign(frame, {
    setRows(changed) { rows = changed; arrange(); },
  });
}

// Tables that sort, and of which only the visible rows exist.

import { el } from './dom.js';

/** Rows of a narrow page are cards. */
const narrow = matchMedia('(max-width: 640px)');

/**
 * Creates a table. A column has `title`, `value(row)` to sort by, `cell(row)` to show, and `number`.
 * `sorted` is `{ column, descending }`, and `onSort` is called when it changes.
 */
export function table(columns, rows, { sorted = null, onSort = () => {}, virtual = false } = {}) {
  let state = sorted;
  const body = el('tbody');
  const heads = columns.map((column, index) => el('th', { class: column.number && 'number', scope: 'col' },
    el('button', { type: 'button', onclick: () => sort(index) }, column.title)));
  const cards = () => (virtual && narrow.matches ? 26 * (columns.length + 1) : 30);
  const whole = el('table', { class: virtual ? null : 'flowing' }, el('thead', {}, el('tr', {}, heads)), body);
  const frame = virtual ? el('div', { class: 'rows', tabindex: '0', onscroll: () => draw() }, whole) : whole;
  let order = rows;

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
    draw();
  }

  const line = (row) => el('tr', {}, columns.map((column) => el('td', { class: column.number && 'number', 'data-title': column.title || null }, el('div', {}, column.cell(row)))));
  const gap = (number) => el('tr', { 'aria-hidden': 'true' },
    el('td', { class: 'gap', colspan: columns.length, style: { height: `${number * cards()}px` } }));

  function draw() {
    if (!virtual) return body.replaceChildren(...order.map(line));
    const height = cards();
    frame.style.setProperty('--row', `${height}px`);
    const first = Math.max(0, Math.floor(frame.scrollTop / height) - 20);
    const last = Math.min(order.length, first + Math.ceil((frame.clientHeight || 600) / height) + 40);
    if (body.dataset.first === String(first) && body.dataset.last === String(last) && body.order === order) return null;
    Object.assign(body.dataset, { first, last });
    body.order = order;
    const parts = order.slice(first, last).map(line);
    return body.replaceChildren(gap(first), ...parts, gap(order.length - last));
  }

  if (virtual) narrow.addEventListener('change', () => { body.order = null; draw(); });
  arrange();
  return Object.assign(frame, {
    setRows(changed) { rows = changed; arrange(); },
  });
}

// The search field, with completion over pods, nodes and groups.

import { address, calm, el } from './dom.js';

const FEW = 6;
const pair = (text) => (text.includes('/') ? text.split(/\/(.*)/).slice(0, 2) : ['default', text]);

/** The address that words name: `node NAME`, `group NAMESPACE/NAME`, `podgroup NAMESPACE/NAME`, or a pod. */
function named(words) {
  const [first = '', second] = words.trim().split(/\s+/);
  if (first === 'node' && second) return address(['node', second]);
  if ((first === 'group' || first === 'podgroup') && second) return address([first, ...pair(second)]);
  return address(['pod', ...pair(first === 'pod' && second ? second : first)]);
}

/** Makes a field complete names. */
export function complete(form, field, ask) {
  const list = el('ul', { id: 'names', role: 'listbox', 'aria-label': 'Names', hidden: true });
  form.append(list);
  let options = [];
  let chosen = -1;
  let asked = 0;

  function close() {
    list.hidden = true;
    field.setAttribute('aria-expanded', 'false');
    field.removeAttribute('aria-activedescendant');
    options = [];
    chosen = -1;
  }

  function choose(index) {
    chosen = options.length ? (index + options.length) % options.length : -1;
    options.forEach(({ item }, place) => item.setAttribute('aria-selected', String(place === chosen)));
    if (chosen >= 0) {
      field.setAttribute('aria-activedescendant', options[chosen].item.id);
      options[chosen].item.scrollIntoView({ block: 'nearest' });
    }
  }

  function open(target) {
    close();
    field.value = '';
    field.blur();
    location.hash = target;
  }

  function offer({ pods, nodes, groups }) {
    const kinds = [
      ['Pods', pods, (name) => address(['pod', ...pair(name)])],
      ['Groups', groups, (name) => address(['group', ...pair(name)])],
      ['Nodes', nodes, (name) => address(['node', name])],
    ];
    options = [];
    const parts = kinds.filter(([, names]) => names.length).flatMap(([title, names, target]) => [
      el('li', { class: 'kind', role: 'presentation' }, title),
      ...names.map((name) => {
        const item = el('li', { id: `name-${options.length}`, role: 'option', 'aria-selected': 'false',
          onmousedown: (event) => { event.preventDefault(); open(target(name)); } }, name);
        options.push({ item, target: target(name) });
        return item;
      }),
    ]);
    list.replaceChildren(...(parts.length ? parts : [el('li', { class: 'kind' }, 'No name contains that.')]));
    list.hidden = false;
    field.setAttribute('aria-expanded', 'true');
    chosen = -1;
  }

  const look = calm(async () => {
    const words = field.value.replace(/^\s*(pod|node|group|podgroup)\s+/, '').trim();
    const own = ++asked;
    if (!words) return close();
    try {
      const names = await ask(`names?limit=${FEW}&q=${encodeURIComponent(words)}`);
      if (own === asked && document.activeElement === field) offer(names);
    } catch { close(); }
    return null;
  });

  Object.entries({ role: 'combobox', 'aria-expanded': 'false', 'aria-controls': 'names', 'aria-autocomplete': 'list' })
    .forEach(([name, value]) => field.setAttribute(name, value));
  field.addEventListener('input', look);
  field.addEventListener('blur', close);
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return close();
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return null;
    event.preventDefault();
    return choose(chosen + (event.key === 'ArrowDown' ? 1 : -1));
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const words = field.value.trim();
    if (chosen >= 0) open(options[chosen].target);
    else if (words && options.length === 1) open(options[0].target);
    else if (words) open(named(words));
  });
}

// Elements, addresses and amounts.

/** Creates an element. Attributes that start with `on` are event listeners; null and false are left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, own] of Object.entries(value)) element.style.setProperty(key, own);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** The view and its parameters, as in `#/node/n1?color=cpu`. */
export function place() {
  const [path, query = ''] = location.hash.replace(/^#/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  return { parts, query: new URLSearchParams(query) };
}

/** The address of a view. */
export function address(parts, query = {}) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

/** Changes parameters of the present view without a new entry in the history. */
export function setParameters(changes) {
  const { parts, query } = place();
  const own = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, '', address(parts, own));
}

export const nodeLink = (name) => el('a', { href: address(['node', name]) }, name);

export function podLink(key) {
  const [namespace, ...rest] = key.split('/');
  return rest.length ? el('a', { href: address(['pod', namespace, rest.join('/')]) }, key) : key;
}

const UNITS = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/** Formats an amount like the command line: bytes in the largest unit with one decimal, others with at most three. */
function rounded(resource, value) {
  if (resource !== 'memory' && resource !== 'ephemeral-storage' && !resource.startsWith('hugepages-')) return String(+value.toFixed(3));
  let [number, unit] = [value, 0];
  while (number >= 1024 && unit + 1 < UNITS.length) [number, unit] = [number / 1024, unit + 1];
  return `${+number.toFixed(1)}${UNITS[unit]}`;
}

/** Formats an amount; that of CPU is in thousandths. */
export const amount = (resource, value) => rounded(resource, resource === 'cpu' ? value / 1000 : value);

/** Formats an exact quantity, such as `1500m` or `101461497216Ki`. */
export function quantity(resource, text) {
  const [, number, unit] = /^([0-9.]+)(m|[KMGTPE]i)?$/.exec(text) ?? [];
  if (number === undefined) return text;
  return rounded(resource, unit === 'm' ? number / 1000 : number * 1024 ** UNITS.indexOf(unit ?? ''));
}

export const percent = (part, whole) => (whole > 0 ? part / whole : part > 0 ? 1 : 0);
export const count = (number, one, many = `${one}s`) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

/** Calls the function once the calls have paused. */
export function calm(call, milliseconds = 200) {
  let timer;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => call(...args), milliseconds); };
}

export const podGroupLink = (namespace, name) => el('a', { href: address(['podgroup', namespace, name]) }, name);

const POD_GROUP_STATES = {
  running: ['runs', 'good'], fits: ['fits, waits for its attempt', 'good'], unschedulable: ['does not fit', 'bad'],
  waitsForPods: ['waits for pods', 'bad'], preempts: ['waits for its victims', null], waitsForPodGroup: ['waits for its PodGroup', 'bad'], waits: ['waits', null],
  isNotDecided: ['is not decided: the gate is off', 'faint'],
};

/** The state of a PodGroup for people, and its class. */
export const podGroupState = (state) => POD_GROUP_STATES[state] ?? [state, null];

export const groupLink = (namespace, name) => el('a', { href: address(['group', namespace, name]) }, name);

/** Formats seconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '';
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${+seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${+(seconds / 3600).toFixed(1)} h`;
}

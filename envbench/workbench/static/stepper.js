// The episode stepper: one classic script without a build step.
//
// A page holds elements of the class `envbench-stepper` with packed episodes in them (the Python
// module `payload` says what these are). This file finds such elements and shows them.
// As an anywidget it runs with one line more, which exports `widget`. Nothing is fetched, nothing
// that stands in an episode is ever read as markup, and there is no eval.
(function () {
"use strict";

const KEY = "envbench.stepper/1";
const known = globalThis[KEY];
if (known) {
  known.mountAll();
  return;
}

const TAG = "$envbench";
const ABSENT = undefined;
const LINE = 24; // pixels of one line of the state
const SHORT = 160; // characters of a value in a line
const LONG = 20000; // characters of a value that is shown whole without being asked for

// ---------------------------------------------------------------------------------------------
// Values: JSON read exactly

/** A number that JavaScript would print otherwise: a float, or an integer beyond 2^53. */
class Num {
  constructor(text) {
    this.text = text;
  }
  valueOf() {
    return Number(this.text);
  }
}

/** Canonical JSON to values; integers that are exact stay numbers, all others are `Num`. */
function parse(text) {
  let at = 0;
  let slash = text.indexOf("\\"); // the next one, so that it is not looked for at every string
  function string() {
    const start = at;
    let end = text.indexOf('"', start + 1);
    if (slash !== -1 && slash <= start) slash = text.indexOf("\\", start + 1);
    if (slash === -1 || slash > end) {
      at = end + 1;
      return text.slice(start + 1, end);
    }
    while (slash !== -1 && slash < end) {
      const after = slash + 2;
      if (end < after) end = text.indexOf('"', after);
      slash = text.indexOf("\\", after);
    }
    at = end + 1;
    return JSON.parse(text.slice(start, at));
  }
  function number() {
    const start = at;
    let float = false;
    for (; at < text.length; at++) {
      const c = text.charCodeAt(at);
      if (c === 46 || c === 101 || c === 69 || c === 43) float = true;
      else if (c !== 45 && (c < 48 || c > 57)) break;
    }
    const digits = text.slice(start, at);
    return float || digits.length > 15 ? new Num(digits) : Number(digits);
  }
  function value() {
    switch (text.charCodeAt(at)) {
      case 34:
        return string();
      case 123: {
        const object = Object.create(null); // "__proto__" is a name like any other
        at++;
        if (text.charCodeAt(at) === 125) {
          at++;
          return object;
        }
        for (;;) {
          const name = string();
          at++;
          object[name] = value();
          if (text.charCodeAt(at++) === 125) return object;
        }
      }
      case 91: {
        const list = [];
        at++;
        if (text.charCodeAt(at) === 93) {
          at++;
          return list;
        }
        for (;;) {
          list.push(value());
          if (text.charCodeAt(at++) === 93) return list;
        }
      }
      case 116:
        at += 4;
        return true;
      case 102:
        at += 5;
        return false;
      case 110:
        at += 4;
        return null;
      default:
        return number();
    }
  }
  return value();
}

const isList = Array.isArray;
const isTagged = (value) => typeof value[TAG] === "string" || TAG in value;
const isObject = (value) =>
  value !== null && typeof value === "object" && !isList(value) && !(value instanceof Num) && !(TAG in value);
const isTable = (value) => isList(value) && value.length > 0 && value.every(isObject);
const isNested = (value) => (isList(value) && value.length > 0) || (isObject(value) && Object.keys(value).length > 0);

/** Canonical JSON of a value, as the evidence has it. */
function canonical(value) {
  if (value === null || typeof value === "boolean" || typeof value === "number") return String(value);
  if (value instanceof Num) return value.text;
  if (typeof value === "string") return JSON.stringify(value);
  if (isList(value)) return "[" + value.map(canonical).join(",") + "]";
  const names = Object.keys(value).sort(byCodePoint);
  return "{" + names.map((name) => JSON.stringify(name) + ":" + canonical(value[name])).join(",") + "}";
}

function byCodePoint(a, b) {
  // UTF-16 puts characters beyond the first plane before U+E000 to U+FFFF, code points do not
  const lift = (s) => s.replace(/[\uE000-\uFFFF]/g, (c) => "\uDBFF\uDFFF" + c);
  if (/[\uD800-\uFFFF]/.test(a + b)) [a, b] = [lift(a), lift(b)];
  return a < b ? -1 : a > b ? 1 : 0;
}

const normals = new WeakMap();

/** Text that two values share when they are equal with the rows of their tables in any order. */
function normal(value) {
  if (value === null || typeof value !== "object" || value instanceof Num) return value === ABSENT ? "" : canonical(value);
  let text = normals.get(value);
  if (text === undefined) {
    if (isList(value)) {
      const items = value.map(normal);
      if (isTable(value)) items.sort();
      text = "[" + items.join(",") + "]";
    } else {
      text = "{" + Object.keys(value).sort().map((name) => JSON.stringify(name) + ":" + normal(value[name])).join(",") + "}";
    }
    normals.set(value, text);
  }
  return text;
}

/** Whether two values are one; `1`, `1.0` and `true` are not, absent is not null, and the order of rows counts only when asked. */
function same(a, b, ordered = false) {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (a instanceof Num || b instanceof Num) return a instanceof Num && b instanceof Num && a.text === b.text;
  if (isList(a)) {
    if (!isList(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) {
      if (!same(a[i], b[i], ordered)) return !ordered && isTable(a) && isTable(b) && normal(a) === normal(b);
    }
    return true;
  }
  if (isList(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  for (const name of names) {
    if (!(name in b) || !same(a[name], b[name], ordered)) return false;
  }
  return true;
}

/** The value, with all parts that are the same taken from a value that is known already. */
function shared(value, before) {
  if (value === before || value === null || typeof value !== "object" || value instanceof Num) return value;
  if (before === null || typeof before !== "object" || before instanceof Num) return value;
  if (isList(value)) {
    if (!isList(before)) return value;
    let equal = value.length === before.length;
    const list = value.map((item, i) => {
      const kept = shared(item, before[i]);
      equal = equal && kept === before[i];
      return kept;
    });
    return equal ? before : list;
  }
  if (isList(before)) return value;
  const object = Object.create(null);
  let equal = true;
  for (const name of Object.keys(value)) {
    object[name] = shared(value[name], before[name]);
    equal = equal && name in before && (object[name] === before[name] || same(object[name], before[name]));
  }
  return equal && Object.keys(before).length === Object.keys(value).length ? before : object;
}

// ---------------------------------------------------------------------------------------------
// Paths and changes of a state

const escape = (segment) => segment.replace(/~/g, "~0").replace(/\//g, "~1");
const unescape = (segment) => segment.replace(/~1/g, "/").replace(/~0/g, "~");

const indices = new WeakMap();

/** The rows of a table by the canonical text of their key. */
function rowsByKey(table, key) {
  let found = indices.get(table);
  if (!found || found.key !== key) {
    const places = new Map();
    table.forEach((row, i) => {
      const value = row[key];
      if (value !== ABSENT && value !== null) places.set(canonical(value), i);
    });
    found = { key, places };
    indices.set(table, found);
  }
  return found.places;
}

/** A state after one change; all that the change leaves alone is shared with the state before. */
function applied(node, segments, i, pattern, change, keys) {
  if (i === segments.length) return change.op === "remove" ? ABSENT : change.after;
  const segment = segments[i];
  if (isList(node)) return appliedToList(node, segments, i, pattern, change, keys);
  const name = unescape(segment);
  const below = applied(node && typeof node === "object" ? node[name] : ABSENT, segments, i + 1, pattern + "/" + segment, change, keys);
  const copy = Object.assign(Object.create(null), node);
  if (below === ABSENT) delete copy[name];
  else copy[name] = below;
  return copy;
}

function appliedToList(list, segments, i, pattern, change, keys) {
  const segment = segments[i];
  const key = keys[pattern];
  if (typeof key === "string" && segment.startsWith(escape(key) + "=")) {
    const wanted = unescape(segment).slice(key.length + 1);
    const places = rowsByKey(list, key);
    const place = places.get(wanted);
    const below = applied(place === undefined ? ABSENT : list[place], segments, i + 1, pattern + "/*", change, keys);
    const copy = list.slice();
    if (below === ABSENT) {
      if (place !== undefined) copy.splice(place, 1);
      return copy;
    }
    if (place === undefined) {
      copy.push(below);
      return copy;
    }
    copy[place] = below;
    indices.set(copy, { key, places });
    return copy;
  }
  if (segment[0] === "#") {
    const counted = change.op === "remove" ? change.before : change.after;
    const text = normal(counted.row);
    const first = list.findIndex((row) => normal(row) === text);
    const copy = list.filter((row) => normal(row) !== text);
    const count = change.op === "remove" ? 0 : change.after.count;
    copy.splice(first === -1 ? copy.length : first, 0, ...Array(count).fill(counted.row));
    return copy;
  }
  const place = Number(segment);
  const copy = list.slice();
  const below = applied(list[place], segments, i + 1, pattern + "/" + segment, change, keys);
  if (below === ABSENT) copy.length = Math.min(copy.length, place); // only the end of a list goes
  else copy[place] = below;
  return copy;
}

const segmentsOf = (path) => (path === "" ? [] : path.slice(1).split("/"));

/** What a state holds at a path, and `ABSENT` where there is nothing. */
function valueAt(state, path, keys) {
  let node = state;
  let pattern = "";
  for (const segment of segmentsOf(path)) {
    if (node === ABSENT || node === null || typeof node !== "object") return ABSENT;
    if (isList(node)) {
      const key = keys[pattern];
      if (typeof key === "string" && segment.startsWith(escape(key) + "=")) {
        const place = rowsByKey(node, key).get(unescape(segment).slice(key.length + 1));
        node = place === undefined ? ABSENT : node[place];
        pattern += "/*";
      } else if (segment[0] === "#") {
        const rows = node.filter((row) => isObject(row) && digestOf(row) === segment.slice(1));
        node = rows.length ? Object.assign(Object.create(null), { row: rows[0], count: rows.length }) : ABSENT;
        pattern += "/*";
      } else {
        node = node[Number(segment)];
        pattern += "/" + segment;
      }
    } else {
      node = node[unescape(segment)];
      pattern += "/" + segment;
    }
  }
  return node;
}

const digests = new WeakMap();

/** The name of a row in a table without a key: the beginning of the SHA-256 of its text. */
function digestOf(row) {
  let digest = digests.get(row);
  if (digest === undefined) {
    digest = sha256(new TextEncoder().encode(canonical(unordered(row)))).slice(0, 16);
    digests.set(row, digest);
  }
  return digest;
}

function unordered(value) {
  if (value === null || typeof value !== "object" || value instanceof Num) return value;
  if (isList(value)) {
    const items = value.map(unordered);
    return isTable(value) ? items.map((item) => [canonical(item), item]).sort((a, b) => byCodePoint(a[0], b[0])).map((pair) => pair[1]) : items;
  }
  if (TAG in value) return value;
  const object = Object.create(null);
  for (const name of Object.keys(value)) object[name] = unordered(value[name]);
  return object;
}

// The browser's own digest gives its answer later, and is not there on every page.
function sha256(bytes) {
  const rotate = (x, n) => (x >>> n) | (x << (32 - n));
  const fraction = (x) => ((x - Math.floor(x)) * 0x100000000) | 0;
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const k = primes.map((p) => fraction(Math.cbrt(p)));
  const hash = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
  const length = bytes.length;
  const blocks = new Uint8Array((((length + 8) >> 6) + 1) << 6);
  blocks.set(bytes);
  blocks[length] = 0x80;
  const view = new DataView(blocks.buffer);
  view.setUint32(blocks.length - 4, length << 3);
  view.setUint32(blocks.length - 8, Math.floor(length / 0x20000000));
  const w = new Int32Array(64);
  for (let start = 0; start < blocks.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const t1 = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i]) | 0;
      const t2 = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (hash[i] = (hash[i] + x) | 0));
  }
  return hash.map((x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
}

// ---------------------------------------------------------------------------------------------
// Episodes: packed text, read part by part

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function inflate(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** An episode: its head, and the moments that the page has or that a kernel can be asked for. */
class Episode {
  static async read(text) {
    const parts = text.replace(/\s+/g, "").split(".");
    const head = parse(await inflate(bytesOf(parts[0])).text());
    return new Episode(head, parts.slice(1));
  }

  constructor(head, parts) {
    this.head = head;
    this.id = head.episode.episode_id;
    this.last = head.n_moments - 1;
    this.keys = head.keys;
    this.link = null; // asks a kernel: (what, name) => Promise of bytes
    this.packed = new Map(head.chunks.map((index, i) => [index, parts[i]]));
    this.pictures = new Map(head.frames.map((digest, i) => [digest, parts[head.chunks.length + i]]));
    this.chunks = new Map();
    this.loading = new Map();
    this.states = new Map(); // checkpoints, by moment
    this.start = ABSENT;
    this.marks = {};
    for (const kind of Object.keys(head.marks)) {
      const steps = head.marks[kind];
      let at = 0;
      this.marks[kind] = steps === null ? null : Float64Array.from(steps, (step) => (at += step));
    }
  }

  chunkOf(moment) {
    return Math.floor(moment / this.head.per_chunk);
  }

  /** Whether a moment can be shown: the page has it, or a kernel does. */
  has(moment) {
    return this.link !== null || this.packed.has(this.chunkOf(moment));
  }

  /** The chunk of a moment if it was read already. */
  at(moment) {
    return this.chunks.get(this.chunkOf(moment));
  }

  /** Read a chunk; null when neither the page nor a kernel has it. */
  load(index) {
    const ready = this.chunks.get(index);
    if (ready) return Promise.resolve(ready);
    if (!this.loading.has(index)) {
      const reading = this.textOf(index)
        .then((text) => {
          if (text === null) return null;
          const chunk = new Chunk(parse(text));
          this.chunks.set(index, chunk);
          this.forget(index);
          return chunk;
        })
        .finally(() => this.loading.delete(index));
      this.loading.set(index, reading);
    }
    return this.loading.get(index);
  }

  async textOf(index) {
    if (this.packed.has(index)) return inflate(bytesOf(this.packed.get(index))).text();
    if (this.link === null || index < 0 || index >= this.head.n_chunks) return null;
    return inflate(await this.link("chunk", index)).text();
  }

  /** Keep the chunks near the one that was read last, so that memory stays bounded. */
  forget(near) {
    if (this.chunks.size <= 48) return;
    const far = [...this.chunks.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    for (const index of far.slice(0, 16)) if (index !== 0) this.chunks.delete(index);
  }

  /** Everything that showing a moment needs; resolves when `stateAt` can answer. */
  async prepare(moment) {
    let index = this.chunkOf(moment);
    const needed = [];
    for (; index >= 0; index--) {
      const chunk = await this.load(index);
      needed.push(index);
      if (chunk === null || chunk.state !== ABSENT || this.states.has(index * this.head.per_chunk)) break;
    }
    await this.load(0);
    return needed;
  }

  isReady(moment) {
    const here = this.chunkOf(moment);
    if (!this.chunks.has(here)) return !this.has(moment);
    for (let index = here; index >= 0; index--) {
      const chunk = this.chunks.get(index);
      if (!chunk) return !this.packed.has(index) && this.link === null;
      if (chunk.state !== ABSENT || this.states.has(index * this.head.per_chunk)) return true;
    }
    return true;
  }

  /** The state at a moment; `ABSENT` when it is not known. */
  stateAt(moment) {
    if (moment < 0) return ABSENT;
    const held = this.states.get(moment);
    if (held !== undefined) return held;
    const index = this.chunkOf(moment);
    const chunk = this.chunks.get(index);
    if (!chunk) return ABSENT;
    let at = moment;
    const floor = chunk.state === ABSENT ? chunk.first : chunk.stateFrom;
    if (moment < floor) return ABSENT;
    while (at > floor && !this.states.has(at)) at--;
    let state = this.states.get(at);
    if (state === ABSENT) {
      if (chunk.state !== ABSENT) state = floor === 0 ? chunk.state : shared(chunk.state, this.startState());
      else if (floor > 0) {
        state = this.stateAt(floor - 1);
        if (state !== ABSENT) state = this.after(state, chunk, floor);
      }
      if (state === ABSENT) return ABSENT;
      this.keep(at, state);
    }
    while (at < moment) {
      at++;
      state = this.after(state, chunk, at);
      if (at % 32 === 0 || at === moment) this.keep(at, state);
    }
    return state;
  }

  after(state, chunk, moment) {
    for (const change of chunk.changesAt(moment)) {
      try {
        state = applied(state, segmentsOf(change.path), 0, "", change, this.keys);
      } catch {
        return state; // changes that do not fit the state: the next whole state is right again
      }
    }
    return state;
  }

  keep(moment, state) {
    this.states.set(moment, state);
    if (this.states.size > 600) {
      let n = 200;
      for (const old of this.states.keys()) {
        if (old !== 0) this.states.delete(old);
        if (--n === 0) break;
      }
    }
  }

  startState() {
    if (this.start === ABSENT) {
      const first = this.chunks.get(0); // the first state seen is the reference
      if (first && first.state !== ABSENT) this.start = first.state;
    }
    return this.start;
  }

  /** The moment at which the state that is shown was seen: earlier than this one after a gap. */
  seenAt(moment) {
    for (let at = moment; at >= 0; at--) {
      const chunk = this.at(at);
      if (!chunk) return at;
      if (!chunk.unseen.has(at)) return at;
    }
    return -1;
  }

  column(name, moment) {
    const chunk = this.at(moment);
    if (!chunk) return ABSENT;
    const column = chunk.columns[name];
    if (!column) return null;
    const value = column[moment - chunk.first];
    return value === undefined ? null : value;
  }

  action(moment) {
    return unbatched(this.column("action", moment), this.head.spaces.action);
  }

  observation(moment) {
    return unbatched(this.column("observation", moment), this.head.spaces.observation);
  }

  changesAt(moment) {
    const chunk = this.at(moment);
    return chunk ? chunk.changesAt(moment) : [];
  }

  async picture(digest) {
    const packed = this.pictures.get(digest);
    if (packed !== undefined) return new Uint8Array(await inflate(bytesOf(packed)).arrayBuffer());
    if (this.link === null) return null;
    return new Uint8Array(await inflate(await this.link("frame", digest)).arrayBuffer());
  }
}

class Chunk {
  constructor(data) {
    this.first = data.first;
    this.n = data.n;
    this.state = data.state === undefined ? ABSENT : data.state;
    this.stateFrom = data.state_at === undefined ? this.first : data.state_at;
    this.unseen = new Set(data.unseen);
    this.columns = data;
    this.changes = changesOf(data.changes, this.first);
    this.offsets = new Int32Array(this.n + 1);
    for (const change of this.changes) this.offsets[change.step - this.first + 1]++;
    for (let i = 0; i < this.n; i++) this.offsets[i + 1] += this.offsets[i];
    this.events = data.events || [];
  }

  changesAt(moment) {
    const i = moment - this.first;
    return i < 0 || i >= this.n ? [] : this.changes.slice(this.offsets[i], this.offsets[i + 1]);
  }

  eventsAt(moment) {
    return this.events.filter((event) => event.step === moment);
  }
}

/** Changes from their columns, in which steps are distances. */
function changesOf(columns, first) {
  let step = first;
  return columns.op.map((op, i) => {
    step += columns.step[i];
    const restoredAt = columns.back[i] === null ? null : step + columns.back[i];
    return {
      step,
      since: step - columns.gap[i] - 1,
      path: columns.paths[columns.path[i]],
      op,
      before: op === "add" ? ABSENT : columns.before[i],
      after: op === "remove" ? ABSENT : columns.after[i],
      restoredAt,
    };
  });
}

/** A sample as it is, out of the batch of one that its space writes. */
function unbatched(value, space) {
  if (value === null || value === ABSENT) return value;
  if (typeof value === "object" && !isList(value) && value[TAG] === "sample") return value.value;
  if (!space) return value;
  if (space.type === "Dict" && isObject(value)) {
    const object = Object.create(null);
    for (const [name, inner] of space.spaces) if (name in value) object[name] = unbatched(value[name], inner);
    return object;
  }
  if (space.type === "Tuple" && isList(value)) {
    const items = value.map((item, i) => unbatched(item, space.spaces[i]));
    return Object.assign(Object.create(null), { [TAG]: "tuple", items });
  }
  return isList(value) && value.length === 1 ? value[0] : value;
}

// ---------------------------------------------------------------------------------------------
// Values as text

// Controls, direction marks and other characters that show nothing by themselves.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff0-\ufffb\ue000-\uf8ff]|[\udb40-\udbff][\udc00-\udfff]/g;
const unseen = (text) => (UNSEEN.lastIndex = 0, UNSEEN.test(text));
const codeOf = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

/** Text in which nothing is hidden, for attributes and canvas. */
const visible = (text) => (unseen(text) ? text.replace(UNSEEN, codeOf) : text);

const thousands = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
const counted = (n, one, many) => thousands(n) + " " + (n === 1 ? one : many || one + "s");
const shorten = (text, length) => (text.length > length ? text.slice(0, length) + "…" : text);

/** A value in one line: `{text, kind}`; the kind colours it. `length` bounds the text. */
function brief(value, length = SHORT) {
  if (value === ABSENT) return { text: "absent", kind: "absent" };
  if (value === null) return { text: "null", kind: "null" };
  switch (typeof value) {
    case "boolean":
      return { text: String(value), kind: "bool" };
    case "number":
      return { text: String(value), kind: "num" };
    case "string":
      return { text: quoted(value, length), kind: "str" };
  }
  if (value instanceof Num) return { text: value.text, kind: "num" };
  if (isList(value)) {
    if (value.length === 0) return { text: "[]", kind: "null" };
    if (isTable(value)) return { text: counted(value.length, "row"), kind: "nest" };
    return { text: shorten("[" + joined(value, length), length) + (textOverflow(value, length) ? "" : "]"), kind: "nest" };
  }
  if (TAG in value) return tagged(value, length);
  const names = Object.keys(value);
  if (names.length === 0) return { text: "{}", kind: "null" };
  let text = "{";
  for (const name of names) {
    text += (text === "{" ? "" : ", ") + name + ": " + brief(value[name], 40).text;
    if (text.length > length) break;
  }
  return { text: text.length > length ? shorten(text, length) : text + "}", kind: "nest" };
}

function joined(items, length) {
  let text = "";
  for (const item of items) {
    text += (text ? ", " : "") + brief(item, 40).text;
    if (text.length > length) break;
  }
  return text;
}

const textOverflow = (items, length) => joined(items, length).length + 1 > length;

/** A string as it stands, in quotes where it would be taken for something else. */
function quoted(text, length) {
  if (text === "" || /^\s|\s$|^(null|true|false|absent|-?\d[\d.,]*(e[+-]?\d+)?|NaN|[[{"].*)$/i.test(text.slice(0, 200))) {
    return JSON.stringify(shorten(text, length)).replace(/\\n/g, "↵");
  }
  return shorten(text, length).replace(/\r?\n/g, "↵");
}

/** A value of a type that JSON does not have. */
function tagged(value, length) {
  const inner = (v) => brief(v, length).text;
  const kind = value[TAG];
  const items = () => joined(value.items || [], length);
  switch (kind) {
    case "absent":
      return { text: "absent", kind: "absent" };
    case "float":
      return { text: { nan: "NaN", inf: "∞", "-inf": "−∞" }[value.value] || inner(value.value), kind: "num" };
    case "int":
      return { text: String(BigInt(String(value.hex).replace("-", "")) * (String(value.hex)[0] === "-" ? -1n : 1n)), kind: "num" };
    case "decimal":
      return { text: "Decimal " + value.value, kind: "typed" };
    case "complex":
      return { text: inner(value.real) + " + " + inner(value.imag) + "i", kind: "num" };
    case "uuid":
    case "date":
      return { text: String(value.value), kind: "typed" };
    case "datetime":
    case "time":
      return { text: String(value.value).replace("T", " ") + (value.zone ? " " + value.zone : ""), kind: "typed" };
    case "timedelta":
      return { text: `${inner(value.days)} d ${inner(value.seconds)} s ${inner(value.microseconds)} µs`, kind: "typed" };
    case "bytes":
    case "bytearray":
      return { text: kind + " " + hexOf(value.base64, length), kind: "typed" };
    case "str":
      return { text: "text with lone surrogates, " + counted(atob(value.base64).length, "byte"), kind: "typed" };
    case "tuple":
      return { text: shorten("(" + items() + ")", length), kind: "typed" };
    case "set":
    case "frozenset":
      return { text: shorten(kind + " {" + items() + "}", length), kind: "typed" };
    case "dict":
    case "ordereddict":
      return { text: shorten("{" + (value.items || []).map(([k, v]) => inner(k) + ": " + inner(v)).join(", ") + "}", length), kind: "typed" };
    case "scalar":
      return { text: scalarOf(value, length) + " " + dtypeOf(value.dtype), kind: "num" };
    case "array": {
      const shape = "(" + value.shape.join("×") + ")";
      const about = dtypeOf(value.dtype) + " " + shape;
      if (value.data) return { text: shorten(about + " [" + joined(value.data, length) + "]", length), kind: "typed" };
      const numbers = numbersOf(value);
      if (numbers) return { text: shorten(about + " [" + joined(numbers, length) + "]", length), kind: "typed" };
      return { text: about + (value.sha256 ? " SHA-256 " + value.sha256.slice(0, 12) : ""), kind: "typed" };
    }
    case "named":
      return { text: shorten(shortType(value.type) + (value.name ? "." + value.name : "") + " " + inner(value.value), length), kind: "typed" };
    case "missing":
      return { text: "not kept: " + shortType(value.type) + ", " + inner(value.reason), kind: "lost" };
    case "cut":
      return { text: shorten(String(value.text), length) + " … " + counted(value.length, "character") + " in all", kind: "lost" };
    case "sample":
      return brief(value.value, length);
    default:
      return { text: shorten(canonical(value), length), kind: "typed" };
  }
}

const shortType = (name) => String(name).split(".").pop();

function hexOf(base64, length) {
  const bytes = bytesOf(String(base64).slice(0, 4 * Math.ceil(length / 3)));
  const text = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return shorten(text, length) || "empty";
}

function dtypeOf(dtype) {
  if (typeof dtype !== "string") return "structure";
  const [, kind, size] = /^[<>|=]?([a-zA-Z])(\d*)/.exec(dtype) || [];
  const names = { f: "float", i: "int", u: "uint", b: "bool", c: "complex" };
  return names[kind] ? names[kind] + (kind === "b" ? "" : Number(size) * 8) : dtype;
}

function scalarOf(value, length) {
  if ("value" in value) return brief(value.value, length).text;
  const numbers = numbersOf({ ...value, shape: [] });
  return numbers && numbers.length === 1 ? brief(numbers[0], length).text : hexOf(value.base64, length);
}

/** The numbers of an array that is kept as bytes, if it is a plain one. */
function numbersOf(value) {
  const found = /^([<>|=])(f4|f8|i1|i2|i4|u1|u2|u4|b1)$/.exec(value.dtype);
  if (!found || typeof value.base64 !== "string") return null;
  const [, order, kind] = found;
  const view = new DataView(bytesOf(value.base64).buffer);
  const name = { f4: "Float32", f8: "Float64", i1: "Int8", i2: "Int16", i4: "Int32", u1: "Uint8", u2: "Uint16", u4: "Uint32", b1: "Uint8" }[kind];
  const numbers = [];
  for (let at = 0; at < view.byteLength; at += Number(kind[1])) {
    const n = view["get" + name](at, order !== ">");
    numbers.push(Number.isNaN(n) ? { [TAG]: "float", value: "nan" } : Number.isFinite(n) ? (kind[0] === "f" ? new Num(String(n)) : n) : { [TAG]: "float", value: n > 0 ? "inf" : "-inf" });
  }
  return numbers;
}

/** All of a value as text: strings as they are, all else as JSON. */
function whole(value) {
  if (value === ABSENT) return "absent";
  if (typeof value === "string") return value;
  if (value !== null && typeof value === "object" && !(value instanceof Num)) {
    return TAG in value && !isNested(value.items) ? brief(value, Infinity).text : pretty(value, "");
  }
  return brief(value, Infinity).text;
}

function pretty(value, indent) {
  if (value === null || typeof value !== "object" || value instanceof Num) return canonical(value);
  const inner = indent + "  ";
  if (isList(value)) {
    if (!value.some((item) => item !== null && typeof item === "object" && !(item instanceof Num))) return "[" + value.map(canonical).join(", ") + "]";
    return "[\n" + value.map((item) => inner + pretty(item, inner)).join(",\n") + "\n" + indent + "]";
  }
  if (TAG in value) return canonical(value);
  const names = Object.keys(value);
  if (names.length === 0) return "{}";
  return "{\n" + names.map((name) => inner + JSON.stringify(name) + ": " + pretty(value[name], inner)).join(",\n") + "\n" + indent + "}";
}

// ---------------------------------------------------------------------------------------------
// Elements

function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const name in props) {
    const value = props[name];
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") put(element, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** Put text into an element; what would be hidden or reorder the text beside it is written out. */
function put(element, text) {
  if (!unseen(text)) {
    const { firstChild } = element;
    if (!firstChild || firstChild !== element.lastChild || firstChild.nodeType !== 3) element.textContent = text;
    else if (firstChild.data !== text) firstChild.data = text; // what is the same would be laid out anew
    return element;
  }
  element.textContent = "";
  let from = 0;
  text.replace(UNSEEN, (c, at) => {
    element.append(text.slice(from, at), h("span", { class: "unseen", title: "a character that shows nothing" }, codeOf(c)));
    from = at + c.length;
  });
  element.append(text.slice(from));
  return element;
}

const whenIdle = globalThis.requestIdleCallback ?? ((act) => setTimeout(act, 50));

/** Give an element these children; those that stay are not taken out, so that they are not laid out anew. */
function arrange(element, children) {
  const staying = new Set(children);
  for (let child = element.firstChild; child; ) {
    const next = child.nextSibling;
    if (!staying.has(child)) child.remove();
    child = next;
  }
  let place = element.firstChild;
  for (const child of children) {
    if (child === place) place = place.nextSibling;
    else element.insertBefore(child, place);
  }
}

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  first: "M4 3v10M13 3 6 8l7 5z",
  back: "M11 3 4 8l7 5z",
  play: "M4 2.5v11L13 8z",
  pause: "M4.5 3v10M11.5 3v10",
  forward: "M5 3l7 5-7 5z",
  last: "M12 3v10M3 3l7 5-7 5z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.8 10.8 14.5 14.5",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  open: "M5 3l6 5-6 5",
  passed: "M2.5 8.5 6.5 12.5 13.5 4",
  failed: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  unknown: "M5 5.5C5 3.5 6.4 2.5 8 2.5s3 1 3 2.8c0 2.2-3 2.4-3 4.7M8 13.4v.1",
  fold: "M2 4h12M2 8h8M2 12h4",
};

function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon " + name);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

function button(name, label, action, text) {
  return h("button", { type: "button", "aria-label": text ? null : label, title: label, onclick: action, class: text ? "text" : "tool" }, name ? icon(name) : null, text || null);
}

const soft = (text) => h("p", { class: "soft" }, text);

/** An element that shows a value in one line: the one that is given, or a new one. */
function valueOf(value, length, element = h("span", {})) {
  const { text, kind } = brief(value, length);
  if (element.className !== "v " + kind) element.className = "v " + kind;
  return put(element, text);
}

/** Whether an element was made by `valueOf`, and can show another value. */
const isValue = (element) => Boolean(element && element.className && element.className.startsWith("v "));

const treesOf = new WeakMap(); // the members that the lists of `tree` show

/**
 * A value as lines of names and values, in which nested ones fold. An element that was made for
 * another value is changed where it can be; what is open in it stays open.
 */
function tree(value, before = null, depth = 0) {
  if (!isNested(value) && !(value && typeof value === "object" && isNested(value.items))) return longText(value, before);
  const all = isList(value) ? value.map((item, i) => [String(i), item]) : TAG in value ? value.items.map((item, i) => [String(i), item]) : Object.keys(value).map((name) => [name, value[name]]);
  const members = all.slice(0, 200);
  const shown = treesOf.get(before);
  const list = shown && shown.length === all.length && members.every(([name], i) => name === shown[i][0]) ? before : h("dl", { class: "tree" });
  members.forEach(([name, item], i) => {
    if (list !== before) list.append(h("div", {}, h("dt", { text: shorten(name, 80), title: visible(name) }), h("dd", {})));
    else if (same(item, shown[i][1], true)) return;
    const dd = list.children[i].lastChild;
    const flat = isList(item) && item.every((each) => !isNested(each)) && brief(item, 200).text.length < 60;
    const old = dd.firstChild;
    const element = isNested(item) && !flat ? folding(item, depth, Boolean(old && old.open)) : longText(item, old);
    if (element !== old) dd.replaceChildren(element);
  });
  if (list !== before && all.length > 200) list.append(h("div", { class: "soft" }, h("dd", {}, `and ${counted(all.length - 200, "more member")}`)));
  treesOf.set(list, all);
  return list;
}

function folding(item, depth, open) {
  const { text } = brief(item, 80);
  const details = h("details", { class: "fold", open }, h("summary", {}, icon("open"), h("span", { class: "v nest", text })));
  const fill = () => details.childElementCount === 1 && details.append(tree(item, null, depth + 1));
  if (open) fill();
  details.addEventListener("toggle", () => details.open && fill());
  return details;
}

/** A value that may be long: its beginning, with a way to see all of it. */
function longText(value, before = null, length = 400) {
  const text = typeof value === "string" ? value : null;
  if (text === null || (text.length <= length && !text.includes("\n"))) return valueOf(value, length, isValue(before) ? before : undefined);
  const shown = h("span", { class: "v str block", text: shorten(text, length) });
  if (text.length <= length) return shown;
  const all = button(null, "Show all of it", () => {
    put(shown, text);
    all.remove();
  }, `show all ${thousands(text.length)} characters`);
  return h("span", {}, shown, " ", all);
}

/** Text with the colours that a terminal would give it. */
function terminal(text) {
  const block = h("pre", { class: "ansi" });
  let style = [];
  let from = 0;
  const add = (piece) => piece && block.append(h("span", { class: style.join(" ") || null, text: piece }));
  const codes = /\x1b\[([0-9;]*)m/g;
  for (let found; (found = codes.exec(text)); from = codes.lastIndex) {
    add(text.slice(from, found.index));
    for (const code of found[1].split(";").map(Number)) {
      if (code === 0) style = [];
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style = [...style.filter((s) => !s.startsWith("fg")), "fg" + (code % 10)];
      else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) style = [...style.filter((s) => !s.startsWith("bg")), "bg" + (code % 10)];
      else if (code === 1) style = [...style, "bold"];
    }
  }
  add(text.slice(from));
  return block;
}

// ---------------------------------------------------------------------------------------------
// The timeline

const KINDS = {
  forbidden: { one: "forbidden change", many: "forbidden changes", shape: "down", colour: "--eb-bad" },
  restored: { one: "value put back", many: "values put back", shape: "diamond", colour: "--eb-back" },
  error: { one: "error", many: "errors", shape: "cross", colour: "--eb-bad" },
  check: { one: "check not passed", many: "checks not passed", shape: "dot", colour: "--eb-warn" },
  differs: { one: "step differs", many: "steps differ", shape: "square", colour: "--eb-differs" },
  reward: { one: "reward", many: "rewards", shape: "bar", colour: "--eb-good" },
  change: { one: "step changed the state", many: "steps changed the state", shape: "tick", colour: "--eb-ink-2" },
  unseen: { one: "state not seen", many: "states not seen", shape: "gap", colour: "--eb-ink-3" },
};
const LANES = [["forbidden", "restored"], ["error", "check", "differs", "unseen"]];

function drawShape(g, shape, x, y, r) {
  g.beginPath();
  if (shape === "down") {
    g.moveTo(x - r, y - r + 1);
    g.lineTo(x + r, y - r + 1);
    g.lineTo(x, y + r);
    g.closePath();
    g.fill();
  } else if (shape === "diamond") {
    g.moveTo(x, y - r);
    g.lineTo(x + r, y);
    g.lineTo(x, y + r);
    g.lineTo(x - r, y);
    g.closePath();
    g.fill();
  } else if (shape === "cross") {
    g.moveTo(x - r + 1, y - r + 1);
    g.lineTo(x + r - 1, y + r - 1);
    g.moveTo(x + r - 1, y - r + 1);
    g.lineTo(x - r + 1, y + r - 1);
    g.stroke();
  } else if (shape === "dot") {
    g.arc(x, y, r - 0.5, 0, 7);
    g.fill();
  } else if (shape === "square") {
    g.fillRect(x - r + 1.5, y - r + 1.5, 2 * r - 3, 2 * r - 3);
  } else if (shape === "bar") {
    g.fillRect(x - 1.5, y - r, 3, 2 * r);
  } else if (shape === "tick") {
    g.fillRect(x - 0.5, y - r, 1.5, 2 * r);
  } else {
    g.setLineDash([2, 2]);
    g.strokeRect(x - r + 1, y - r + 1.5, 2 * r - 2, 2 * r - 3);
    g.setLineDash([]);
  }
}

/** Marks of one lane; where two of them would lie on each other, each kind has a lane of its own. */
function lanesOf(kinds, marks) {
  if (!kinds.length) return [];
  const met = new Set();
  for (const kind of kinds) {
    for (const step of new Set(marks[kind] || [])) {
      if (met.has(step)) return kinds.map((each) => [each]);
      met.add(step);
    }
  }
  return [kinds];
}

class Timeline {
  constructor(app) {
    this.app = app;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.cursor = h("div", { class: "cursor", "aria-hidden": "true" });
    this.ghost = h("div", { class: "ghost", "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", "aria-hidden": "true" });
    this.description = h("p", { class: "hidden", id: "marks" });
    this.track = h("div", { class: "track", role: "slider", tabindex: "0", "aria-label": "Step", "aria-describedby": "marks", "aria-valuemin": "0" }, this.canvas, this.ghost, this.cursor, this.tip);
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "Marks: which are shown, and visited by n and p" });
    this.element = h("div", { class: "timeline" }, this.track, this.description);
    this.off = new Set();
    this.sides = app.episodes.map((episode) => {
      const lanes = LANES.map((kinds) => kinds.filter((kind) => this.count(episode, kind) !== 0)).flatMap((kinds) => lanesOf(kinds, episode.marks));
      const line = episode.head.timeline;
      return { episode, lanes, reward: line.reward, changes: line.changes, height: lanes.length * 15 + (line.reward ? 22 : 0) + (line.changes ? 9 : 0) + 8 };
    });
    this.height = this.sides.reduce((sum, side) => sum + side.height, 0) + 18;
    this.canvas.style.height = this.height + "px";
    this.fillLegend();
    this.listen();
  }

  count(episode, kind) {
    const steps = episode.marks[kind];
    return steps === undefined ? 0 : steps === null ? Infinity : steps.length;
  }

  fillLegend() {
    const n = this.app.last + 1;
    for (const kind of Object.keys(KINDS)) {
      const counts = this.app.episodes.map((episode) => this.count(episode, kind));
      const most = Math.max(...counts);
      if (most === 0) continue;
      const quiet = !["forbidden", "error", "check"].includes(kind) && most > Math.max(3, n / 5);
      const { one, many } = KINDS[kind];
      const number = (count) => (count === Infinity ? "many" : thousands(count));
      const shown = kind === "differs" ? number(counts[0]) : counts.map(number).join(" | ");
      const swatch = h("canvas", { width: "24", height: "24", "aria-hidden": "true" });
      const chip = h("button", { type: "button", class: "chip", "aria-pressed": "true", title: quiet ? "Shown; too many to be visited by n and p" : "Shown, and visited by n and p" }, swatch, h("span", {}, shown + " " + (counts.length === 1 && most === 1 ? one : many)));
      chip.addEventListener("click", () => {
        const off = !this.off.delete(kind);
        if (off) this.off.add(kind);
        chip.setAttribute("aria-pressed", String(!off));
        this.draw();
        if (this.app.list) this.app.list.renew();
      });
      this.legend.append(chip);
      (this.swatches ||= []).push([swatch, KINDS[kind]]);
      if (quiet) (this.quiet ||= new Set()).add(kind);
    }
    const parts = [counted(n, "moment")];
    for (const [i, episode] of this.app.episodes.entries()) {
      for (const kind of Object.keys(KINDS)) {
        const count = this.count(episode, kind);
        if (!count || ["change", "reward"].includes(kind)) continue;
        const steps = episode.marks[kind] ? [...episode.marks[kind].slice(0, 20)].join(", ") : "";
        parts.push((this.app.episodes.length > 1 ? `episode ${"AB"[i]}, ` : "") + `${KINDS[kind].many}: ${count === Infinity ? "many" : `step ${steps}${count > 20 ? " and more" : ""}`}`);
      }
    }
    this.description.textContent = parts.join(". ") + ".";
  }

  x(moment) {
    return 8 + ((moment + 0.5) / (this.app.last + 1)) * (this.width - 16);
  }

  /** Where a bar begins, on a whole pixel: bars between pixels would make a pattern of their own. */
  place(i, places, wide, episode) {
    return Math.floor(this.x(((i + 0.5) * (episode.last + 1)) / places - 0.5) - wide / 2);
  }

  momentAt(x) {
    const moment = Math.floor(((x - 8) / (this.width - 16)) * (this.app.last + 1));
    return Math.max(0, Math.min(this.app.last, moment));
  }

  listen() {
    const at = (event) => this.momentAt(event.clientX - this.track.getBoundingClientRect().left);
    this.track.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.track.setPointerCapture(event.pointerId);
      this.track.focus({ preventScroll: true });
      this.dragging = true;
      this.app.go(at(event));
      event.preventDefault();
    });
    this.track.addEventListener("pointermove", (event) => {
      const moment = at(event);
      if (this.dragging) this.app.go(moment);
      this.hover(moment);
    });
    const end = () => (this.dragging = false);
    this.track.addEventListener("pointerup", end);
    this.track.addEventListener("pointercancel", end);
    this.track.addEventListener("pointerleave", () => this.hover(null));
    new ResizeObserver(() => this.draw()).observe(this.track);
  }

  hover(moment) {
    const shown = moment !== null;
    this.ghost.style.opacity = this.tip.style.opacity = shown ? "1" : "0";
    if (!shown) return;
    const x = this.x(moment);
    this.ghost.style.transform = `translateX(${x}px)`;
    put(this.tip, this.app.titleOf(moment));
    this.tip.style.transform = `translateX(${Math.max(0, Math.min(this.width - this.tip.offsetWidth, x - this.tip.offsetWidth / 2))}px)`;
  }

  draw() {
    const width = this.track.clientWidth;
    if (!width) return;
    this.width = width;
    const ratio = globalThis.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = this.height * ratio;
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    const style = getComputedStyle(this.track);
    const colour = (name) => style.getPropertyValue(name).trim() || "#888";
    const n = this.app.last + 1;
    let top = 0;
    this.sides.forEach((side, i) => {
      this.drawSide(g, side, top, colour, n);
      if (this.sides.length > 1) {
        g.fillStyle = colour("--eb-ink-2");
        g.font = `600 12px ${style.fontFamily}`;
        g.fillText("AB"[i], 0, top + 12);
      }
      top += side.height;
    });
    this.drawAxis(g, top, colour, style.fontFamily);
    for (const [swatch, kind] of this.swatches || []) {
      const s = swatch.getContext("2d");
      s.clearRect(0, 0, 24, 24);
      s.fillStyle = s.strokeStyle = colour(kind.colour);
      s.lineWidth = 3;
      drawShape(s, kind.shape, 12, 12, 8);
    }
    this.moveTo(this.app.step);
  }

  drawSide(g, side, top, colour, n) {
    const { episode } = side;
    let y = top + 4;
    const right = this.x(episode.last) + Math.max(1, (this.width - 16) / n / 2);
    g.fillStyle = colour("--eb-track");
    g.fillRect(8, top + 2, Math.min(this.width - 8, right) - 8, side.height - 4);
    this.drawMissing(g, episode, top, side.height, colour);
    for (const kinds of side.lanes) {
      if (kinds.includes("forbidden") && !this.off.has("forbidden")) this.drawSpans(g, episode, y + 7, colour);
      for (const kind of [...kinds].reverse()) if (!this.off.has(kind)) this.drawMarks(g, episode, kind, y + 7, colour);
      y += 15;
    }
    if (side.reward) {
      if (!this.off.has("reward")) {
        const { low, high } = side.reward;
        const both = low.some((v) => v < 0);
        const zero = both ? y + 11 : y + 20;
        const tall = both ? 10 : 18;
        const wide = Math.max(1, Math.min(9, Math.floor((this.width - 16) / n - 1)));
        for (let i = 0; i < high.length; i++) {
          const x = this.place(i, high.length, wide, episode);
          g.fillStyle = colour("--eb-good");
          if (high[i] > 0) g.fillRect(x, zero - (high[i] / 100) * tall, wide, Math.max(1, (high[i] / 100) * tall));
          g.fillStyle = colour("--eb-bad");
          if (low[i] < 0) g.fillRect(x, zero, wide, Math.max(1, (-low[i] / 100) * tall));
        }
        g.fillStyle = colour("--eb-line");
        g.fillRect(8, zero, right - 8, 1);
      }
      y += 22;
    }
    if (side.changes && !this.off.has("change")) {
      const most = Math.max(...side.changes);
      const wide = Math.max(1, Math.min(9, Math.floor((this.width - 16) / n - 1)));
      g.fillStyle = colour("--eb-ink-2");
      side.changes.forEach((count, i) => {
        if (!count) return;
        const tall = 3 + 4 * (Math.log1p(count) / Math.log1p(most));
        g.fillRect(this.place(i, side.changes.length, wide, episode), y + 8 - tall, wide, tall);
      });
    }
  }

  /** Where the page does not hold the steps. */
  drawMissing(g, episode, top, height, colour) {
    if (episode.link !== null || episode.packed.size === episode.head.n_chunks) return;
    const per = episode.head.per_chunk;
    g.fillStyle = colour("--eb-missing");
    for (let index = 0; index < episode.head.n_chunks; index++) {
      if (episode.packed.has(index)) continue;
      const left = this.x(index * per - 0.5);
      g.fillRect(left, top + 2, this.x(Math.min(episode.last, (index + 1) * per - 1) + 0.5) - left, height - 4);
    }
  }

  /** Lines from a forbidden change to where it was put back. */
  drawSpans(g, episode, y, colour) {
    if (episode.head.findings.length > 200) return;
    g.strokeStyle = colour("--eb-bad");
    g.lineWidth = 1.5;
    g.beginPath();
    for (const finding of episode.head.findings) {
      if (finding.restored_at === null || finding.restored_at === finding.step_index) continue;
      g.moveTo(this.x(finding.step_index), y);
      g.lineTo(this.x(finding.restored_at), y);
    }
    g.stroke();
  }

  drawMarks(g, episode, kind, y, colour) {
    const steps = episode.marks[kind];
    if (!steps) return;
    g.fillStyle = g.strokeStyle = colour(KINDS[kind].colour);
    g.lineWidth = 2;
    // shapes that would touch become ticks: a band of shapes says less than where it is dense
    const dense = steps.length > (this.width - 16) / 9;
    let drawn = -9;
    for (const step of steps) {
      const x = this.x(step);
      if (x - drawn < (dense ? 1 : 1.5)) continue;
      drawn = x;
      if (dense) g.fillRect(Math.floor(x), y - 4, 1, 8);
      else drawShape(g, KINDS[kind].shape, x, y, 5);
    }
  }

  drawAxis(g, top, colour, family) {
    g.fillStyle = colour("--eb-ink-2");
    g.font = `12px ${family}`;
    const last = this.app.last;
    const room = Math.max(2, Math.floor(this.width / 90));
    let pitch = 1;
    while (last / pitch > room) pitch *= [2, 2.5, 2][Math.round(Math.log10(pitch) * 3) % 3];
    let free = -1;
    const ticks = [];
    for (let step = 0; step <= last; step += pitch) ticks.push(Math.round(step));
    if (last - ticks[ticks.length - 1] > pitch * 0.6) ticks.push(last);
    for (const step of ticks) {
      const label = thousands(step);
      const wide = g.measureText(label).width;
      const x = Math.max(0, Math.min(this.width - wide, this.x(step) - wide / 2));
      if (x < free) continue;
      g.fillText(label, x, top + 14);
      free = x + wide + 8;
    }
  }

  moveTo(step) {
    if (!this.width) return;
    this.cursor.style.transform = `translateX(${this.x(step)}px)`;
    this.track.setAttribute("aria-valuemax", String(this.app.last));
    this.track.setAttribute("aria-valuenow", String(step));
    this.track.setAttribute("aria-valuetext", this.app.titleOf(step));
  }

  /** The next mark in a direction, of the kinds that are shown. */
  next(step, way) {
    let best = null;
    for (const episode of this.app.episodes) {
      for (const kind of Object.keys(KINDS)) {
        const steps = episode.marks[kind];
        if (!steps || this.off.has(kind) || (this.quiet && this.quiet.has(kind))) continue;
        const found = way > 0 ? steps.find((s) => s > step) : steps.findLast((s) => s < step);
        if (found !== undefined && (best === null || (way > 0 ? found < best : found > best))) best = found;
      }
    }
    return best;
  }

  kindsAt(episode, step) {
    return Object.keys(KINDS).filter((kind) => {
      const steps = episode.marks[kind];
      return steps && includes(steps, step);
    });
  }
}

/** Whether sorted numbers hold one. */
function includes(sorted, wanted) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return sorted[low] === wanted;
}

// ---------------------------------------------------------------------------------------------
// The state

class StatePane {
  constructor(app, episode, side) {
    this.app = app;
    this.episode = episode;
    this.toggled = new Map(); // sections and cells that were opened or closed, by path
    this.revealed = new Set(); // tables whose unchanged rows are shown
    this.columns = new Map();
    this.lines = [];
    this.kept = new Map(); // rows in sight with their elements
    this.renewed = 0; // counts what makes them invalid
    this.stuckAs = []; // what the line that stays on top shows
    this.name = "active-" + side; // the id of the line that the keys are on
    this.title = h("h2", {});
    this.said = h("span", { class: "soft said" });
    this.head = h("div", { class: "pane-head" }, this.title, this.said);
    this.inner = h("div", { class: "inner" });
    this.stuck = h("div", { class: "stuck", "aria-hidden": "true" });
    this.label = "State" + (app.episodes.length > 1 ? " of episode " + "AB"[side] : "");
    this.scroll = h("div", { class: "lines", role: "treegrid", tabindex: "0", "aria-label": this.label }, this.stuck, this.inner);
    this.element = h("section", { class: "state", "aria-label": this.label }, this.head, this.scroll);
    // sizes are kept: asking for them while the page is being changed would lay it out each time
    this.view = { top: 0, left: 0, width: 0, height: 0 };
    this.scroll.addEventListener("scroll", () => {
      this.view.top = this.scroll.scrollTop;
      this.view.left = this.scroll.scrollLeft;
      this.paint();
    });
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    this.inner.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => {
      this.view.width = this.scroll.clientWidth;
      this.view.height = this.scroll.clientHeight;
      this.paint();
    }).observe(this.scroll);
  }

  /** Show a state, compared with another; `ABSENT` is a state that is not known. */
  show(now, before, note) {
    this.now = now;
    this.before = before;
    this.compared = before !== ABSENT;
    this.fold = this.app.fold && this.compared;
    this.hidden = { rows: 0, values: 0, sections: 0 };
    this.lines = [];
    if (now === ABSENT) this.lines.push({ type: "note", text: note || "This state is not known." });
    else {
      if (note) this.lines.push({ type: "note", text: note });
      if (isObject(now)) this.members(now, isObject(before) ? before : ABSENT, "", "", 0);
      else this.pair("state", now, before, "", 0);
      if (this.lines.length === (note ? 1 : 0)) this.lines.push({ type: "note", text: Object.keys(now).length ? this.nothing() : "The state has no members." });
    }
    const { rows, values, sections } = this.hidden;
    const parts = [sections && counted(sections, "section"), rows && counted(rows, "row"), values && counted(values, "value")].filter(Boolean);
    put(this.said, parts.length ? parts.join(", ") + " hidden: unchanged" : "");
    this.inner.style.height = this.lines.length * LINE + "px";
    this.paint();
  }

  nothing() {
    return { previous: "Nothing changed at this step.", start: "Nothing differs from the start.", other: "The two states are equal." }[this.app.reference];
  }

  status(now, before) {
    if (!this.compared) return "same";
    if (before === ABSENT) return now === ABSENT ? "same" : "add";
    if (now === ABSENT) return "remove";
    return same(now, before) ? "same" : "edit";
  }

  members(now, before, path, pattern, depth) {
    const names = Object.keys(now || {});
    if (before) for (const name of Object.keys(before)) if (!now || !(name in now)) names.push(name);
    const nested = [];
    for (const name of names) {
      const value = now ? now[name] : ABSENT;
      const old = before ? before[name] : ABSENT;
      if (isNested(value) || (value === ABSENT && isNested(old))) nested.push([name, value, old]);
      else this.pair(name, value, old, path + "/" + escape(name), depth);
    }
    for (const [name, value, old] of nested) this.section(name, value, old, path + "/" + escape(name), pattern + "/" + escape(name), depth);
  }

  pair(name, value, old, path, depth) {
    const status = this.status(value, old);
    if (this.fold && status === "same") this.hidden.values++;
    else this.lines.push({ type: "pair", name, value, old, status, path, depth });
  }

  section(name, value, old, path, pattern, depth) {
    const status = this.status(value, old);
    if (this.fold && status === "same") {
      this.hidden.sections++;
      return;
    }
    const shown = value === ABSENT ? old : value;
    const table = isTable(shown);
    const flat = isList(shown) && !table && shown.every((item) => !isNested(item)) && brief(shown, 80).text.length < 80;
    if (flat) {
      this.lines.push({ type: "pair", name, value, old, status, path, depth });
      return;
    }
    const open = this.toggled.has(path) ? this.toggled.get(path) : depth < 2 || (this.fold && status === "edit");
    const line = { type: "section", name, value, old, status, path, depth, open, changed: 0 };
    this.lines.push(line);
    if (!open) return;
    const gone = value === ABSENT;
    if (table) this.rows(line, gone ? [] : value, isTable(old) || (isList(old) && !old.length) ? old : ABSENT, path, pattern, depth);
    else if (isList(shown)) this.items(gone ? [] : value, isList(old) ? old : ABSENT, path, pattern, depth + 1);
    else this.members(value, isObject(old) ? old : ABSENT, path, pattern, depth + 1);
  }

  items(now, before, path, pattern, depth) {
    const length = Math.max(now.length, before ? before.length : 0);
    for (let i = 0; i < length; i++) {
      const [value, old] = [now[i], before ? before[i] : ABSENT];
      const at = path + "/" + i;
      if (isNested(value) || isNested(old)) this.section(String(i), value, old, at, pattern + "/" + i, depth);
      else this.pair(String(i), value, old, at, depth);
    }
  }

  rows(section, now, before, path, pattern, depth) {
    const key = this.episode.keys[pattern];
    const keyed = typeof key === "string";
    const head = { type: "columns", depth, table: this.table(path, keyed ? key : null, now, before) };
    this.lines.push(head);
    const places = before && keyed ? rowsByKey(before, key) : null;
    const left = before && !keyed ? countRows(before) : null;
    const found = new Set();
    let hidden = 0;
    const openCells = [...this.toggled.keys()].some((at) => at.startsWith(path + "/"));
    const add = (row, old, status) => {
      section.changed += status === "same" ? 0 : 1;
      if (this.fold && status === "same" && !this.revealed.has(path)) {
        hidden++;
        return;
      }
      const line = { type: "row", row, old, status, depth, head, path, key: keyed ? key : null };
      this.lines.push(line);
      if (openCells) this.openCells(line, pattern);
    };
    for (const row of now) {
      let old = ABSENT;
      if (places) {
        const place = places.get(row[key] === ABSENT ? "" : canonical(row[key]));
        if (place !== undefined) {
          old = before[place];
          found.add(place);
        }
      } else if (left) {
        const text = normal(row);
        const count = left.get(text) || 0;
        if (count > 0) {
          left.set(text, count - 1);
          old = row;
        }
      }
      add(row, old, this.compared && before === ABSENT ? "add" : this.status(row, this.compared ? old : ABSENT));
    }
    if (before) {
      before.forEach((row, i) => {
        if (places ? !found.has(i) : take(left, normal(row))) add(row, row, "remove");
      });
    }
    if (hidden) {
      this.hidden.rows += hidden;
      this.lines.push({ type: "more", hidden, path, depth, head });
    } else if (this.fold && this.revealed.has(path)) this.lines.push({ type: "more", hidden: 0, path, depth, head });
  }

  openCells(line, pattern) {
    const at = this.rowPath(line);
    for (const name of Object.keys(line.row)) {
      const path = at + "/" + escape(name);
      if (!this.toggled.get(path)) continue;
      const fold = this.fold;
      this.fold = false; // it was opened to be read
      this.section(name, line.row[name], line.old === ABSENT ? ABSENT : line.old[name], path, pattern + "/*/" + escape(name), line.depth + 2);
      this.fold = fold;
    }
  }

  rowPath(line) {
    if (line.key !== null && line.row[line.key] !== ABSENT) return line.path + "/" + escape(line.key + "=" + canonical(line.row[line.key]));
    return line.path + "/#" + digestOf(line.row);
  }

  /** The columns of a table, with widths that only grow, so that nothing jumps. */
  table(path, key, now, before) {
    let table = this.columns.get(path);
    if (!table) {
      table = { names: [], wide: new Map(), numbers: new Set(), texts: new Set(), seen: new WeakSet(), key, version: 0 };
      this.columns.set(path, table);
    }
    const look = (row, other) => {
      if (table.seen.has(row) && !other) return;
      table.seen.add(row);
      for (const name of Object.keys(row)) {
        if (!table.wide.has(name)) {
          table.names.push(name);
          table.wide.set(name, Math.min(30, name.length + 1));
          table.version++;
        }
        const value = row[name];
        let wide = brief(value, 48).text.length + (isNested(value) ? 2 : 0);
        if (other && !same(other[name], value)) wide += brief(other[name], 48).text.length + 3;
        const most = table.wide.get(name);
        const wider = Math.min(other ? 64 : 40, wide);
        if (wider > most) {
          table.wide.set(name, wider);
          table.version++;
        }
        const number = typeof value === "number" || value instanceof Num;
        if (value !== null && (number ? !table.texts.has(name) && !table.numbers.has(name) : !table.texts.has(name))) {
          if (!number) table.texts.add(name); // numbers are to the right in a column of nothing else
          table.numbers[number ? "add" : "delete"](name);
          table.version++;
        }
      }
    };
    for (const row of now) look(row);
    if (before && before !== now) {
      const places = key ? rowsByKey(before, key) : null;
      for (const row of before) look(row);
      if (places) {
        for (const row of now) {
          const place = places.get(row[key] === ABSENT ? "" : canonical(row[key]));
          if (place !== undefined && before[place] !== row) look(row, before[place]);
        }
      }
    }
    if (key !== null && table.names[0] !== key && table.names.includes(key)) table.names = [key, ...table.names.filter((name) => name !== key)];
    return table;
  }

  paint() {
    const { left: scrollLeft, width: clientWidth, height: clientHeight } = this.view;
    if (!clientHeight) return;
    // fewer lines than before may end above where it was scrolled to
    const scrollTop = Math.max(0, Math.min(this.view.top, this.lines.length * LINE - clientHeight + 12));
    const unit = this.app.unit;
    const from = Math.max(0, Math.floor(scrollTop / LINE) - 3);
    const to = Math.min(this.lines.length, Math.ceil((scrollTop + clientHeight) / LINE) + 3);
    let widest = 0;
    const rows = [];
    const kept = new Map();
    const around = scrollLeft + " " + clientWidth + " " + this.app.path + " " + this.renewed;
    for (let i = from; i < to; i++) {
      const line = this.lines[i];
      const row = this.rowOf(line, around, kept, () => this.row(line, unit, scrollLeft, clientWidth));
      if (row.dataset.line !== String(i)) {
        row.dataset.line = String(i);
        row.setAttribute("aria-rowindex", String(i + 1));
      }
      if (line.table || line.head) widest = Math.max(widest, this.widthOf(line.table || line.head.table, line.depth, unit));
      rows.push(row);
    }
    this.scroll.setAttribute("aria-rowcount", String(this.lines.length));
    this.inner.style.minWidth = widest + "px";
    this.inner.style.paddingTop = from * LINE + "px";
    arrange(this.inner, rows);
    this.kept = kept;
    this.mark();
    const first = this.lines[Math.floor((scrollTop + 1) / LINE)];
    const head = first && first.head;
    const drawn = head ? [around, widest, head.depth, ...this.drawnOf(head)] : [];
    if (drawn.length === this.stuckAs.length && drawn.every((part, i) => part === this.stuckAs[i])) return;
    this.stuckAs = drawn;
    this.stuck.replaceChildren();
    if (head) {
      const row = this.row(head, unit, scrollLeft, clientWidth);
      row.removeAttribute("role");
      for (const cell of row.children) cell.removeAttribute("role");
      row.style.minWidth = widest + "px";
      this.stuck.append(row);
    }
  }

  /** The element of a line, which is kept as long as it would be the same. */
  rowOf(line, around, kept, make) {
    const name = line.type === "row" ? line.row : `${line.type} ${line.path ?? ""}`;
    if (kept.has(name)) return make(); // a row that is there twice
    const drawn = [around, line.depth, line.path, line.status, ...this.drawnOf(line)];
    const before = this.kept.get(name);
    const row = before && drawn.every((part, i) => part === before.drawn[i]) ? before : { drawn, element: make() };
    kept.set(name, row);
    return row.element;
  }

  /** What the element of a line shows, beside its place and status. */
  drawnOf(line) {
    if (line.type === "row") return [line.old, line.head.table.version];
    if (line.type === "columns") return [line.table, line.table.version];
    if (line.type === "section") return [line.open, line.changed, this.sizeOf(line)];
    if (line.type === "pair") return [line.value, line.old];
    return [line.text, line.hidden];
  }

  widthOf(table, depth, unit) {
    let wide = this.indent(depth + 1);
    for (const name of table.names) wide += table.wide.get(name) * unit + 16;
    return wide;
  }

  indent(depth) {
    return 8 + depth * 14;
  }

  row(line, unit, scrollLeft, clientWidth) {
    const row = h("div", { role: "row", class: "line " + line.type + (line.status && line.status !== "same" ? " is-" + line.status : ""), "aria-level": String((line.depth || 0) + 1) });
    const start = this.indent((line.depth || 0) + (line.type === "row" || line.type === "columns" || line.type === "more" ? 1 : 0));
    row.style.paddingLeft = start + "px";
    if (line.type === "note") row.append(h("span", { role: "gridcell", class: "soft", text: line.text }));
    else if (line.type === "section") this.sectionRow(row, line);
    else if (line.type === "pair") this.pairRow(row, line);
    else if (line.type === "more") {
      const label = line.hidden ? counted(line.hidden, "unchanged row") + " hidden" : "hide unchanged rows";
      row.append(h("span", { role: "gridcell" }, h("button", { type: "button", class: "text", "data-do": "reveal", tabindex: "-1" }, label)));
    } else this.cells(row, line, unit, start, scrollLeft, clientWidth);
    return row;
  }

  sectionRow(row, line) {
    row.setAttribute("aria-expanded", String(line.open));
    const said = { add: "added", remove: "removed", edit: line.changed ? `${thousands(line.changed)} changed` : "changed" }[line.status];
    row.append(
      h("span", { role: "rowheader", class: "name", "data-do": "toggle" }, icon("open"), h("b", { text: line.name }), h("span", { class: "soft", text: " " + this.sizeOf(line) })),
      said ? h("span", { role: "gridcell", class: "tag " + line.status }, said) : h("span", { role: "gridcell" }),
    );
  }

  sizeOf(line) {
    const shown = line.value === ABSENT ? line.old : line.value;
    if (!isTable(shown)) return isList(shown) ? counted(shown.length, "item") : counted(Object.keys(shown).length, "member");
    const key = this.episode.keys[patternOf(line.path, this.episode.keys)];
    return counted(shown.length, "row") + (typeof key === "string" ? ", key " + key : ", no key");
  }

  pairRow(row, line) {
    row.append(h("span", { role: "rowheader", class: "name", "data-do": "select" }, h("span", { text: line.name })));
    const cell = h("span", { role: "gridcell", class: "cell", "data-do": "select" });
    this.fill(cell, line.value, line.old, line.status, 300);
    if (line.path === this.app.path) cell.setAttribute("aria-selected", "true");
    row.append(cell);
  }

  cells(row, line, unit, start, scrollLeft, clientWidth) {
    const { table } = line.head || line;
    const isHead = line.type === "columns";
    const status = line.status;
    if (!isHead) {
      const sign = h("span", { class: "sign", "aria-hidden": "true" }, { add: "+", remove: "−", edit: "~" }[status] || "");
      sign.style.width = start - 10 + "px"; // in the margin
      sign.style.marginLeft = 10 - start + "px";
      row.append(sign);
    }
    const rowAt = this.app.path && !isHead && this.app.path.startsWith(line.path + "/") ? this.rowPath(line) : null;
    let left = start;
    let skipped = 0;
    table.names.forEach((name, i) => {
      const wide = table.wide.get(name) * unit + 16;
      const isKey = i === 0 && table.key !== null;
      const outside = left + wide < scrollLeft || left > scrollLeft + clientWidth;
      left += wide;
      if (outside && !isKey) {
        skipped += wide;
        return;
      }
      if (skipped) {
        row.append(gap(skipped));
        skipped = 0;
      }
      const right = table.numbers.has(name) ? " right" : "";
      const cell = h("span", { role: isHead ? "columnheader" : isKey ? "rowheader" : "gridcell", class: "cell" + (isKey ? " key" : "") + right, "aria-colindex": String(i + 1) });
      cell.style.width = wide + "px";
      if (isHead) {
        put(cell, name);
        cell.title = visible(name);
      } else {
        cell.setAttribute("data-column", name);
        cell.setAttribute("data-do", "select");
        const value = line.row[name];
        const old = line.old === ABSENT ? ABSENT : line.old[name];
        this.fill(cell, value, old, status === "edit" ? this.status(value, old) : status, 64);
        if (isNested(value)) cell.prepend(h("button", { type: "button", class: "opens" + (this.toggled.get(this.rowPath(line) + "/" + escape(name)) ? " on" : ""), "data-do": "open", tabindex: "-1", "aria-label": "Open " + visible(name) }, icon("open")));
        if (rowAt !== null && this.app.path === rowAt + "/" + escape(name)) cell.setAttribute("aria-selected", "true");
      }
      row.append(cell);
    });
  }

  fill(cell, value, old, status, length) {
    if (status === "edit") {
      cell.classList.add("edit");
      const was = valueOf(old, length);
      was.classList.add("was");
      cell.append(h("span", { class: "hidden" }, "was "), was, h("span", { class: "arrow", "aria-label": "is now" }, " → "), valueOf(value, length));
    } else if (status === "add" && this.compared) cell.append(valueOf(value, length));
    else if (status === "remove") {
      const was = valueOf(value === ABSENT ? old : value, length);
      was.classList.add("was");
      cell.append(was);
    } else if (value !== ABSENT) cell.append(valueOf(value, length));
    else cell.append(h("span", { class: "v absent", title: "absent" }, "–"));
  }

  click(event) {
    const target = event.target.closest("[data-do]");
    const row = event.target.closest("[data-line]");
    if (!target || !row) return;
    this.act(this.lines[Number(row.dataset.line)], target.dataset.do, target.closest("[data-column]")?.dataset.column);
  }

  act(line, what, column) {
    this.renewed++;
    if (what === "toggle") this.toggled.set(line.path, !line.open);
    else if (what === "reveal") this.revealed.delete(line.path) || this.revealed.add(line.path);
    else if (what === "open") {
      const path = this.rowPath(line) + "/" + escape(column);
      this.toggled.set(path, !this.toggled.get(path));
    } else {
      this.app.select(line.type === "row" ? this.rowPath(line) + "/" + escape(column) : line.path, this.episode);
      return;
    }
    this.app.refresh();
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step) {
      this.active = Math.max(0, Math.min(this.lines.length - 1, (this.active ?? -1) + step));
      const top = this.active * LINE;
      if (top < this.scroll.scrollTop + LINE) this.scroll.scrollTop = Math.max(0, top - LINE);
      else if (top + LINE > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = top + LINE - this.scroll.clientHeight;
      this.paint();
    } else if (event.key === "Enter" && this.active !== undefined && this.lines[this.active]) {
      const line = this.lines[this.active];
      const column = line.type === "row" ? line.head.table.names.find((name) => !same(line.row[name], line.old && line.old[name])) || line.head.table.names[0] : undefined;
      this.act(line, { section: "toggle", more: "reveal" }[line.type] || "select", column);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Mark the line that the keys are on. */
  mark() {
    const row = this.active === undefined ? null : this.inner.querySelector(`[data-line="${this.active}"]`);
    if (row === this.marked) return;
    if (this.marked) {
      this.marked.removeAttribute("id");
      this.marked.classList.remove("active");
    }
    this.marked = row;
    if (!row) return this.scroll.removeAttribute("aria-activedescendant");
    row.id = this.name;
    row.classList.add("active");
    this.scroll.setAttribute("aria-activedescendant", this.name);
  }

  /** Bring the line of a path into view. */
  reveal(path) {
    const at = this.lines.findIndex((line) => line.path === path && line.type !== "row" || (line.type === "row" && path.startsWith(line.path + "/") && (path + "/").startsWith(this.rowPath(line) + "/")));
    if (at === -1) return;
    const top = at * LINE;
    if (top < this.scroll.scrollTop + LINE || top + LINE > this.scroll.scrollTop + this.scroll.clientHeight) {
      this.scroll.scrollTop = Math.max(0, top - this.scroll.clientHeight / 3);
    }
    this.paint();
  }
}

function gap(wide) {
  const element = h("span", { class: "skip" });
  element.style.width = wide + "px";
  return element;
}

function countRows(rows) {
  const counts = new Map();
  for (const row of rows) counts.set(normal(row), (counts.get(normal(row)) || 0) + 1);
  return counts;
}

function take(counts, text) {
  const count = counts.get(text) || 0;
  if (count > 0) counts.set(text, count - 1);
  return count > 0;
}

/** The pattern of a path: rows stand as `*`. */
function patternOf(path, keys) {
  let pattern = "";
  for (const segment of segmentsOf(path)) {
    const key = keys[pattern];
    const isRow = (typeof key === "string" && segment.startsWith(escape(key) + "=")) || (pattern in keys && segment[0] === "#");
    pattern += "/" + (isRow ? "*" : segment);
  }
  return pattern;
}

// ---------------------------------------------------------------------------------------------
// The list of steps, where there is room for it

const MOVED = 0.3; // where a moment stands after a scroll, as a part of the height from the side it came from
const ROOM = 203; // pixels of a row without the gaps in it

class StepList {
  constructor(app) {
    this.app = app;
    this.episode = app.main;
    this.bar = h("div", { class: "bar", "aria-hidden": "true" }); // beneath the row that is shown
    this.inner = h("div", { class: "inner" }, this.bar);
    this.inner.style.height = (app.last + 1) * LINE + "px";
    this.element = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": "Steps" }, this.inner);
    this.wide = Math.max(36, 10 + 7 * thousands(app.last).length); // pixels of a row's number
    this.element.style.setProperty("--eb-number-width", this.wide + "px");
    this.view = { top: 0, height: 0 };
    this.rows = new Map(); // those in sight and some beside them, by moment
    this.way = 1; // where the next scroll is expected
    this.here = undefined; // the row of the moment that is shown
    this.later = null; // what is to be done in idle time
    this.element.addEventListener("scroll", () => {
      this.view.top = this.element.scrollTop;
      this.paint();
    });
    this.element.addEventListener("click", (event) => {
      const option = event.target.closest("[data-moment]");
      if (option) app.go(Number(option.dataset.moment));
    });
    this.element.addEventListener("keydown", (event) => {
      const way = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (!way) return;
      app.go(app.step + way);
      event.preventDefault();
      event.stopPropagation();
    });
    new ResizeObserver(() => {
      this.view.height = this.element.clientHeight;
      this.show(app.step);
    }).observe(this.element);
  }

  /** Bring a moment into sight, by a scroll; that comes before other changes, which it would lay out. */
  scrollTo(step) {
    const { top, height } = this.view;
    const at = step * LINE;
    if (!height || (at >= top + LINE && at + 2 * LINE <= top + height)) return;
    // by a good part of what is in sight: a list that moved at every step would be hard to read
    this.way = at < top ? -1 : 1;
    const wanted = at - (this.way < 0 ? 1 - MOVED : MOVED) * height;
    this.view.top = Math.round(Math.max(0, Math.min((this.app.last + 1) * LINE - height, wanted)));
    this.element.scrollTop = this.view.top;
  }

  show(step) {
    this.scrollTo(step);
    this.paint();
  }

  /** The moments in sight, and those that the next scroll will bring into sight. */
  range() {
    const { top, height } = this.view;
    const from = Math.max(0, Math.floor(top / LINE) - 2);
    const to = Math.min(this.app.last, Math.ceil((top + height) / LINE) + 2);
    const spare = Math.ceil(((1 - MOVED) * height) / LINE);
    return { from, to, first: this.way < 0 ? Math.max(0, from - spare) : from, last: this.way > 0 ? Math.min(this.app.last, to + spare) : to };
  }

  paint() {
    if (!this.view.height) return;
    const { from, to } = this.range();
    // rows stand one under the other; those out of sight go in idle time, unless they become many
    if ((!this.rows.has(from) && !this.rows.has(to)) || this.rows.size > 4 * (to - from) + 20) this.rows.clear();
    let made = false;
    for (let moment = from; moment <= to; moment++) made = this.make(moment) || made;
    if (made) this.arrange();
    this.bar.style.transform = `translateY(${this.app.step * LINE}px)`;
    const here = this.rows.get(this.app.step)?.element;
    if (here !== this.here) this.here?.setAttribute("aria-selected", "false");
    here?.setAttribute("aria-selected", "true");
    this.here = here;
    this.later ??= whenIdle(() => this.prepare());
  }

  /** Make the rows that the next scroll will show, and drop those behind, a few at a time. */
  prepare() {
    this.later = null;
    const { from, to, first, last } = this.range();
    const moments = [...this.rows.keys()].sort((a, b) => a - b);
    let done = 0;
    for (; done < 2 && moments[0] < first; done++) this.rows.delete(moments.shift());
    for (; done < 2 && moments.at(-1) > last; done++) this.rows.delete(moments.pop());
    for (let moment = this.way > 0 ? to : from; moment >= first && moment <= last && done < 4; moment += this.way) {
      if (!this.episode.at(moment)) break;
      if (this.make(moment)) done++;
    }
    if (!done) return;
    this.arrange();
    this.later = whenIdle(() => this.prepare());
  }

  /** Make the row of a moment, unless it is there; whether it was made. */
  make(moment) {
    const known = this.episode.at(moment) !== undefined;
    if (this.rows.get(moment)?.known === known) return false;
    this.rows.set(moment, { known, element: this.option(moment) });
    return true;
  }

  arrange() {
    const moments = [...this.rows.keys()].sort((a, b) => a - b);
    this.inner.style.paddingTop = moments[0] * LINE + "px";
    arrange(this.inner, [this.bar, ...moments.map((moment) => this.rows.get(moment).element)]);
  }

  /** Make the rows anew: other marks are shown. */
  renew() {
    this.rows.clear();
    this.paint();
  }

  option(moment) {
    const { episode, app } = this;
    const known = episode.at(moment);
    if (!known && episode.has(moment) && !episode.loading.has(episode.chunkOf(moment))) {
      episode.load(episode.chunkOf(moment)).then(() => this.paint(), () => null);
    }
    const isEnd = moment > Number(episode.head.episode.totals.steps);
    const text = !known ? "" : moment === 0 ? "reset" : isEnd ? "end" : actionText(episode.action(moment));
    const marks = h("span", { class: "marks" });
    for (const kind of app.timeline.kindsAt(episode, moment)) {
      if (kind !== "reward" && kind !== "change" && !app.timeline.off.has(kind)) marks.append(h("span", { class: "dot " + kind, title: KINDS[kind].one }));
    }
    const changes = known ? episode.changesAt(moment).length : 0;
    // text is cut here where its width is known: to clip it in every row would cost each frame
    const plain = /^[ -~]*$/.test(text);
    const taken = this.wide + 11 * marks.childElementCount + (changes ? 10 + 7 * String(changes).length : 0);
    const room = Math.floor((ROOM - taken) / app.unit);
    return h("div", { class: "line option", role: "option", "data-moment": String(moment), "aria-selected": "false" },
      h("span", { class: "n" }, thousands(moment)), h("span", { class: "what mono" + (plain ? "" : " cut"), text: plain ? shorten(text, room) : text, title: visible(text) }), marks, h("span", { class: "soft delta", title: counted(changes, "change") }, changes ? "Δ" + changes : ""));
  }
}

// ---------------------------------------------------------------------------------------------
// What was done at a step

const BEFORE = "Audit, before the first step";
const NOTES = { forbidden: "forbidden change", restored: "value put back", error: "error", check: "check not passed", differs: "differs", unseen: "state not seen" };

class StepPane {
  constructor(app, episode, side) {
    this.app = app;
    this.episode = episode;
    this.cards = new Map(); // what was made once, by title: to make it anew would cost most of a frame
    this.name = app.episodes.length > 1 ? "Episode " + "AB"[side] : "Step";
    this.title = h("h2", {});
    this.reward = h("span", {});
    this.flags = h("span", { class: "flag" });
    this.time = h("span", { class: "soft" });
    this.facts = h("span", { class: "facts" }, h("span", {}, "reward ", this.reward), this.flags, this.time);
    this.notice = h("div", { class: "notice" });
    this.body = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": this.name + ": details" });
    this.top = 0;
    this.body.addEventListener("scroll", () => (this.top = this.body.scrollTop));
    this.frame = episode.head.frame_kind ? h("div", { class: "frame" }) : null;
    this.element = h("section", { class: "step", "aria-label": this.name }, h("div", { class: "pane-head" }, this.title, this.facts), this.notice, this.frame, this.body);
  }

  show(moment) {
    const { episode, app } = this;
    const past = moment > episode.last;
    const at = Math.min(moment, episode.last);
    const isEnd = at === episode.head.n_moments - 1 && at > episode.head.episode.totals.steps;
    put(this.title, (app.episodes.length > 1 ? this.name.slice(-1) + " · " : "") + (at === 0 ? "Reset" : isEnd ? "End" : "Step " + thousands(at)));
    this.notices(at, past);
    const chunk = episode.at(at);
    if (!chunk) {
      this.facts.hidden = true;
      this.body.replaceChildren(soft("This page does not hold this step."));
      if (this.frame) this.frame.replaceChildren();
      return;
    }
    const parts = [];
    this.fillFacts(at);
    if (at > 0 && !isEnd) parts.push(this.action(episode.action(at), at));
    const error = episode.column("error", at);
    if (error !== null) parts.push(this.error(error));
    parts.push(this.changes(at));
    const events = chunk.eventsAt(at);
    if (events.length) parts.push(this.audit(events, at));
    const observation = episode.observation(at);
    if (observation !== null) parts.push(this.tree("Observation", observation));
    const info = episode.column("info", at);
    if (info !== null) parts.push(isNested(info) ? this.tree("Info", info) : this.card("Info", "empty", () => soft("empty")));
    if (isEnd) parts.push(soft("The state was read once more before cleanup, and had changed since the last step."));
    const { top } = this;
    arrange(this.body, parts);
    if (top) this.body.scrollTop = top;
    if (this.frame) this.showFrame(at);
  }

  fillFacts(at) {
    const { episode } = this;
    const reward = at > 0 ? episode.column("reward", at) : null;
    const us = episode.column("step_us", at) ?? null;
    this.facts.hidden = false;
    this.reward.parentNode.hidden = reward === null;
    valueOf(reward, 24, this.reward);
    put(this.flags, ["terminated", "truncated"].filter((flag) => episode.column(flag, at) === true).join(" "));
    put(this.time, us === null ? "" : duration(Number(us)));
  }

  /** What is to be said of the moment in a line that is always there. */
  notices(at, past) {
    const { episode, app } = this;
    const kinds = app.timeline ? app.timeline.kindsAt(episode, at).filter((kind) => kind in NOTES) : [];
    const key = past + kinds.join();
    if (key === this.noticed) return;
    this.noticed = key;
    this.notice.replaceChildren(
      ...(past ? [h("span", { class: "soft" }, "ended at step " + thousands(episode.last))] : []),
      ...Object.keys(NOTES).filter((kind) => kinds.includes(kind)).map((kind) => h("span", { class: "note " + kind }, NOTES[kind])),
    );
  }

  /** A card with a title; its content is made when it shows something else than before. */
  card(title, shown, make, { count = null, sql = null } = {}) {
    let card = this.cards.get(title);
    if (!card) {
      card = { count: h("span", { class: "soft" }), content: h("div", {}) };
      const details = h("details", { class: "card", open: title !== "Info" && title !== BEFORE }, h("summary", {}, icon("open"), h("h3", {}, title), card.count), card.content);
      card.copier = copier("Copy as SQL", () => card.sql(), this.app, "SQL"); // beside the summary, which is a control itself
      card.element = h("div", { class: "boxed" }, details, card.copier);
      this.cards.set(title, card);
    }
    card.sql = sql;
    card.copier.toggleAttribute("hidden", sql === null); // which leaves alone what is so already
    put(card.count, count === null ? "" : String(count));
    if (card.shown !== ABSENT && same(card.shown, shown, true)) return card.element;
    card.shown = shown;
    const content = make(card.content);
    if (content !== card.content) card.content.replaceWith(content);
    card.content = content;
    return card.element;
  }

  /** A card with a value as a tree. */
  tree(title, value, sql) {
    return this.card(title, value, (before) => tree(value, before), { sql });
  }

  action(action, at) {
    const sql = () => sqlOf.step(this.episode, at);
    if (action === null) return this.card("Action", "refused", () => soft("refused: it is no action of the environment"), { sql });
    const call = toolCall(action);
    if (!call) return this.tree("Action", action, sql);
    const make = (before) => {
      const [name, given] = before.className === "call" ? before.children : [h("div", { class: "tool-name" }), null];
      return h("div", { class: "call" }, put(name, call.name), tree(call.arguments, given));
    };
    return this.card("Tool call", call, make, { sql });
  }

  error(error) {
    const { type, phase, message, ...rest } = error;
    const make = () => h("div", { class: "failure" }, h("b", { text: whole(type) + " (" + whole(phase) + ")" }), h("p", {}, longText(message, null, 600)), Object.keys(rest).length ? tree(rest) : null);
    return this.card("Error", error, make);
  }

  changes(at) {
    const changes = this.episode.changesAt(at);
    const count = changes.length;
    if (!count) {
      const text = at === 0 ? "The first state: there is none before it." : this.episode.at(at).unseen.has(at) ? "Unknown: the state was not seen." : "None.";
      return this.card("Changes", text, () => soft(text), { count });
    }
    const make = () =>
      h("ul", { class: "changes" }, ...changes.slice(0, 100).map((change) => this.change(change)),
        count > 100 ? h("li", { class: "soft" }, `and ${counted(count - 100, "more change")}: they are marked in the state`) : null);
    return this.card("Changes", at, make, { count, sql: () => sqlOf.changes(this.episode, at) });
  }

  change(change) {
    const { app, episode } = this;
    const findings = episode.head.findings.filter((finding) => finding.path === change.path && finding.step_index === change.step);
    const path = h("button", { type: "button", class: "path", "aria-label": "Show " + visible(change.path), onclick: () => app.select(change.path, episode, true) }, pathText(change.path));
    const value = (v) => valueOf(v && change.path.includes("/#") && isObject(v) ? v.row : v, 120);
    const values = h("span", { class: "values" });
    if (change.op === "add") values.append(h("span", { class: "tag add" }, "added"), " ", value(change.after));
    else if (change.op === "remove") values.append(h("span", { class: "tag remove" }, "removed"), " ", value(change.before));
    else {
      const was = value(change.before);
      was.classList.add("was");
      values.append(was, h("span", { class: "arrow", "aria-label": "is now" }, " → "), value(change.after));
    }
    const notes = h("span", { class: "notes" });
    for (const finding of findings) notes.append(h("span", { class: "note forbidden", title: visible(finding.rule) }, "forbidden by ", h("code", { text: shorten(finding.rule, 60) })));
    if (change.restoredAt !== null) notes.append(h("button", { type: "button", class: "note restored", onclick: () => app.go(change.restoredAt) }, "put back at step " + thousands(change.restoredAt)));
    if (change.since < change.step - 1) notes.append(h("span", { class: "soft" }, `some time after step ${thousands(change.since)}`));
    return h("li", { class: findings.length ? "bad" : null }, path, values, notes);
  }

  audit(events, at) {
    const count = events.length;
    const make = () =>
      h("ul", { class: "changes" }, ...events.slice(0, 100).map((event) => this.event(event)),
        count > 100 ? h("li", { class: "soft" }, `and ${counted(count - 100, "more event")}: the SQL shows all`) : null);
    return this.card(at === 0 ? BEFORE : "Audit", at, make, { count, sql: () => sqlOf.audit(this.episode, at) });
  }

  event({ op, table, key, before, after }) {
    const values = h("span", { class: "values" });
    if (isObject(before) && isObject(after)) {
      for (const name of Object.keys(after)) {
        if (same(before[name], after[name])) continue;
        const was = valueOf(before[name], 60);
        was.classList.add("was");
        values.append(h("span", { class: "soft", text: name + " " }), was, h("span", { class: "arrow", "aria-label": "is now" }, " → "), valueOf(after[name], 60), " ");
      }
    } else values.append(valueOf(after === null ? before : after, 160));
    const kind = { insert: "add", delete: "remove" }[op] || "edit";
    return h("li", {}, h("span", {}, h("span", { class: "tag " + kind }, String(op)), " ", h("span", { class: "mono", text: table + (key === null ? "" : " " + brief(key, 60).text) })), values);
  }

  async showFrame(at) {
    const digest = this.episode.column("frame", at);
    this.shown = digest;
    if (!digest) {
      this.frame.replaceChildren(h("span", { class: "soft" }, "no frame"));
      return;
    }
    this.pictures ||= new Map();
    let picture = this.pictures.get(digest);
    if (!picture) {
      const bytes = await this.episode.picture(digest);
      if (bytes === null) picture = h("span", { class: "soft" }, "This page does not hold this frame.");
      else if (this.episode.head.frame_kind === "ansi") picture = terminal(new TextDecoder().decode(bytes));
      else {
        let binary = "";
        for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
        picture = h("img", { src: "data:image/png;base64," + btoa(binary), alt: "Frame of " + this.title.textContent });
        await picture.decode().catch(() => null);
      }
      if (this.pictures.size > 200) this.pictures.clear();
      this.pictures.set(digest, picture);
    }
    if (this.shown === digest) this.frame.replaceChildren(picture);
  }
}

function duration(us) {
  if (us < 1000) return us.toFixed(0) + " µs";
  if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 1 : 0) + " ms";
  return (us / 1e6).toFixed(1) + " s";
}

/** A path, with its last segments where they are seen. */
function pathText(path) {
  return h("span", { class: "mono", text: path === "" ? "the whole state" : path, title: visible(path) });
}

/** An action that calls a tool by name: `{name, arguments}`. */
function toolCall(action) {
  if (action === null || typeof action !== "object" || isList(action)) return null;
  const inner = action[TAG] === "named" && isObject(action.value) ? action.value : action;
  if (!isObject(inner) || typeof inner.name !== "string" || !isObject(inner.arguments) || Object.keys(inner).length !== 2) return null;
  return inner;
}

/** An action in a few words. */
function actionText(action) {
  if (action === ABSENT) return "";
  if (action === null) return "refused action";
  const call = toolCall(action);
  if (call) return call.name + "(" + Object.keys(call.arguments).map((name) => name + "=" + brief(call.arguments[name], 24).text).join(", ") + ")";
  const { text } = brief(action, 80);
  return isObject(action) && Object.keys(action).length ? text.replace(/^\{|\}$/g, "") : text;
}

// ---------------------------------------------------------------------------------------------
// SQL and copying

const literal = (text) => "'" + String(text).replace(/'/g, "''") + "'";
const sqlOf = {
  step: (episode, step) => `FROM steps_full WHERE episode_id = ${literal(episode.id)} AND step_index = ${step};`,
  changes: (episode, step) => `FROM state_changes WHERE episode_id = ${literal(episode.id)} AND step_index = ${step} ORDER BY path;`,
  audit: (episode, step) => `FROM audit_events WHERE episode_id = ${literal(episode.id)} AND step_index = ${step} ORDER BY event_index;`,
  history: (episode, path) => `SELECT step_index, op, before, after, restored_at FROM state_changes\nWHERE episode_id = ${literal(episode.id)} AND path = ${literal(path)} ORDER BY step_index;`,
  findings: (episode) => `FROM findings WHERE episode_id = ${literal(episode.id)} ORDER BY step_index;`,
  checks: (episode) => `FROM latest_results WHERE episode_id = ${literal(episode.id)} ORDER BY check_name;`,
  state: (episode, step) =>
    step === 0
      ? `FROM initial_states WHERE episode_id = ${literal(episode.id)};`
      : step > Number(episode.head.episode.totals.steps)
        ? `FROM final_states WHERE episode_id = ${literal(episode.id)};`
        : `SELECT state FROM steps_full WHERE episode_id = ${literal(episode.id)} AND step_index = ${step};`,
};

function copier(label, text, app, word) {
  const element = h("button", { type: "button", class: "copy", title: label, "aria-label": label }, icon("copy"), word || null);
  element.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    app.copy(text(), label);
  });
  return element;
}

// ---------------------------------------------------------------------------------------------
// One value: what it is, was, and how it came to be

class Inspector {
  constructor(app) {
    this.app = app;
    this.path = h("code", { class: "mono" });
    this.now = h("div", { class: "all" });
    this.past = h("ol", { class: "past" });
    const close = button("close", "Close (Escape)", () => app.select(null));
    this.element = h("section", { class: "inspector", "aria-label": "Selected value", hidden: true },
      h("div", { class: "pane-head" }, this.path, h("span", { class: "grow" }),
        copier("Copy the path", () => app.path, app, "path"),
        copier("Copy as SQL: the history of this path", () => sqlOf.history(this.episode, app.path), app, "SQL"),
        copier("Copy the value", () => whole(this.value), app, "value"), close),
      h("div", { class: "both" }, this.now, h("div", { class: "history" }, h("h3", {}, "History"), this.past)));
  }

  show(moment) {
    const { app } = this;
    const episode = app.selected;
    this.episode = episode;
    this.element.toggleAttribute("hidden", app.path === null);
    if (app.path === null) return;
    put(this.path, app.path || "the whole state");
    const at = Math.min(moment, episode.last);
    const state = episode.stateAt(at);
    this.value = state === ABSENT ? ABSENT : valueAt(state, app.path, episode.keys);
    const text = whole(this.value);
    const key = app.path + "\n" + (text.length > 2000 ? text.length + text.slice(0, 2000) : text);
    if (key !== this.drawn) {
      this.drawn = key;
      this.now.replaceChildren(this.block(text));
    }
    this.showPast(episode, at);
  }

  block(text) {
    const block = h("pre", { tabindex: "0", "aria-label": "Value", text: shorten(text, LONG) });
    if (text.length <= LONG) return block;
    const all = button(null, "Show all of it", () => {
      put(block, text);
      all.remove();
    }, `show all ${thousands(text.length)} characters`);
    return h("div", {}, block, all);
  }

  /** Every change at the path or above or below it, in the steps that were read. */
  showPast(episode, at) {
    const { path } = this.app;
    const known = [...episode.chunks.values()].sort((a, b) => a.first - b.first);
    const key = episode.id + path + known.length;
    if (key !== this.listed) {
      this.listed = key;
      const found = [];
      for (const chunk of known) {
        for (const change of chunk.changes) {
          if (change.path === path || change.path.startsWith(path + "/") || path.startsWith(change.path + "/")) found.push(change);
          if (found.length >= 200) break;
        }
      }
      const missing = episode.head.n_chunks - known.length;
      this.past.replaceChildren(...found.map((change) => this.entry(change, path)));
      if (!found.length) this.past.append(h("li", { class: "soft" }, "It did not change" + (missing ? " in the steps that were read." : ".")));
      if (missing && episode.packed.size > known.length) {
        this.past.append(h("li", {}, button(null, "Read the other steps", async () => {
          for (const index of episode.packed.keys()) await episode.load(index);
          this.listed = null;
          this.showPast(episode, this.app.step);
        }, "look in all steps")));
      }
    }
    for (const item of this.past.children) item.classList.toggle("here", Number(item.dataset.step) === at);
  }

  entry(change, path) {
    const value = h("span", { class: "values" });
    if (change.op === "add") value.append("added ", valueOf(change.after, 60));
    else if (change.op === "remove") value.append("removed");
    else value.append(valueOf(change.before, 40), h("span", { class: "arrow", "aria-label": "became" }, " → "), valueOf(change.after, 40));
    const go = h("button", { type: "button", class: "text", onclick: () => this.app.go(change.step) }, "step " + thousands(change.step));
    const where = change.path === path ? null : h("span", { class: "soft mono", text: change.path.startsWith(path + "/") ? change.path.slice(path.length) : "above" });
    const back = change.restoredAt === null ? null : h("span", { class: "note restored" }, "put back at " + thousands(change.restoredAt));
    return h("li", { "data-step": String(change.step) }, go, where, value, back);
  }
}

// ---------------------------------------------------------------------------------------------
// Search

class Search {
  constructor(app) {
    this.app = app;
    this.input = h("input", { type: "search", placeholder: "Search", "aria-label": "Search rows, paths and events", autocomplete: "off", spellcheck: "false" });
    this.list = h("ol", {});
    this.said = h("span", { class: "soft", role: "status" });
    this.panel = h("section", { class: "results", "aria-label": "Search results", hidden: true }, h("div", { class: "pane-head" }, h("h2", {}, "Found"), this.said, h("span", { class: "grow" }), button("close", "Close (Escape)", () => this.close())), this.list);
    this.element = h("label", { class: "finder" }, icon("search"), this.input);
    this.run = 0;
    let wait;
    this.input.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => this.find(this.input.value), 120);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      else if (event.key === "Enter") this.list.querySelector("button")?.click();
      else if (event.key === "ArrowDown") this.list.querySelector("button")?.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.panel.addEventListener("keydown", (event) => {
      const buttons = [...this.list.querySelectorAll("button")];
      const at = buttons.indexOf(this.app.root.activeElement);
      if (event.key === "Escape") this.close();
      else if (event.key === "ArrowDown") buttons[Math.min(buttons.length - 1, at + 1)]?.focus();
      else if (event.key === "ArrowUp") (at > 0 ? buttons[at - 1] : this.input).focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  open() {
    this.input.focus();
    this.input.select();
  }

  close() {
    this.run++;
    this.input.value = "";
    this.panel.hidden = true;
    this.app.focus();
  }

  async find(text) {
    const run = ++this.run;
    const wanted = text.trim().toLowerCase();
    this.panel.hidden = wanted === "";
    this.list.replaceChildren();
    if (!wanted) return;
    let found = 0;
    const most = 300;
    const add = (episode, step, where, shown, path) => {
      if (++found > most) return;
      const label = this.app.episodes.length > 1 ? "AB"[this.app.episodes.indexOf(episode)] + " " : "";
      const item = h("button", { type: "button" }, h("span", { class: "soft" }, label + (step === null ? "this state" : step === 0 ? "reset" : "step " + thousands(step)) + " · " + where), h("span", { class: "mono" }));
      put(item.lastChild, around(shown, wanted));
      item.addEventListener("click", () => {
        if (step !== null) this.app.go(step);
        if (path !== undefined) this.app.select(path, episode, true);
      });
      this.list.append(h("li", {}, item));
    };
    for (const pane of this.app.states) this.inState(pane, wanted, add);
    for (const episode of this.app.episodes) {
      for (let index = 0; index < episode.head.n_chunks && found <= most; index++) {
        if (run !== this.run) return;
        if (!episode.packed.has(index) && episode.link === null) continue;
        this.said.textContent = `${thousands(found)} so far; looking in step ${thousands(index * episode.head.per_chunk)} …`;
        const text = await episode.textOf(index);
        if (run !== this.run) return;
        if (text === null || !mayHold(text, wanted)) continue;
        this.inChunk(episode, new Chunk(parse(text)), wanted, add);
      }
    }
    const left = this.app.episodes.some((episode) => episode.link === null && episode.packed.size < episode.head.n_chunks);
    this.said.textContent = (found > most ? `the first ${most}` : found === 0 ? "nothing" : counted(found, "place")) + (left ? ", in the steps that this page holds" : "");
  }

  inState(pane, wanted, add) {
    if (pane.now === ABSENT) return;
    const { episode } = pane;
    let n = 0;
    const look = (value, path, pattern, name) => {
      if (n > 100) return;
      if (isTable(value)) {
        const key = episode.keys[pattern];
        for (const row of value) {
          const hit = Object.keys(row).find((column) => matches(row[column], wanted) || column.toLowerCase().includes(wanted));
          if (hit === undefined) continue;
          if (++n > 100) return;
          const at = path + "/" + (typeof key === "string" && row[key] !== ABSENT ? escape(key + "=" + canonical(row[key])) : "#" + digestOf(row));
          add(episode, null, at, brief(row, 400).text, at + "/" + escape(hit));
        }
      } else if (isObject(value)) for (const member of Object.keys(value)) look(value[member], path + "/" + escape(member), pattern + "/" + escape(member), member);
      else if (isList(value)) value.forEach((item, i) => look(item, path + "/" + i, pattern + "/" + i, ""));
      else if (matches(value, wanted) || name.toLowerCase().includes(wanted)) {
        n++;
        add(episode, null, path, brief(value, 400).text, path);
      }
    };
    look(pane.now, "", "", "");
  }

  inChunk(episode, chunk, wanted, add) {
    for (let i = 0; i < chunk.n; i++) {
      const step = chunk.first + i;
      for (const name of ["action", "error", "observation", "info"]) {
        const column = chunk.columns[name];
        if (!column || column[i] === null || column[i] === undefined) continue;
        const value = name === "action" || name === "observation" ? unbatched(column[i], episode.head.spaces[name]) : column[i];
        const text = typeof value === "string" ? value : canonical(value);
        if (text.toLowerCase().includes(wanted)) add(episode, step, name, text);
      }
      for (const change of chunk.changesAt(step)) {
        const text = change.path + "  " + brief(change.before, 200).text + " → " + brief(change.after, 200).text;
        if (text.toLowerCase().includes(wanted)) add(episode, step, "change", text, change.path);
      }
      for (const event of chunk.eventsAt(step)) {
        const text = canonical(event);
        if (text.toLowerCase().includes(wanted)) add(episode, step, "audit", text);
      }
    }
  }
}

function matches(value, wanted) {
  if (value === null || value === ABSENT) return false;
  const text = typeof value === "string" ? value : isNested(value) ? canonical(value) : brief(value, 200).text;
  return text.toLowerCase().includes(wanted);
}

/** Whether the text of a chunk may hold what is looked for: a quick no saves reading it. */
function mayHold(text, wanted) {
  const low = text.toLowerCase();
  return wanted.split(/[^\p{L}\p{N}_-]+/u).every((word) => low.includes(word));
}

function around(text, wanted) {
  const at = Math.max(0, text.toLowerCase().indexOf(wanted));
  const from = Math.max(0, at - 40);
  return (from ? "…" : "") + shorten(text.slice(from), 160).replace(/\s+/g, " ");
}

// ---------------------------------------------------------------------------------------------
// The stepper

const SPEEDS = [1, 2, 5, 10, 30, 60];
const VERDICTS = [["passed", true], ["failed", false], ["unknown", null]];

class App {
  constructor(root, episodes) {
    this.host = root;
    this.root = root.shadowRoot;
    this.episodes = episodes;
    this.main = episodes[0];
    this.last = Math.max(...episodes.map((episode) => episode.last));
    this.step = 0;
    this.path = null;
    this.selected = this.main;
    this.reference = "previous";
    this.fold = false;
    this.speed = 2;
    this.listeners = new Set();
    this.build();
  }

  build() {
    const { episodes } = this;
    const two = episodes.length > 1;
    this.timeline = new Timeline(this);
    this.steps = episodes.map((episode, i) => new StepPane(this, episode, i));
    this.states = episodes.map((episode, i) => new StatePane(this, episode, i));
    this.states.forEach((pane, i) => pane.head.append(h("span", { class: "grow" }), copier("Copy as SQL: this state", () => sqlOf.state(episodes[i], Math.min(this.step, episodes[i].last)), this, "SQL")));
    this.inspector = new Inspector(this);
    this.search = new Search(this);
    this.toast = h("div", { class: "toast", role: "status" });
    this.live = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
    const panes = h("div", { class: "panes" + (two ? " two" : "") });
    this.list = two ? null : new StepList(this);
    if (two) episodes.forEach((_, i) => panes.append(h("div", { class: "side" }, this.steps[i].element, this.states[i].element)));
    else panes.append(this.list.element, this.steps[0].element, this.states[0].element);
    panes.append(this.search.panel);
    this.element = h("div", { class: "app", tabindex: "-1", role: "group", "aria-label": "Episode stepper: " + visible(this.main.head.episode.case_id) },
      ...episodes.map((episode, i) => this.header(episode, two ? "AB"[i] : null)),
      this.banner(),
      this.judged(),
      this.controls(),
      h("div", { class: "time" }, this.timeline.element, this.timeline.legend),
      panes,
      this.inspector.element,
      this.help(),
      this.toast,
      this.live);
    this.element.addEventListener("keydown", (event) => this.key(event));
    if (this.host.hasAttribute("data-page")) {
      // it is all of the page: its keys work before anything has the focus
      document.addEventListener("keydown", (event) => event.target === document.body && this.key(event));
    }
    this.element.addEventListener("pointerdown", (event) => {
      // a click makes the keys work, wherever it was
      if (!event.target.closest("button, input, select, summary, a, [tabindex]:not(.app)")) setTimeout(() => this.focus());
    });
    this.root.append(this.element);
    this.follow();
    const probe = h("span", { class: "probe mono" }, "0".repeat(100));
    this.element.append(probe);
    this.unit = probe.getBoundingClientRect().width / 100 || 7.5;
    probe.remove();
  }

  header(episode, letter) {
    const { episode: about, n_moments: moments } = episode.head;
    const { provenance, totals } = about;
    const fact = (name, value) => (value === null || value === undefined || value === "" ? null : [name, value]);
    const facts = [
      fact("case", about.case_id), fact("input", about.case && about.case.input), fact("environment", about.environment_id), fact("version", provenance.environment_version),
      fact("agent", provenance.agent_id), fact("seed", about.seed), fact("repeat", provenance.repeat), fact("recovery of", provenance.previous), fact("output", about.output),
      fact("observer", about.observer_id), fact("audit", about.audited ? "recorded" : "none"), fact("recorded", about.recorded_at), fact("episode", about.episode_id), fact("store", about.store),
    ].filter(Boolean);
    const list = h("dl", { class: "tree" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, isNested(value) ? tree(value) : longText(value)))));
    list.append(h("div", {}, h("dt", {}, "digest"), h("dd", {}, h("span", { class: "mono", text: String(about.digest) }), h("span", { class: "soft" }, " It shows alteration, not authorship."))));
    const issues = about.coverage_issues;
    if (issues.length) list.append(h("div", {}, h("dt", {}, "not covered"), h("dd", {}, h("ul", {}, ...issues.map((text) => h("li", { text: String(text) }))))));
    const errors = isList(about.errors) ? about.errors : [];
    if (errors.length) list.append(h("div", {}, h("dt", {}, "errors"), h("dd", {}, tree(errors))));
    const more = h("details", { class: "about" }, h("summary", {}, icon("open"), "about"), h("div", { class: "sheet" }, list));
    more.addEventListener("focusout", (event) => !more.contains(event.relatedTarget) && (more.open = false));
    const steps = Number(totals.steps);
    return h("header", {},
      letter ? h("span", { class: "letter" }, letter) : null,
      h("h1", { text: String(about.case_id) }),
      h("span", { class: "where", text: [about.environment_id, provenance.agent_id].filter((x) => typeof x === "string").join(" · ") }),
      h("span", { class: "pill " + (about.ending === "error" || about.ending === "interrupted" ? "failed" : "plain"), text: String(about.ending).replace(/_/g, " ") }),
      h("span", { class: "soft" }, counted(steps, "step") + (totals.reward === null ? "" : ", return "), totals.reward === null ? null : valueOf(totals.reward, 20)),
      issues.length ? h("span", { class: "pill unknown" }, counted(issues.length, "coverage issue")) : null,
      h("span", { class: "grow" }),
      copier("Copy a link to this step", () => this.linkTo(episode), this, "link"),
      more);
  }

  banner() {
    const said = [];
    for (const episode of this.episodes) {
      const { head } = episode;
      if (head.redacted) said.push(`Redacted: ${counted(Number(head.redacted.values || 0), "value")} ${Number(head.redacted.values) === 1 ? "was" : "were"} replaced by [redacted]; the digest is that of the evidence before, and cannot be recomputed from this page.`);
      if (episode.packed.size < head.n_chunks) {
        const held = [...episode.packed.keys()].reduce((sum, index) => sum + Math.min(head.per_chunk, head.n_moments - index * head.per_chunk), 0);
        said.push(`An excerpt: this page holds ${thousands(held)} of ${counted(head.n_moments, "moment")}, those around findings first, in ${(head.limit / 1e6).toFixed(1)} MB. The store has all of them.`);
      }
    }
    this.said = h("div", { class: "banner", hidden: said.length === 0 }, ...said.map((text) => h("p", {}, text)));
    return this.said;
  }

  /** Checks and findings, each leading to its step. */
  judged() {
    const rows = [];
    let failed = 0;
    let open = 0;
    this.episodes.forEach((episode, i) => {
      const letter = this.episodes.length > 1 ? h("span", { class: "letter" }, "AB"[i]) : null;
      const { checks, findings } = episode.head;
      for (const check of checks) {
        const word = check.error !== null ? "unknown" : VERDICTS.find(([, value]) => value === check.passed)[0];
        if (word === "failed") failed++;
        if (word === "unknown") open++;
        const steps = check.steps.length || word === "passed" ? check.steps : [episode.last];
        rows.push(this.judgedRow(letter && letter.cloneNode(true), word, check.error !== null ? "check failed to run" : word, check.name, check.error === null ? check.reason : check.error, steps, null));
      }
      for (const finding of findings) {
        const values = [finding.before === undefined ? "absent" : brief(finding.before, 40).text, ...(isList(finding.during) ? finding.during.slice(0, 3).map((value) => brief(value, 40).text) : [])].join(" → ");
        const text = finding.path + "   " + values + (finding.kind === "restored" ? " → put back" : finding.kind === "inside_step" ? " → put back inside the step" : "");
        rows.push(this.judgedRow(letter && letter.cloneNode(true), "forbidden", { restored: "put back", net: "kept", inside_step: "inside the step" }[finding.kind] || String(finding.kind), String(finding.rule), text, finding.restored_at !== null && finding.restored_at !== finding.step_index ? [finding.step_index, finding.restored_at] : [finding.step_index], () => this.select(finding.path, episode, true)));
      }
      const left = episode.head.n_findings - findings.length;
      if (left > 0) rows.push(h("tr", {}, h("td", { colspan: "4", class: "soft" }, `and ${counted(left, "more finding")}: ${sqlOf.findings(episode)}`)));
    });
    if (!rows.length) return null;
    const nFindings = this.episodes.reduce((sum, episode) => sum + Number(episode.head.n_findings), 0);
    const nChecks = this.episodes.reduce((sum, episode) => sum + episode.head.checks.length, 0);
    const passed = nChecks - failed - open;
    const summary = [nChecks && [failed && `${failed} failed`, open && `${open} unknown`, passed && `${passed} passed`].filter(Boolean).join(", "), nFindings && counted(nFindings, "forbidden change")].filter(Boolean).join(" · ");
    const quiet = failed + open + nFindings === 0;
    return h("div", { class: "judged boxed" }, h("details", { open: !quiet },
      h("summary", {}, icon("open"), h("h2", {}, "Checks"), h("span", { class: failed || nFindings ? "bad" : "soft" }, summary)),
      h("div", { class: "judged-rows", tabindex: "0", role: "group", "aria-label": "Checks and findings" }, h("table", {}, h("colgroup", {}, h("col", { class: "verdict" }), h("col", { class: "rule" }), h("col", {}), h("col", { class: "leads" })), h("thead", { class: "hidden" }, h("tr", {}, h("th", { scope: "col" }, "Verdict"), h("th", { scope: "col" }, "Check or rule"), h("th", { scope: "col" }, "Why"), h("th", { scope: "col" }, "Step"))), h("tbody", {}, ...rows)))),
      h("span", { class: "copies" }, copier("Copy as SQL: the results of checks", () => sqlOf.checks(this.main), this, "SQL"), nFindings ? copier("Copy as SQL: the findings", () => sqlOf.findings(this.main), this, "findings") : null));
  }

  judgedRow(letter, kind, word, name, text, steps, also) {
    const links = h("td", { class: "leads" });
    steps.slice(0, 3).forEach((step, i) => links.append(i ? " → " : "", h("button", { type: "button", class: "text", onclick: () => {
      this.go(step);
      if (also) also();
    } }, "step " + thousands(step))));
    if (steps.length > 3) links.append(h("span", { class: "soft" }, ` and ${steps.length - 3} more`));
    const sign = kind === "forbidden" ? h("span", { class: "sign-down", "aria-hidden": "true" }) : icon(kind);
    return h("tr", { class: kind }, h("td", { class: "verdict" }, letter, sign, word), h("td", { class: "rule" }, h("span", { text: shorten(String(name), 80), title: visible(String(name)) })), h("td", { class: "why" }, h("span", { text: shorten(String(text), 400), title: visible(shorten(String(text), 2000)) })), links);
  }

  controls() {
    this.number = h("input", { type: "number", min: "0", max: String(this.last), value: "0", "aria-label": "Step number" });
    this.number.addEventListener("change", () => this.go(Math.round(Number(this.number.value) || 0)));
    this.playing = null;
    this.player = button("play", "Play (space)", () => this.play());
    const speed = h("select", { "aria-label": "Speed" }, ...SPEEDS.map((n) => h("option", { value: String(n), selected: n === this.speed }, `${n} / s`)));
    speed.addEventListener("change", () => {
      this.speed = Number(speed.value);
      if (this.playing) this.play(), this.play();
    });
    const references = [["previous", "previous"], ["start", "start"], ...(this.episodes.length > 1 ? [["other", "other"]] : [])];
    this.references = references.map(([name, text]) => h("button", { type: "button", "aria-pressed": String(name === this.reference), title: { previous: "Mark what changed since the step before", start: "Mark what differs from the first state", other: "Mark what differs from the other episode" }[name], onclick: () => this.compare(name) }, text));
    this.folder = h("button", { type: "button", class: "text toggle", "aria-pressed": "false", title: "Show only what changed (f)", onclick: () => this.setFold(!this.fold) }, icon("fold"), "changed only");
    return h("div", { class: "controls", role: "toolbar", "aria-label": "Steps" },
      h("span", { class: "group" }, button("first", "First (Home)", () => this.go(0)), button("back", "Back (←)", () => this.go(this.step - 1)), this.player, button("forward", "Forward (→)", () => this.go(this.step + 1)), button("last", "Last (End)", () => this.go(this.last))),
      h("span", { class: "group" }, this.number, h("span", { class: "soft of" }, "of " + thousands(this.last)), speed),
      h("span", { class: "group" }, button(null, "Mark before (p)", () => this.toMark(-1), "‹ mark"), button(null, "Next mark (n)", () => this.toMark(1), "mark ›")),
      h("span", { class: "grow" }),
      h("span", { class: "group seg", role: "group", "aria-label": "Changes since" }, h("span", { class: "soft" }, this.episodes.length > 1 ? "against" : "since"), ...this.references),
      this.folder,
      this.search.element);
  }

  help() {
    const key = (...names) => names.map((name) => h("kbd", {}, name));
    return h("footer", {}, ...key("←", "→"), " step ", ...key("⇧←", "⇧→"), " ten ", ...key("n", "p"), " marks ", ...key("space"), " play ", ...key("f"), " changed only ", ...key("/"), " search");
  }

  // -- moving

  /** Go to a moment; resolves when it is shown. */
  go(step, by = "user") {
    if (!Number.isFinite(step)) return Promise.resolve();
    this.step = Math.max(0, Math.min(this.last, Math.trunc(step)));
    this.by = by;
    if (this.list) this.list.scrollTo(this.step);
    this.timeline.moveTo(this.step);
    if (this.root.activeElement !== this.number) this.number.value = String(this.step);
    const wanted = this.step;
    const needed = [];
    for (const episode of this.episodes) {
      const at = Math.min(wanted, episode.last);
      for (const moment of [at, at - 1]) if (moment >= 0 && episode.has(moment) && !episode.isReady(moment)) needed.push(episode.prepare(moment));
      if (!episode.chunks.has(0) && episode.has(0)) needed.push(episode.load(0));
    }
    if (!needed.length) {
      this.refresh();
      this.ahead();
      return Promise.resolve();
    }
    return Promise.all(needed).then(
      () => {
        if (this.step !== wanted) return;
        this.refresh();
        this.ahead();
      },
      (error) => this.say("This step could not be read: " + error.message),
    );
  }

  /** Read the chunks beside the one that is shown, so that stepping never waits. */
  ahead() {
    clearTimeout(this.aheadTimer);
    this.aheadTimer = setTimeout(() => {
      for (const episode of this.episodes) {
        const index = episode.chunkOf(Math.min(this.step, episode.last));
        for (const near of [index + 1, index - 1]) if (near >= 0 && near < episode.head.n_chunks && (episode.packed.has(near) || episode.link)) episode.load(near).catch(() => null);
      }
    }, 30);
  }

  /** Show the moment; everything it needs was read. */
  refresh() {
    const { step } = this;
    if (this.list) this.list.show(step);
    this.host.dataset.step = String(step);
    const states = this.episodes.map((episode) => episode.stateAt(Math.min(step, episode.last)));
    this.episodes.forEach((episode, i) => {
      this.steps[i].show(step);
      const at = Math.min(step, episode.last);
      const before = this.reference === "start" ? episode.startState() : this.reference === "other" ? states[1 - i] : at === 0 ? ABSENT : episode.stateAt(at - 1);
      const pane = this.states[i];
      put(pane.title, at === 0 ? "State after the reset" : at > Number(episode.head.episode.totals.steps) ? "State at the end" : "State after step " + thousands(at));
      pane.show(states[i], states[i] === ABSENT ? ABSENT : before, this.noteOn(episode, at, states[i]));
    });
    this.inspector.show(step);
    this.announce();
    for (const listener of this.listeners) listener(this);
    if (this.by === "user") this.writeHash();
  }

  noteOn(episode, at, state) {
    if (!episode.at(at)) return episode.has(at) ? "This step is being read." : "This page holds only an excerpt, and not this step: the store has it.";
    if (episode.head.episode.observer_id === null && state === ABSENT) return "No state was recorded: the episode had no observer.";
    if (episode.at(at).unseen.has(at)) {
      const seen = episode.seenAt(at);
      return seen < 0 || state === ABSENT ? "The state was not seen." : `The state was not seen here. This is the one after ${seen === 0 ? "the reset" : "step " + thousands(seen)}.`;
    }
    return state === ABSENT ? "This page does not hold the state: it is too large for it." : null;
  }

  titleOf(step) {
    const parts = this.episodes.map((episode) => {
      const at = Math.min(step, episode.last);
      const text = episode.at(at) ? (at === 0 ? "reset" : actionText(episode.action(at))) : "";
      const kinds = this.timeline.kindsAt(episode, at).filter((kind) => kind in NOTES).map((kind) => NOTES[kind]);
      return [visible(text), ...kinds].filter(Boolean).join(", ");
    });
    const said = this.episodes.length > 1 ? parts.map((part, i) => "AB"[i] + ": " + (part || "–")).join(" | ") : parts[0];
    return "Step " + thousands(step) + (said ? ": " + said : "");
  }

  announce() {
    if (this.playing) return;
    clearTimeout(this.announcing);
    this.announcing = setTimeout(() => {
      const changes = this.main.changesAt(Math.min(this.step, this.main.last)).length;
      this.live.textContent = this.titleOf(this.step) + `, ${counted(changes, "change")}`;
    }, 400);
  }

  play() {
    const stop = () => {
      cancelAnimationFrame(this.playing);
      this.playing = null;
      this.player.replaceChildren(icon("play"));
      this.player.title = "Play (space)";
      this.player.setAttribute("aria-label", this.player.title);
    };
    if (this.playing) {
      stop();
      this.announce();
      return;
    }
    if (this.step === this.last) this.go(0);
    this.player.replaceChildren(icon("pause"));
    this.player.title = "Pause (space)";
    this.player.setAttribute("aria-label", this.player.title);
    let due = performance.now() + 1000 / this.speed;
    let busy = false;
    const turn = (now) => {
      if (!this.playing) return;
      if (!this.host.isConnected || this.step >= this.last) return stop();
      if (now >= due && !busy) {
        due = Math.max(due + 1000 / this.speed, now);
        busy = true;
        this.go(this.step + 1).finally(() => (busy = false));
      }
      this.playing = requestAnimationFrame(turn);
    };
    this.playing = requestAnimationFrame(turn);
  }

  toMark(way) {
    const step = this.timeline.next(this.step, way);
    if (step === null) this.say(way > 0 ? "No mark after this step." : "No mark before this step.");
    else this.go(step);
  }

  compare(name) {
    this.reference = name;
    const names = ["previous", "start", "other"];
    this.references.forEach((element, i) => element.setAttribute("aria-pressed", String(names[i] === name)));
    this.refresh();
  }

  setFold(fold) {
    this.fold = fold;
    this.folder.setAttribute("aria-pressed", String(fold));
    this.refresh();
  }

  /** Select a path of a state, and perhaps bring its line into view. */
  select(path, episode, reveal = false) {
    this.path = path;
    if (episode) this.selected = episode;
    this.by = "user";
    this.refresh();
    if (path !== null && reveal) this.states[this.episodes.indexOf(this.selected)].reveal(path);
  }

  key(event) {
    const target = event.composedPath()[0];
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (target.matches("input, select, textarea")) {
      if (event.key === "Escape" || (event.key === "Enter" && target === this.number)) this.focus();
      return;
    }
    const { step } = this;
    const way = event.shiftKey ? 10 : 1;
    const acts = {
      ArrowLeft: () => this.go(step - way),
      ArrowRight: () => this.go(step + way),
      Home: () => this.go(0),
      End: () => this.go(this.last),
      n: () => this.toMark(1),
      p: () => this.toMark(-1),
      f: () => this.setFold(!this.fold),
      "/": () => this.search.open(),
      " ": target.matches("button, summary") ? null : () => this.play(),
      Escape: () => (!this.search.panel.hidden ? this.search.close() : this.path !== null ? this.select(null) : this.closeSheets()),
    };
    const act = acts[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  closeSheets() {
    for (const sheet of this.root.querySelectorAll("details.about[open]")) sheet.open = false;
  }

  focus() {
    this.element.focus({ preventScroll: true });
  }

  // -- the page around it

  linkTo(episode) {
    return location.href.replace(/#.*$/, "") + `#${episode.id}/step=${Math.min(this.step, episode.last)}`;
  }

  /** The step that the page's address names, when it names this episode. */
  stepInHash() {
    const found = /^#(.+)\/step=(\d+)$/.exec(decodeURIComponent(location.hash));
    return found && this.episodes.some((episode) => episode.id === found[1]) ? Number(found[2]) : null;
  }

  writeHash() {
    if (!this.host.hasAttribute("data-page")) return; // a notebook's address is its own
    clearTimeout(this.hashing);
    this.hashing = setTimeout(() => {
      try {
        history.replaceState(history.state, "", `#${this.main.id}/step=${this.step}`);
      } catch {
        // a page without an address of its own, such as one in a frame
      }
    }, 150);
  }

  async copy(text, label) {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = h("textarea", { class: "hidden", "aria-hidden": "true" });
      area.value = text;
      this.element.append(area);
      area.select();
      copied = document.execCommand("copy");
      area.remove();
    }
    this.say((copied ? "Copied: " : "Copy this: ") + shorten(text, 240), label);
  }

  say(text) {
    put(this.toast, text);
    this.toast.classList.add("on");
    clearTimeout(this.toasting);
    this.toasting = setTimeout(() => this.toast.classList.remove("on"), 3500);
  }

  /** Follow the theme of the page, and its address. */
  follow() {
    const update = () => {
      const style = getComputedStyle(this.host);
      const host = ["--jp-layout-color1", "--vscode-editor-background"].map((name) => style.getPropertyValue(name).trim()).find(Boolean);
      let dark = matchMedia("(prefers-color-scheme: dark)").matches;
      if (host) {
        const g = h("canvas", { width: "1", height: "1" }).getContext("2d");
        g.fillStyle = host;
        g.fillRect(0, 0, 1, 1);
        const [r, green, b] = g.getImageData(0, 0, 1, 1).data;
        dark = 0.299 * r + 0.587 * green + 0.114 * b < 128;
      }
      this.element.dataset.theme = dark ? "dark" : "light";
      this.timeline.draw();
    };
    update();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
    new MutationObserver(update).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "class"] });
    globalThis.addEventListener("hashchange", () => {
      const step = this.stepInHash();
      if (step !== null && this.host.isConnected) this.go(step, "hash");
    });
  }

  async start() {
    await Promise.all(this.episodes.map((episode) => episode.load(0)));
    const first = this.main.startState();
    // what does not fit would hide the changes below the edge
    const room = Math.max(10, this.states[0].scroll.clientHeight / LINE - 2);
    this.fold = first !== ABSENT && linesOf(first) > room;
    this.folder.setAttribute("aria-pressed", String(this.fold));
    const linked = this.stepInHash();
    const given = this.model ? this.model.get("step") : Number(this.host.dataset.step);
    await this.go(linked ?? (Number.isInteger(given) ? given : 0), "start");
    if (linked !== null && this.host.hasAttribute("data-page")) this.focus();
    this.timeline.draw();
    this.host.setAttribute("data-ready", "");
  }
}

function linesOf(value) {
  if (!isNested(value)) return 1;
  const items = isList(value) ? value : Object.values(value);
  return items.reduce((sum, item) => sum + (isTable(item) ? 2 : 1) + (!isList(value) && isNested(item) ? linesOf(item) : 0), 0);
}

// ---------------------------------------------------------------------------------------------
// Where it is shown: pages, notebooks, a kernel

const apps = new Set();
const models = new Map();
let sheet = null;

function styles() {
  if (sheet === null) {
    const css = api.css || document.querySelector("style[data-envbench-stepper]")?.textContent || "";
    sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
  }
  return sheet;
}

/** Show the episodes whose packed text is in an element. */
async function mount(root, texts) {
  if (root.shadowRoot || typeof DecompressionStream === "undefined") return null;
  root.attachShadow({ mode: "open", delegatesFocus: true }); // the element itself can be focused, for its keys
  root.shadowRoot.adoptedStyleSheets = [styles()];
  const waiting = h("div", { class: "waiting" });
  root.shadowRoot.append(waiting);
  try {
    const episodes = await Promise.all(texts.map((text) => Episode.read(text)));
    waiting.remove();
    const app = new App(root, episodes);
    for (const each of apps) if (!each.host.isConnected) apps.delete(each);
    apps.add(app);
    const model = models.get(root.dataset.view);
    if (model) bind(app, model);
    await app.start();
    return app;
  } catch (error) {
    root.shadowRoot.replaceChildren(h("p", { text: "This episode cannot be shown: " + error.message }), h("slot", {}));
    return null;
  }
}

function mountAll() {
  for (const root of document.querySelectorAll(".envbench-stepper:not([data-mounted])")) {
    const packed = [...root.querySelectorAll('script[type="application/vnd.envbench.episode+gzip"]')];
    if (!packed.length || !root.querySelector("[data-envbench-end]")) continue; // not all of it is there yet
    root.setAttribute("data-mounted", "");
    mount(root, packed.map((script) => script.textContent));
  }
}

/** Connect a view with its model in Python, which also knows what the page does not hold. */
function bind(app, model) {
  if (app.model === model) return;
  app.model = model;
  link(app, requester(model));
  app.said.hidden = !app.episodes.some((episode) => episode.head.redacted);
  let last = null;
  let timer;
  const send = () => {
    model.set("step", app.step);
    model.set("selected_path", app.path);
    model.set("episode_id", app.selected.id);
    model.save_changes();
  };
  app.listeners.add(() => {
    const now = app.step + "\n" + app.path + "\n" + app.selected.id;
    if (app.by === "python" || app.by === "start" || now === last) return;
    last = now;
    clearTimeout(timer); // one message when the stepping pauses, not one a key
    timer = setTimeout(send, 100);
  });
  const receive = () => {
    if (!app.host.isConnected) return;
    const path = model.get("selected_path");
    if (path !== app.path) {
      app.path = path;
      app.by = "python";
    }
    if (model.get("step") !== app.step || app.by === "python") app.go(model.get("step"), "python");
  };
  model.on("change:step", receive);
  model.on("change:selected_path", receive);
  receive();
}

/** Let episodes ask for what the page does not hold. */
function link(app, ask) {
  app.episodes.forEach((episode, side) => (episode.link = async (what, name) => (await ask({ what, name, side })).content));
}

/** Ask a model in Python, and wait for its answer; bytes that go with it are its `content`. */
function requester(model) {
  const waiting = new Map();
  let n = 0;
  model.on("msg:custom", (message, buffers) => {
    const done = waiting.get(message.id);
    if (!done) return;
    waiting.delete(message.id);
    if (message.error) return done.reject(new Error(message.error));
    const [buffer] = buffers ?? [];
    done.resolve({ ...message, content: buffer && new Uint8Array(buffer.buffer || buffer, buffer.byteOffset || 0, buffer.byteLength) });
  });
  return (question) =>
    new Promise((resolve, reject) => {
      const id = `${Math.random()}.${n++}`;
      waiting.set(id, { resolve, reject });
      setTimeout(() => waiting.delete(id) && reject(new Error("The kernel does not answer: it is busy, or gone.")), 60000);
      model.send({ ...question, id });
    });
}

/** Show packed episodes in an element of a live view, which answers what they ask for. */
async function show(pane, texts, ask, step = 0) {
  const root = h("div", { class: "envbench-stepper", "data-lm-suppress-shortcuts": "true", "data-step": String(step), "data-mounted": "" });
  pane.replaceChildren(root);
  const app = await mount(root, texts);
  if (app) link(app, ask);
  return app;
}

const widget = {
  /** A model in Python came: connect the views that are there, and those to come. */
  initialize({ model }) {
    const view = model.get("view_id");
    models.set(view, model);
    for (const app of apps) if (app.host.dataset.view === view) bind(app, model);
    mountAll();
    return () => models.delete(view);
  },
  /** A view of its own, such as one in a box of widgets. */
  async render({ model, el }) {
    const root = h("div", { class: "envbench-stepper", "data-lm-suppress-shortcuts": "true", "data-step": String(model.get("step")), "data-view": model.get("view_id"), "data-mounted": "" });
    el.append(root);
    const { texts } = await requester(model)({ what: "texts" });
    await mount(root, texts);
  },
};

const api = { mountAll, widget, css: null, apps, requester, show };
globalThis[KEY] = api;
mountAll();
if (document.readyState === "loading") {
  // a page may have the script once, before the episodes that follow
  const observer = new MutationObserver(mountAll);
  observer.observe(document.documentElement, { childList: true, subtree: true });
  document.addEventListener("DOMContentLoaded", () => {
    observer.disconnect();
    mountAll();
  });
}
})();

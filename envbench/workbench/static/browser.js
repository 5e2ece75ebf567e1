// The evidence browser: one classic script without a build step.
//
// A page holds `<div class="envbench-browser">` with a table of episodes. This file adds what
// filters, sorts and pages it: over the rows that are there, or over all of the store where a
// model in Python answers. Rows come from Python as markup in which every value is escaped.
(function () {
"use strict";

const KEY = "envbench.browser/1";
if (globalThis[KEY]) {
  globalThis[KEY].mountAll();
  return;
}

const PAGE = 50;
const NAMES = { environment: "environment", agent: "agent", ending: "ending" };
const VERDICTS = [
  ["failed", "a check failed"],
  ["error", "a check in error"],
  ["unknown", "a check unknown"],
  ["passed", "all passed"],
  ["unjudged", "not judged"],
  ["forbidden", "forbidden changes"],
];

function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") element.textContent = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function counted(n, thing) {
  return `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
}

/** The rows that the page holds: filtered and sorted here. */
class Rows {
  constructor(table, total) {
    this.all = [...table.tBodies[0].rows];
    this.columns = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.column);
    this.total = total;
  }

  async list(query) {
    const words = query.text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.all.filter((row) => {
      const text = [0, 2, 3].map((column) => row.cells[column].textContent).join(" ").toLowerCase();
      return (
        words.every((word) => text.includes(word) || (word.length >= 8 && row.dataset.episode.startsWith(word))) &&
        Object.keys(NAMES).every((name) => query[name] === null || row.dataset[name] === query[name]) &&
        (query.verdict === null || row.dataset.verdict.split(" ").includes(query.verdict))
      );
    });
    this.sort(found, this.columns.indexOf(query.order), query.descending);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    const page = Math.min(query.page, pages - 1);
    return { elements: found.slice(page * PAGE, (page + 1) * PAGE), page, pages, matched: found.length, total: this.total, first: page * PAGE + 1, choices: this.choices() };
  }

  sort(rows, column, descending) {
    const value = (row) => {
      const cell = row.cells[column];
      const text = cell.dataset.value ?? cell.textContent;
      if (cell.dataset.value === undefined && !cell.classList.contains("envbench-number")) return text;
      return text === "" ? null : Number(text.replaceAll(",", ""));
    };
    const sign = descending ? -1 : 1;
    const keyed = new Map(rows.map((row) => [row, value(row)]));
    rows.sort((a, b) => {
      const [x, y] = [keyed.get(a), keyed.get(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  choices() {
    const counts = {};
    for (const name of Object.keys(NAMES)) {
      const found = new Map();
      for (const row of this.all) found.set(row.dataset[name], (found.get(row.dataset[name]) ?? 0) + 1);
      counts[name] = [...found].sort((a, b) => b[1] - a[1]);
    }
    return counts;
  }
}

class Browser {
  constructor(root) {
    this.root = root;
    this.table = root.querySelector("table");
    this.body = this.table.tBodies[0];
    this.title = root.querySelector(".envbench-browser-title");
    this.rows = new Rows(this.table, Number(root.dataset.total));
    this.query = { text: "", environment: null, agent: null, ending: null, verdict: null, order: "recorded_at", descending: true, page: 0 };
    this.model = null;
    this.chosen = [];
    this.marked = null;
    this.asked = 0;
    this.build();
    this.list();
  }

  build() {
    this.search = h("input", { type: "search", placeholder: "Search cases, agents, ids", "aria-label": "Search episodes" });
    this.search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.ask({ text: this.search.value, page: 0 }), 150);
    });
    this.selects = {};
    const chooser = (name, label) => {
      const select = h("select", { "aria-label": `Filter by ${label}` });
      select.addEventListener("change", () => this.ask({ [name]: select.value === "*" ? null : select.value.slice(1), page: 0 }));
      return (this.selects[name] = select);
    };
    const filters = [...Object.entries(NAMES).map(([name, label]) => chooser(name, label)), chooser("verdict", "verdict")];
    this.selects.verdict.append(h("option", { value: "*", text: "any verdict" }), ...VERDICTS.map(([value, text]) => h("option", { value: "=" + value, text })));
    this.sideBySide = h("button", { type: "button", text: "Two side by side", "aria-pressed": "false", title: "Then choose two episodes" });
    this.sideBySide.addEventListener("click", () => this.pairing(this.sideBySide.getAttribute("aria-pressed") !== "true"));
    this.sideBySide.hidden = true;
    this.copier = h("button", { type: "button", text: "Copy as SQL" });
    this.copier.hidden = true;
    this.copier.addEventListener("click", () => this.copy());
    this.before = h("button", { type: "button", text: "‹", "aria-label": "Previous page" });
    this.after = h("button", { type: "button", text: "›", "aria-label": "Next page" });
    this.before.addEventListener("click", () => this.ask({ page: this.query.page - 1 }));
    this.after.addEventListener("click", () => this.ask({ page: this.query.page + 1 }));
    this.place = h("span", {});
    const pages = h("span", { class: "envbench-browser-pages" }, this.place, this.before, this.after);
    this.bar = h("div", { class: "envbench-browser-bar", role: "group", "aria-label": "Filters and pages" }, this.search, ...filters, this.sideBySide, this.copier, pages);
    this.said = h("p", { class: "envbench-browser-said envbench-soft", role: "status" });
    this.pane = h("div", { class: "envbench-browser-pane" });
    this.table.closest(".envbench-scroll").before(this.bar);
    this.table.closest(".envbench-scroll").after(this.said, this.pane);
    for (const cell of this.table.tHead.rows[0].cells) {
      const button = h("button", { type: "button", text: cell.textContent });
      button.addEventListener("click", () => {
        const order = cell.dataset.column;
        if (order === "verdict" && this.model) return this.say("Sort by another column; the filter finds verdicts.");
        this.ask({ order, descending: this.query.order === order ? !this.query.descending : false, page: 0 });
      });
      cell.replaceChildren(button);
    }
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-episode]");
      if (row && event.target.closest("button")) this.open(row.dataset.episode);
    });
    this.root.addEventListener("keydown", (event) => {
      const link = event.target.closest(".envbench-browser-case button");
      if (!link || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
      const links = [...this.body.querySelectorAll(".envbench-browser-case button")];
      links[links.indexOf(link) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
      event.preventDefault();
    });
  }

  ask(part) {
    this.query = { ...this.query, ...part };
    return this.list();
  }

  async list() {
    const asked = ++this.asked;
    try {
      if (this.model) {
        this.model.set("query", this.query);
        this.model.save_changes(); // the answer is a listing that Python sends by itself
      } else {
        this.show(await this.rows.list(this.query));
      }
    } catch (error) {
      if (asked === this.asked) this.say(error.message);
    }
  }

  show(found) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.episode : null;
    if (found.elements) this.body.replaceChildren(...found.elements);
    else this.body.innerHTML = found.rows;
    this.query.page = found.page;
    for (const cell of this.table.tHead.rows[0].cells) {
      if (cell.dataset.column === this.query.order) cell.setAttribute("aria-sort", this.query.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    for (const row of this.body.rows) this.link(row);
    if (focused) [...this.body.rows].find((row) => row.dataset.episode === focused)?.querySelector("button")?.focus();
    this.sql = found.sql ?? null;
    this.copier.hidden = !this.sql;
    this.title.textContent = this.headline(found);
    const last = found.first - 1 + this.body.rows.length;
    this.place.textContent = found.matched ? `${found.first.toLocaleString("en")}–${last.toLocaleString("en")}` : "none";
    this.before.disabled = found.page === 0;
    this.after.disabled = found.page >= found.pages - 1;
    this.offer(found.choices);
    this.mark();
  }

  headline(found) {
    const held = this.model ? found.total : this.rows.all.length;
    const all = counted(found.total, "episode");
    const n = (number) => number.toLocaleString("en");
    if (found.matched === held) return held < found.total ? `${all}, the newest ${n(held)} shown` : all;
    return held < found.total ? `${n(found.matched)} of the newest ${n(held)} of ${all}` : `${n(found.matched)} of ${all}`;
  }

  /** A row leads to its episode where a kernel can open it, or the page has its stepper. */
  link(row) {
    const name = row.querySelector(".envbench-browser-case");
    const there = this.model || stepperOf(row.dataset.episode);
    const linked = name.firstElementChild?.matches("button");
    if (Boolean(there) === Boolean(linked)) return;
    if (there) {
      const button = h("button", { type: "button" });
      button.append(...name.childNodes);
      name.append(button);
    } else {
      name.replaceChildren(...name.firstElementChild.childNodes);
    }
  }

  offer(choices) {
    for (const [name, found] of Object.entries(choices)) {
      const select = this.selects[name];
      const now = this.query[name] === null ? "*" : "=" + this.query[name];
      select.replaceChildren(
        h("option", { value: "*", text: `any ${NAMES[name]}` }),
        ...found.map(([value, n]) => h("option", { value: "=" + value, text: `${value === "" ? `no ${NAMES[name]}` : visible(value)} (${n.toLocaleString("en")})` })),
      );
      select.value = now;
      select.hidden = found.length < 2 && now === "*";
    }
    this.selects.verdict.value = this.query.verdict === null ? "*" : "=" + this.query.verdict;
  }

  pairing(on) {
    this.sideBySide.setAttribute("aria-pressed", String(on));
    this.chosen = [];
    this.mark();
    this.say(on ? "Choose two episodes." : "");
  }

  async open(id) {
    if (!this.model) {
      const there = stepperOf(id);
      there?.scrollIntoView({ block: "start" });
      there?.shadowRoot?.querySelector(".app")?.focus({ preventScroll: true });
      return;
    }
    if (this.sideBySide.getAttribute("aria-pressed") === "true") {
      this.chosen = this.chosen.includes(id) ? this.chosen.filter((each) => each !== id) : [...this.chosen, id];
      this.mark();
      if (this.chosen.length < 2) return this.say("Choose another one.");
    } else {
      this.chosen = [id];
    }
    const ids = this.chosen.slice(-2);
    this.say("Opening…");
    try {
      const { texts } = await this.request({ what: "open", ids });
      await stepper().show(this.pane, texts, this.request);
      this.say("");
    } catch (error) {
      this.say(error.message);
    }
    this.sideBySide.setAttribute("aria-pressed", "false");
    this.mark();
  }

  mark() {
    for (const row of this.body.rows) row.classList.toggle("envbench-browser-open", this.chosen.includes(row.dataset.episode));
  }

  bind(model) {
    if (this.model === model) return;
    this.model = model;
    this.request = stepper().requester(model);
    this.query = { ...model.get("query") };
    this.search.value = this.query.text;
    this.sideBySide.hidden = false;
    model.on("msg:custom", (message) => {
      if (message.listing && this.root.isConnected && message.id === undefined) this.show(message.listing);
    });
    model.on("change:query", () => {
      this.query = { ...model.get("query") };
      if (document.activeElement !== this.search) this.search.value = this.query.text;
    });
    this.request({ what: "list" }).then(({ listing }) => this.show(listing), (error) => this.say(error.message));
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.sql);
      this.say("The query is copied.");
    } catch {
      this.say("The clipboard is closed to this page: browser.sql in Python has the query.");
    }
  }

  say(text) {
    this.said.textContent = text;
  }
}

/** The script of steppers, which a live view brings along. */
function stepper() {
  return globalThis["envbench.stepper/1"];
}

function stepperOf(id) {
  return document.querySelector(`.envbench-stepper[data-episode="${CSS.escape(id)}"]`);
}

/** Text of an option, where no markup can show what is unseen. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}]/gu, (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
}

const browsers = new Set();
const models = new Map();

function mount(root) {
  root.setAttribute("data-mounted", "");
  const browser = new Browser(root);
  browsers.add(browser);
  const model = models.get(root.dataset.view);
  if (model) browser.bind(model);
}

function mountAll() {
  for (const root of document.querySelectorAll(".envbench-browser:not([data-mounted])")) mount(root);
}

const widget = {
  initialize({ model }) {
    const view = model.get("view_id");
    models.set(view, model);
    for (const browser of browsers) {
      if (!browser.root.isConnected) browsers.delete(browser);
      else if (browser.root.dataset.view === view) browser.bind(model);
    }
    mountAll();
    return () => models.delete(view);
  },
};

globalThis[KEY] = { mountAll, widget, browsers };
mountAll();
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
})();

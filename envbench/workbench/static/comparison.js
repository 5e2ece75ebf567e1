// The live side of a comparison: one classic script without a build step.
//
// A page holds `<div class="envbench-comparison" data-view="ID">`, whose names and cells are links
// to steps of episodes. Those whose stepper is in the page are left to the browser; for the others
// the model in Python sends the pair, and its stepper stands where this file puts it. Without a
// kernel nothing of this is needed.
(function () {
"use strict";

const KEY = "envbench.comparison/1";
if (globalThis[KEY]) return;

const stepper = globalThis["envbench.stepper/1"]; // it comes before this in the module

/** A comparison in a page, bound to its model. */
class Comparison {
  constructor(root, model) {
    this.root = root;
    this.model = model;
    this.request = stepper.requester(model);
    this.pane = root.querySelector(".envbench-comparison-live");
    this.said = root.querySelector("[role=status]");
    this.clicked = (event) => this.click(event);
    root.addEventListener("click", this.clicked);
  }

  click(event) {
    if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("a[href^='#']");
    const asked = link && /^#(.+)\/(?:step=(\d+)|check=(\d+))$/.exec(link.getAttribute("href"));
    if (!asked) return;
    const place = { episode: decodeURIComponent(asked[1]) };
    const anchor = document.getElementById(decodeURIComponent(link.getAttribute("href").slice(1)));
    if (anchor && this.root.contains(anchor)) {
      this.model.send({ what: "select", id: "", ...place });
      return;
    }
    event.preventDefault();
    if (asked[2] !== undefined) place.step = Number(asked[2]);
    if (asked[3] !== undefined) place.check = Number(asked[3]);
    this.open(place);
  }

  async open(place) {
    this.said.textContent = "Opening…";
    try {
      const { texts, step, name } = await this.request({ what: "open", ...place });
      const app = await stepper.show(this.pane, texts, this.request, step);
      app?.host.scrollIntoView({ block: "nearest" });
      app?.focus();
      this.said.textContent = name;
    } catch (error) {
      this.said.textContent = error.message;
    }
  }
}

const models = new Map();
const bound = new WeakMap();

function bindAll() {
  for (const root of document.querySelectorAll(".envbench-comparison[data-view]")) {
    const model = models.get(root.dataset.view);
    if (model && bound.get(root)?.model !== model) {
      const before = bound.get(root);
      if (before) root.removeEventListener("click", before.clicked);
      bound.set(root, new Comparison(root, model));
    }
  }
}

const widget = {
  initialize({ model }) {
    const view = model.get("view_id");
    models.set(view, model);
    bindAll();
    // the output that holds the page may come after its model, and again when it is drawn anew
    const observer = new MutationObserver(bindAll);
    observer.observe(document.body, { childList: true, subtree: true });
    return () => {
      observer.disconnect();
      models.delete(view);
    };
  },
};

globalThis[KEY] = { bindAll, widget };
})();

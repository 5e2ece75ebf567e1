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

const MIME = "application/vnd.envbench.episode+gzip";

/** A comparison in a page, bound to its model. */
class Comparison {
  constructor(root, model) {
    this.root = root;
    this.model = model;
    this.request = requester(model);
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
      this.show(texts, step);
      this.said.textContent = name;
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  show(texts, step) {
    const root = element("div", { class: "envbench-stepper", "data-lm-suppress-shortcuts": "true", "data-step": String(step) });
    for (const text of texts) {
      const packed = element("script", { type: MIME });
      packed.textContent = text;
      root.append(packed);
    }
    root.append(element("span", { "data-envbench-end": "", hidden: "" }));
    this.pane.replaceChildren(root);
    const stepper = globalThis["envbench.stepper/1"];
    stepper.mountAll();
    const link = () => {
      const app = [...stepper.apps].find((each) => each.host === root);
      if (!app) return root.isConnected && setTimeout(link, 20);
      app.episodes.forEach((episode, side) => (episode.link = async (what, name) => (await this.request({ what, name, side })).content));
      root.scrollIntoView({ block: "nearest" });
      app.focus();
    };
    link();
  }
}

function element(name, attributes) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Ask the model, and wait for its answer. */
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

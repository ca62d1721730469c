const ALL_HEADS = Array.from({ length: numHeads }, (_, n) => n + 1);

const state = {
  layer: data.layer,
  head: data.head ?? 1,
  heads: new Set(data.head ? [data.head] : ALL_HEADS),
  minimum: 0.04,
  maps: null,
};

/** Chooses a layer and one head for all views. */
function select(layer, head) {
  state.head = head;
  state.heads = new Set([head]);
  return showLayer(layer);
}

function toggleHead(head) {
  if (!state.heads.delete(head)) state.heads.add(head);
  // 矩阵跟着最后打开的头走；一个都没开时留在原处
  state.head = [...state.heads].at(-1) ?? state.head;
  draw();
}

function showAllHeads() {
  state.heads = new Set(ALL_HEADS);
  draw();
}

/** Loads a layer, if need be, and draws it. */
async function showLayer(layer) {
  state.layer = layer;
  const maps = await loadLayer(layer);
  // 解包期间用户可能又换了层：只画最后选的那一层
  if (state.layer !== layer) return;
  state.maps = maps;
  draw();
}

/** Draws everything that depends on layer and heads. */
function draw() {
  byId("layer").value = String(state.layer);
  writeHeadChoice();
  const exactness = byId("exactness");
  exactness.textContent = word(isExact(state.layer) ? "exact" : "rounded");
  exactness.classList.toggle("exact", isExact(state.layer));
  markSwatches();
  drawLines();
  markPartners();
  paintMatrix();
  frameHead();
  markRole();
  drawClsText();
  document.body.dataset.drawn = `${state.layer}:${state.head}`;
}

/** Says in the toolbar which heads are shown: one, some, or all. */
function writeHeadChoice() {
  const { head, heads } = state;
  const isOne = heads.size === 1;
  const isAll = heads.size === numHeads;
  const [all, some] = byId("head").options;
  all.textContent = word("all");
  some.textContent = word("some_heads", numHeads, heads.size);
  byId("head").value = isOne ? String(head) : isAll ? "all" : "some";
  byId("toolbar-hint").textContent = isOne ? word("toolbar_one") : word("toolbar_many", head);
}

/** Writes all words again, in the language of the moment. */
function writeWords() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-word]")) {
    element.textContent = word(element.dataset.word);
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", word(element.dataset.label));
  }
  byId("language").textContent = word("other_language");
  byId("facts").textContent = word("facts", data.model, numTokens);
  byId("minimum-value").textContent = percent(state.minimum);
  writeNotes();
  writeViews();
  buildPredictions();
  buildRoles();
  buildTokens();
}

function writeNotes() {
  const notes = [];
  const hasMask = tokens.includes("[MASK]");
  const hasMlm = ["BertForPreTraining", "BertForMaskedLM"].includes(data.model.architecture);
  if (hasMlm && !hasMask) notes.push(word("note_no_mask"));
  if (!hasMlm && hasMask) notes.push(word("note_no_mlm"));
  if (hasMlm && data.pair !== null && !data.next_sentence) notes.push(word("note_no_nsp"));
  const hasHead = !hasMlm && !data.classification && data.model.architecture !== "BertModel";
  if (hasHead) notes.push(word("note_head", data.model.architecture));
  if (data.exact_layers.length < numLayers) notes.push(word("note_rounded", data.layer));
  byId("notes").replaceChildren(...notes.map((note) => make("li", {}, note)));
}

function writeViews() {
  const views = ["masks", "pair", "classes", "heads", "matrix", "model", "roles", "cls", "tokens"];
  const isThere = {
    masks: data.masks.length > 0,
    pair: data.next_sentence !== null,
    classes: data.classification !== null,
  };
  const links = views
    .filter((view) => isThere[view] ?? true)
    .map((view) => make("a", { href: `#${view}-panel` }, word(`view_${view}`)));
  byId("views").replaceChildren(...links);
}

function writeText() {
  byId("model-name").textContent = data.model.name;
  const parts = [data.text, data.pair].filter((part) => part !== null);
  byId("text").classList.toggle("long", parts.join().length > 160);
  byId("text").replaceChildren(...parts.map((part) => make("span", {}, part)));
}

function listen() {
  const number = (id) => Number(byId(id).value);
  byId("layer").addEventListener("change", () => showLayer(number("layer")));
  byId("head").addEventListener("change", () => {
    if (byId("head").value === "all") showAllHeads();
    else select(state.layer, number("head"));
  });
  byId("all-heads").addEventListener("click", showAllHeads);
  byId("minimum").addEventListener("input", () => {
    state.minimum = number("minimum") / 100;
    byId("minimum-value").textContent = percent(state.minimum);
    drawLines();
    markPartners();
  });
  byId("language").addEventListener("click", () => {
    language = language === "zh" ? "en" : "zh";
    redraw();
  });
  darkScheme.addEventListener("change", redraw);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) requestAnimationFrame(redraw);
    width = window.innerWidth;
  });
}

/** Draws the whole page anew: another language, scheme or width. */
function redraw() {
  readColours();
  writeWords();
  draw();
  drawModel();
  drawClsLayers();
}

async function start() {
  const options = (count) =>
    Array.from({ length: count }, (_, n) => make("option", { value: String(n + 1) }, String(n + 1)));
  byId("layer").replaceChildren(...options(numLayers));
  // “若干个头”只能由色块得到，所以在列表里选不了
  const wholes = [make("option", { value: "all" }), make("option", { value: "some", hidden: true })];
  byId("head").replaceChildren(...wholes, ...options(numHeads));
  readColours();
  writeText();
  buildSwatches();
  buildHeadView();
  buildMatrixView();
  buildModelView();
  buildClsView();
  writeWords();
  drawModel();
  await showLayer(state.layer);
  listen();
  await drawClsLayers();
  await fillModel();
}

if ("DecompressionStream" in window) {
  start();
} else {
  byId("alarm").textContent = word("old_browser");
  byId("alarm").hidden = false;
}

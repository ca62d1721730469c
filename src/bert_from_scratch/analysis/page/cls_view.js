const CLS_ROW = 20;

// [CLS] 每层的平均注意力，逐层填入
const clsRows = new Map();
let clsBox = null;
let clsCursor = null;

/** Colours the text by what [CLS] looks at in the chosen layer. */
function drawClsText() {
  const shares = meanShares({ side: "left", token: 0 });
  const highest = Math.max(...shares) || 1;
  const pieces = byId("cls-text").children;
  byId("cls-heads").textContent = clsHeads();
  shares.forEach((share, i) => {
    pieces[i].title = word("labelled", names[i], percent(share));
    paint(pieces[i], share / highest);
  });
}

/** Says which heads the colours of the text are the mean of. */
function clsHeads() {
  const [head, ...others] = state.heads;
  if (!head) return word("lines_no_head");
  if (others.length === 0) return word("layer_head", state.layer, head);
  return word("cls_heads", state.layer, numHeads, state.heads.size);
}

/** Computes the mean over all heads of what [CLS] looks at in a layer. */
function clsRow(maps) {
  const row = new Float32Array(numTokens);
  for (let head = 1; head <= numHeads; head++) {
    for (let j = 0; j < numTokens; j++) {
      row[j] += weightOf(maps, head, 0, j) / numHeads;
    }
  }
  return row;
}

/** Draws [CLS] layer by layer: rows are layers, columns tokens. */
async function drawClsLayers() {
  for (let layer = 1; layer <= numLayers; layer++) {
    if (!clsRows.has(layer)) clsRows.set(layer, clsRow(await loadLayer(layer)));
  }
  const canvas = byId("cls");
  const labels = Math.min(90, widestToken() + 10);
  const room = canvas.parentElement.clientWidth - GUTTER;
  const cell = Math.min(72, room / numTokens);
  clsBox = { left: GUTTER, top: labels, cell };
  paintCls(prepare(canvas, GUTTER + cell * numTokens, labels + CLS_ROW * numLayers));
  tellCls();
}

function paintCls(context) {
  const { left, top, cell } = clsBox;
  const rows = Array.from({ length: numLayers }, (_, n) => clsRows.get(n + 1));
  const all = Float32Array.from(rows.flatMap((row) => [...row]));
  const highest = ceiling(all, 0, all.length);
  const grid = paintGrid(numTokens, numLayers, all, highest);
  context.imageSmoothingEnabled = false;
  context.drawImage(grid, left, top, cell * numTokens, CLS_ROW * numLayers);
  context.font = face(11);
  context.fillStyle = faint;
  context.textBaseline = "middle";
  context.textAlign = "center";
  rows.forEach((_, n) => context.fillText(String(n + 1), left / 2, top + (n + 0.5) * CLS_ROW));
  context.fillStyle = ink;
  const every = Math.max(1, Math.ceil(12 / cell));
  for (let j = 0; j < numTokens; j += every) {
    const place = every === 1 ? (j + 0.5) * cell : j * cell + 6;
    if (place + 5 > cell * numTokens) break;
    writeAbove(context, tokens[j], left + place, top - 5, top - 8);
  }
}

/** Shows the weight under pointer or cursor. */
function tellCls() {
  if (!clsCursor) {
    byId("cls-readout").textContent = word("matrix_rest");
    return;
  }
  const [n, j] = clsCursor;
  const weight = clsRows.get(n + 1)[j];
  byId("cls-readout").textContent = word("cls_weight", n + 1, names[j], weight.toFixed(6));
}

/** Lets pointer and arrow keys read single weights. */
function buildClsView() {
  const pieces = tokens.map((token) => make("span", { class: "tinted" }, token));
  byId("cls-text").replaceChildren(...pieces);
  const canvas = byId("cls");
  const set = (cell) => {
    clsCursor = cell;
    if (clsBox) tellCls();
  };
  canvas.addEventListener("mousemove", (event) => {
    if (!clsBox) return;
    const [x, y] = pointerIn(canvas, event);
    const n = Math.floor((y - clsBox.top) / CLS_ROW);
    const j = Math.floor((x - clsBox.left) / clsBox.cell);
    set(n >= 0 && j >= 0 && n < numLayers && j < numTokens ? [n, j] : null);
  });
  canvas.addEventListener("mouseleave", () => set(null));
  canvas.addEventListener("blur", () => set(null));
  canvas.addEventListener("keydown", (event) => {
    const move = arrow(event);
    if (!move) return;
    event.preventDefault();
    const [n, j] = clsCursor ?? [0, -move[1]];
    set([clamp(n + move[0], numLayers - 1), clamp(j + move[1], numTokens - 1)]);
  });
}

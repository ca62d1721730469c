const THUMBNAIL = 48;
const GAP = 4;
const GUTTER = 26;

// 缩略图只算一次，配色改变时从这里重画
const pooled = new Map();

let cellSize = 0;

/** Makes thumbnails of a layer: the largest weight of each block of cells. */
function poolLayer(maps) {
  const side = Math.min(numTokens, THUMBNAIL);
  const place = Uint16Array.from({ length: numTokens }, (_, i) => Math.floor((i * side) / numTokens));
  return Array.from({ length: numHeads }, (_, head) => {
    const grid = new Float32Array(side * side);
    let p = head * numTokens * numTokens;
    // 取块内最大值而不是平均：细的对角线缩小后仍看得见
    for (let i = 0; i < numTokens; i++) {
      const row = place[i] * side;
      for (let j = 0; j < numTokens; j++, p++) {
        const at = row + place[j];
        if (maps.values[p] > grid[at]) grid[at] = maps.values[p];
      }
    }
    return { grid, side, highest: grid.reduce((a, b) => Math.max(a, b), 0) || 1 };
  });
}

/** Lays the canvas out and draws what is there already. */
function drawModel() {
  const box = byId("thumbnails").parentElement;
  const room = box.clientWidth - GUTTER;
  cellSize = Math.max(14, Math.min(64, Math.floor(room / numHeads)));
  const width = GUTTER + numHeads * cellSize;
  const height = GUTTER + numLayers * cellSize;
  const context = prepare(byId("model"), width, height);
  context.font = face(11);
  context.fillStyle = faint;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let head = 1; head <= numHeads; head++) {
    context.fillText(String(head), GUTTER + (head - 0.5) * cellSize, GUTTER / 2);
  }
  for (let layer = 1; layer <= numLayers; layer++) {
    context.fillText(String(layer), GUTTER / 2, GUTTER + (layer - 0.5) * cellSize);
    if (pooled.has(layer)) drawThumbnails(layer);
  }
  frameHead();
}

function drawThumbnails(layer) {
  const context = byId("model").getContext("2d");
  context.imageSmoothingEnabled = false;
  const size = cellSize - GAP;
  pooled.get(layer).forEach(({ grid, side, highest }, n) => {
    const painted = paintGrid(side, side, grid, highest);
    const [x, y] = [GUTTER + n * cellSize + GAP / 2, GUTTER + (layer - 1) * cellSize + GAP / 2];
    context.drawImage(painted, x, y, size, size);
  });
}

/** Puts the frame around the chosen head: no thumbnail is drawn again. */
function frameHead() {
  const frame = byId("frame");
  frame.style.left = `${GUTTER + (state.head - 1) * cellSize}px`;
  frame.style.top = `${GUTTER + (state.layer - 1) * cellSize}px`;
  frame.style.width = frame.style.height = `${cellSize}px`;
  byId("model-readout").textContent = word("layer_head", state.layer, state.head);
}

/** Loads one layer after the other, with a pause between them. */
async function fillModel() {
  for (let layer = 1; layer <= numLayers; layer++) {
    pooled.set(layer, poolLayer(await loadLayer(layer)));
    drawThumbnails(layer);
    await new Promise((resume) => setTimeout(resume));
  }
  document.body.dataset.complete = "true";
}

/** Lets clicks and arrow keys choose a head. */
function buildModelView() {
  const box = byId("thumbnails");
  const find = (event) => {
    const [x, y] = pointerIn(byId("model"), event);
    const head = Math.floor((x - GUTTER) / cellSize) + 1;
    const layer = Math.floor((y - GUTTER) / cellSize) + 1;
    const isInside = head >= 1 && layer >= 1 && head <= numHeads && layer <= numLayers;
    return isInside ? [layer, head] : null;
  };
  box.addEventListener("click", (event) => {
    const found = find(event);
    if (found) select(...found);
  });
  box.addEventListener("mousemove", (event) => {
    const found = find(event) ?? [state.layer, state.head];
    byId("model-readout").textContent = word("layer_head", ...found);
  });
  box.addEventListener("mouseleave", frameHead);
  box.addEventListener("keydown", (event) => {
    const move = arrow(event);
    if (!move) return;
    event.preventDefault();
    const layer = clamp(state.layer - 1 + move[0], numLayers - 1) + 1;
    select(layer, clamp(state.head - 1 + move[1], numHeads - 1) + 1);
  });
}

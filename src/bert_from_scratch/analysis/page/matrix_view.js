const MATRIX_MARGIN = 8;

// 当前矩阵的几何：格子大小与左上角；指针与方向键都靠它换算
let matrixBox = null;
let matrixCursor = null;
let matrixGrid = null;

/** Paints the weights of the chosen head, and shows them. */
function paintMatrix() {
  const size = numTokens * numTokens;
  const start = (state.head - 1) * size;
  const values = state.maps.values;
  const top = ceiling(values, start, start + size);
  const grid = paintGrid(numTokens, numTokens, values, top, start);
  const highest = top * state.maps.scales[state.head - 1];
  // 移动光标时只重贴这张底图，不重算颜色
  matrixGrid = { grid, highest };
  drawLegend(highest);
  drawMatrix();
}

/** Draws grid, labels and cursor. */
function drawMatrix() {
  const canvas = byId("matrix");
  const available = canvas.parentElement.clientWidth;
  const labels = Math.min(96, widestToken() + 2 * MATRIX_MARGIN);
  const cell = Math.min(44, (available - labels) / numTokens);
  const side = Math.floor(cell * numTokens);
  matrixBox = { left: labels, top: labels, cell: side / numTokens, side };
  const context = prepare(canvas, labels + side, labels + side);
  const { grid, highest } = matrixGrid;
  context.imageSmoothingEnabled = matrixBox.cell < 1;
  context.drawImage(grid, labels, labels, side, side);
  if (matrixBox.cell >= 34) writeValues(context, highest);
  writeAxes(context);
  markCell();
}

function writeValues(context, highest) {
  const { left, top, cell } = matrixBox;
  context.font = face(10);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = 0; i < numTokens; i++) {
    for (let j = 0; j < numTokens; j++) {
      const weight = weightOf(state.maps, state.head, i, j);
      context.fillStyle = inkOn(shade(weight / highest));
      const label = (100 * weight).toFixed(weight < 0.0995 ? 1 : 0);
      context.fillText(label, left + (j + 0.5) * cell, top + (i + 0.5) * cell);
    }
  }
}

/** Writes tokens along both sides, every so many where they are dense. */
function writeAxes(context) {
  const { left, top, cell } = matrixBox;
  const every = Math.max(1, Math.ceil(12 / cell));
  context.font = face(cell < 12 && every === 1 ? 9 : 11);
  context.fillStyle = ink;
  context.textBaseline = "middle";
  const room = left - MATRIX_MARGIN;
  for (let i = 0; i < numTokens; i += every) {
    const place = every === 1 ? (i + 0.5) * cell : i * cell + 6;
    if (place + 5 > matrixBox.side) break;
    context.textAlign = "right";
    context.fillText(fit(context, tokens[i], room), left - 6, top + place);
    writeAbove(context, tokens[i], left + place, top - 6, room);
  }
}

function drawLegend(highest) {
  const canvas = byId("legend");
  const context = canvas.getContext("2d");
  const steps = Float32Array.from({ length: 256 }, (_, n) => n);
  context.drawImage(paintGrid(256, 1, steps, 255), 0, 0, 256, 10);
  byId("legend-max").textContent = `≥ ${percent(highest)}`;
}

/** Shows the weight under the cursor. */
function markCell() {
  const readout = byId("matrix-readout");
  if (!matrixCursor) {
    readout.textContent = word("matrix_rest");
    return;
  }
  const [i, j] = matrixCursor;
  const weight = weightOf(state.maps, state.head, i, j);
  readout.textContent = word("weight", names[i], names[j], weight.toFixed(6));
  const { left, top, cell } = matrixBox;
  const context = byId("matrix").getContext("2d");
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.strokeRect(left + j * cell, top + i * cell, Math.max(cell, 3), Math.max(cell, 3));
}

function setCell(cell) {
  const isSame = cell?.join() === matrixCursor?.join();
  if (isSame || !state.maps) return;
  matrixCursor = cell;
  drawMatrix();
}

/** Lets pointer and arrow keys read single weights. */
function buildMatrixView() {
  const canvas = byId("matrix");
  canvas.addEventListener("mousemove", (event) => {
    const [x, y] = pointerIn(canvas, event);
    const j = Math.floor((x - matrixBox.left) / matrixBox.cell);
    const i = Math.floor((y - matrixBox.top) / matrixBox.cell);
    const isInside = i >= 0 && j >= 0 && i < numTokens && j < numTokens;
    setCell(isInside ? [i, j] : null);
  });
  canvas.addEventListener("mouseleave", () => setCell(null));
  canvas.addEventListener("blur", () => setCell(null));
  canvas.addEventListener("keydown", (event) => {
    const move = arrow(event);
    if (!move) return;
    event.preventDefault();
    const [i, j] = matrixCursor ?? [0, -move[1]];
    setCell([clamp(i + move[0], numTokens - 1), clamp(j + move[1], numTokens - 1)]);
  });
}

const ROW = 26;
const SHOWN_PARTNERS = 5;
const SHOWN_SHARE = 0.005;
const STRENGTHS = 10;
const MAX_LINES = 800;

// 指着或钉住的词元：{side, token, pinned}；null 时画出全部连线
let isolated = null;
let areMarked = false;
let linesBound = 0;
let numLines = 0;

/** Builds both token columns once; they are the same for all layers. */
function buildHeadView() {
  for (const side of ["left", "right"]) {
    byId(side).replaceChildren(...tokens.map((token, i) => tokenItem(side, token, i)));
  }
  byId("left").querySelector("button").tabIndex = 0;
  byId("bipartite").addEventListener("scroll", () => drawLines());
  byId("bipartite").addEventListener("keydown", moveBetweenTokens);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") isolate(null);
  });
  byId("bipartite").addEventListener("mouseleave", () => {
    if (isolated && !isolated.pinned) isolate(null);
  });
}

function tokenItem(side, token, i) {
  const button = make("button", { type: "button", tabIndex: -1, title: `${token} · ${i}` });
  button.append(make("span", { class: "piece" }, token), make("span", { class: "share" }));
  const point = () => {
    if (!isolated?.pinned) isolate({ side, token: i, pinned: false });
  };
  button.addEventListener("mouseenter", point);
  button.addEventListener("focus", point);
  button.addEventListener("click", () => {
    const isKept = isolated?.pinned && isolated.side === side && isolated.token === i;
    isolate(isKept ? null : { side, token: i, pinned: true });
  });
  return make("li", {}, button);
}

function moveBetweenTokens(event) {
  const move = arrow(event);
  const button = event.target.closest("button");
  if (!move || !button) return;
  event.preventDefault();
  const list = button.closest("ol");
  const place = [...list.children].indexOf(button.parentElement);
  const side = move[1] ? (move[1] > 0 ? "right" : "left") : list.id;
  const next = byId(side).children[clamp(place + move[0], numTokens - 1)].firstChild;
  // 只有一个词元在 Tab 次序里，方向键带着它走
  button.tabIndex = -1;
  next.tabIndex = 0;
  if (isolated?.pinned) isolated.pinned = false;
  next.focus();
}

/** Shows the lines of one token alone, or of all with null. */
function isolate(chosen) {
  isolated = chosen;
  drawLines();
  markPartners();
}

/** Draws the lines of the tokens in view. */
function drawLines() {
  if (!state.maps) return;
  const box = byId("bipartite");
  const canvas = byId("lines");
  const width = canvas.parentElement.clientWidth;
  const height = Math.min(box.clientHeight, numTokens * ROW);
  const context = prepare(canvas, width, height);
  const places = isolated ? linesOf(isolated) : linesInView(box.scrollTop, height);
  linesBound = lowestShown(places);
  const y = (token) => (token + 0.5) * ROW - box.scrollTop;
  // 同一头、同一浓淡的线合成一条路径：上千条线只描几十次
  const paths = new Map();
  numLines = 0;
  eachWeight(places, (weight, head, i, j) => {
    if (weight < linesBound || numLines >= MAX_LINES) return;
    numLines++;
    const key = head * (STRENGTHS + 1) + Math.ceil(weight * STRENGTHS);
    if (!paths.has(key)) paths.set(key, new Path2D());
    paths.get(key).moveTo(0, y(i));
    paths.get(key).bezierCurveTo(width * 0.4, y(i), width * 0.6, y(j), width, y(j));
  });
  for (const [key, path] of paths) {
    const strength = (key % (STRENGTHS + 1)) / STRENGTHS;
    context.strokeStyle = headColour(Math.floor(key / (STRENGTHS + 1)));
    context.globalAlpha = Math.min(1, 0.05 + 0.95 * strength);
    context.lineWidth = 1 + 2.5 * strength;
    context.stroke(path);
  }
}

/** Calls visit(weight, head, i, j) for all shown heads and some rows, columns. */
function eachWeight({ rows, columns }, visit) {
  const { values, scales } = state.maps;
  for (const head of state.heads) {
    const scale = scales[head - 1];
    for (let i = rows[0]; i <= rows[1]; i++) {
      const start = ((head - 1) * numTokens + i) * numTokens;
      for (let j = columns[0]; j <= columns[1]; j++) {
        visit(values[start + j] * scale, head, i, j);
      }
    }
  }
}

/** Returns the smallest weight that gets a line: not too many have one. */
function lowestShown(places) {
  const minimum = Math.max(state.minimum, Number.MIN_VALUE);
  const { rows, columns } = places;
  const size = state.heads.size * (rows[1] - rows[0] + 1) * (columns[1] - columns[0] + 1);
  const weights = new Float32Array(size);
  let count = 0;
  eachWeight(places, (weight) => {
    if (weight >= minimum) weights[count++] = weight;
  });
  return count > MAX_LINES ? ceiling(weights, 0, count, MAX_LINES) : minimum;
}

function linesOf({ side, token }) {
  const all = [0, numTokens - 1];
  const one = [token, token];
  return side === "left" ? { rows: one, columns: all } : { rows: all, columns: one };
}

function linesInView(top, height) {
  const first = clamp(Math.floor(top / ROW), numTokens - 1);
  const last = clamp(Math.ceil((top + height) / ROW), numTokens - 1);
  return { rows: [first, last], columns: [0, numTokens - 1] };
}

/** Colours the tokens that the isolated one looks at, or is looked at by. */
function markPartners() {
  const shares = isolated ? meanShares(isolated) : null;
  // 没有标记过也不必标记：换层时省去上千个元素的更新
  if (isolated || areMarked) markTokens(shares);
  areMarked = isolated !== null;
  tellPartners(shares);
}

function markTokens(shares) {
  const sides = { left: null, right: null };
  if (isolated) sides[isolated.side === "left" ? "right" : "left"] = shares;
  for (const [side, values] of Object.entries(sides)) {
    [...byId(side).children].forEach((item, i) => {
      const button = item.firstChild;
      const isSource = isolated?.side === side && isolated.token === i;
      button.classList.toggle("source", isSource);
      button.setAttribute("aria-pressed", String(isSource && isolated.pinned));
      button.lastChild.textContent = values && values[i] >= SHOWN_SHARE ? percent(values[i]) : "";
      paint(button, values ? values[i] : 0);
    });
  }
}

function paint(element, share) {
  const rgb = share >= SHOWN_SHARE ? shade(share) : null;
  element.style.backgroundColor = rgb ? css(rgb) : "";
  element.style.color = rgb ? inkOn(rgb) : "";
}

/** Returns the mean over the shown heads, one number a token. */
function meanShares(chosen) {
  const shares = new Array(numTokens).fill(0);
  eachWeight(linesOf(chosen), (weight, head, i, j) => {
    shares[chosen.side === "left" ? j : i] += weight / state.heads.size;
  });
  return shares;
}

function tellPartners(shares) {
  const found = shares ? partnersOf(shares) : word("lines_rest", numHeads, state.heads.size);
  // 滑块对单个词元同样有效：线被略去时，两种情形都要说明
  const said = [found, linesNote()].filter(Boolean);
  byId("lines-readout").textContent = word("sentences", said);
}

/** Names the strongest partners of the isolated token; "" where none is. */
function partnersOf(shares) {
  const best = shares
    .map((share, i) => [share, i])
    .sort((a, b) => b[0] - a[0])
    .slice(0, SHOWN_PARTNERS)
    .filter(([share]) => share >= SHOWN_SHARE);
  if (best.length === 0) return "";
  const parts = best.map(([share, i]) => `“${names[i]}” ${percent(share)}`);
  return word(`lines_${isolated.side}`, names[isolated.token], word("listed", parts));
}

/** Says so where lines are left out: no head, too many, or all too weak. */
function linesNote() {
  if (state.heads.size === 0) return word("lines_no_head");
  if (numLines === 0) return word("lines_none", percent(state.minimum));
  const isCut = linesBound > Math.max(state.minimum, Number.MIN_VALUE);
  return isCut ? word("lines_cut", MAX_LINES, percent(linesBound)) : "";
}

/** Builds the coloured switches of the heads. */
function buildSwatches() {
  const buttons = Array.from({ length: numHeads }, (_, n) => {
    const head = n + 1;
    const button = make("button", { type: "button", class: "swatch" }, String(head));
    button.addEventListener("click", () => toggleHead(head));
    return button;
  });
  byId("swatches").replaceChildren(...buttons);
}

/** Shows which heads are on. */
function markSwatches() {
  [...byId("swatches").children].forEach((button, n) => {
    const isOn = state.heads.has(n + 1);
    button.setAttribute("aria-pressed", String(isOn));
    button.setAttribute("aria-label", word("one_head", n + 1));
    button.style.setProperty("--head", headColour(n + 1));
  });
}

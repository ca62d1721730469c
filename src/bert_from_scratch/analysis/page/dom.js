/** Returns the element of an id. */
function byId(id) {
  return document.getElementById(id);
}

/**
 * Makes an element. Text always goes in as text, never as markup, whatever a
 * token looks like.
 */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Sizes a canvas in CSS pixels, sharp on any screen; returns its context. */
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const size = [Math.round(width * ratio), Math.round(height * ratio)];
  // 大小不变就不重设：重设会清空并重新分配整块画布
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    [canvas.width, canvas.height] = size;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Returns where the pointer is inside an element, in CSS pixels. */
function pointerIn(element, event) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/** Cuts a label to a width, with an ellipsis. */
function fit(context, label, width) {
  if (context.measureText(label).width <= width) return label;
  let kept = label;
  while (kept && context.measureText(`${kept}…`).width > width) {
    kept = kept.slice(0, -1);
  }
  return `${kept}…`;
}

// 一两个汉字（或假名、谚文、全角标点）的标签
const UPRIGHT =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff00-\uffef]{1,2}$/u;

/** Writes a label above a column: upright if it is short and Chinese, else on its side. */
function writeAbove(context, label, x, y, room) {
  context.save();
  context.translate(x, y);
  if (UPRIGHT.test(label)) {
    // 汉字横倒难认：一字一行，自下而上叠起来
    context.textAlign = "center";
    const rows = [...label].reverse();
    rows.forEach((letter, n) => context.fillText(letter, 0, -6 - 12 * n));
  } else {
    context.textAlign = "left";
    context.rotate(-Math.PI / 2);
    context.fillText(fit(context, label, room), 0, 0);
  }
  context.restore();
}

/** Returns how an arrow key moves, as [down, right]; null for other keys. */
function arrow(event) {
  const moves = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  };
  return moves[event.key] ?? null;
}

/** Keeps a number within 0 ... last. */
function clamp(value, last) {
  return Math.max(0, Math.min(last, value));
}

/** Returns a face of one font that Chinese has glyphs in too. */
function face(size, weight = 400) {
  return `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
}

let widest = 0;

/** Returns the width of the longest token label; measured once. */
function widestToken() {
  if (!widest) {
    const context = document.createElement("canvas").getContext("2d");
    context.font = face(11);
    widest = Math.ceil(Math.max(...tokens.map((token) => context.measureText(token).width)));
  }
  return widest;
}

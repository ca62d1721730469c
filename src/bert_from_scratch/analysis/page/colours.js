let scale = [];
let packed = new Uint32Array(256);
let ink = "";
let faint = "";
let isDark = false;

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");

/** Reads the colours of the scheme: 256 steps from no weight to all. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  isDark = darkScheme.matches;
  ink = value("--ink");
  faint = value("--faint");
  const stops = ["--scale-0", "--scale-1", "--scale-2", "--scale-3"];
  scale = mixStops(stops.map((name) => parseHex(value(name))));
  const bytes = scale.flatMap((rgb) => [...rgb, 255]);
  packed = new Uint32Array(Uint8Array.from(bytes).buffer);
}

function parseHex(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixStops(stops) {
  const last = stops.length - 1;
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * last;
    const low = Math.min(Math.floor(place), last - 1);
    const share = place - low;
    return stops[low].map((c, i) => Math.round(c + share * (stops[low + 1][i] - c)));
  });
}

/** Returns the step of a share, 0 ... 1; the square root lifts small ones. */
function level(share) {
  return share >= 1 ? 255 : Math.floor(255 * Math.sqrt(share) + 0.5);
}

/** Returns the colour of a share, 0 ... 1. */
function shade(share) {
  return scale[level(share)];
}

/** Returns a colour as CSS writes it. */
function css(rgb) {
  return `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
}

/** Returns ink that reads well on a colour. */
function inkOn(rgb) {
  const light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
  return light > 140 ? "#15181f" : "#ffffff";
}

/** Returns the colour of a head, evenly around the circle. */
function headColour(head) {
  const hue = (250 + ((head - 1) * 360) / numHeads) % 360;
  return `oklch(${isDark ? 0.76 : 0.58} 0.15 ${hue.toFixed(1)})`;
}

/** Paints values from `start` on, one pixel each; `highest` is the strongest. */
function paintGrid(width, height, values, highest, start = 0) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  // 一次写一个像素的四个字节：长文本的矩阵有二十多万个像素
  const pixels = new Uint32Array(image.data.buffer);
  for (let p = 0; p < pixels.length; p++) pixels[p] = packed[level(values[start + p] / highest)];
  context.putImageData(image, 0, 0);
  return canvas;
}

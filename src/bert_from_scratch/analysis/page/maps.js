const data = JSON.parse(byId("data").textContent);
const tokens = data.tokens.map((token) => token.token);
// 重复的词元带上位置，读数里才分得清是哪一个
const names = tokens.map((token, i) =>
  tokens.indexOf(token) === tokens.lastIndexOf(token) ? token : `${token}·${i}`,
);
const numTokens = tokens.length;
const numLayers = data.model.num_hidden_layers;
const numHeads = data.model.num_attention_heads;

// 每层只解一次包；未解的层第一次用到时才解
const unpacked = new Map();

/** Returns a promise of the maps of a layer, counted from 1. */
function loadLayer(layer) {
  if (!unpacked.has(layer)) {
    unpacked.set(layer, unpack(data.maps[layer - 1]));
    data.maps[layer - 1] = { form: data.maps[layer - 1].form };
  }
  return unpacked.get(layer);
}

/** Says whether the weights of a layer are exact. */
function isExact(layer) {
  return data.exact_layers.includes(layer);
}

/** Makes {values, scales}: a weight is values[(head * S + i) * S + j] * scale. */
async function unpack(map) {
  const buffer = await inflate(map.data);
  if (map.form === "levels") {
    return { values: new Uint8Array(buffer), scales: map.steps };
  }
  let values = new Float32Array(buffer);
  if (map.form === "queries_keys") values = await attend(values, map.width);
  return { values, scales: new Array(numHeads).fill(1) };
}

/** Decodes base64 and undoes zlib. */
async function inflate(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream();
  const plain = stream.pipeThrough(new DecompressionStream("deflate"));
  return new Response(plain).arrayBuffer();
}

/** Computes softmax(Q K' / sqrt(D)) head by head, as the model does. */
async function attend(both, width) {
  const size = numTokens * width;
  const weights = new Float32Array(numHeads * numTokens * numTokens);
  for (let head = 0; head < numHeads; head++) {
    const queries = both.subarray(head * size, (head + 1) * size);
    const start = (numHeads + head) * size;
    const keys = both.subarray(start, start + size);
    const from = head * numTokens * numTokens;
    attendHead(queries, keys, width, weights.subarray(from));
    // 头与头之间让出主线程，页面不会卡住
    await new Promise((resume) => setTimeout(resume));
  }
  return weights;
}

function attendHead(queries, keys, width, weights) {
  const scale = 1 / Math.sqrt(width);
  const row = new Float64Array(numTokens);
  for (let i = 0; i < numTokens; i++) {
    let highest = -Infinity;
    for (let j = 0; j < numTokens; j++) {
      let sum = 0;
      for (let d = 0; d < width; d++) {
        sum += queries[i * width + d] * keys[j * width + d];
      }
      row[j] = sum * scale;
      if (row[j] > highest) highest = row[j];
    }
    let total = 0;
    for (let j = 0; j < numTokens; j++) {
      row[j] = Math.exp(row[j] - highest);
      total += row[j];
    }
    for (let j = 0; j < numTokens; j++) {
      weights[i * numTokens + j] = row[j] / total;
    }
  }
}

/** Returns one weight; head counted from 1, tokens from 0. */
function weightOf(maps, head, i, j) {
  const place = ((head - 1) * numTokens + i) * numTokens + j;
  return maps.values[place] * maps.scales[head - 1];
}

/**
 * Returns a weight that only so many lie above. The strongest colour stands
 * for it: with a hundredth above, one column does not pale all others.
 */
function ceiling(values, start, end, above = Math.floor((end - start) / 100)) {
  let highest = 0;
  for (let p = start; p < end; p++) if (values[p] > highest) highest = values[p];
  const counts = new Uint32Array(1025);
  for (let p = start; p < end; p++) counts[Math.floor((1024 * values[p]) / (highest || 1))]++;
  let step = 1024;
  for (let left = above; step > 1 && left >= counts[step]; step--) left -= counts[step];
  return ((step + (step < 1024)) / 1024) * highest || 1;
}

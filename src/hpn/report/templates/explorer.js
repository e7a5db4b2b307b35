// The node explorer: one instance for each section of the class explorer. No library, no network.
const themes = JSON.parse(document.getElementById("themes").textContent);
const [LIGHT, DARK] = [themes.light, themes.dark].map((theme) => theme.range.category);
const GREY = "#8b949e", GRID = 65535;
const ARRAYS = { int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array };
const dark = matchMedia("(prefers-color-scheme: dark)");

async function unpack({ type, data }) {
  const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new ARRAYS[type](await new Response(plain).arrayBuffer());
}

function make(tag, content = [], attributes = {}, space = null) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...[content].flat());
  return made;
}

const svg = (tag, attributes, content) => make(tag, content, attributes, "http://www.w3.org/2000/svg");
const signed = (number) => (number > 0 ? `+${number}` : number < 0 ? `−${-number}` : "0");
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;

function says(angle) {
  const size = Math.abs(angle);
  if (size < 8) return "neutral";
  return (size > 60 ? "strongly " : size < 30 ? "slightly " : "") + (angle > 0 ? "for" : "against");
}

function trace(pen, shape, x, y, r) { // circle, square, triangle, diamond, cross
  pen.beginPath();
  if (shape === 0) pen.arc(x, y, r, 0, 7);
  else if (shape === 1) pen.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else {
    const arm = 0.36 * r, far = 1.1 * r;
    const corners = shape === 2 ? [[0, -1.2 * r], [1.1 * r, 0.8 * r], [-1.1 * r, 0.8 * r]]
      : shape === 3 ? [[0, -1.3 * r], [1.2 * r, 0], [0, 1.3 * r], [-1.2 * r, 0]]
      : [[-far, -arm], [-arm, -arm], [-arm, -far], [arm, -far], [arm, -arm], [far, -arm], [far, arm], [arm, arm], [arm, far], [-arm, far], [-arm, arm], [-far, arm]];
    corners.forEach(([a, b], at) => (at ? pen.lineTo(x + a, y + b) : pen.moveTo(x + a, y + b)));
    pen.closePath();
  }
}

async function explore(root) {
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const packed = Object.entries(data).filter(([, value]) => value?.data !== undefined);
  await Promise.all(packed.map(async ([name, value]) => { data[name] = await unpack(value); }));
  const names = JSON.parse(new TextDecoder().decode(data.names));
  const n = names.length, get = (selector) => root.querySelector(selector);
  const canvas = get(".ex-map>canvas"), tip = get(".ex-tip"), panel = get(".ex-node"), legend = get(".ex-legend");
  const search = get("input"), select = get("select"), pen = canvas.getContext("2d");
  const step360 = 360 / data.bounds.atomic, angleOf = (position) => position * step360;
  const at = (array, row, which, node) => array[(2 * row + which) * n + node];
  const className = (label) => (label < 0 ? "unknown" : data.classes[label]);
  data.verdict = Int8Array.from(names, (_, node) => (data.label[node] < 0 ? -1 : Number(data.label[node] !== data.answer[node])));
  const neighbors = (node) => Array.from(data.indices.subarray(data.indptr[node], data.indptr[node + 1]));
  const banksOf = (node) => data.weights[data.group[node]].map((weight, bank) => ({ weight, bank }))
    .filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight);

  // What is shown: the part of the map, colours, and what is chosen.
  let zoom = 1, left = 0, top = 0, size = 1, radius = 3.5;
  let selected = -1, hovered = -1, prototype = null, served = null, sprites = new Map();
  const hidden = new Set();
  const place = (node) => [left + (data.x[node] / GRID) * size * zoom, top + (1 - data.y[node] / GRID) * size * zoom];

  const keyNames = { label: data.classes, answer: data.classes, verdict: ["right", "wrong"] };
  keyNames.step = data.steps.length > 1 ? data.steps.map((name, step) => `${step + 1}: ${name}`) : data.steps;

  function look(key) {
    const palette = dark.matches ? DARK : LIGHT;
    if (key < 0) return [GREY, 0];
    if (select.value === "verdict") return key ? [palette[1], 4] : [palette[0], 0];
    return [palette[key % 8], Math.floor(key / 8) % 4];
  }

  function sprite(key, isFaint) {
    const name = `${key} ${isFaint}`;
    if (!sprites.has(name)) {
      const ratio = devicePixelRatio || 1, half = Math.ceil(radius * 1.5 * ratio), [colour, shape] = look(key);
      const made = make("canvas", [], { width: 2 * half, height: 2 * half }), brush = made.getContext("2d");
      brush.globalAlpha = isFaint ? 0.13 : 0.85;
      brush.fillStyle = colour;
      trace(brush, shape, half, half, radius * ratio);
      brush.fill();
      sprites.set(name, made);
    }
    return sprites.get(name);
  }

  let isWaiting = false;
  function draw() {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => { isWaiting = false; paint(); });
  }

  function paint() {
    const ratio = devicePixelRatio || 1, keys = data[select.value];
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const near = selected < 0 ? [] : neighbors(selected), chosen = new Set([...near, selected]);
    for (const pass of [true, false]) { // faint nodes are below the others
      for (let node = 0; node < n; node++) {
        const isFaint = served ? !served[node] : selected >= 0 && !chosen.has(node);
        if (isFaint !== pass || hidden.has(keys[node])) continue;
        const image = sprite(keys[node], served ? isFaint : false), [x, y] = place(node);
        pen.drawImage(image, Math.round(x * ratio - image.width / 2), Math.round(y * ratio - image.height / 2));
      }
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.strokeStyle = pen.fillStyle = getComputedStyle(root).getPropertyValue("--ink");
    pen.lineWidth = 1.2;
    if (selected >= 0) {
      const [x, y] = place(selected);
      for (const node of near) {
        const [a, b] = place(node);
        pen.beginPath(); pen.moveTo(x, y); pen.lineTo(a, b); pen.stroke();
        pen.beginPath(); pen.arc(a, b, radius + 2.5, 0, 7); pen.stroke();
      }
    }
    for (const node of [hovered, selected].filter((one) => one >= 0)) {
      const [x, y] = place(node);
      pen.lineWidth = 2.5;
      pen.beginPath(); pen.arc(x, y, radius + 4, 0, 7); pen.stroke();
    }
  }

  function fit(isReset) {
    const box = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    if (!box.width) return;
    [canvas.width, canvas.height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    size = Math.min(box.width, box.height) - 56;
    radius = n > 8000 ? 2.2 : n > 2000 ? 2.8 : 4;
    if (isReset) [zoom, left, top] = [1, (box.width - size) / 2, (box.height - size) / 2];
    sprites = new Map();
    draw();
  }

  function zoomBy(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    factor = Math.min(60, Math.max(0.5, zoom * factor)) / zoom;
    [left, top, zoom] = [x - (x - left) * factor, y - (y - top) * factor, zoom * factor];
    draw();
  }

  function nearest(x, y, within) {
    let best = -1, least = within * within;
    for (let node = 0; node < n; node++) {
      if (hidden.has(data[select.value][node])) continue;
      const [a, b] = place(node), distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < least) [best, least] = [node, distance];
    }
    return best;
  }

  function describe(node) {
    const verdict = keyNames.verdict[data.verdict[node]];
    return `predicted ${className(data.answer[node])}${verdict ? ` (${verdict})` : ""}`;
  }

  function hover(node) {
    if (node === hovered) return;
    hovered = node;
    tip.hidden = node < 0;
    if (node >= 0) {
      tip.replaceChildren(make("strong", names[node]), make("br"), `class ${className(data.label[node])}, ${describe(node)}`);
      const [x, y] = place(node), box = tip.getBoundingClientRect();
      const across = Math.max(4, Math.min(x + 12, canvas.clientWidth - box.width - 6));
      const down = y + 14 + box.height > canvas.clientHeight ? y - box.height - 12 : y + 14;
      tip.style.transform = `translate(${across}px, ${down}px)`;
    }
    draw();
  }

  function matchButton(position) {
    const button = make("button", signed(position), { type: "button", "aria-label": `prototype ${signed(position)}` });
    button.addEventListener("click", () => choosePrototype(position));
    return button;
  }

  function table(head, rows) {
    const body = rows.map((row) => make("tr", row.map((cell, column) => make(column ? "td" : "th", cell, column ? {} : { scope: "row" }))));
    return make("table", [make("thead", make("tr", head.map((cell) => make("th", cell, { scope: "col" })))), make("tbody", body)]);
  }

  function level(array, node, bound) {
    const parts = [0, 1].filter((which) => which === 0 || data.runner_up[node] >= 0).map((which) => at(array, 0, which, node));
    return parts.map((position) => `${signed(position)} ${says((position * 360) / bound)}`).join("; runner-up ");
  }

  function choose(node) {
    selected = node;
    if (node < 0) return draw();
    const hasNext = data.runner_up[node] >= 0, verdict = keyNames.verdict[data.verdict[node]];
    const facts = [["Class", className(data.label[node])]];
    facts.push(["Prediction", `${className(data.answer[node])}, ${data.probability[node]} %${verdict ? `: ${verdict}` : ""}`]);
    if (hasNext) facts.push(["Runner-up", `${className(data.runner_up[node])}, ${data.probability[n + node]} %`]);
    if (data.steps.length) facts.push(["Step", data.step[node] < 0 ? "not learned" : keyNames.step[data.step[node]]]);
    const membership = at(data.class_level, 0, 0, node);
    facts.push(["Class level", `${membership > 0 ? "member" : membership ? "not a member" : "borderline"} (${level(data.class_level, node, data.bounds.class)})`]);
    facts.push(["Node level", level(data.node, node, data.bounds.node)]);
    const match = (bank, which) => {
      const position = at(data.atomic, bank, which, node);
      return [matchButton(position), make("small", says(angleOf(position)))];
    };
    const head = ["", "weight", "prediction", ...(hasNext ? ["runner-up"] : [])];
    const rows = banksOf(node).map(({ weight, bank }) => [data.banks[bank], `${Math.round(100 * weight)}\u00a0%`, match(bank, 0), ...(hasNext ? [match(bank, 1)] : [])]);
    const parts = [make("h3", names[node]), make("dl", facts.flatMap(([term, text]) => [make("dt", term), make("dd", text)]))];
    parts.push(make("h4", "Atomic prototypes by bank"), table(head, rows));
    if (data.slots.length) {
      const value = (slot, which) => signed(Number((at(data.evidence, slot, which, node) / 100).toFixed(2)));
      parts.push(make("h4", "Evidence by slot"));
      parts.push(table(["", ...head.slice(2)], data.slots.map((slot, row) => [slot, value(row, 0), ...(hasNext ? [value(row, 1)] : [])])));
    }
    const near = neighbors(node), degree = data.degree[node];
    parts.push(make("h4", near.length < degree ? `Neighbours: ${near.length} of ${degree}` : `Neighbours: ${degree}`));
    parts.push(make("div", near.map((other) => {
      const button = make("button", [names[other], make("small", ` ${className(data.answer[other])}`)], { type: "button" });
      button.addEventListener("click", () => choose(other));
      return button;
    }), { class: "ex-near" }));
    if (near.length < degree) parts.push(make("p", `Listed are those on the map, at most ${data.most_neighbors}.`, { class: "note" }));
    panel.replaceChildren(...parts);
    panel.scrollTop = 0;
    search.value = names[node];
    draw();
  }

  function describePrototype({ position, angle, nodes, classes, founded }) {
    const found = founded === null ? "founded in an unknown step" : `founded in step ${founded + 1}`;
    return `prototype ${signed(position)}: ${signed(angle)}°, ${says(angle)}; serves ${count(nodes, "node")} of ${count(classes, "class")}, ${found}`;
  }

  function choosePrototype(position) {
    prototype = position === prototype ? null : position;
    served = null;
    if (prototype !== null) {
      served = Uint8Array.from(names, (_, node) => banksOf(node).some(({ bank }) =>
        at(data.atomic, bank, 0, node) === position || (data.runner_up[node] >= 0 && at(data.atomic, bank, 1, node) === position)));
    }
    for (const dot of root.querySelectorAll(".ex-circle g")) dot.setAttribute("aria-pressed", String(Number(dot.dataset.position) === prototype));
    const found = data.prototypes.find((one) => one.position === prototype);
    get(".ex-proto").textContent = found ? `${describePrototype(found)}. Its nodes are highlighted on the map.` : "Choose a prototype to highlight its nodes on the map.";
    draw();
  }

  function buildCodebook() {
    const most = Math.max(1, ...data.prototypes.map((one) => one.nodes)), r = 170, [cx, cy] = [230, 205];
    const on = (angle, far) => [cx + far * Math.sin((angle * Math.PI) / 180), cy - far * Math.cos((angle * Math.PI) / 180)];
    const largest = Math.max(4, Math.min(10, 0.52 * r * step360 * Math.PI / 180));
    const label = (x, y, text, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor }, text);
    const picture = svg("svg", { viewBox: "0 0 460 385", role: "group", "aria-label": `The circle of ${data.prototypes.length} atomic prototypes` }, [
      svg("path", { class: "ring never", d: `M${cx - r} ${cy}A${r} ${r} 0 0 0 ${cx + r} ${cy}` }, []),
      svg("path", { class: "ring", d: `M${cx - r} ${cy}A${r} ${r} 0 0 1 ${cx + r} ${cy}` }, []),
      label(cx, 18, "neutral"), label(cx + r - 14, cy + 5, "for", "end"), label(cx - r + 14, cy + 5, "against", "start"),
      svg("text", { class: "big", x: cx, y: cy - 14, "text-anchor": "middle" }, String(data.prototypes.length)),
      label(cx, cy + 16, `of at most ${data.bounds.atomic} in use`),
      label(cx, cy + 62, "larger dots: more nodes"), label(cx, cy + 84, "the dashed half is never used"),
    ]);
    const dots = data.prototypes.map((one) => {
      const [x, y] = on(one.angle, r), text = describePrototype(one);
      const dot = svg("g", { role: "button", tabindex: -1, "aria-label": text, "aria-pressed": "false", "data-position": one.position }, [
        svg("title", {}, text), svg("circle", { class: "hit", cx: x, cy: y, r: Math.max(9, largest) }, []),
        svg("circle", { class: "dot", cx: x, cy: y, r: (1.6 + (largest - 1.6) * Math.sqrt(one.nodes / most)).toFixed(1) }, []),
      ]);
      dot.addEventListener("click", () => choosePrototype(one.position));
      return dot;
    });
    dots[0]?.setAttribute("tabindex", "0");
    dots.forEach((dot, place) => dot.addEventListener("keydown", (event) => {
      const other = dots[place + ({ ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key] ?? 0)];
      if (event.key === "Enter" || event.key === " ") choosePrototype(data.prototypes[place].position);
      else if (!event.key.startsWith("Arrow") || !other) return;
      else { dot.setAttribute("tabindex", "-1"); other.setAttribute("tabindex", "0"); other.focus(); }
      event.preventDefault();
    }));
    picture.append(...dots);
    get(".ex-circle").append(picture);
    const founded = (one) => (one.founded === null ? "unknown" : String(one.founded + 1));
    const rows = data.prototypes.map((one) => [signed(one.position), `${signed(one.angle)}°`, says(one.angle), String(one.nodes), String(one.classes), founded(one)]);
    get(".ex-table").append(table(["prototype", "angle", "meaning", "nodes", "classes", "step"], rows));
  }

  function buildLegend() {
    hidden.clear();
    sprites = new Map();
    const counts = new Map();
    for (const key of data[select.value]) counts.set(key, (counts.get(key) ?? 0) + 1);
    const absent = select.value === "step" ? "not learned" : "unknown";
    legend.replaceChildren(...[...counts.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b).map((key) => {
      const mark = make("canvas", [], { width: 28, height: 28, "aria-hidden": "true" }), [colour, shape] = look(key);
      const brush = mark.getContext("2d");
      brush.fillStyle = colour;
      trace(brush, shape, 14, 14, 10);
      brush.fill();
      const text = key < 0 ? absent : keyNames[select.value][key];
      const button = make("button", [mark, make("span", text), make("small", counts.get(key).toLocaleString("en"))], { type: "button", "aria-pressed": "true" });
      button.addEventListener("click", () => {
        if (!hidden.delete(key)) hidden.add(key);
        button.setAttribute("aria-pressed", String(!hidden.has(key)));
        draw();
      });
      return button;
    }));
    draw();
  }

  function listen() {
    const pointers = new Map();
    let moved = 0;
    const where = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, where(event));
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = where(event), before = pointers.get(event.pointerId);
      if (!before) return hover(nearest(x, y, 14));
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) zoomBy(Math.hypot(x - other[0], y - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])), ...other);
      else [left, top] = [left + x - before[0], top + y - before[1]];
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      pointers.set(event.pointerId, [x, y]);
      canvas.classList.toggle("dragging", moved > 4);
      hover(-1);
      draw();
    });
    const end = (event) => {
      if (event.type === "pointerup" && pointers.size === 1 && moved <= 4) choose(nearest(...where(event), 18));
      pointers.delete(event.pointerId);
      canvas.classList.remove("dragging");
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => hover(-1));
    canvas.addEventListener("wheel", (event) => { // a page is scrolled over the map until the map is clicked
      if (document.activeElement !== canvas && !event.ctrlKey) return;
      event.preventDefault();
      zoomBy(Math.exp(-0.002 * event.deltaY * (event.ctrlKey ? 4 : 1)), ...where(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by) {
        let node = selected < 0 && by < 0 ? 0 : selected;
        for (let tries = 0; tries < n; tries++) {
          node = (node + by + n) % n;
          if (!hidden.has(data[select.value][node])) return event.preventDefault(), choose(node);
        }
      } else if (event.key === "+" || event.key === "-") zoomBy(event.key === "+" ? 1.4 : 1 / 1.4);
      else if (event.key === "0") fit(true);
      else if (event.key === "Escape") { choose(-1); if (prototype !== null) choosePrototype(prototype); }
    });
    root.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
      if (button.dataset.zoom === "reset") fit(true);
      else zoomBy(button.dataset.zoom === "in" ? 1.5 : 1 / 1.5);
    }));
    select.addEventListener("change", buildLegend);
    const list = get("datalist"), lower = names.map((name) => name.toLowerCase());
    const matches = (text) => [...names.keys()].filter((node) => lower[node].includes(text.toLowerCase()))
      .sort((a, b) => lower[a].length - lower[b].length).slice(0, 8);
    const find = () => {
      const node = names.includes(search.value) ? names.indexOf(search.value) : search.value ? matches(search.value)[0] ?? -1 : -1;
      if (node >= 0 && node !== selected) choose(node);
      else if (search.value && node < 0) panel.replaceChildren(make("p", `No node on the map is called “${search.value}”.`, { class: "note" }));
    };
    search.addEventListener("input", () => list.replaceChildren(...(search.value ? matches(search.value) : []).map((node) => make("option", [], { value: names[node] }))));
    search.addEventListener("change", find);
    search.addEventListener("keydown", (event) => { if (event.key === "Enter") find(); });
    dark.addEventListener("change", () => { buildLegend(); });
    new ResizeObserver(() => fit(zoom === 1)).observe(canvas);
  }

  const known = data.verdict.filter((verdict) => verdict >= 0).length, right = data.verdict.filter((verdict) => verdict === 0).length;
  get(".ex-state").textContent = count(n, "node") + (known ? `; ${right.toLocaleString("en")} of ${known.toLocaleString("en")} with a known class predicted right` : "");
  if (!data.steps.length) select.querySelector('[value="step"]').remove();
  if (!known) select.value = "answer";
  buildCodebook();
  listen();
  fit(true);
  buildLegend();
  root.dataset.ready = String(Math.round(performance.now()));
}

for (const root of document.querySelectorAll(".explorer")) {
  explore(root).catch((error) => { root.querySelector(".ex-state").textContent = `The explorer cannot be shown (${error.message}).`; });
}

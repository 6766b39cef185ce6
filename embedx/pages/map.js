// The map of words: drag or arrows move it; wheel, two fingers, buttons, + and - zoom; a click or the search chooses a word.
{
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const {titles: words, n, k, counts, neighbours} = data, plane = document.getElementById("plane");
  const search = document.getElementById("search"), matches = document.getElementById("matches");
  const panel = document.getElementById("chosen"), colours = document.getElementById("colours"), key = document.getElementById("key");
  const margin = 32, most = 400, near = 16, onTheLine = 8, matched = 8, shades = 5;
  const make = (name, attributes = {}, text = "") => {
    const svg = ["g", "path", "text", "line", "circle"].includes(name);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const isNamed = words.some((title, i) => title !== data.words[i]), ifNamed = cell => isNamed ? [cell] : [];
  const dots = make("g"), lines = make("g"), labels = make("g"), titleOf = new Map(data.words.map((word, i) => [word, words[i]])),
    namesOf = c => data.names[c].map(word => titleOf.get(word)), nameOf = c => namesOf(c).join(", ");
  plane.append(dots, lines, labels);
  const x = data.x, y = data.y.map(each => 1 - each);
  const xStart = Math.min(...x), xSize = Math.max(...x) - xStart || 1;
  const yStart = Math.min(...y), ySize = Math.max(...y) - yStart || 1;

  // Dots are coloured by cluster, or by rank: each shade has as many words on a scale of logarithms.
  const shadeOf = i => Math.min(shades - 1, Math.floor(shades * Math.log1p(i) / Math.log1p(n)));
  const colourings = {
    cluster: {of: i => `c${data.clusters[i]}`, names: data.names.map((_, c) => [`c${c}`, nameOf(c)])},
    frequency: {of: i => `f${shadeOf(i)}`, names: [...Array(shades).keys()].map(s => {
      const rank = share => Math.ceil(Math.expm1(share / shades * Math.log1p(n)) - 1e-9);
      return [`f${s}`, `rank ${(rank(s) + 1).toLocaleString("en")} to ${Math.min(rank(s + 1), n).toLocaleString("en")}`];
    })},
  };
  function colour() {
    const {of, names} = colourings[colours.value], parts = new Map(names.map(([kind]) => [kind, []]));
    for (let i = n - 1; i >= 0; i--) parts.get(of(i)).push(`M${x[i]} ${y[i]}h0`);
    dots.replaceChildren(...[...parts].reverse().map(([kind, places]) => make("path", {class: `dots ${kind}`, d: places.join("")})));
    key.replaceChildren(...names.filter(([, name]) => name).map(([kind, name]) => {
      const item = make("span");
      item.append(make("i", {class: kind}), name);
      return item;
    }));
  }
  colours.addEventListener("change", () => { colour(); later(); });

  // A word lies at (left + zoom across x, top + zoom down y) pixels; `zoom` is 1 where the whole map is seen. The map fills its
  // place, so that labels find room: one direction may be stretched, to at most twice the other.
  let width = 1, height = 1, across = 1, down = 1, zoom = 1, left = 0, top_ = 0, chosen = -1, under = -1, waiting = false;
  const at = i => [left + zoom * across * x[i], top_ + zoom * down * y[i]];
  const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };
  const own = i => neighbours.slice(i * k, (i + 1) * k);

  colour();

  function showWhole() {
    zoom = 1;
    left = width / 2 - across * (xStart + xSize / 2);
    top_ = height / 2 - down * (yStart + ySize / 2);
    later();
  }

  function zoomBy(factor, x = width / 2, y = height / 2) {
    const to = Math.min(most, Math.max(0.5, zoom * factor)), by = to / zoom;
    zoom = to;
    left = x + by * (left - x);
    top_ = y + by * (top_ - y);
    later();
  }

  const pen = document.createElement("canvas").getContext("2d"), widths = new Map();
  pen.font = "13px system-ui, sans-serif";
  const widthOf = word => {
    if (!widths.has(word)) widths.set(word, pen.measureText(word).width);
    return widths.get(word);
  };

  // The name of a cluster as lines, one below the other, that are placed together: as near to its centre as finds room.
  const lineHeight = 17, nameScale = 1.4;
  function placeName(c, isTaken, take) {
    const some = namesOf(c), half = Math.max(...some.map(widthOf), 1) * nameScale / 2 + 4, tall = some.length * lineHeight / 2 + 2;
    const [centreX, centreY] = [left + zoom * across * data.centres[c][0], top_ + zoom * down * (1 - data.centres[c][1])];
    if (centreX < 0 || centreY < 0 || centreX > width || centreY > height) return [];
    for (let k = 0; k < 240; k++) {  // a spiral
      const radius = 5 * Math.sqrt(k), angle = 2.4 * k;
      const x = Math.min(Math.max(centreX + radius * Math.cos(angle) * 1.5, half), width - half);
      const y = Math.min(Math.max(centreY + radius * Math.sin(angle), tall), height - tall);
      const cells = cellsOf(x, y, half, tall);
      if (cells.some(isTaken)) continue;
      cells.forEach(take);
      return some.map((word, line) => make("text", {x: x.toFixed(1), y: (y + (line - (some.length - 1) / 2) * lineHeight).toFixed(1),
        class: `cluster c${c}`}, word));
    }
    return [];
  }

  // The squares of 8 pixels that a box around a place covers.
  function cellsOf(x, y, half, tall) {
    const cells = [];
    for (let column = Math.floor((x - half) / 8); column <= (x + half) / 8; column++)
      for (let row = Math.floor((y - tall) / 8); row <= (y + tall) / 8; row++) cells.push(column * 4096 + row);
    return cells;
  }

  // The chosen word, its neighbours and the word under the pointer have labels, which keep within the map; then, as many as find
  // room, the others, the most frequent first. A neighbour's label is where it finds room beside its place.
  function draw() {
    waiting = false;
    if (width === 1) return;  // not laid out yet
    dots.setAttribute("transform", `translate(${left} ${top_}) scale(${zoom * across} ${zoom * down})`);
    const close = chosen < 0 ? [] : own(chosen), taken = new Set(), shown = [];
    const place = (i, kind) => {
      const [toX, toY] = at(i), half = widthOf(words[i]) * (kind === "chosen" ? 1.2 : 1) / 2 + 3;
      if (toX < 0 || toY < 0 || toX > width || toY > height) return;
      const isShort = 2 * half < width, inside = (value, room, size) => Math.min(Math.max(value, room), size - room);
      const cellsAt = (x, y) => cellsOf(x, y, half, 7);
      const beside = kind === "near" ? [[half + 6, 0], [-half - 6, 0], [0, -13], [0, 13], [half + 4, -10], [half + 4, 10],
        [-half - 4, -10], [-half - 4, 10], [0, -24], [0, 24], [half + 4, -22], [-half - 4, 22]] : [[0, -10]];
      let free = null;
      for (const [dx, dy] of beside) {
        const x = kind && isShort ? inside(toX + dx, half, width) : toX + dx, y = kind ? inside(toY + dy, 10, height) : toY + dy;
        if (!kind && (x < half || x > width - half || y < 8 || y > height - 8)) return;  // it would be cut
        const cells = cellsAt(x, y);
        if (!cells.some(cell => taken.has(cell))) { free = [x, y, cells]; break; }
        if (!free && (kind === "chosen" || kind === "under")) free = [x, y, cells];
      }
      if (!free) return;
      for (const cell of free[2]) taken.add(cell);
      shown.push(make("text", {x: free[0].toFixed(1), y: free[1].toFixed(1), class: kind, "data-word": i}, words[i]));
    };
    const first = new Map([[chosen, "chosen"], [under, "under"], ...close.map(i => [i, i === under ? "under" : "near"])]);
    if (chosen >= 0) first.set(chosen, "chosen");
    first.delete(-1);
    for (const i of close) for (const cell of (([x, y]) => [Math.floor(x / 8) * 4096 + Math.floor(y / 8)])(at(i))) taken.add(cell);
    for (const [i, kind] of first) place(i, kind);
    const names = [];
    if (colours.value === "cluster" && chosen < 0)
      for (let c = 0; c < data.names.length; c++) names.push(...placeName(c, cell => taken.has(cell), cell => taken.add(cell)));
    for (let i = 0; i < n; i++) if (!first.has(i)) place(i, "");
    plane.classList.toggle("has-chosen", chosen >= 0);
    labels.replaceChildren(...shown.reverse(), ...names);
    lines.replaceChildren(...close.flatMap(i => {
      const [[x1, y1], [x2, y2]] = [at(chosen), at(i)];
      return [make("line", {x1, y1, x2, y2}), make("circle", {cx: x2, cy: y2, r: 4, class: i < n ? "" : "between"})];
    }));
  }

  const about = i => [
    `rank ${(i + 1).toLocaleString("en")}`, ...(counts.length ? [`${counts[i].toLocaleString("en")} times`] : []),
  ];

  function choose(i, goThere = false) {
    chosen = i;
    if (goThere) {  // so that its neighbours are seen, too
      const some = [i, ...own(i)], ends = values => [Math.min(...values), Math.max(...values)], room = Math.min(90, width / 4);
      const [x0, x1] = ends(some.map(each => x[each])), [y0, y1] = ends(some.map(each => y[each]));
      const fits = Math.min((width - 2 * room) / across / (x1 - x0 || 1e-9), (height - 60) / down / (y1 - y0 || 1e-9));
      zoom = Math.min(12, Math.max(1, fits));
      left = width / 2 - zoom * across * (x0 + x1) / 2;
      top_ = height / 2 - zoom * down * (y0 + y1) / 2;
    }
    later();
    if (i < 0) return panel.replaceChildren();
    const list = make("ol"), told = about(i);
    own(i).forEach((other, place) => {
      const line = make("li"), word = other < n ? make("button", {type: "button"}, words[other]) : make("i", {}, words[other]);
      if (other < n) word.addEventListener("click", () => choose(other, true));
      line.append(word, make("span", {}, data.cosines[i * k + place].toFixed(3)));
      list.append(line);
    });
    panel.replaceChildren(make("h3", {}, words[i]), make("p", {class: "faint"}, told.join(", ")), list);
    if (own(i).some(other => other >= n))
      panel.append(make("p", {class: "faint"}, `In italics: rarer ${data.noun}s, drawn as rings between the ${data.noun}s of the map nearest to them.`));
  }

  function nearestTo(x, y) {
    let best = -1, least = near * near;
    for (let i = 0; i < n; i++) {
      const [a, b] = at(i), distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    if (best >= 0 && least <= onTheLine * onTheLine) return best;
    const label = [...labels.children].reverse().find(each => {  // else the label that is pointed at
      return Math.abs(each.getAttribute("x") - x) < widthOf(each.textContent) / 2 && Math.abs(each.getAttribute("y") - y) < 9;
    });
    return label && +label.dataset.word < n ? +label.dataset.word : best;
  }

  const folded = words.slice(0, n).map(w => w.toLowerCase());
  search.addEventListener("input", () => {
    const sought = search.value.trim().toLowerCase(), found = [];
    if (sought)
      for (const test of [w => w === sought, w => w.startsWith(sought), w => w.includes(sought)])
        for (let i = 0; i < n && found.length < matched; i++) if (test(folded[i]) && !found.includes(i)) found.push(i);
    matches.replaceChildren(...found.map(i => {
      const button = make("button", {type: "button"}, words[i]);
      button.addEventListener("click", () => choose(i, true));
      return button;
    }));
    if (sought && !found.length) matches.append(make("span", {class: "faint"}, "not on the map"));
  });
  search.addEventListener("keydown", event => { if (event.key === "Enter") matches.querySelector("button")?.click(); });

  const pointers = new Map();
  let moved = 0;
  const inPlane = event => {
    const box = plane.getBoundingClientRect();
    return [event.clientX - box.left - plane.clientLeft, event.clientY - box.top - plane.clientTop];
  };
  plane.addEventListener("pointerdown", event => {
    if (event.button) return;
    plane.setPointerCapture(event.pointerId);
    if (!pointers.size) moved = 0;
    pointers.set(event.pointerId, inPlane(event));
    showTip(null);
  });
  plane.addEventListener("pointermove", event => {
    const now = inPlane(event), before = pointers.get(event.pointerId);
    if (!before) {
      const i = nearestTo(...now);
      if (i !== under) { under = i; later(); }
      showTip(i < 0 ? null : [words[i], ...about(i), nameOf(data.clusters[i])], event);
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    pointers.set(event.pointerId, now);
    if (other) {
      const apart = ([x, y]) => Math.max(Math.hypot(x - other[0], y - other[1]), 1);
      const [x, y] = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
      left += (now[0] - before[0]) / 2;
      top_ += (now[1] - before[1]) / 2;
      zoomBy(apart(now) / apart(before), x, y);
    } else if (moved > 4) {
      plane.classList.add("dragged");
      left += now[0] - before[0];
      top_ += now[1] - before[1];
      later();
    }
  });
  const released = event => {
    if (!pointers.delete(event.pointerId) || pointers.size) return;
    plane.classList.remove("dragged");
    if (event.type === "pointerup" && moved <= 4) choose(nearestTo(...inPlane(event)));
  };
  plane.addEventListener("pointerup", released);
  plane.addEventListener("pointercancel", released);
  plane.addEventListener("pointerleave", () => { showTip(null); if (under >= 0) { under = -1; later(); } });
  plane.addEventListener("wheel", event => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...inPlane(event));
  }, {passive: false});
  plane.addEventListener("keydown", event => {
    const step = 60, moves = {ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) { left += moves[event.key][0]; top_ += moves[event.key][1]; later(); }
    else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") showWhole();
    else if (event.key === "Escape") choose(-1);
    else return;
    event.preventDefault();
  });
  document.getElementById("zoom-in").addEventListener("click", () => zoomBy(1.5));
  document.getElementById("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
  document.getElementById("zoom-reset").addEventListener("click", showWhole);
  offerFiles(plane.parentElement, ["CSV", "SVG", "PNG"], document.getElementById("map"), {
    about: `map of ${data.noun}s`,
    rows: () => [[data.noun, ...ifNamed("name"), "rank", "count", "x", "y", "cluster", "cluster name"], ...words.slice(0, n).map((word, i) =>
      [data.words[i], ...ifNamed(word), i + 1, counts[i] ?? "", data.x[i], data.y[i], data.clusters[i] + 1, nameOf(data.clusters[i])].map(String))],
    legend: () => [...key.children].map(item => [getComputedStyle(item.firstChild).backgroundColor, item.textContent]),
  });

  new ResizeObserver(() => {
    const middleX = (width / 2 - left) / (zoom * across), middleY = (height / 2 - top_) / (zoom * down), isFirst = width === 1;
    [width, height] = [plane.clientWidth, plane.clientHeight];
    plane.setAttribute("viewBox", `0 0 ${width} ${height}`);
    [across, down] = [Math.max(width - 2 * margin, 1) / xSize, Math.max(height - 2 * margin, 1) / ySize];
    [across, down] = [Math.min(across, 2 * down), Math.min(down, 2 * across)];
    if (isFirst && chosen >= 0) return choose(chosen, true);
    if (isFirst || zoom === 1) return showWhole();
    left = width / 2 - zoom * across * middleX;
    top_ = height / 2 - zoom * down * middleY;
    later();
  }).observe(plane);
}

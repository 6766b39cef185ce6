// The map of words: drag or arrows move it; wheel, two fingers, buttons, + and - zoom; a click or the search chooses a word.
{
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const {titles: words, n, k, ranks, counts, neighbours} = data, plane = document.getElementById("plane");
  const search = document.getElementById("search"), matches = document.getElementById("matches");
  const panel = document.getElementById("chosen"), colours = document.getElementById("colours"), key = document.getElementById("key");
  const margin = 48, most = 400, near = 16, onTheLine = 8, matched = 8, shades = 5;
  const make = (name, attributes = {}, text = "") => {
    const svg = ["g", "path", "text", "line", "circle"].includes(name);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const isNamed = words.some((title, i) => title !== data.words[i]), ifNamed = cell => isNamed ? [cell] : [];
  const halos = make("g"), dots = make("g"), lines = make("g"), labels = make("g");
  const titleOf = new Map(data.words.map((word, i) => [word, words[i]]));
  const namesOf = c => data.names[c].map(word => titleOf.get(word)), nameOf = c => namesOf(c).join(", ");
  plane.append(halos, dots, lines, labels);
  const x = data.x, y = data.y.map(each => 1 - each);
  const xStart = Math.min(...x), xSize = Math.max(...x) - xStart || 1;
  const yStart = Math.min(...y), ySize = Math.max(...y) - yStart || 1;
  // Those that were asked for have labels first, then the others, the most frequent first. Function words have none.
  const listed = new Set(data.listed), unlabelled = new Set(data.unlabelled);
  const inOrder = [...listed, ...Array.from({length: n}, (_, i) => i).filter(i => !listed.has(i) && !unlabelled.has(i))];

  // Dots are coloured by cluster, or by rank: each shade has as many words on a scale of logarithms.
  const lastRank = ranks[n - 1];
  const shadeOf = i => Math.min(shades - 1, Math.floor(shades * Math.log1p(ranks[i] - 1) / Math.log1p(lastRank)));
  const colourings = {
    cluster: {of: i => `c${data.clusters[i]}`, names: data.names.map((_, c) => [`c${c}`, nameOf(c)])},
    frequency: {of: i => `f${shadeOf(i)}`, names: [...Array(shades).keys()].map(s => {
      const rank = share => Math.ceil(Math.expm1(share / shades * Math.log1p(lastRank)) - 1e-9);
      return [`f${s}`, `rank ${(rank(s) + 1).toLocaleString("en")} to ${Math.min(rank(s + 1), lastRank).toLocaleString("en")}`];
    })},
  };
  let parts = [];  // of each colour: its words and the paths that draw their dots
  function colour() {
    const {of, names} = colourings[colours.value], members = new Map(names.map(([kind]) => [kind, []]));
    for (let i = n - 1; i >= 0; i--) members.get(of(i)).push(i);
    // Wide strokes of the same dots run together: the outlines of clusters, in two steps of density.
    const outlines = colours.value === "cluster" ? ["halo", "halo inner"] : [];
    const drawn = about => kind => make("path", {class: `${about} ${kind}`});
    parts = [...members].reverse().map(([kind, some]) => ({some, dots: drawn("dots")(kind), halos: outlines.map(about => drawn(about)(kind))}));
    dots.replaceChildren(...parts.map(part => part.dots));
    halos.replaceChildren(...outlines.flatMap((_, step) => parts.map(part => part.halos[step])));
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

  const pen = document.createElement("canvas").getContext("2d");
  const measured = (font, widths = new Map()) => word => {
    if (!widths.has(word)) { pen.font = font; widths.set(word, pen.measureText(word).width); }
    return widths.get(word);
  };
  const widthOf = measured("13px system-ui, sans-serif"), nameWidthOf = measured("700 15px system-ui, sans-serif");

  // The picture in squares of a few pixels, which move with the map, so that labels stay where they are while it is dragged: how
  // many dots each has, and whether a label covers it.
  const square = 4;
  let columns = 1, dotsIn = new Uint16Array(1), isTaken = new Uint8Array(1), firstX = 0, firstY = 0;
  function clear() {
    [firstX, firstY] = [left, top_].map(start => ((start % square) + square) % square - square);
    columns = Math.ceil(width / square) + 2;
    dotsIn = new Uint16Array(columns * (Math.ceil(height / square) + 2));
    isTaken = new Uint8Array(dotsIn.length);
  }
  const isInside = (x, y) => x >= 0 && y >= 0 && x < width && y < height;
  const columnAt = x => Math.floor((x - firstX) / square), rowAt = y => Math.floor((y - firstY) / square);
  const squareAt = (x, y) => rowAt(y) * columns + columnAt(x);
  function* squaresOf(x, y, half, tall) {
    for (let row = rowAt(y - tall); row <= rowAt(y + tall); row++)
      for (let column = columnAt(x - half); column <= columnAt(x + half); column++) yield row * columns + column;
  }
  // The number of dots below a box; infinity where it is cut, or covers another label.
  function covered(x, y, half, tall) {
    if (x - half < 0 || y - tall < 0 || x + half >= width || y + tall >= height) return Infinity;
    let dots = 0;
    for (const place of squaresOf(x, y, half, tall)) {
      if (isTaken[place]) return Infinity;
      dots += dotsIn[place];
    }
    return dots;
  }
  const take = (x, y, half, tall) => { for (const place of squaresOf(x, y, half, tall)) isTaken[place] = 1; };

  // Where the last picture had names of clusters, from their centres, and on which side of their dots labels were. While the map
  // is dragged, they stay there as long as they are seen.
  let kept = {view: "", names: new Map(), sides: new Map()};

  // The name of a cluster as lines, one below the other: near its centre, where few dots are. A line leads to it from afar.
  const outside = 120, lineHeight = 16, spiral = 500, manyDots = 1e6;
  function placeName(c, keptOffset) {
    const some = namesOf(c), half = Math.max(...some.map(nameWidthOf), 1) / 2 + 3, tall = some.length * lineHeight / 2 + 1;
    const [centreX, centreY] = [left + zoom * across * data.centres[c][0], top_ + zoom * down * (1 - data.centres[c][1])];
    if (!isInside(centreX, centreY)) return [];
    let best = null, least = Infinity;
    if (keptOffset) {
      const [x, y] = [centreX + keptOffset[0], centreY + keptOffset[1]];
      if (covered(x, y, half, tall) < Infinity) best = [x, y];
    } else for (let k = 0; k < spiral; k++) {
      const radius = 7 * Math.sqrt(k), angle = 2.4 * k, cost = radius * radius / 3000;
      const x = Math.min(Math.max(centreX + radius * Math.cos(angle) * 1.6, half), width - half - 1);
      const y = Math.min(Math.max(centreY + radius * Math.sin(angle), tall), height - tall - 1);
      const all = cost + covered(x, y, half, tall);
      if (all < least) [best, least] = [[x, y], all];
      if (cost >= least) break;
    }
    if (!best) return [];
    const [x, y] = best;
    take(x, y, half, tall);
    kept.names.set(c, [x - centreX, y - centreY]);
    const texts = some.map((word, line) => make("text", {x: x.toFixed(1), y: (y + (line - (some.length - 1) / 2) * lineHeight).toFixed(1),
      class: `cluster c${c}`}, word));
    const [endX, endY] = [Math.min(Math.max(centreX, x - half), x + half), Math.min(Math.max(centreY, y - tall), y + tall)];
    if (Math.hypot(endX - centreX, endY - centreY) < 24) return texts;
    return [make("line", {x1: endX, y1: endY, x2: centreX, y2: centreY, class: `leader c${c}`}), ...texts];
  }

  // A label is beside its dot where it covers nothing; that of a word which must be seen where it covers least.
  const sides = [[1, 0, 6, 0], [-1, 0, -6, 0], [0, -1, 0, -6], [0, 1, 0, 6], [1, -1, 3, -2], [1, 1, 3, 2], [-1, -1, -3, -2], [-1, 1, -3, 2],
    [0, -1, 0, -20], [0, 1, 0, 20], [1, 0, 20, 0], [-1, 0, -20, 0]];
  function placeLabel(i, kind, bearable, keptSide) {
    const [toX, toY] = at(i), half = widthOf(words[i]) * (kind === "chosen" ? 1.2 : 1) / 2 + 2, tall = 7;
    if (!isInside(toX, toY)) return [];
    let best = null, least = Infinity, bestSide = sides[0];
    for (const side of keptSide ? [keptSide] : sides.slice(0, kind ? sides.length : 8)) {
      const [acrossSide, downSide, dx, dy] = side;
      const x = toX + acrossSide * half + dx, y = toY + downSide * tall + dy, dots = covered(x, y, half, tall);
      if (dots < least) [best, least, bestSide] = [[x, y], dots, side];
      if (dots === 0) break;
    }
    if (least > bearable && (kind === "chosen" || kind === "under")) {
      best ??= [toX, toY - 14];
      const isShort = 2 * half < width, inside = (value, room, size) => Math.min(Math.max(value, room), size - room - 1);
      best = [isShort ? inside(best[0], half, width) : best[0], inside(best[1], 10, height)];
    } else if (least > bearable) return [];
    const [x, y] = best;
    take(x, y, half, tall);
    if (!kind) kept.sides.set(i, bestSide);
    return [make("text", {x: x.toFixed(1), y: y.toFixed(1), class: kind, "data-word": i}, words[i])];
  }

  // The chosen word, its neighbours and the word under the pointer have labels; then, where these cover nothing, names of
  // clusters and the others, first those that are kept.
  function draw() {
    waiting = false;
    if (width === 1) return;  // not laid out yet
    for (const {some, dots, halos} of parts) {
      const points = some.map(at).filter(([x, y]) => x > -outside && y > -outside && x < width + outside && y < height + outside);
      const d = points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");
      for (const path of [dots, ...halos]) path.setAttribute("d", d);
    }
    const spacing = Math.sqrt(zoom * across * down * xSize * ySize / n), wide = Math.min(Math.max(1.7 * spacing, 16), 110);
    plane.style.setProperty("--halo", `${wide.toFixed(1)}px`);
    clear();
    let inView = 0;
    for (let i = 0; i < n; i++) {
      const [x, y] = at(i);
      if (!isInside(x, y)) continue;
      dotsIn[squareAt(x, y)]++;
      inView++;
    }
    const close = chosen < 0 ? [] : own(chosen);
    const first = new Map([[chosen, "chosen"], [under, "under"], ...close.map(i => [i, i === under ? "under" : "near"])]);
    if (chosen >= 0) first.set(chosen, "chosen");
    first.delete(-1);
    const shown = [], names = [];
    for (const [i, kind] of first) shown.push(...placeLabel(i, kind, kind === "near" ? 3 : 0));
    for (const i of listed) if (!first.has(i)) shown.push(...placeLabel(i, "listed", manyDots));
    const view = [zoom, width, height, chosen, colours.value].join(), before = kept, bearable = inView > 500 ? 1 : 0;
    kept = {view, names: new Map(), sides: new Map()};
    if (view === before.view) {
      for (const [c, offset] of before.names) names.push(...placeName(c, offset));
      for (const [i, side] of before.sides) if (!first.has(i)) shown.push(...placeLabel(i, "", bearable, side));
    }
    if (colours.value === "cluster" && chosen < 0)
      for (let c = 0; c < data.names.length; c++) if (!kept.names.has(c)) names.push(...placeName(c));
    for (const i of inOrder)
      if (!first.has(i) && !listed.has(i) && !kept.sides.has(i)) shown.push(...placeLabel(i, "", bearable));
    plane.classList.toggle("has-chosen", chosen >= 0);
    labels.replaceChildren(...shown.reverse(), ...names);
    lines.replaceChildren(...close.flatMap(i => {
      const [[x1, y1], [x2, y2]] = [at(chosen), at(i)];
      return [make("line", {x1, y1, x2, y2}), make("circle", {cx: x2, cy: y2, r: 4, class: i < n ? "" : "between"})];
    }), ...data.listed.map(i => make("circle", {cx: at(i)[0], cy: at(i)[1], r: 4.5, class: "listed"})));
  }

  const about = i => [
    `rank ${ranks[i].toLocaleString("en")}`, ...(counts.length ? [`${counts[i].toLocaleString("en")} times`] : []),
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
      [data.words[i], ...ifNamed(word), ranks[i], counts[i] ?? "", data.x[i], data.y[i], data.clusters[i] + 1, nameOf(data.clusters[i])].map(String))],
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

// The map of words: drag or arrows move it; wheel, two fingers, buttons, + and - zoom; a click or the search chooses a word.
// `map_data` of embedx.report.word_map describes the data. Words 0 to n - 1 are on the map, the others are their neighbours.
{
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const {titles, n, k, ranks, counts, neighbours} = data;
  const plane = document.getElementById("plane");
  const search = document.getElementById("search");
  const matches = document.getElementById("matches");
  const panel = document.getElementById("chosen");
  const colours = document.getElementById("colours");
  const key = document.getElementById("key");

  // Pixels, unless they are numbers.
  const MARGIN = 48;
  const MAX_ZOOM = 400;
  const HIT_RADIUS = 16;  // a dot this near to the pointer is meant, if no label is pointed at
  const SURE_RADIUS = 8;  // one this near is meant anyway
  const MAX_MATCHES = 8;  // number of words that a search lists
  const N_SHADES = 5;  // number of colours of ranks
  const OUTSIDE = 120;  // dots this far outside the picture are not drawn
  const SQUARE = 4;
  const LINE_HEIGHT = 16;
  const MAX_NAME_PLACES = 500;  // number of places that are tried for the name of a cluster
  const MANY_DOTS = 1e6;

  const SVG_NAMES = ["g", "path", "text", "line", "circle"];
  const make = (name, attributes = {}, text = "") => {
    const isSvg = SVG_NAMES.includes(name);
    const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    element.textContent = text;
    return element;
  };
  const clamped = (value, low, high) => Math.min(Math.max(value, low), high);
  const formatted = number => number.toLocaleString("en");

  const halos = make("g");
  const dots = make("g");
  const lines = make("g");
  const labels = make("g");
  plane.append(halos, dots, lines, labels);

  // ---- the words

  const x = data.x;
  const y = data.y.map(value => 1 - value);
  const xStart = Math.min(...x);
  const xSize = Math.max(...x) - xStart || 1;
  const yStart = Math.min(...y);
  const ySize = Math.max(...y) - yStart || 1;
  const titleOf = new Map(data.words.map((word, i) => [word, titles[i]]));
  const namesOf = cluster => data.names[cluster].map(word => titleOf.get(word));
  const nameOf = cluster => namesOf(cluster).join(", ");
  const neighboursOf = i => neighbours.slice(i * k, (i + 1) * k);
  // Words that were asked for have labels first, then the others, the most frequent first. Function words have none.
  const listed = new Set(data.listed);
  const unlabelled = new Set(data.unlabelled);
  const others = Array.from({length: n}, (_, i) => i).filter(i => !listed.has(i) && !unlabelled.has(i));
  const inOrder = [...listed, ...others];

  const facts = i => {
    const rank = `rank ${formatted(ranks[i])}`;
    return counts.length ? [rank, `${formatted(counts[i])} times`] : [rank];
  };

  // ---- colours: by cluster, or by rank, where each shade has as many words on a scale of logarithms

  const lastRank = ranks[n - 1];
  const shadeOf = i => Math.min(N_SHADES - 1, Math.floor(N_SHADES * Math.log1p(ranks[i] - 1) / Math.log1p(lastRank)));
  const nameOfShade = shade => {
    const rank = share => Math.ceil(Math.expm1(share / N_SHADES * Math.log1p(lastRank)) - 1e-9);
    return `rank ${formatted(rank(shade) + 1)} to ${formatted(Math.min(rank(shade + 1), lastRank))}`;
  };
  const colourings = {
    cluster: {
      styleOf: i => `c${data.clusters[i]}`,
      names: data.names.map((_, cluster) => [`c${cluster}`, nameOf(cluster)]),
    },
    frequency: {
      styleOf: i => `f${shadeOf(i)}`,
      names: [...Array(N_SHADES).keys()].map(shade => [`f${shade}`, nameOfShade(shade)]),
    },
  };
  let parts = [];  // of each colour: its words, and the paths that draw their dots
  function colour() {
    const {styleOf, names} = colourings[colours.value];
    const members = new Map(names.map(([style]) => [style, []]));
    for (let i = n - 1; i >= 0; i--) members.get(styleOf(i)).push(i);
    // Wide strokes of the same dots run together: the outlines of clusters, in two steps of density.
    const outlines = colours.value === "cluster" ? ["halo", "halo inner"] : [];
    const path = (kind, style) => make("path", {class: `${kind} ${style}`});
    parts = [...members].reverse().map(([style, words]) => ({
      words,
      dots: path("dots", style),
      halos: outlines.map(outline => path(outline, style)),
    }));
    dots.replaceChildren(...parts.map(part => part.dots));
    halos.replaceChildren(...outlines.flatMap((_, step) => parts.map(part => part.halos[step])));
    key.replaceChildren(...names.filter(([, name]) => name).map(([style, name]) => {
      const item = make("span");
      item.append(make("i", {class: style}), name);
      return item;
    }));
  }
  colours.addEventListener("change", () => {
    colour();
    drawSoon();
  });

  // ---- the view: a word lies at (left + zoom across x, top + zoom down y) pixels; `zoom` is 1 where the whole map is seen. The
  // map fills its place, so that labels find room: one direction may be stretched, to at most twice the other.

  let width = 1;
  let height = 1;
  let across = 1;
  let down = 1;
  let zoom = 1;
  let left = 0;
  let top_ = 0;
  let chosen = -1;
  let pointedAt = -1;
  let isWaiting = false;
  const placeOf = i => [left + zoom * across * x[i], top_ + zoom * down * y[i]];
  const drawSoon = () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(draw);
  };

  function showWhole() {
    zoom = 1;
    left = width / 2 - across * (xStart + xSize / 2);
    top_ = height / 2 - down * (yStart + ySize / 2);
    drawSoon();
  }

  function zoomBy(factor, centreX = width / 2, centreY = height / 2) {
    const newZoom = clamped(zoom * factor, 0.5, MAX_ZOOM);
    const change = newZoom / zoom;
    zoom = newZoom;
    left = centreX + change * (left - centreX);
    top_ = centreY + change * (top_ - centreY);
    drawSoon();
  }

  function moveBy(dx, dy) {
    left += dx;
    top_ += dy;
    drawSoon();
  }

  // So that the neighbours of a word are seen, too.
  function goTo(i) {
    const shown = [i, ...neighboursOf(i)];
    const ends = values => [Math.min(...values), Math.max(...values)];
    const room = Math.min(90, width / 4);
    const [x0, x1] = ends(shown.map(word => x[word]));
    const [y0, y1] = ends(shown.map(word => y[word]));
    const fits = Math.min((width - 2 * room) / across / (x1 - x0 || 1e-9), (height - 60) / down / (y1 - y0 || 1e-9));
    zoom = clamped(fits, 1, 12);
    left = width / 2 - zoom * across * (x0 + x1) / 2;
    top_ = height / 2 - zoom * down * (y0 + y1) / 2;
  }

  // ---- what is covered: the picture in squares of a few pixels, which move with the map, so that labels stay where they are
  // while it is dragged: how many dots each has, and whether a label covers it

  let columns = 1;
  let dotsIn = new Uint16Array(1);
  let isTaken = new Uint8Array(1);
  let firstX = 0;
  let firstY = 0;
  function clear() {
    [firstX, firstY] = [left, top_].map(start => ((start % SQUARE) + SQUARE) % SQUARE - SQUARE);
    columns = Math.ceil(width / SQUARE) + 2;
    dotsIn = new Uint16Array(columns * (Math.ceil(height / SQUARE) + 2));
    isTaken = new Uint8Array(dotsIn.length);
  }
  const isInside = (atX, atY) => atX >= 0 && atY >= 0 && atX < width && atY < height;
  const columnAt = atX => Math.floor((atX - firstX) / SQUARE);
  const rowAt = atY => Math.floor((atY - firstY) / SQUARE);
  const squareAt = (atX, atY) => rowAt(atY) * columns + columnAt(atX);
  // A box has its centre at (atX, atY), and half its width and height.
  function* squaresOf(atX, atY, half, halfHeight) {
    for (let row = rowAt(atY - halfHeight); row <= rowAt(atY + halfHeight); row++)
      for (let column = columnAt(atX - half); column <= columnAt(atX + half); column++) yield row * columns + column;
  }
  // The number of dots below a box; infinity where it is cut, or covers another label.
  function covered(atX, atY, half, halfHeight) {
    if (atX - half < 0 || atY - halfHeight < 0 || atX + half >= width || atY + halfHeight >= height) return Infinity;
    let nDots = 0;
    for (const square of squaresOf(atX, atY, half, halfHeight)) {
      if (isTaken[square]) return Infinity;
      nDots += dotsIn[square];
    }
    return nDots;
  }
  const take = (atX, atY, half, halfHeight) => {
    for (const square of squaresOf(atX, atY, half, halfHeight)) isTaken[square] = 1;
  };

  // ---- labels

  const pen = document.createElement("canvas").getContext("2d");
  const measured = font => {
    const widths = new Map();
    return text => {
      if (!widths.has(text)) {
        pen.font = font;
        widths.set(text, pen.measureText(text).width);
      }
      return widths.get(text);
    };
  };
  const widthOf = measured("13px system-ui, sans-serif");
  const nameWidthOf = measured("700 15px system-ui, sans-serif");

  // Where the last picture had names of clusters, from their centres, and on which side of their dots labels were. While the map
  // is dragged, they stay there as long as they are seen.
  let kept = {view: "", names: new Map(), sides: new Map()};

  // The place of a box near a centre where few dots are, by a spiral from the centre; null if there is none.
  function freePlace(centreX, centreY, half, halfHeight) {
    let best = null;
    let least = Infinity;
    for (let step = 0; step < MAX_NAME_PLACES; step++) {
      const radius = 7 * Math.sqrt(step);
      const angle = 2.4 * step;
      const distanceCost = radius * radius / 3000;
      const atX = Math.min(Math.max(centreX + radius * Math.cos(angle) * 1.6, half), width - half - 1);
      const atY = Math.min(Math.max(centreY + radius * Math.sin(angle), halfHeight), height - halfHeight - 1);
      const cost = distanceCost + covered(atX, atY, half, halfHeight);
      if (cost < least) [best, least] = [[atX, atY], cost];
      if (distanceCost >= least) break;
    }
    return best;
  }

  // The name of a cluster as lines, one below the other. A leader line connects it with a distant centre.
  function placeName(cluster, keptOffset) {
    const words = namesOf(cluster);
    const half = Math.max(...words.map(nameWidthOf), 1) / 2 + 3;
    const halfHeight = words.length * LINE_HEIGHT / 2 + 1;
    const [dataX, dataY] = data.centres[cluster];
    const centreX = left + zoom * across * dataX;
    const centreY = top_ + zoom * down * (1 - dataY);
    if (!isInside(centreX, centreY)) return [];
    let place = null;
    if (keptOffset) {
      const keptPlace = [centreX + keptOffset[0], centreY + keptOffset[1]];
      if (covered(...keptPlace, half, halfHeight) < Infinity) place = keptPlace;
    } else {
      place = freePlace(centreX, centreY, half, halfHeight);
    }
    if (!place) return [];
    const [atX, atY] = place;
    take(atX, atY, half, halfHeight);
    kept.names.set(cluster, [atX - centreX, atY - centreY]);
    const texts = words.map((word, line) => {
      const lineY = atY + (line - (words.length - 1) / 2) * LINE_HEIGHT;
      return make("text", {x: atX.toFixed(1), y: lineY.toFixed(1), class: `cluster c${cluster}`}, word);
    });
    const endX = clamped(centreX, atX - half, atX + half);
    const endY = clamped(centreY, atY - halfHeight, atY + halfHeight);
    if (Math.hypot(endX - centreX, endY - centreY) < 24) return texts;
    return [make("line", {x1: endX, y1: endY, x2: centreX, y2: centreY, class: `leader c${cluster}`}), ...texts];
  }

  // Sides of a dot: by how many half widths and half heights of the label, and by how many pixels, it is moved.
  const SIDES = [[1, 0, 6, 0], [-1, 0, -6, 0], [0, -1, 0, -6], [0, 1, 0, 6], [1, -1, 3, -2], [1, 1, 3, 2], [-1, -1, -3, -2], [-1, 1, -3, 2],
    [0, -1, 0, -20], [0, 1, 0, 20], [1, 0, 20, 0], [-1, 0, -20, 0]];
  const N_NEAR_SIDES = 8;
  // A label is beside its dot where it covers at most `maxDots`; that of the chosen word and of the one that is pointed at is
  // anyway, where it covers least.
  function placeLabel(i, kind, maxDots, keptSide) {
    const [dotX, dotY] = placeOf(i);
    const half = widthOf(titles[i]) * (kind === "chosen" ? 1.2 : 1) / 2 + 2;
    const halfHeight = 7;
    if (!isInside(dotX, dotY)) return [];
    let place = null;
    let least = Infinity;
    let bestSide = SIDES[0];
    const sides = keptSide ? [keptSide] : SIDES.slice(0, kind ? SIDES.length : N_NEAR_SIDES);
    for (const side of sides) {
      const [halfWidths, halfHeights, dx, dy] = side;
      const atX = dotX + halfWidths * half + dx;
      const atY = dotY + halfHeights * halfHeight + dy;
      const nDots = covered(atX, atY, half, halfHeight);
      if (nDots < least) [place, least, bestSide] = [[atX, atY], nDots, side];
      if (nDots === 0) break;
    }
    if (least > maxDots) {
      if (kind !== "chosen" && kind !== "under") return [];
      place ??= [dotX, dotY - 14];
      const fitsIn = 2 * half < width;
      const inside = (value, room, size) => Math.min(Math.max(value, room), size - room - 1);
      place = [fitsIn ? inside(place[0], half, width) : place[0], inside(place[1], 10, height)];
    }
    const [atX, atY] = place;
    take(atX, atY, half, halfHeight);
    if (!kind) kept.sides.set(i, bestSide);
    return [make("text", {x: atX.toFixed(1), y: atY.toFixed(1), class: kind, "data-word": i}, titles[i])];
  }

  // ---- drawing

  function drawDots() {
    const isNearPicture = ([atX, atY]) => atX > -OUTSIDE && atY > -OUTSIDE && atX < width + OUTSIDE && atY < height + OUTSIDE;
    for (const part of parts) {
      const points = part.words.map(placeOf).filter(isNearPicture);
      const d = points.map(([atX, atY]) => `M${atX.toFixed(1)} ${atY.toFixed(1)}h0`).join("");
      for (const path of [part.dots, ...part.halos]) path.setAttribute("d", d);
    }
    const spacing = Math.sqrt(zoom * across * down * xSize * ySize / n);
    plane.style.setProperty("--halo", `${clamped(1.7 * spacing, 16, 110).toFixed(1)}px`);
  }

  // Counts the dots in the squares; returns how many are in the picture.
  function countDots() {
    let nInView = 0;
    for (let i = 0; i < n; i++) {
      const [atX, atY] = placeOf(i);
      if (!isInside(atX, atY)) continue;
      dotsIn[squareAt(atX, atY)]++;
      nInView++;
    }
    return nInView;
  }

  // The chosen word, its neighbours and the word under the pointer have labels; then, where these cover nothing, names of
  // clusters and the others, first those that are kept.
  function drawLabels(nInView, chosenNeighbours) {
    const first = new Map([
      [chosen, "chosen"],
      [pointedAt, "under"],
      ...chosenNeighbours.map(i => [i, i === pointedAt ? "under" : "near"]),
    ]);
    if (chosen >= 0) first.set(chosen, "chosen");
    first.delete(-1);
    const shown = [];
    const names = [];
    for (const [i, kind] of first) shown.push(...placeLabel(i, kind, kind === "near" ? 3 : 0));
    for (const i of listed) if (!first.has(i)) shown.push(...placeLabel(i, "listed", MANY_DOTS));

    const before = kept;
    const view = [zoom, width, height, chosen, colours.value].join();
    const maxDots = nInView > 500 ? 1 : 0;
    kept = {view, names: new Map(), sides: new Map()};
    if (view === before.view) {
      for (const [cluster, offset] of before.names) names.push(...placeName(cluster, offset));
      for (const [i, side] of before.sides) if (!first.has(i)) shown.push(...placeLabel(i, "", maxDots, side));
    }
    if (colours.value === "cluster" && chosen < 0)
      for (let cluster = 0; cluster < data.names.length; cluster++)
        if (!kept.names.has(cluster)) names.push(...placeName(cluster));
    for (const i of inOrder)
      if (!first.has(i) && !listed.has(i) && !kept.sides.has(i)) shown.push(...placeLabel(i, "", maxDots));
    labels.replaceChildren(...shown.reverse(), ...names);
  }

  function drawLines(chosenNeighbours) {
    const toNeighbours = chosenNeighbours.flatMap(i => {
      const [x1, y1] = placeOf(chosen);
      const [x2, y2] = placeOf(i);
      return [make("line", {x1, y1, x2, y2}), make("circle", {cx: x2, cy: y2, r: 4, class: i < n ? "" : "between"})];
    });
    const rings = data.listed.map(i => {
      const [cx, cy] = placeOf(i);
      return make("circle", {cx, cy, r: 4.5, class: "listed"});
    });
    lines.replaceChildren(...toNeighbours, ...rings);
  }

  function draw() {
    isWaiting = false;
    if (width === 1) return;  // not laid out yet
    const chosenNeighbours = chosen < 0 ? [] : neighboursOf(chosen);
    drawDots();
    clear();
    drawLabels(countDots(), chosenNeighbours);
    plane.classList.toggle("has-chosen", chosen >= 0);
    drawLines(chosenNeighbours);
  }

  // ---- choosing a word

  function choose(i, isCentred = false) {
    chosen = i;
    if (isCentred) goTo(i);
    drawSoon();
    if (i < 0) return panel.replaceChildren();
    const list = make("ol");
    neighboursOf(i).forEach((other, place) => {
      const isOnMap = other < n;
      const word = isOnMap ? make("button", {type: "button"}, titles[other]) : make("i", {}, titles[other]);
      if (isOnMap) word.addEventListener("click", () => choose(other, true));
      const line = make("li");
      line.append(word, make("span", {}, data.cosines[i * k + place].toFixed(3)));
      list.append(line);
    });
    panel.replaceChildren(make("h3", {}, titles[i]), make("p", {class: "faint"}, facts(i).join(", ")), list);
    if (neighboursOf(i).some(other => other >= n))
      panel.append(make("p", {class: "faint"}, `In italics: rarer ${data.noun}s, drawn as rings between the ${data.noun}s of the map nearest to them.`));
  }

  // The word whose dot or label is at a place, -1 if there is none.
  function wordAt(atX, atY) {
    let nearest = -1;
    let least = HIT_RADIUS * HIT_RADIUS;
    for (let i = 0; i < n; i++) {
      const [dotX, dotY] = placeOf(i);
      const distance = (dotX - atX) ** 2 + (dotY - atY) ** 2;
      if (distance < least) [nearest, least] = [i, distance];
    }
    if (nearest >= 0 && least <= SURE_RADIUS * SURE_RADIUS) return nearest;
    const label = [...labels.children].reverse().find(element => {
      const isBeside = Math.abs(element.getAttribute("x") - atX) < widthOf(element.textContent) / 2;
      return isBeside && Math.abs(element.getAttribute("y") - atY) < 9;
    });
    return label && +label.dataset.word < n ? +label.dataset.word : nearest;
  }

  const lowerTitles = titles.slice(0, n).map(title => title.toLowerCase());
  // Equal words first, then those that begin with the text, then those that contain it.
  function wordsLike(text) {
    const found = [];
    for (const isLike of [title => title === text, title => title.startsWith(text), title => title.includes(text)])
      for (let i = 0; i < n && found.length < MAX_MATCHES; i++)
        if (isLike(lowerTitles[i]) && !found.includes(i)) found.push(i);
    return found;
  }
  search.addEventListener("input", () => {
    const text = search.value.trim().toLowerCase();
    const found = text ? wordsLike(text) : [];
    matches.replaceChildren(...found.map(i => {
      const button = make("button", {type: "button"}, titles[i]);
      button.addEventListener("click", () => choose(i, true));
      return button;
    }));
    if (text && !found.length) matches.append(make("span", {class: "faint"}, "not on the map"));
  });
  search.addEventListener("keydown", event => {
    if (event.key === "Enter") matches.querySelector("button")?.click();
  });

  // ---- pointer, wheel, keys and buttons

  const pointers = new Map();
  let moved = 0;
  const inPlane = event => {
    const box = plane.getBoundingClientRect();
    return [event.clientX - box.left - plane.clientLeft, event.clientY - box.top - plane.clientTop];
  };
  function pointAt(place, event) {
    const i = wordAt(...place);
    if (i !== pointedAt) {
      pointedAt = i;
      drawSoon();
    }
    showTip(i < 0 ? null : [titles[i], ...facts(i), nameOf(data.clusters[i])], event);
  }
  // Two fingers: `fixed` is where the other one is.
  function pinch(now, before, fixed) {
    const distance = ([atX, atY]) => Math.max(Math.hypot(atX - fixed[0], atY - fixed[1]), 1);
    left += (now[0] - before[0]) / 2;
    top_ += (now[1] - before[1]) / 2;
    zoomBy(distance(now) / distance(before), (now[0] + fixed[0]) / 2, (now[1] + fixed[1]) / 2);
  }
  plane.addEventListener("pointerdown", event => {
    if (event.button) return;
    plane.setPointerCapture(event.pointerId);
    if (!pointers.size) moved = 0;
    pointers.set(event.pointerId, inPlane(event));
    showTip(null);
  });
  plane.addEventListener("pointermove", event => {
    const now = inPlane(event);
    const before = pointers.get(event.pointerId);
    if (!before) return pointAt(now, event);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    pointers.set(event.pointerId, now);
    if (other) {
      pinch(now, before, other);
    } else if (moved > 4) {
      plane.classList.add("dragged");
      moveBy(now[0] - before[0], now[1] - before[1]);
    }
  });
  const release = event => {
    if (!pointers.delete(event.pointerId) || pointers.size) return;
    plane.classList.remove("dragged");
    if (event.type === "pointerup" && moved <= 4) choose(wordAt(...inPlane(event)));
  };
  plane.addEventListener("pointerup", release);
  plane.addEventListener("pointercancel", release);
  plane.addEventListener("pointerleave", () => {
    showTip(null);
    if (pointedAt < 0) return;
    pointedAt = -1;
    drawSoon();
  });
  plane.addEventListener("wheel", event => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...inPlane(event));
  }, {passive: false});
  const actionOfKey = {
    ArrowLeft: () => moveBy(60, 0),
    ArrowRight: () => moveBy(-60, 0),
    ArrowUp: () => moveBy(0, 60),
    ArrowDown: () => moveBy(0, -60),
    "+": () => zoomBy(1.5),
    "=": () => zoomBy(1.5),
    "-": () => zoomBy(1 / 1.5),
    "0": showWhole,
    Escape: () => choose(-1),
  };
  plane.addEventListener("keydown", event => {
    const action = actionOfKey[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    action();
    event.preventDefault();
  });
  document.getElementById("zoom-in").addEventListener("click", () => zoomBy(1.5));
  document.getElementById("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
  document.getElementById("zoom-reset").addEventListener("click", showWhole);

  // ---- files

  const hasTitles = titles.some((title, i) => title !== data.words[i]);
  const rowOf = i => {
    const title = hasTitles ? [titles[i]] : [];
    const cluster = data.clusters[i];
    return [data.words[i], ...title, ranks[i], counts[i] ?? "", data.x[i], data.y[i], cluster + 1, nameOf(cluster)].map(String);
  };
  offerFiles(plane.parentElement, ["CSV", "SVG", "PNG"], document.getElementById("map"), {
    about: `map of ${data.noun}s`,
    rows: () => {
      const head = [data.noun, ...(hasTitles ? ["name"] : []), "rank", "count", "x", "y", "cluster", "cluster name"];
      return [head, ...[...Array(n).keys()].map(rowOf)];
    },
    legend: () => [...key.children].map(item => [getComputedStyle(item.firstChild).backgroundColor, item.textContent]),
  });

  // ---- size: the middle of the picture stays

  function resize() {
    const middleX = (width / 2 - left) / (zoom * across);
    const middleY = (height / 2 - top_) / (zoom * down);
    const isFirst = width === 1;
    width = plane.clientWidth;
    height = plane.clientHeight;
    plane.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const fullAcross = Math.max(width - 2 * MARGIN, 1) / xSize;
    const fullDown = Math.max(height - 2 * MARGIN, 1) / ySize;
    across = Math.min(fullAcross, 2 * fullDown);
    down = Math.min(fullDown, 2 * fullAcross);
    if (isFirst && chosen >= 0) return choose(chosen, true);
    if (isFirst || zoom === 1) return showWhole();
    left = width / 2 - zoom * across * middleX;
    top_ = height / 2 - zoom * down * middleY;
    drawSoon();
  }

  colour();
  new ResizeObserver(resize).observe(plane);
}

// The numbers of a mark under the pointer, and files: a table or the marks of a chart as CSV, a chart or the map as SVG.
const showTip = (() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  return (lines, event) => {
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren(...lines.map(line => Object.assign(document.createElement("div"), {textContent: line})));
    const {width, height} = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 4);
    const y = event.clientY - height - 12;
    tip.style.transform = `translate(${Math.max(x, 4)}px, ${y < 4 ? event.clientY + 18 : y}px)`;
  };
})();
const offerFiles = (() => {
  const save = (text, type, name) => {
    const link = document.createElement("a");
    const address = URL.createObjectURL(new Blob([text], {type}));
    Object.assign(link, {href: address, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const plain = text => text.replace(/^−/, "-").replace(/^(-?\d{1,3})((?:,\d{3})+)(\.\d+)?$/, (all, a, b, c = "") =>
    a + b.replaceAll(",", "") + c);
  // a number, perhaps with its error, as in -8.0 ± 0.1
  const isNumber = cell => cell.split(" ± ").every(part => part.trim() !== "" && !isNaN(Number(part)));
  // no formula: a spreadsheet would run what begins so
  const inert = cell => cell.length > 1 && /^[=+\-@\t\r\n]/.test(cell) && !isNumber(cell) ? `'${cell}` : cell;
  const quoted = cell => /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  const csv = rows => rows.map(row => row.map(cell => quoted(inert(cell))).join(",") + "\n").join("");
  const svg = (picture, legend = []) => {  // with its style, so that it looks the same elsewhere
    const copy = picture.cloneNode(true);
    const box = picture.viewBox.baseVal;
    const used = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap",
      "stroke-linejoin", "font-size", "font-family", "font-weight", "font-style", "text-anchor",
      "dominant-baseline", "paint-order", "opacity"];
    const [originals, copies] = [picture, copy].map(element => [...element.querySelectorAll("*")]);
    originals.forEach((element, i) => {
      const style = getComputedStyle(element);
      for (const name of used) copies[i].style.setProperty(name, style.getPropertyValue(name));
      for (const name of ["class", "data-row"]) copies[i].removeAttribute(name);
    });
    const height = box.height + (legend.length ? 12 + 20 * legend.length : 0);
    legend.forEach(([colour, text], line) => {  // below the picture, a line for element colour
      const add = (kind, attributes) => {
        const part = document.createElementNS("http://www.w3.org/2000/svg", kind);
        for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
        return copy.appendChild(part);
      };
      const y = box.height + 18 + 20 * line;
      add("circle", {cx: 16, cy: y, r: 5, fill: colour});
      add("text", {x: 28, y: y + 4, fill: getComputedStyle(document.body).color, "font-family": "sans-serif", "font-size": 13,
        style: "stroke: none; text-anchor: start"}).textContent = text;
    });
    copy.setAttribute("viewBox", `0 0 ${box.width} ${height}`);
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", height);
    copy.style.background = getComputedStyle(document.body).backgroundColor;
    const text = new XMLSerializer().serializeToString(copy);
    return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");  // what XML cannot have
  };
  const PRINT_WIDTH = 3600;  // pixels of a picture, 30 cm in print
  const scaleOf = picture => Math.max(4, Math.ceil(PRINT_WIDTH / picture.viewBox.baseVal.width));
  const png = (text, name, scale) => {
    const image = new Image();
    const address = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}));
    image.addEventListener("load", () => {
      const canvas = Object.assign(document.createElement("canvas"), {width: scale * image.width, height: scale * image.height});
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(address);
      canvas.toBlob(picture => save(picture, "image/png", name));
    });
    image.src = address;
  };
  const cells = row => [...row.cells].map(cell => plain(cell.textContent));
  const rowsOf = block => {
    if (!block.dataset.columns) return [...block.querySelectorAll("tr")].map(cells);
    return [JSON.parse(block.dataset.columns), ...[...block.querySelectorAll("[data-row]")].map(element => {
      return JSON.parse(element.dataset.row).map(String);
    })];
  };
  const name = (block, ending, given) => {
    const about = given ?? block.querySelector("svg")?.getAttribute("aria-label") ?? block.querySelector("th")?.textContent ?? "";
    return `${document.title} ${about}`.trim().replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 80) + ending;
  };
  // about, rows, legend: what the file of the block is named after, its rows as CSV and the colours of its picture, where the
  // block itself does not have them
  return (block, kinds, place = block, {about, rows = () => rowsOf(block), legend = () => []} = {}) => {
    const files = Object.assign(document.createElement("span"), {className: "files"});
    for (const kind of kinds) {
      const button = Object.assign(document.createElement("button"), {type: "button", textContent: kind, title: `save as ${kind}`});
      button.addEventListener("click", () => {
        const file = name(block, `.${kind.toLowerCase()}`, about);
        const picture = block.querySelector("svg");
        if (kind === "CSV") save(csv(rows()), "text/csv", file);
        else if (kind === "SVG") save(svg(picture, legend()), "image/svg+xml", file);
        else png(svg(picture, legend()), file, scaleOf(picture));
      });
      files.append(button);
    }
    place.append(files);
  };
})();
for (const block of document.querySelectorAll(".wide")) {
  const holder = document.createElement("div");
  holder.className = "holder";
  block.replaceWith(holder);
  holder.append(block);
  if (block.querySelectorAll("tr").length > 2) offerFiles(block, ["CSV"], holder);
  const shade = () => {
    holder.classList.toggle("more-left", block.scrollLeft > 1);
    holder.classList.toggle("more-right", block.scrollLeft + block.clientWidth < block.scrollWidth - 1);
  };
  block.addEventListener("scroll", shade, {passive: true});
  new ResizeObserver(shade).observe(block);
}
for (const chart of document.querySelectorAll(".chart")) {
  offerFiles(chart, ["CSV", "SVG"], chart.querySelector("figcaption"));
  const columns = JSON.parse(chart.dataset.columns);
  const marks = [...chart.querySelectorAll("[data-row]")];
  const show = value => {
    if (typeof value !== "number") return value;
    return value.toLocaleString("en", {maximumSignificantDigits: 5}).replace("-", "−");
  };
  let marked = null;
  // Marks the mark nearest to the pointer, within 40 pixels, and shows its numbers.
  const pointAt = event => {
    let least = 40 ** 2;
    let nearest = null;
    if (event) for (const mark of marks) {
      const box = mark.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const distance = x * x + y * y;
      if (distance < least) [least, nearest] = [distance, mark];
    }
    marked?.classList.remove("near");
    nearest?.classList.add("near");
    marked = nearest;
    const row = nearest && JSON.parse(nearest.dataset.row);
    showTip(row && row.map((value, i) => columns[i] ? `${columns[i]} ${show(value)}` : show(value)), event);
  };
  const picture = chart.querySelector("svg");
  for (const kind of ["pointermove", "pointerdown"]) picture.addEventListener(kind, pointAt);
  picture.addEventListener("pointerleave", () => pointAt(null));
}

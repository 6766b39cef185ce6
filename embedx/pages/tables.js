// Sorts a table by a column at a click on its name: numbers by size, what has none last; columns of names by letters.
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement, table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending", named = head.classList.contains("name");
  for (const each of table.querySelectorAll("th")) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[column].textContent.replaceAll(",", "").replace("−", "-"), number = text => named ? NaN : parseFloat(text);
  body.append(...[...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], [m, n] = [number(x), number(y)];
    if (isNaN(m) !== isNaN(n)) return isNaN(m) ? 1 : -1;
    return (up ? 1 : -1) * (isNaN(m) ? x.localeCompare(y, "en", {numeric: true}) : m - n);
  }));
});

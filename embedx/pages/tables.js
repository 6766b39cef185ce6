// Sorts a table by a column at a click on its name: numbers by size, what has none last; columns of names by letters.
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement;
  const table = head.closest("table");
  const body = table.tBodies[0];
  const isAscending = head.getAttribute("aria-sort") !== "ascending";
  const isOfNames = head.classList.contains("name");
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
  const textOf = row => row.cells[head.cellIndex].textContent.replaceAll(",", "").replace("−", "-");
  const numberOf = text => isOfNames ? NaN : parseFloat(text);
  const compare = (a, b) => {
    const [textA, textB] = [textOf(a), textOf(b)];
    const [numberA, numberB] = [numberOf(textA), numberOf(textB)];
    if (isNaN(numberA) !== isNaN(numberB)) return isNaN(numberA) ? 1 : -1;
    const order = isNaN(numberA) ? textA.localeCompare(textB, "en", {numeric: true}) : numberA - numberB;
    return isAscending ? order : -order;
  };
  body.append(...[...body.rows].sort(compare));
});

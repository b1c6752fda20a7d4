// Shows the values of all lines at the point nearest to the pointer, a finger or the arrow keys.
for (const chart of document.querySelectorAll("svg.chart")) {
  const { lines, top, bottom } = JSON.parse(chart.dataset.values);
  const places = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  if (!places.length) continue;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  chart.parentElement.append(tip);
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cursor.setAttribute("class", "cursor");
  chart.append(cursor);
  const [, , width] = chart.getAttribute("viewBox").split(" ").map(Number);
  let at = 0;

  const nearest = (points, x) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle] <= x) low = middle; else high = middle;
    }
    return Math.abs(points[low] - x) <= Math.abs(points[high] - x) ? low : high;
  };
  const show = (index) => {
    at = Math.max(0, Math.min(places.length - 1, index));
    const x = places[at];
    cursor.setAttribute("d", `M${x} ${top}V${bottom}`);
    tip.replaceChildren();
    let heading = "";
    for (const line of lines) {
      const i = nearest(line.points.map((point) => point[0]), x);
      if (Math.abs(line.points[i][0] - x) > width / 40) continue;
      const [where, value] = line.texts[i];
      heading ||= where;
      const row = document.createElement("div");
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = `var(${line.colour})`;
      row.append(swatch, `${line.name}: ${value}`);
      tip.append(row);
    }
    const title = document.createElement("strong");
    title.textContent = heading;
    tip.prepend(title);
    tip.hidden = false;
    const share = x / width;
    tip.style.left = share < 0.5 ? `${share * 100 + 2}%` : "auto";
    tip.style.right = share < 0.5 ? "auto" : `${(1 - share) * 100 + 2}%`;
  };
  const hide = () => { tip.hidden = true; cursor.setAttribute("d", ""); };
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    show(nearest(places, (event.clientX - box.left) / box.width * width));
  });
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(at + step);
  });
}

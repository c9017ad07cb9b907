// Shows the values at the step under the pointer.
for (const chart of document.querySelectorAll(".chart")) {
  const data = JSON.parse(chart.parentNode.querySelector("script").textContent);
  const labels = [...chart.querySelectorAll("g[data-label]")].map(g => g.dataset.label);
  const [left, top, across, up] = data.frame;
  const svg = chart.querySelector("svg"), hover = chart.querySelector(".hover");
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  chart.append(tip);

  const place = (value, [from, to], log) => log
    ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
  const x = step => left + across * place(step, data.x, false);
  const y = value => top + up * (1 - place(value, data.y, data.log));
  const short = value => value === null ? "not finite" : String(+value.toPrecision(5));

  // The point of a line that is nearest to a step.
  const nearest = (points, step) => {
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < step) low = middle + 1;
      else high = middle;
    }
    const before = points[low - 1];
    return before && step - before[0] < points[low][0] - step ? before : points[low];
  };

  const draw = (name, attributes, kind) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (kind) element.setAttribute("class", kind);
    hover.append(element);
  };

  const describe = (index, [step, value, low, high]) => {
    const row = document.createElement("div"), dot = document.createElement("i");
    row.className = "c" + data.lines[index].colour;
    const range = low === undefined ? "" : ` (${short(low)} to ${short(high)})`;
    const note = document.createElement("small");
    note.textContent = range;
    row.append(dot, `${labels[index]} ${short(value)}`, note);
    return row;
  };

  const show = event => {
    const box = svg.getBoundingClientRect();
    const pointer = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const part = Math.min(1, Math.max(0, (pointer - left) / across));
    const step = data.x[0] + part * (data.x[1] - data.x[0]);
    const found = data.lines.map(line => line.points.length ? nearest(line.points, step) : null);
    const steps = found.filter(Boolean).map(point => point[0]);
    const here = steps.reduce((a, b) => Math.abs(b - step) < Math.abs(a - step) ? b : a);
    hover.replaceChildren();
    const title = document.createElement("b");
    title.textContent = "step " + here;
    tip.replaceChildren(title);
    draw("path", {d: `M${x(here)} ${top}V${top + up}`});
    found.forEach((point, index) => {
      if (!point) return;
      tip.append(describe(index, point));
      const height = point[1] === null ? -1 : y(point[1]);
      if (height >= top && height <= top + up)
        draw("circle", {cx: x(point[0]), cy: height, r: 4}, "c" + data.lines[index].colour);
    });
    tip.hidden = false;
    const isRight = part > 0.5;
    tip.style.left = isRight ? "" : `${x(here) / svg.viewBox.baseVal.width * box.width + 12}px`;
    tip.style.right = isRight ? `${box.width - x(here) / svg.viewBox.baseVal.width * box.width + 12}px` : "";
  };
  const hide = () => { hover.replaceChildren(); tip.hidden = true; };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}

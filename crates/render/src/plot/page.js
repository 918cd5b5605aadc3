"use strict";
// Zoom: drag over a range, turn the wheel, or use + and -; double click or 0 shows everything.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const readout = document.getElementById("readout");
  const outer = document.querySelector("svg");
  const NS = "http://www.w3.org/2000/svg";
  const make = (name, attributes, text) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const digits = value => String(+value.toPrecision(3));
  const number = value => {
    for (const [factor, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "K"]])
      if (Math.abs(value) >= factor) return digits(value / (name === "K" ? 1e3 : factor)) + name;
    return digits(value);
  };
  const position = (value, step) => {
    const precision = (scaled, unit) => String(+scaled.toFixed(Math.max(0, Math.ceil(-Math.log10(step / unit) + 0.01)))); 
    const names = data.time ? [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]]
      : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"], [1, ""]];
    const [unit, name] = names.find(([unit]) => Math.abs(value) >= unit) || names[names.length - 1];
    return value === 0 ? "0" + (data.time ? " ns" : "") : precision(value / unit, unit) + name;
  };
  const ticks = (from, to) => {
    const rough = (to - from) / 6, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough);
    const all = [];
    for (let n = Math.ceil(from / step); n * step <= to * (1 + 1e-12) && all.length < 100; n++) all.push(n * step);
    return [all, step];
  };

  const lanes = data.lanes.map((lane, index) => {
    const group = outer.querySelector(`[data-lane="${index}"]`);
    const plot = group.querySelector(".plot");
    return { ...lane, group, plot, axis: group.querySelector(".axis"), letters: group.querySelector(".letters"),
      height: +plot.getAttribute("height"), view: [0, data.width] };
  });

  const value = (lane, x) => lane.from + (lane.to - lane.from) * x / data.width;
  const show = (lane, view) => {
    const least = data.width / Math.max(lane.edges.length, 1) / 2;
    let width = Math.min(Math.max(view[1] - view[0], least), data.width);
    let start = Math.min(Math.max(view[0], 0), data.width - width);
    // Lanes over time show the same time.
    for (const one of data.time ? lanes : [lane]) {
      let [from, to] = [start, start + width];
      if (one !== lane) [from, to] = [from, to].map(x => (value(lane, x) - one.from) / ((one.to - one.from) || 1) * data.width);
      one.view = [from, to];
      draw(one);
    }
  };
  const draw = lane => {
    const [from, to] = lane.view, isWhole = from <= 0 && to >= data.width;
    lane.plot.setAttribute("viewBox", `${from} 0 ${to - from} ${lane.height}`);
    for (const node of lane.plot.querySelectorAll(".coarse")) node.style.display = isWhole ? "" : "none";
    for (const node of lane.plot.querySelectorAll(".fine")) node.style.display = isWhole ? "none" : "";
    const at = x => data.left + (x - from) / (to - from) * data.width;
    const y = +lane.axis.dataset.y;
    const [all, step] = ticks(value(lane, from), value(lane, to));
    lane.axis.replaceChildren(...all.flatMap(tick => {
      const x = at((tick - lane.from) / ((lane.to - lane.from) || 1) * data.width);
      return [make("line", { class: "rule", x1: x, x2: x, y1: y, y2: y + 4 }),
        make("text", { class: "dim", x, y: y + 17, "text-anchor": "middle" }, position(tick, step))];
    }));
    if (!lane.letters) return;
    const top = +lane.plot.getAttribute("y");
    let begin = 0;
    lane.letters.replaceChildren(...lane.phases.flatMap(([end, letter]) => {
      const [left, right] = [Math.max(at(begin), data.left), Math.min(at(end), data.left + data.width)];
      begin = end;
      return right - left < 6 + 8 * letter.length ? []
        : [make("text", { x: (left + right) / 2, y: top + 12, "text-anchor": "middle" }, letter)];
    }));
  };

  const place = (lane, event) => {
    const box = lane.plot.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    return lane.view[0] + share * (lane.view[1] - lane.view[0]);
  };
  const cursor = (lane, from, to, attributes) => {
    lane.plot.querySelector(".cursor")?.remove();
    lane.plot.append(make("rect", { class: "cursor", x: Math.min(from, to), y: 0, width: Math.abs(to - from),
      height: lane.height, "vector-effect": "non-scaling-stroke", "pointer-events": "none", ...attributes }));
  };
  const line = { fill: "none", stroke: "#808080", "stroke-width": 1 };
  const range = { fill: "#808080", "fill-opacity": 0.3 };
  const describe = (lane, x) => {
    let low = 0, high = lane.edges.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.edges[middle] > x) high = middle; else low = middle + 1;
    }
    const step = (lane.to - lane.from) * (lane.view[1] - lane.view[0]) / data.width / 500 || 1;
    const lines = [position(value(lane, x), step) + (data.time ? "" : " " + lane.axisName)];
    if (!lane.ends) lines[0] = `window ${(low + 1).toLocaleString("en")} of ${lane.windows.toLocaleString("en")} · ` + lines[0];
    const phase = lane.phases.find(([end]) => end > x) || lane.phases[lane.phases.length - 1];
    if (phase) lines.push("phase " + phase[1]);
    for (const panel of lane.panels) {
      const mean = panel.mean[low];
      let text = mean === null ? "no value" : number(mean);
      if (mean !== null && panel.low && panel.low[low] < panel.high[low])
        text += `  (${number(panel.low[low])} … ${number(panel.high[low])})`;
      lines.push(`${panel.name} ${panel.per}: ${text}`);
    }
    return lines.join("\n");
  };

  for (const lane of lanes) {
    let start = null;
    const leave = () => {
      lane.plot.querySelector(".cursor")?.remove();
      readout.hidden = true;
    };
    lane.axisName = data.axis;
    lane.plot.prepend(make("rect", { x: 0, y: 0, width: data.width, height: lane.height, fill: "none", "pointer-events": "all" }));
    lane.plot.addEventListener("pointerdown", event => {
      start = place(lane, event);
      lane.plot.setPointerCapture(event.pointerId);
    });
    lane.plot.addEventListener("pointermove", event => {
      const x = place(lane, event);
      if (start === null) cursor(lane, x, x, line); else cursor(lane, start, x, range);
      readout.textContent = describe(lane, x);
      readout.hidden = false;
      const room = readout.getBoundingClientRect();
      readout.style.left = Math.min(event.clientX + 14, innerWidth - room.width - 8) + "px";
      readout.style.top = Math.min(event.clientY + 14, innerHeight - room.height - 8) + "px";
    });
    lane.plot.addEventListener("pointerup", event => {
      const [from, to] = [start, place(lane, event)];
      start = null;
      leave();
      const least = (lane.view[1] - lane.view[0]) / 100;
      if (from !== null && Math.abs(to - from) > least) show(lane, [Math.min(from, to), Math.max(from, to)]);
    });
    lane.plot.addEventListener("pointerleave", leave);
    lane.plot.addEventListener("dblclick", () => show(lane, [0, data.width]));
    lane.plot.addEventListener("wheel", event => {
      event.preventDefault();
      const x = place(lane, event), factor = event.deltaY < 0 ? 0.8 : 1.25;
      show(lane, lane.view.map(edge => x + (edge - x) * factor));
    }, { passive: false });
  }
  addEventListener("keydown", event => {
    const factor = { "+": 0.8, "=": 0.8, "-": 1.25 }[event.key];
    for (const lane of data.time ? lanes.slice(0, 1) : lanes) {
      const middle = (lane.view[0] + lane.view[1]) / 2;
      if (event.key === "0") show(lane, [0, data.width]);
      else if (factor) show(lane, lane.view.map(edge => middle + (edge - middle) * factor));
    }
  });
  // For tests, and for a link to a part: #lane,from,to in shares of the axis.
  const [, index, from, to] = /^#(\d+),([\d.]+),([\d.]+)$/.exec(location.hash) || [];
  if (lanes[index]) show(lanes[index], [from * data.width, to * data.width]);
})();

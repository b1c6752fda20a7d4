// Puts live plots in the place of pictures. All plots of a page share their range of time.
(async () => {
  const source = document.getElementById("live");
  if (!source || typeof uPlot === "undefined" || typeof DecompressionStream === "undefined") return;
  const pages = JSON.parse(source.textContent);
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  const fade = (name, alpha) => {
    const hex = ink(name);
    return `${hex}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`;
  };
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Float32Array(await new Response(stream).arrayBuffer());
  };
  const DASHES = { "-": [], "--": [7, 4], ":": [2, 3] };
  const HEIGHT = 230;

  // The value that holds at a time is the last one before it.
  const held = (plot, series, index, time = Infinity) => {
    let at = index;
    while (at > 0 && (plot.data[series][at] === undefined || plot.data[0][at] > time)) at -= 1;
    return at;
  };

  for (const [place, page] of pages.entries()) {
    const numbers = await unpack(page.numbers);
    const plots = [];
    const hidden = new Set();
    let range = [0, page.end];
    let busy = false;

    const zoom = (from, to) => {
      const width = Math.min(page.end, Math.max(page.end * 1e-6, to - from));
      const start = Math.min(page.end - width, Math.max(0, from));
      range = [start, start + width];
      busy = true;
      for (const plot of plots) plot.setScale("x", { min: range[0], max: range[1] });
      busy = false;
    };
    const scaled = (factor, share = 0.5) => {
      const [from, to] = range;
      const at = from + (to - from) * share;
      zoom(at - (at - from) * factor, at + (to - at) * factor);
    };
    const moved = (share) => {
      const by = (range[1] - range[0]) * share;
      zoom(range[0] + by, range[1] + by);
    };

    const decorate = (chart, states) => ({
      hooks: {
        drawClear: [(plot) => {
          const { left, top, width, height } = plot.bbox;
          const context = plot.ctx;
          const x = (time) => Math.min(left + width, Math.max(left, plot.valToPos(time, "x", true)));
          context.save();
          if (chart.range) {
            const [low, high] = chart.range.map((value) => plot.valToPos(value, "y", true));
            context.fillStyle = ink("--good-shade");
            const from = Math.max(top, high);
            context.fillRect(left, from, width, Math.max(0, Math.min(top + height, low) - from));
          }
          if (states.length > 1) {
            for (const band of chart.bands) {
              const [from, to] = [x(band.from), x(band.to)];
              if (to <= from) continue;
              context.fillStyle = fade(states[band.state].colour, 0.13);
              context.fillRect(from, top, to - from, height);
              context.fillStyle = fade(states[band.state].colour, 0.8);
              context.fillRect(from, top, Math.max(1, to - from), 4);
            }
          }
          context.restore();
        }],
        draw: [(plot) => {
          const { left, top, width, height } = plot.bbox;
          const context = plot.ctx;
          context.save();
          context.strokeStyle = ink("--bad");
          context.lineWidth = 1;
          context.beginPath();
          let last = -1;
          for (const time of chart.lost || []) {
            const at = Math.round(plot.valToPos(time, "x", true));
            if (at === last || at < left || at > left + width) continue;
            last = at;
            context.moveTo(at + 0.5, top + height);
            context.lineTo(at + 0.5, top + height - 10);
          }
          context.stroke();
          context.textAlign = "left";
          context.setLineDash([6, 4]);
          context.strokeStyle = context.fillStyle = ink("--ink");
          context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
          for (const level of chart.levels || []) {
            const at = plot.valToPos(level.value, "y", true);
            if (at < top || at > top + height) continue;
            context.beginPath();
            context.moveTo(left, at);
            context.lineTo(left + width, at);
            context.stroke();
            context.fillText(level.name, left + 4, at - 4);
          }
          context.restore();
        }],
      },
    });

    const draw = (chart, holder) => {
      // What wanders most would hide the others, and is drawn first.
      const lines = [...chart.lines].sort((one, other) => other.wander - one.wander);
      const tables = lines.map((line) => {
        const [at, count] = line.at;
        const [times, values] = [numbers.subarray(at, at + count), numbers.subarray(at + count, at + 2 * count)];
        return [Array.from(times), Array.from(values, (value) => Number.isNaN(value) ? null : value)];
      });
      const data = tables.length > 1 ? uPlot.join(tables) : tables[0];
      const digits = (value) => value === null || value === undefined ? "–" : Number(value.toPrecision(5)).toString();
      const states = chart.states || [];
      const main = lines.flatMap((line, index) => line.name.startsWith("window") ? [index + 1] : []);
      const now = document.createElement("p");
      now.className = "phases soft";
      for (const state of states.length > 1 ? states : []) {
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.background = `var(${state.colour})`;
        const key = document.createElement("span");
        key.className = "key";
        key.append(swatch, state.name);
        now.append(key);
      }
      const phase = document.createElement("strong");
      now.append(phase);
      const title = document.createElement("h4");
      title.textContent = `${chart.title}, ${chart.unit}`;
      holder.append(title);
      const plot = new uPlot({
        width: holder.clientWidth || 600,
        height: HEIGHT,
        scales: {
          x: { time: false, min: range[0], max: range[1] },
          y: {
            range: (self, low, high) => {
              if (chart.scaled_by && main.length) {
                // A threshold far above the window must not flatten it.
                const [from, to] = self.series[0].idxs || [0, data[0].length - 1];
                let most = 0;
                for (const index of main) {
                  for (let at = held(self, index, from); at <= to; at += 1) most = Math.max(most, data[index][at] || 0);
                }
                high = Math.min(high, 1.5 * most || high);
              }
              if (low === null) return [0, 1];
              const margin = (high - low || Math.abs(high) || 1) * 0.06;
              return [chart.zero ? 0 : low - margin, high + margin];
            },
          },
        },
        axes: [
          { stroke: () => ink("--soft"), grid: { stroke: () => ink("--line"), width: 1 }, ticks: { show: false }, size: 34, values: (_, ticks) => ticks.map((tick) => `${tick} s`) },
          { stroke: () => ink("--soft"), grid: { stroke: () => ink("--line"), width: 1 }, ticks: { show: false }, size: 58 },
        ],
        cursor: { sync: { key: `time-${place}` }, dataIdx: held, drag: { x: true, y: false, uni: 8 }, points: { size: 6 } },
        series: [
          { label: "time", value: (_, value) => value === null ? "–" : `${digits(value)} s` },
          ...lines.map((line) => ({
            label: line.name,
            stroke: () => fade(line.colour, lines.length > 1 ? 0.8 : 1),
            width: line.width,
            dash: DASHES[line.dash],
            show: !hidden.has(line.name),
            points: { show: false },
            paths: uPlot.paths.stepped({ align: 1 }),
            value: (_, value) => digits(value),
          })),
        ],
        plugins: [decorate(chart, states)],
        hooks: {
          setScale: [(self, key) => {
            if (key !== "x" || busy) return;
            const { min, max } = self.scales.x;
            if (min !== range[0] || max !== range[1]) zoom(min, max);
          }],
          setSeries: [(self, index, change) => {
            if (busy || index === null || change.show === undefined || holder.dataset.group !== "all") return;
            const name = self.series[index].label;
            if (change.show) hidden.delete(name); else hidden.add(name);
            busy = true;
            for (const other of plots) {
              if (other === self || other.root.closest(".live").dataset.group !== "all") continue;
              other.series.forEach((one, at) => {
                if (at && one.label === name && one.show !== change.show) other.setSeries(at, { show: change.show });
              });
            }
            busy = false;
          }],
          setCursor: [(self) => {
            const time = self.cursor.left >= 0 ? self.posToVal(self.cursor.left, "x") : -1;
            const band = (chart.bands || []).find((one) => one.from <= time && time < one.to);
            phase.textContent = band && states.length > 1 ? states[band.state].name : "";
          }],
        },
      }, data, holder);
      holder.append(now);
      plots.push(plot);
      plot.over.addEventListener("dblclick", (event) => { event.stopImmediatePropagation(); zoom(0, page.end); }, true);
      plot.over.addEventListener("wheel", (event) => {
        // The wheel alone scrolls the page.
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        const by = event.deltaY || event.deltaX;
        if (event.ctrlKey) scaled(by > 0 ? 1.25 : 0.8, event.offsetX / plot.over.clientWidth);
        else moved(by > 0 ? 0.1 : -0.1);
      }, { passive: false });
      fingers(plot.over);
      new ResizeObserver(() => {
        if (holder.clientWidth) plot.setSize({ width: holder.clientWidth, height: HEIGHT });
      }).observe(holder);
    };

    // One finger moves, two zoom; up and down scrolls the page.
    const fingers = (over) => {
      const down = new Map();
      over.style.touchAction = "pan-y";
      const lift = (event) => down.delete(event.pointerId);
      over.addEventListener("pointerdown", (event) => {
        if (event.pointerType === "touch") down.set(event.pointerId, event.clientX);
      });
      over.addEventListener("pointermove", (event) => {
        if (!down.has(event.pointerId)) return;
        const before = [...down.values()];
        down.set(event.pointerId, event.clientX);
        const after = [...down.values()];
        if (after.length === 1) moved((before[0] - after[0]) / over.clientWidth);
        else {
          const [was, is] = [before, after].map((pair) => Math.max(20, Math.abs(pair[0] - pair[1])));
          const middle = (after[0] + after[1]) / 2 - over.getBoundingClientRect().left;
          scaled(was / is, middle / over.clientWidth);
        }
      });
      for (const name of ["pointerup", "pointercancel", "pointerleave"]) over.addEventListener(name, lift);
    };

    const tools = (holder) => {
      const bar = document.createElement("p");
      bar.className = "tools";
      const buttons = [
        ["−", "Zoom out", () => scaled(1.6)],
        ["+", "Zoom in", () => scaled(0.625)],
        ["◀", "Earlier", () => moved(-0.25)],
        ["▶", "Later", () => moved(0.25)],
        ["All", "The whole time", () => zoom(0, page.end)],
      ];
      for (const [text, label, act] of buttons) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = text;
        button.title = label;
        button.setAttribute("aria-label", label);
        button.addEventListener("click", act);
        bar.append(button);
      }
      const help = document.createElement("span");
      help.className = "soft";
      help.textContent = "Drag to zoom, double-click for all; Ctrl and wheel zooms, Shift and wheel moves. A name in a legend switches its line.";
      bar.append(help);
      holder.append(bar);
    };

    const fill = (holder) => {
      const charts = page.groups[holder.dataset.group];
      if (!charts || holder.childElementCount) return;
      tools(holder);
      for (const chart of charts) {
        const figure = document.createElement("div");
        figure.className = "live-plot";
        figure.dataset.group = holder.dataset.group;
        holder.append(figure);
        draw(chart, figure);
      }
    };
    for (const holder of document.querySelectorAll(`.live[data-page="${place}"]`)) {
      const details = holder.closest("details");
      if (!details || details.open) fill(holder);
      else details.addEventListener("toggle", () => fill(holder), { once: true });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const plot of plots) plot.redraw(false);
    });
    if (!window.livePlots) window.livePlots = [];
    window.livePlots.push(plots);
  }
  document.documentElement.classList.add("has-live");
})();

(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("polidiff-data").textContent);
  const views = {};
  const byId = (id) => document.getElementById(id);

  if (data.plans) {
    let before = [];
    for (const plan of data.plans.plans) {
      if (!plan.e) plan.e = before.filter((number) => !plan["-"].includes(number)).concat(plan["+"]);
      before = plan.e;
    }
  }

  const narrow = { ...data.config, legend: { ...data.config?.legend, columns: 1 }, axis: { ...data.config?.axis, labelLimit: 110 } };

  function draw(figure, choice, spec) {
    const target = byId("chart-" + figure);
    if (!target) return Promise.resolve();
    const formatLocale = { decimal: ".", thousands: "\u202f", grouping: [3], currency: ["", ""], minus: "−", percent: "\u202f%" };
    const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, formatLocale, config: innerWidth < 500 ? narrow : data.config };
    return vegaEmbed(target, spec || data.charts[figure][choice], options).then((result) => {
      views[figure] = result.view;
      target.querySelector("svg").setAttribute("aria-hidden", "true");  // the frame carries the words
    });
  }

  function replaceRows(figure, name, rows) {
    const view = views[figure];
    if (view) view.data(name, rows).run();
  }

  function fill(list, texts) {
    list.replaceChildren(...texts.map((text) => {
      const item = document.createElement("li");
      const words = document.createElement("bdi");
      words.textContent = text;
      item.append(words);
      return item;
    }));
  }

  function fillTable(figure, rows) {
    const body = document.querySelector("#twin-" + figure + " tbody");
    if (!body) return;
    body.replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      row.forEach((text, place) => {
        const cell = document.createElement(place ? "td" : "th");
        if (!place) cell.scope = "row";
        const words = document.createElement("bdi");
        words.textContent = text;
        cell.append(words);
        line.append(cell);
      });
      return line;
    }));
  }

  function show(index) {
    const plans = data.plans;
    const plan = plans.plans[index];
    const texts = plan.e.map((number) => plans.changes[number]);
    byId("slider").value = index;
    byId("plan-number").textContent = rows[index].cells[0].textContent;
    byId("slider").setAttribute("aria-valuetext", plan.k.map((value, place) => cardNames[place] + " " + value).join(", "));
    document.querySelectorAll("#plan-cards dd").forEach((card, place) => {
      card.querySelector("strong").textContent = plan.k[place];
      card.querySelector("span").textContent = plans.details[plan.d[place]];
    });
    fill(byId("plan-changes"), texts);
    fill(byId("plan-sentences"), plan.x || []);
    fill(byId("plan-warnings"), plan.w || []);
    rows.forEach((row, place) => row.setAttribute("aria-current", place === index ? "true" : "false"));
    byId("plan-nothing").hidden = texts.length > 0;
    showNumbers(plan, texts);
    if (views.plans) views.plans.signal("picked", index).run();
    replaceRows("plan-boxes", "boxes", plan.e.flatMap((number, place) =>
      plans.boxes[number] ? [{ ...plans.boxes[number], t: texts[place] }] : []).reverse());
    replaceRows("plan-outcomes", "differences", plan.o.map((o, place) =>
      ({ g: plans.names[place], n: place, d: o[4], t: amount(o[1].split(" [")[0], place), v: plans.readings[o[2]] }))
      .filter((row) => row.d !== undefined));
    replaceRows("plan-adoption", "adoption", plan.a.map((value, place) => ({ s: plans.shares[place], r: value })));
  }

  function amount(text, place) {
    if (text === "unknown") return text;
    return text + (/^[+−]?1$/.test(text) ? data.plans.ones : data.plans.units)[place];
  }

  function showNumbers(plan, texts) {
    fillTable("plan-boxes", texts.map((text) => [text]));
    fillTable("plan-outcomes", plan.o.map((o, place) => [fullNames[place], o[0], o[1]]));
    fillTable("plan-adoption", plan.a.map((value, place) => [Math.round(100 * data.plans.shares[place]) + " %",
      data.plans.share ? spoken(Number((100 * value).toPrecision(4))) + " %" : spoken(value)]));
  }

  const spoken = (value) => {
    const [whole, rest] = String(value).replace("-", "−").split(".");
    return (whole.length > 4 + whole.startsWith("−") ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole) + (rest ? "." + rest : "");
  };
  const cardNames = Array.from(document.querySelectorAll("#plan-cards dt"), (name) => name.textContent);
  const fullNames = Array.from(document.querySelectorAll("#twin-plan-outcomes tbody th"), (cell) => cell.textContent);

  const rows = Array.from(document.querySelectorAll("#plan-table tbody tr"));
  const limit = /^\s*(?:'([^']+)'|"([^"]+)"|(.+?))\s*(<=|>=|≤|≥|<|>)\s*(current)?\s*([-−+]?\s*[\d.]+(?:e-?\d+)?)?\s*(%)?\s*$/i;
  let refused = [];

  function quantity(place) {
    return data.plans.plans.map((plan, index) => place < 0 ? data.plans.costs[index] : plan.o[place][3]);
  }

  function guardOf(text) {
    const parts = limit.exec(text);
    if (!parts || (!parts[5] && !parts[6])) return null;
    const name = (parts[1] || parts[2] || parts[3]).trim().toLowerCase();
    const place = data.plans.asked.findIndex((known) => known.toLowerCase() === name);
    if (place < 0 && name !== "changes") return null;
    const values = quantity(place);
    const amount = Number((parts[6] || "0").replace("−", "-").replace(/\s/g, "")) * (parts[7] ? 0.01 : 1);
    const bound = (parts[5] ? values[0] : 0) + amount;
    const most = parts[4][0] === "<" || parts[4] === "≤";
    return values.map((value) => most ? value <= bound + 1e-9 : value >= bound - 1e-9);
  }

  function guard(text) {
    const asked = text.split(";").filter((part) => part.trim());
    const kept = asked.map(guardOf);
    const wrong = asked.filter((part, place) => !kept[place]);
    const passes = rows.map((row, index) => kept.every((values) => !values || values[index]));
    refused = passes.flatMap((pass, index) => pass ? [] : [index]);
    rows.forEach((row, index) => { row.hidden = !passes[index]; });
    if (views.plans) views.plans.signal("refused", refused).run();
    const left = rows.length - refused.length;
    byId("guards-said").textContent = wrong.length
      ? "Not understood: " + wrong[0].trim() + ". Outcomes: " + data.plans.asked.slice(0, 7).join(", ") + ", changes."
      : asked.length ? (left ? left + " of " + rows.length + " plans keep this, by their estimates." : "No plan keeps this.") : "";
    const now = Number(byId("slider").value);
    if (left && !wrong.length && !passes[now]) {
      const gains = data.plans.plans.map((plan, index) => passes[index] ? index : -1).filter((index) => index >= 0);
      show(gains.reduce((one, other) => Math.abs(other - now) < Math.abs(one - now) ? other : one));
    }
  }

  function redraw() {
    const spec = JSON.parse(JSON.stringify(data.charts.plans[0]));
    const [x, y] = ["axis-x", "axis-y"].map((id) => byId(id));
    const [across, up] = [x, y].map((select) => quantity(Number(select.value)));
    spec.datasets = { ...spec.datasets, plans: across.map((value, index) => ({ i: index, x: value, y: up[index] })) };
    if (spec.data && spec.data.values) spec.data.values = spec.datasets.plans;
    spec.layer.forEach((layer) => {
      if (layer.data && layer.data.name === "plans" && layer.data.values) layer.data.values = spec.datasets.plans;
      [[layer.encoding.x, x], [layer.encoding.y, y]].forEach(([side, select]) => {
        side.title = select.selectedOptions[0].textContent;
        side.axis = { tickCount: 6, ...(data.plans.units[Number(select.value)] === " pp" ? { format: ".4~p" } : {}) };
      });
    });
    draw("plans", 0, spec).then(() => {
      views.plans.signal("picked", Number(byId("slider").value)).signal("refused", refused).run();
      pickable();
    });
  }

  const go = (index) => show(Math.max(0, Math.min(data.plans.plans.length - 1, index)));

  function pickable() {
    views.plans.addEventListener("click", (event, item) => {
      if (item && item.datum && Number.isInteger(item.datum.i)) go(item.datum.i);
    });
  }

  function listen() {
    const slider = byId("slider");
    slider.addEventListener("input", () => go(Number(slider.value)));
    byId("fewer").addEventListener("click", () => go(Number(slider.value) - 1));
    byId("more").addEventListener("click", () => go(Number(slider.value) + 1));
    rows.forEach((row, index) => row.addEventListener("click", () => go(index)));
    byId("guards").addEventListener("input", (event) => guard(event.target.value));
    ["axis-x", "axis-y"].forEach((id) => byId(id).addEventListener("change", redraw));
    pickable();
  }

  document.querySelectorAll(".search input").forEach((input) => {
    const box = input.closest(".search");
    const lines = Array.from(box.nextElementSibling.querySelectorAll("tbody tr"));
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      lines.forEach((line) => { line.hidden = !words.every((word) => line.textContent.toLowerCase().includes(word)); });
      box.querySelector(".note").textContent = lines.filter((line) => !line.hidden).length + " of " + lines.length + " rows";
    });
  });

  const written = new Date(document.lastModified);  // of the file: the page itself holds no clock
  if (location.protocol === "file:" && !isNaN(written)) byId("written").textContent = " File of " + written.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" }) + ".";

  document.querySelectorAll("select[data-figure]").forEach((select) =>
    select.addEventListener("change", () => draw(select.dataset.figure, Number(select.value))));

  const folded = byId("reviewers");
  const later = Object.keys(data.charts).filter((figure) => folded.contains(byId("chart-" + figure)));
  const unfold = () => later.splice(0).forEach((figure) => draw(figure, 0).then(() => data.plans && show(Number(byId("slider").value))));
  folded.addEventListener("toggle", unfold);

  Promise.all(Object.keys(data.charts).filter((figure) => !later.includes(figure)).map((figure) => draw(figure, 0))).then(() => {
    if (data.plans) {
      listen();
      show(data.plans.start);
    }
    document.documentElement.dataset.ready = "yes";
  });
})();

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

  function draw(figure, choice) {
    const target = byId("chart-" + figure);
    if (!target) return Promise.resolve();
    const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: data.config };
    return vegaEmbed(target, data.charts[figure][choice], options).then((result) => {
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
    byId("plan-number").textContent = index + 1;
    byId("slider").setAttribute("aria-valuetext", plan.k[0] + ", return " + plan.k[1] + ", " + plan.k[2]);
    document.querySelectorAll("#plan-cards dd").forEach((card, place) => {
      card.querySelector("strong").textContent = plan.k[place];
      card.querySelector("span").textContent = plans.details[plan.d[place]];
    });
    fill(byId("plan-changes"), texts);
    fill(byId("plan-warnings"), plan.w || []);
    byId("plan-nothing").hidden = texts.length > 0;
    showNumbers(plan, texts);
    if (views.frontier) views.frontier.signal("picked", index).run();
    replaceRows("plan-boxes", "boxes", plan.e.flatMap((number, place) =>
      plans.boxes[number] ? [{ ...plans.boxes[number], t: texts[place] }] : []));
    replaceRows("plan-outcomes", "differences", plan.o.map((o, place) =>
      ({ g: plans.names[place], n: place, d: o[3], l: o[4] ?? o[3], h: o[5] ?? o[3], v: plans.readings[o[2]] })));
    replaceRows("plan-adoption", "adoption", plan.a.map((value, place) => ({ s: plans.shares[place], r: value })));
  }

  function showNumbers(plan, texts) {
    fillTable("plan-boxes", texts.map((text) => [text]));
    fillTable("plan-outcomes", plan.o.map((o, place) => [fullNames[place], o[0], o[1]]));
    fillTable("plan-adoption", plan.a.map((value, place) => [Math.round(100 * data.plans.shares[place]) + " %", String(value)]));
  }

  const fullNames = Array.from(document.querySelectorAll("#twin-plan-outcomes tbody th"), (cell) => cell.textContent);

  function listen() {
    const slider = byId("slider");
    const last = data.plans.plans.length - 1;
    const go = (index) => show(Math.max(0, Math.min(last, index)));
    slider.addEventListener("input", () => go(Number(slider.value)));
    byId("fewer").addEventListener("click", () => go(Number(slider.value) - 1));
    byId("more").addEventListener("click", () => go(Number(slider.value) + 1));
    views.frontier.addEventListener("click", (event, item) => {
      if (item && item.datum && Number.isInteger(item.datum.i)) go(item.datum.i);
    });
  }

  document.querySelectorAll("select[data-figure]").forEach((select) =>
    select.addEventListener("change", () => draw(select.dataset.figure, Number(select.value))));

  Promise.all(Object.keys(data.charts).map((figure) => draw(figure, 0))).then(() => {
    if (data.plans) {
      listen();
      show(data.plans.start);
    }
    document.documentElement.dataset.ready = "yes";
  });
})();

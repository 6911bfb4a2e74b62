"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const page = document.body.dataset;
  const bodies = { active: $("active").tBodies[0], idle: document.querySelector("#idle tbody") };
  let skew = page.at - Date.now(); // of the server's clock
  let source, retry, heard = 0;

  // length, and the words around it, are as in words.go and view.go.
  const count = (n, thing) => n.toLocaleString("en-US") + " " + thing + (n === 1 ? "" : "s");
  const two = (n) => String(n).padStart(2, "0");
  function length(ms) {
    const s = Math.floor(Math.max(0, ms) / 1000);
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + two(s % 60) + " s";
    if (s < 48 * 3600) return Math.floor(s / 3600) + " h " + two(Math.floor(s / 60) % 60) + " min";
    return count(Math.floor(s / 86400), "day");
  }
  function words(time, now) {
    const at = Date.parse(time.dateTime);
    if ("until" in time.dataset) return at <= now ? "now" : "in " + length(at - now + 999);
    if ("ago" in time.dataset) return length(now - at) + " ago";
    return length(now - at);
  }
  function tick() {
    const now = Date.now() + skew;
    for (const time of document.querySelectorAll("[data-until],[data-ago],[data-age]")) {
      const text = words(time, now);
      if (time.textContent !== text) time.textContent = text;
    }
    if (heard && Date.now() - heard > 40000) connect();
  }

  function show(live) {
    $("live").textContent = live ? "live" : "not live";
    $("live").className = live ? "on" : "";
  }
  // place puts the rows with these ids into a table, in this order, and no others.
  function place(body, ids, made) {
    let at = body.firstElementChild;
    for (const id of ids) {
      const row = made.get(id) || $("m" + id);
      if (!row) continue;
      if (row === at) at = at.nextElementSibling;
      else body.insertBefore(row, at);
    }
    while (at) {
      const next = at.nextElementSibling;
      at.remove();
      at = next;
    }
  }
  function update(news) {
    const made = new Map();
    for (const [id, html] of news.rows || []) {
      const holder = document.createElement("template");
      holder.innerHTML = html;
      const row = holder.content.firstElementChild;
      const old = $("m" + id);
      if (old) old.replaceWith(row);
      made.set(id, row);
    }
    if (news.active) {
      place(bodies.active, news.active, made);
      $("active").hidden = news.active.length === 0;
    }
    if (news.idle) {
      place(bodies.idle, news.idle, made);
      $("idle").hidden = news.idle.length === 0;
      $("idles").textContent = count(news.idle.length, "idle model");
    }
    if (news.above !== undefined) $("above").innerHTML = news.above;
    if (news.pools !== undefined) {
      const idle = document.querySelector("#pools details");
      const open = idle && idle.open;
      $("pools").innerHTML = news.pools;
      $("pools").hidden = news.pools === "";
      const now = document.querySelector("#pools details");
      if (idle && now) now.open = open;
    }
    skew = news.at - Date.now();
    $("clock").textContent = news.clock;
    tick();
  }

  function connect() {
    disconnect();
    const url = new URL(location.href);
    url.searchParams.set("stream", page.version);
    url.hash = "";
    source = new EventSource(url);
    source.onopen = () => { heard = Date.now(); show(true); };
    source.onmessage = (event) => {
      heard = Date.now();
      update(JSON.parse(event.data));
      page.version = event.lastEventId;
    };
    source.onerror = () => {
      show(false);
      if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 5000);
    };
  }
  function disconnect() {
    clearTimeout(retry);
    heard = 0;
    if (source) source.close();
    show(false);
  }
  // A page that nobody sees takes no updates.
  const follow = () => document.hidden ? disconnect() : connect();
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
  setInterval(tick, 1000);
  follow();
})();

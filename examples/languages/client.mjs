// Calls a model as often as the quota allows, with what Node has built in.
//
// Nothing in it knows of a quota: only the base URL differs from that of the provider.
const { OPENAI_BASE_URL, OPENAI_API_KEY } = process.env;
const tally = { calls: 0, retry_after: 0, error: "" };

async function call(number) {
  const response = await fetch(OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: "Bearer " + OPENAI_API_KEY },
    body: JSON.stringify({ model: "gpt-4.1", max_tokens: 50, messages: [{ role: "user", content: `Node asks: ${number}` }] }),
  });
  if (response.status === 429 && !response.headers.has("Retry-After")) { // of the proxy: no slot is free
    await response.text();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return true;
  }
  if (response.status === 429) { // of the proxy: the minute is used up
    tally.retry_after = Number(response.headers.get("Retry-After"));
    await response.text();
    return false;
  }
  if (!response.ok) {
    tally.error = `${response.status}: ${await response.text()}`;
    return false;
  }
  (await response.json()).choices[0].message.content;
  tally.calls++;
  return true;
}

async function work(worker) {
  for (let number = 0; number < 100; number++) {
    if (!(await call(`${worker}.${number}`))) return;
  }
}

await Promise.all([0, 1, 2].map(work));
console.log(JSON.stringify(tally));

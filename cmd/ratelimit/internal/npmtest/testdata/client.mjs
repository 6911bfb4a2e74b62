// client.mjs SDK SECONDS EVERY starts a call each EVERY milliseconds, for so many seconds, whether
// those before have been answered or not, and tells in JSON how they ended. Every second one is a
// stream. What is open at the end is given up.
import { setMaxListeners } from "node:events";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const [sdk, seconds, every] = process.argv.slice(2);
const model = "shared-model", max_tokens = 40;
const end = new AbortController();
setMaxListeners(0, end.signal); // each open call is one
const tally = { started: 0, answered: 0, gaveUp: 0, errors: {} };

const calls = {
  async openai(messages, stream) {
    const answer = await new OpenAI().chat.completions.create({ model, max_tokens, messages, stream }, { signal: end.signal });
    if (!stream) return answer.choices[0].message.content;
    let text = "";
    for await (const chunk of answer) text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  async anthropic(messages, stream) {
    const client = new Anthropic();
    if (stream) return client.messages.stream({ model, max_tokens, messages }, { signal: end.signal }).finalText();
    return (await client.messages.create({ model, max_tokens, messages }, { signal: end.signal })).content[0].text;
  },
};

async function call(number) {
  tally.started++;
  try {
    const text = await calls[sdk]([{ role: "user", content: `${sdk} asks ${number}` }], number % 2 === 1);
    if (!text) throw new Error("an empty answer");
    tally.answered++;
  } catch (error) {
    if (end.signal.aborted) tally.gaveUp++;
    else tally.errors[`${error.status}: ${error.message}`] = (tally.errors[`${error.status}: ${error.message}`] ?? 0) + 1;
  }
}

const open = [];
const began = Date.now();
await new Promise((resolve) => {
  const timer = setInterval(() => {
    if (Date.now() - began < seconds * 1000) return open.push(call(open.length));
    clearInterval(timer);
    resolve();
  }, Number(every));
});
end.abort();
await Promise.all(open);
console.log(JSON.stringify(tally));

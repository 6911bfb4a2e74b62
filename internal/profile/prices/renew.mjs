// Renews the prices of this folder from the npm package @pydantic/genai-prices (MIT, see LICENSE):
//
//	node internal/profile/prices/renew.mjs
//
// It writes one file a provider. Rows that name a source of their own were read on the provider's
// pages by a person: they stay, and their models are left out of the package's. What of the package
// cannot be said is told.
import { execFileSync } from "node:child_process"
import fs from "node:fs"
import os from "node:os"
import path from "node:path"

const name = "@pydantic/genai-prices"
const folder = import.meta.dirname
const providers = {
  openai: "openai", anthropic: "anthropic", google: "gemini", groq: "groq", mistral: "mistral", "x-ai": "xai",
  deepseek: "deepseek", azure: "azure", aws: "bedrock", cerebras: "cerebras", openrouter: "openrouter",
}
const kinds = {
  input_mtok: "input", cache_read_mtok: "cached_input", cache_write_mtok: "cache_write",
  cache_write_1h_mtok: "cache_write_hour", output_mtok: "output",
}

const temp = fs.mkdtempSync(path.join(os.tmpdir(), "prices-"))
process.on("exit", () => fs.rmSync(temp, { recursive: true }))
execFileSync("npm", ["install", "--silent", "--no-audit", "--prefix", temp, name])
const home = path.join(temp, "node_modules", name)
const version = JSON.parse(fs.readFileSync(path.join(home, "package.json"))).version
const times = JSON.parse(execFileSync("npm", ["view", name, "time", "--json"]))
const day = times[version].slice(0, 10)
const genai = await import(path.join(home, "dist/index.js"))
fs.copyFileSync(path.join(home, "LICENSE"), path.join(folder, "LICENSE"))

// patterns returns the names and patterns that a match stands for; null for what they cannot say.
function patterns(match) {
  if (match.equals) return [match.equals]
  if (match.starts_with) return [match.starts_with + "*"]
  if (match.ends_with) return ["*" + match.ends_with]
  if (match.contains) return ["*" + match.contains + "*"]
  if (match.or) {
    const all = match.or.map(patterns)
    return all.every((one) => one === null) ? null : all.filter((one) => one !== null).flat()
  }
  const dated = match.regex?.match(/^\^([a-z0-9-]+)\\d\{8\}\$$/)
  return dated ? [dated[1] + "20*"] : null
}

const dollars = (price) => "$" + (Math.ceil(price * 1e6 - 1e-6) / 1e6).toFixed(6).replace(/(\.\d\d)(\d*?)0+$/, "$1$2")

// OpenAI's pages say that more than 272K tokens cost more, and some entries of the package that 272K do:
// https://github.com/pydantic/genai-prices/issues/711.
const sizes = { openai: { 271999: 272000 } }

// ratesOf returns the prices that an entry of the package says, and those above a size.
function ratesOf(prices, terms, provider) {
  const starts = [...new Set(Object.keys(kinds).flatMap((kind) => (prices[kind]?.tiers ?? []).map((tier) => tier.start)))].sort((a, b) => a - b)
  const at = (price, start) =>
    price?.tiers ? price.tiers.filter((tier) => tier.start <= start).reduce((_, tier) => tier.price, price.base) : price
  return [-1, ...starts].map((start) => {
    const rate = { ...(start >= 0 ? { above: sizes[provider]?.[start] ?? start } : {}), ...terms }
    for (const [kind, field] of Object.entries(kinds)) {
      const price = at(prices[kind], start)
      if (price) rate[field] = dollars(price)
    }
    return rate
  })
}

function priceOf(model, provider) {
  let entries = Array.isArray(model.prices) ? model.prices : [{ prices: model.prices }]
  const begun = entries.filter((one) => one.constraint?.type !== "start_date" || one.constraint.start_date <= day)
  const last = begun.findLastIndex((one) => one.constraint?.type !== "time_of_date")
  const hours = begun.filter((one) => one.constraint?.type === "time_of_date")
  const base = begun[last].prices
  if (!("input_mtok" in base) && !("output_mtok" in base)) return null
  const minute = (text) => text.slice(0, 5)
  const [plain, ...rates] = ratesOf(base, {}, provider).concat(
    ...hours.map((one) => ratesOf(one.prices, { from: minute(one.constraint.start_time), until: minute(one.constraint.end_time) }, provider)))
  return rates.length ? { ...plain, rates } : plain
}

for (const [id, provider] of Object.entries(providers)) {
  const file = path.join(folder, provider + ".json")
  const read = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file)).rows.filter((row) => row.source) : []
  const taken = new Set(read.flatMap((row) => row.models))
  const from = genai.findProvider({ providerId: id })
  const rows = []
  for (const model of from.models) {
    const price = priceOf(model, provider)
    const models = [...new Set(patterns(model.match) ?? [model.id])].filter((one) => !taken.has(one))
    if (patterns(model.match) === null) console.log(`${provider}: only the name itself of ${model.id}: ${JSON.stringify(model.match)}`)
    if (!price) console.log(`${provider}: no price for tokens: ${model.id}`)
    models.forEach((one) => taken.add(one))
    if (price && models.length) rows.push({ models, price })
  }
  const text = (row) => "\t\t" + JSON.stringify(row)
  fs.writeFileSync(file, `{\n\t"provider": ${JSON.stringify(provider)},\n\t"source": ${JSON.stringify(`${name} ${version}, which names ${(from.pricing_urls ?? []).join(" and ")}`)},\n\t"read_on": "${day}",\n\t"licence": "MIT, see LICENSE",\n\t"rows": [\n${[...read, ...rows].map(text).join(",\n")}\n\t]\n}\n`)
}

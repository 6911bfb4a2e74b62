package pagetest

import (
	"testing"

	"github.com/chromedp/chromedp"

	"dappco.re/go/core/go-ratelimit"
)

// poolText is a function that returns what the page says of a pool; empty for none.
const poolText = `((name) => [...document.querySelectorAll("#pools tr")].find((r) => r.querySelector(".pool")?.textContent === name)?.textContent
	.replace(/\s+/g, " ") ?? "")`

// TestPools: pools stand beside the models, change by themselves, and the list of the idle ones
// stays open when they do. Their names are text.
func TestPools(t *testing.T) {
	s := serve(t, map[string]ratelimit.ModelQuota{"gpt": {MaxRPM: 1000}})
	const odd = `<img src=x onerror="document.title='bad'">`
	b := browse(t)
	problems := b.problems()
	b.visit(s.URL)
	if !value[bool](b, `document.querySelector("#pools").hidden`) {
		t.Error("without pools there is a table of them")
	}
	for _, name := range []string{"org", odd} {
		s.rl.SetPool(name, ratelimit.Pool{Models: []string{"gpt"}, Quota: ratelimit.ModelQuota{MaxRPM: 2}})
	}
	b.until(`document.querySelector("#pools summary b")?.textContent === "2 idle pools"`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#pools details").open = true`))
	s.rl.SetPool("third", ratelimit.Pool{Models: []string{"none"}})
	s.rl.RecordUsage("gpt", 1, 1)
	b.until(`document.querySelector("#pools summary b")?.textContent === "1 idle pool"`)
	if !value[bool](b, `document.querySelector("#pools details").open`) {
		t.Error("the list of the idle pools was closed")
	}
	s.rl.RecordUsage("gpt", 1, 1)
	b.until(poolText + `("org").includes("requests used up")`)
	if value[bool](b, `document.querySelector("#pools").hidden || document.title === "bad" || `+poolText+"('"+`<img src=x onerror="document.title=\'bad\'">`+"') === ''") {
		t.Error("a pool is not shown as it is called")
	}
	for _, name := range []string{"org", odd, "third"} {
		s.rl.RemovePool(name)
	}
	b.until(`document.querySelector("#pools").hidden`)
	problems()
}

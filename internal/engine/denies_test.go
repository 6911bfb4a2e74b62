package engine_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// What an engine certainly lets pass, or certainly denies, is what it explains by a look at each
// limit: in whatever state commands bring it.
func TestCertainAnswersAreExplained(t *testing.T) {
	seeds, steps := uint64(12), 1200
	if testing.Short() {
		seeds = 4
	}
	passed, denied := 0, 0
	for seed := range seeds {
		e := engine.New(7, nil)
		l := newLife(seed, e)
		for step := range steps {
			if step%20 == 0 { // few quotas that a life makes up are plain
				e.SetMaxModels(1 + l.IntN(3))
				name, q := pick(l, append(models, "*")), state.Quota{MaxRPM: 1 + l.IntN(4), MaxTPM: l.IntN(200), MaxRPD: 10}
				e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.SetQuota(name, q) }, l.now)
			}
			e.Withhold(nil)
			if step%10 == 0 {
				e.Withhold([]account.Reserve{{Shares: 2, Until: l.now.Instant + second}})
			}
			for _, is := range l.entries() {
				o := e.Apply(is.now, is.process, is.n, is.command)
				l.heard(is, &o)
			}
			for _, name := range models {
				by := engine.By{Class: pick(l, classes), Span: account.Minute + l.Int64N(second)}
				r := engine.Request{Target: e.Resolve(name, name), Tokens: state.Count{Input: l.IntN(80) - 1, Output: l.IntN(60)}, Priced: true}
				cost := state.Cost{Requests: 1, Count: r.Tokens}
				var v, want verdict.Verdict
				e.Explain(&want, nil, &by, []engine.Request{r}, l.now)
				if e.Passes(&r.Target, &cost, by.Span, l.now) {
					if passed++; !want.Allowed {
						t.Fatalf("%s passes: %+v", name, want)
					}
				}
				if e.Denies(&v, &r.Target, &cost, by.Span, l.now) {
					if denied++; v != want {
						t.Fatalf("%s is denied: %+v\nexplained: %+v", name, v, want)
					}
				}
			}
		}
	}
	if t.Logf("%d passed, %d were denied", passed, denied); min(passed, denied) < 100*int(seeds) {
		t.Error("too few answers were certain")
	}
}

package debugpage_test

import (
	"context"
	"encoding/json"
	"html"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
	"dappco.re/go/core/go-ratelimit/money"
)

// poolOf returns the text of a pool's row, without its markup; "" if there is none.
func poolOf(page, pool string) string {
	return rowOf(strings.ReplaceAll(strings.ReplaceAll(page, `class="name"`, ""), `class="pool"`, `class="name"`), pool)
}

// newFairLimiter returns a limiter of a pool with everything, an idle one, and two classes.
func newFairLimiter(t *testing.T, quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}},
		Pools: map[string]ratelimit.Pool{
			"org": {Models: []string{"m", "a-*", "b", "c", "d", "e"}, Quota: quota}, "idle": {Models: []string{"none"}, Quota: ratelimit.ModelQuota{MaxRPD: 7}},
		},
		Classes: map[string]ratelimit.Class{"batch": {}, "people": {}},
		Prices:  map[string]money.Price{"*": {Input: money.USD(1)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// TestPools has a pool in each state, and what its row and that of its model say.
func TestPools(t *testing.T) {
	const members = "org m, a-*, b, c and 2 more "
	const of, model = "m in pool org · ", "m in pool org · quota set by the program"
	for _, test := range []struct {
		name        string
		quota       ratelimit.ModelQuota
		do          func(t *testing.T, rl *ratelimit.RateLimiter) (end func())
		want, model string
	}{
		{"in use", ratelimit.ModelQuota{MaxRPM: 10, MaxSpendPerDay: money.USD(2)}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("a-1", 500_000, 0)
			r, _ := rl.Reserve("m", 250_000, 0)
			return r.Cancel
		}, members + "free requests / min 2 / 10 spend / day $0.75 / $2.00 1 open",
			of + "$0.25 spent today · $0.25 spent this month · quota set by the program free requests / min 1 / 100"},
		{"minute used up, and a line", ratelimit.ModelQuota{MaxRPM: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("b", 1, 0)
			ctx, cancel := context.WithCancel(t.Context())
			for _, class := range []string{"people", "batch", "people", "unknown"} {
				go rl.Acquire(ratelimit.WithClass(ctx, class), "m", 5, 1)
				synctest.Wait()
			}
			time.Sleep(20 * time.Second)
			return cancel
		}, members + "requests used up nothing is left of the requests / min next room in 40 s requests / min 1 / 1 in 40 s 0 open 4 in line: 1 batch, 2 people",
			model + " requests used up the pool org: nothing is left of the requests / min next room in 40 s " +
				"requests / min 0 / 100 0 open 4 in line: 1 batch, 2 people 20 s : 5 + 1 token, people"},
		{"budget", ratelimit.ModelQuota{MaxSpendPerDay: money.USD(1)}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("b", 1_000_000, 0)
			rl.Reserve("m", 1, 1)
			return nil
		}, members + "budget used up nothing is left of the spend / day next room in 24 h 00 min spend / day $1.00 / $1.00 in 24 h 00 min 0 open",
			model + ` budget used up the pool "org": the spend of the day is used up next room in 24 h 00 min`},
		{"calls at the limit", ratelimit.ModelQuota{MaxInFlight: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("b", 1, 1)
			return r.Cancel
		}, members + "calls at limit calls in flight are at the limit next room when a call ends open calls 1 / 1 1 open",
			model + ` calls at limit the pool "org": calls in flight are at the limit next room when a call ends`},
		{"a large request", ratelimit.ModelQuota{MaxTPD: 100}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("b", 60, 0)
			return acquirer(t, rl, "m", 50, 0)
		}, members + "free tokens / day 60 / 100 0 open 1 in line",
			model + " large request the pool org: the first in line needs 50 of the tokens / day, and 40 are left next room when the line has passed"},
		{"searched for", ratelimit.ModelQuota{AdaptiveFloorRPM: 30, AdaptiveFloorInFlight: 2}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("b", 1, 1)
			time.Sleep(2 * time.Second)
			return r.Cancel
		}, members + "free slots found 1 / 4 open calls between 2 and 10,000 rate found ? / 60 requests / min between 30 and 1,000,000 1 open", ""},
		{"unlimited", ratelimit.ModelQuota{}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			r, _ := rl.Reserve("b", 1, 1)
			return r.Cancel
		}, members + "free no limits 1 open", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newFairLimiter(t, test.quota)
				if end := test.do(t, rl); end != nil {
					defer synctest.Wait()
					defer end()
				}
				page := get(debugpage.Handler(rl), "/").Body.String()
				if row := poolOf(page, "org"); !strings.HasPrefix(row, test.want) {
					t.Errorf("the pool's row says %q, want %q", row, test.want)
				}
				if row := rowOf(page, "m"); !strings.HasPrefix(row, test.model) {
					t.Errorf("the model's row says %q, want %q", row, test.model)
				}
				if row := poolOf(page, "idle"); row != "idle none requests / day 0 of 7" || !strings.Contains(page, "<b>1 idle pool</b>") {
					t.Errorf("the idle pool's row says %q", row)
				}
			})
		})
	}
}

// TestPoolsAreNews: a change of a pool alone is told, once, and what has not changed is not told.
func TestPoolsAreNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newFairLimiter(t, ratelimit.ModelQuota{MaxRPD: 2})
		v := watch(t, debugpage.Handler(rl), "/?stream")
		defer v.leave()
		if first := v.event(); first.Pools == nil || !strings.Contains(*first.Pools, `<span class="pool">org</span>`) {
			t.Errorf("the first news are %+v", first)
		}
		time.Sleep(5 * time.Second)
		for _, n := range v.events() {
			if n.Pools != nil {
				t.Errorf("told again: %s", *n.Pools)
			}
		}
		rl.SetPool("org", ratelimit.Pool{Models: []string{"other"}, Quota: ratelimit.ModelQuota{MaxRPD: 2}})
		time.Sleep(2 * time.Second)
		if n := v.events(); len(n) != 1 || n[0].Pools == nil || !strings.Contains(*n[0].Pools, "other") {
			t.Errorf("news of other members: %+v", n)
		}
		rl.RemovePool("org")
		rl.RemovePool("idle")
		time.Sleep(2 * time.Second)
		if n := v.events(); len(n) != 1 || n[0].Pools == nil || *n[0].Pools != "" {
			t.Errorf("news of no pools: %+v", n)
		}
	})
}

// TestPoolsInJSON: pools stand beside the models, as ExplainPool returns them.
func TestPoolsInJSON(t *testing.T) {
	rl := newFairLimiter(t, ratelimit.ModelQuota{MaxRPM: 3, MaxSpendPerMonth: money.USD(4)})
	rl.RecordUsage("m", 1_000_000, 0)
	var got struct {
		Models []struct{ Model string }
		Pools  []ratelimit.PoolState
	}
	if err := json.Unmarshal(get(debugpage.Handler(rl), "/?format=json").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Models) != 1 || len(got.Pools) != 2 || got.Pools[0].Pool != "idle" || got.Pools[1].Pool != "org" {
		t.Fatalf("%+v", got)
	}
	if org := got.Pools[1]; len(org.Limits) != 1 || org.Limits[0].Used != 1 || len(org.Budgets) != 2 || org.Budgets[1].Spent != money.USD(1) {
		t.Errorf("%+v", org)
	}
}

// TestHostilePools: names of pools, members and classes are text, of bounded length and number.
func TestHostilePools(t *testing.T) { synctest.Test(t, testHostilePools) }

func testHostilePools(t *testing.T) {
	const evil = `<script>alert("x")</script>`
	huge := strings.Repeat("<b>&", 100_000)
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Pools: map[string]ratelimit.Pool{
			evil: {Models: []string{"*", evil}, Quota: ratelimit.ModelQuota{MaxRPM: 1}}, huge: {Models: []string{huge}}, "p\xff\n": {},
		},
		Classes: map[string]ratelimit.Class{evil: {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		rl.SetPool(strings.Repeat("p", i+1), ratelimit.Pool{Models: []string{"none"}})
	}
	rl.RecordUsage("m", 1, 1)
	ctx, cancel := context.WithCancel(ratelimit.WithClass(t.Context(), evil))
	defer synctest.Wait()
	defer cancel()
	go rl.Acquire(ctx, "m", 1, 1)
	synctest.Wait()
	h := debugpage.Handler(rl)
	page := get(h, "/").Body.String()
	if strings.Contains(page, evil) || strings.Contains(page, "<b>&") || !strings.Contains(page, html.EscapeString(`alert("x")`)) {
		t.Error("injected, or not shown")
	}
	if len(page) > 400_000 || !strings.Contains(page, "303 pools not shown") {
		t.Errorf("the page has %d bytes", len(page))
	}
	if object := get(h, "/?format=json").Body.Bytes(); !json.Valid(object) {
		t.Error("JSON")
	}
}

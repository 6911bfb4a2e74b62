//go:build !nosqlite

// Pools and money in processes that are killed: a file in which each call is counted in its model,
// in its pools and in their budgets, or in none of them.

package persist

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
	"dappco.re/go/core/go-ratelimit/money"
)

// fairKillConfig has tokens that cost a micro-dollar each, so spend is known from the tokens.
func fairKillConfig() ratelimit.Config {
	return ratelimit.Config{
		Shared: true, Margin: time.Hour,
		Prices: map[string]money.Price{"*": {Input: money.Dollar, Output: money.Dollar}},
		Quotas: map[string]ratelimit.ModelQuota{"a": {MaxSpendPerDay: money.Dollar}, "b": {MaxTPD: 1_000_000}, "c": {}, "d": {}},
		Pools: map[string]ratelimit.Pool{
			"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerMonth: 100 * money.Dollar}},
			"two": {Models: []string{"a", "b"}, Quota: ratelimit.ModelQuota{MaxTPD: 2_000_000, MaxInFlight: 1000}},
			// Calls wait here, and the budget is used up.
			"tight": {Models: []string{"d"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: fairKillBudget, MaxInFlight: 2}},
		},
		Classes: map[string]ratelimit.Class{"person": {Ahead: true}, "batch": {Weight: 3}},
	}
}

// fairKillBudget is that of the pool "tight".
const fairKillBudget = 1200

func init() { sqliteChildren["fair kill"] = fairChildSpends }

// fairChildSpends makes calls as fast as it can, and says what each of them has become.
func fairChildSpends(_ io.Reader, args []string) error {
	rl, err := ratelimit.NewWithSQLiteConfig(args[0], fairKillConfig())
	if err != nil {
		return err
	}
	fmt.Println("ready", 0)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				fairChildWaits(rl)
				model, n := []string{"a", "b", "c"}[rand.IntN(3)], 1+rand.IntN(50)
				if rand.IntN(4) == 0 {
					rl.RecordUsage(model, n, 1)
					fmt.Println(model, n+1)
					continue
				}
				rs, _ := rl.ReserveAll(ratelimit.Request{Model: model, PromptTokens: n}, ratelimit.Request{Model: "c", OutputTokens: 1})
				switch rand.IntN(4) {
				case 0:
					rs.Cancel()
				case 1: // stays open
				default:
					for _, r := range rs {
						r.Commit(n+7, 0)
					}
					fmt.Println(model, n+7)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// fairChildWaits makes a call in a class, which costs no more than it reserves. Some stay open.
func fairChildWaits(rl *ratelimit.RateLimiter) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	n := 1 + rand.IntN(50)
	r, err := rl.Acquire(ratelimit.WithClass(ctx, []string{"person", "batch", ""}[rand.IntN(3)]), "d", n, 0)
	switch rand.IntN(8) {
	case 0:
		r.Cancel()
	case 1:
	default:
		if r.Commit(n/2, 0); err == nil {
			fmt.Println("d", n/2)
		}
	}
}

// Whenever processes are killed, what was told is counted, no slot is held, and models, pools and
// money agree to the token.
func TestFairMoneySurvivesKill(t *testing.T) {
	t.Parallel()
	path := statefile.Path(t)
	least := 0 // tokens that were told
	for round := range racetest.Times(6, 3, 300) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 1 + round%2 {
			cmd, _, out := sqliteChild(t, "fair kill", path)
			all.Go(func() {
				for out.Scan() {
					var model string
					var n int
					if _, err := fmt.Sscan(out.Text(), &model, &n); err != nil {
						t.Errorf("round %d: a process said %q", round, out.Text())
						break
					}
					if mu.Lock(); least == 0 || model == "ready" { // how long it lives is what this is about
						time.AfterFunc(time.Duration(15+rand.IntN(60))*time.Millisecond, func() { cmd.Process.Kill() })
					}
					least += n
					mu.Unlock()
				}
				cmd.Wait()
			})
		}
		all.Wait()
		sqliteWantSound(t, path)
		rl := sqliteLimiterWith(t, path, fairKillConfig())
		models := make(map[string]ratelimit.ModelStats)
		for _, model := range []string{"a", "b", "c", "d"} {
			models[model] = rl.Stats(model)
		}
		agree := func(name string, s ratelimit.ModelStats, of ...string) {
			t.Helper()
			if spent := money.Amount(s.TPD); s.SpendDay != spent || s.SpendMonth != spent || s.InFlight != 0 || s.RPM != s.RPD || s.TPM != s.TPD {
				t.Errorf("round %d: %s: %+v", round, name, s)
			}
			calls, tokens := 0, 0
			for _, model := range of {
				calls, tokens = calls+models[model].RPD, tokens+models[model].TPD
			}
			if s.RPD != calls || s.TPD != tokens {
				t.Errorf("round %d: %s has %d calls of %d tokens, its models %d of %d", round, name, s.RPD, s.TPD, calls, tokens)
			}
		}
		for model, s := range models {
			agree(model, s, model)
		}
		agree("all", rl.PoolStats("all"), "a", "b", "c", "d")
		agree("tight", rl.PoolStats("tight"), "d")
		fairKillLeavesRoom(t, rl)
		agree("two", rl.PoolStats("two"), "a", "b")
		if got := rl.PoolStats("all").TPD; got < least {
			t.Errorf("round %d: %d tokens are counted, and %d were told", round, got, least)
		}
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
}

// fairKillLeavesRoom wants the budget of the pool "tight" to be not exceeded, and all that is left
// of it, and its slots, to be there for a call.
func fairKillLeavesRoom(t *testing.T, rl *ratelimit.RateLimiter) {
	t.Helper()
	left := fairKillBudget - int(rl.PoolStats("tight").SpendDay)
	if left < 0 {
		t.Errorf("the budget is exceeded by %d", -left)
	}
	if rs, d := rl.ReserveAll(ratelimit.Request{Model: "d", PromptTokens: max(left, 0)}, ratelimit.Request{Model: "d"}); !d.Allowed {
		t.Errorf("a call for the rest of the budget, %d, is denied: %+v", left, d)
	} else {
		rs.Cancel()
	}
	if rs, d := rl.ReserveAll(ratelimit.Request{Model: "d", PromptTokens: max(left, 0) + 1}); d.Code != ratelimit.DecisionSpendLimit {
		t.Errorf("a call for more than the rest, %d, is not denied: %+v", left, d)
		rs.Cancel()
	}
}

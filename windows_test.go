package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

// The tokens of a month are judged, charged, corrected and forgotten in one way for a model and for
// a pool, by one limiter and by several over a log. In March 2000 the clocks of Berlin are put
// forward, so the month is an hour shorter than 31 days.
func TestTokensPerMonth(t *testing.T) {
	month := ratelimit.ModelQuota{MaxTokensPerMonth: 1000, DayZone: "Europe/Berlin"}
	begin, end := time.Date(2000, 2, 29, 23, 0, 0, 0, time.UTC), time.Date(2000, 3, 31, 22, 0, 0, 0, time.UTC)
	for name, cfg := range map[string]ratelimit.Config{
		"model":   {Quotas: map[string]ratelimit.ModelQuota{"m": month}},
		"pattern": {Quotas: map[string]ratelimit.ModelQuota{"*": month}},
		"pool":    {Pools: map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: month}}},
	} {
		for _, shared := range []bool{false, true} {
			kind := name + map[bool]string{true: ", shared"}[shared]
			t.Run(kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					from := begin
					if shared { // who listens to a log takes long for a month
						from = end.Add(-10 * time.Minute)
					}
					time.Sleep(time.Until(from.Add(-time.Second)))
					cfg := cfg
					first := openLimiter(t, cfg)
					second := first
					if shared {
						fake := fakestore.New()
						fake.Contact, fake.Steady = 24*time.Hour, true
						cfg.Store = fake
						first, second = openLimiter(t, cfg), openLimiter(t, cfg)
					}
					livesThroughMonths(t, first, second, end, shared)
					if shared {
						third := openLimiter(t, cfg)
						if d := third.Decide("m", 951); d.Allowed || !third.CanSend("m", 950) {
							t.Errorf("one that comes later: %+v", d)
						}
					}
				})
			})
		}
	}
}

// What a call costs above its charge counts to the day and the month in which it ends.
func TestSpendAboveTheChargeOfThePastMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Prices: map[string]money.Price{"*": {Input: money.Dollar}},
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerMonth: 10, MaxSpendPerDay: 10, DayZone: "UTC"}},
		})
		time.Sleep(31*24*time.Hour - time.Minute) // a minute before February
		r, d := rl.Reserve("m", 4, 0)
		if r == nil {
			t.Fatal(d)
		}
		time.Sleep(2 * time.Minute)
		r.Commit(7, 0)
		if s := rl.Stats("m"); s.SpendDay != 3 || s.SpendMonth != 3 {
			t.Errorf("after a month's end %v and %v are spent, want 3 millionths each", s.SpendDay, s.SpendMonth)
		}
		time.Sleep(28 * 24 * time.Hour) // the 29th of February
		rl.RecordUsage("m", 1, 0)
		if s := rl.Stats("m"); s.SpendDay != 1 || s.SpendMonth != 4 {
			t.Errorf("at the end of that month %v and %v are spent, want 1 and 4 millionths", s.SpendDay, s.SpendMonth)
		}
	})
}

// livesThroughMonths begins a second before a month.
func livesThroughMonths(t *testing.T, first, second *ratelimit.RateLimiter, end time.Time, shared bool) {
	t.Helper()
	left := func(what string, want int) {
		t.Helper()
		time.Sleep(time.Millisecond) // in which the other one hears of it
		d := second.Decide("m", want+1)
		if d.Allowed || d.Code != ratelimit.DecisionMonthLimit || !second.CanSend("m", want) || second.CanSend("m", want+1) {
			t.Fatalf("%s: want room for %d: %+v", what, want, d)
		}
		if over := time.Until(end); want < 1000 && over > 0 && d.RetryAfter != over {
			t.Fatalf("%s: %v, want %v", what, d.RetryAfter, over)
		}
	}
	reserve := func(tokens int) *ratelimit.Reservation {
		t.Helper()
		r, d := first.Reserve("m", tokens, 0)
		if r == nil {
			t.Fatalf("%d: %+v", tokens, d)
		}
		return r
	}
	old := reserve(990) // of the month before
	time.Sleep(2 * time.Second)
	if !shared {
		left("a new month", 1000)
	}
	if !shared {
		fresh := reserve(100)
		old.Commit(0, 0)
		left("less than the charge of the month before", 900)
		fresh.Cancel()
	}
	old.Commit(0, 0)
	r := reserve(600)
	left("a reservation", 400)
	if d := second.Decide("m", 1001); !d.Never || d.RetryAfter != 0 {
		t.Errorf("more than a month has: %+v", d)
	}
	r.Commit(90, 10)
	left("a commit below it", 900)
	reserve(300).Cancel()
	left("a cancelled one", 900)
	reserve(200).Commit(250, 50)
	left("a commit above it", 600)
	first.RecordUsage("m", 100, 0)
	left("a record", 500)
	if !shared {
		time.Sleep(20 * 24 * time.Hour)
	}
	time.Sleep(2 * time.Minute) // over the minute, the day, and the change of the clocks
	left("weeks later", 500)
	s := second.Explain("m")
	if l := limitOf(s); s.Next.Stats.RPM != 0 || l.Origin != "program" || l != (ratelimit.LimitState{Limit: l.Limit, Max: 1000, Used: 500, Left: 500, Origin: "program"}) {
		t.Errorf("%+v", s)
	}
	open := reserve(450)
	d := second.Decide("m", 51)
	time.Sleep(d.RetryAfter - 1)
	if d = second.Decide("m", 51); d.Allowed || d.RetryAfter != 1 {
		t.Errorf("a nanosecond before the end: %+v", d)
	}
	time.Sleep(time.Nanosecond)
	if !second.CanSend("m", 1000) || !time.Now().Equal(end) {
		t.Errorf("at %v: %+v", time.Now().UTC(), second.Decide("m", 1000))
	}
	open.Commit(500, 0)
	left("what is above a charge of the last month", 950)
	if !shared {
		waits(t, first)
		left("the month after", 950)
	}
}

// waits uses up the month, and waits for the next one.
func waits(t *testing.T, rl *ratelimit.RateLimiter) {
	t.Helper()
	rl.RecordUsage("m", 900, 0)
	begin := time.Date(2000, 4, 30, 22, 0, 0, 0, time.UTC)
	r, err := rl.Acquire(t.Context(), "m", 51, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.Commit(50, 0)
	if late := time.Since(begin); late != 0 {
		t.Errorf("served %v after the month begins", late)
	}
}

// limitOf returns the limit of the month that an explanation has, of the model or of a pool.
func limitOf(e ratelimit.Explanation) ratelimit.LimitState {
	for _, p := range e.Pools {
		e.Limits = append(e.Limits, p.Limits...)
	}
	for _, l := range e.Limits {
		if l.Limit == "max_tokens_per_month" {
			return l
		}
	}
	return ratelimit.LimitState{}
}

// paid is a call of the oracle of ten minutes.
type paid struct {
	at   time.Time
	cost money.Amount
}

// The spend of ten minutes slides: a call counts for ten minutes and the margin from its admission,
// by what it did cost once it is settled. Each decision, each RetryAfter, and what Stats shows are
// those of a list of calls.
func TestSpendPerTenMinutes(t *testing.T) {
	quota := ratelimit.ModelQuota{MaxSpendPerTenMinutes: 10 * money.Dollar}
	prices := map[string]money.Price{"*": dollarEach}
	for name, cfg := range map[string]ratelimit.Config{
		"model":           {Quotas: map[string]ratelimit.ModelQuota{"m": quota}},
		"pool and margin": {Pools: map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: quota}}, Margin: 700 * time.Millisecond},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(name, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := cfg
					cfg.Prices = prices
					first := openLimiter(t, cfg)
					second := first
					if shared {
						fake := fakestore.New()
						fake.Steady = true
						cfg.Store = fake
						first, second = openLimiter(t, cfg), openLimiter(t, cfg)
					}
					spendsAtRandom(t, first, second, 10*time.Minute+cfg.Margin)
				})
			})
		}
	}
}

func spendsAtRandom(t *testing.T, first, second *ratelimit.RateLimiter, window time.Duration) {
	random := rand.New(rand.NewPCG(1, 2))
	var calls []*paid
	type openCall struct {
		*ratelimit.Reservation
		*paid
	}
	var opens []openCall
	spent := func(at time.Time) (sum money.Amount) {
		for _, c := range calls {
			if !c.at.Before(at.Add(-window)) {
				sum += c.cost
			}
		}
		return sum
	}
	fitsIn := func(cost money.Amount) time.Duration {
		now := time.Now()
		if spent(now)+cost <= 10*money.Dollar {
			return 0
		}
		first := window + 1
		for _, c := range calls {
			at := c.at.Add(window + 1)
			if wait := at.Sub(now); wait > 0 && wait < first && spent(at)+cost <= 10*money.Dollar {
				first = wait
			}
		}
		return first
	}
	for range 400 / min(racetest.Factor, 4) {
		time.Sleep(time.Duration(random.Int64N(int64(90 * time.Second))))
		tokens := 1 + random.IntN(4_000_000) // for a dollar a million
		cost := money.Amount(tokens)
		if s := usesOf(second); s.SpendTenMinutes != spent(time.Now()) {
			t.Fatalf("spent %v, want %v", s.SpendTenMinutes, spent(time.Now()))
		}
		d := second.Decide("m", tokens)
		if want := fitsIn(cost); d.Allowed != (want == 0) || d.RetryAfter != want || !d.Allowed && (d.Code != ratelimit.DecisionSpendLimit || !d.OverBudget) {
			t.Fatalf("%v beside %v: %+v, want %v", cost, spent(time.Now()), d, want)
		}
		switch n := random.IntN(4); {
		case n == 0 && len(opens) > 0:
			c := opens[0]
			opens = opens[1:]
			used := 1 + random.IntN(2*int(c.cost))
			if now := time.Now(); now.Sub(c.at) > 10*time.Minute && money.Amount(used) > c.cost {
				calls = append(calls, &paid{now, money.Amount(used) - c.cost})
			} else {
				c.cost = money.Amount(used)
			}
			c.Commit(used, 0)
		case n == 1 && len(opens) > 0:
			c := opens[len(opens)-1]
			opens = opens[:len(opens)-1]
			c.cost = 0
			c.Cancel()
		default:
			r, d := first.Reserve("m", tokens, 0)
			if (r == nil) != (fitsIn(cost) != 0) {
				t.Fatalf("%+v", d)
			}
			if r != nil {
				calls = append(calls, &paid{time.Now(), cost})
				opens = append(opens, openCall{r, calls[len(calls)-1]})
			}
		}
		time.Sleep(time.Millisecond) // in which the other one hears of it
	}
	if d := second.Decide("m", 10_000_001); !d.Never || d.RetryAfter != 0 {
		t.Errorf("more than ten minutes have: %+v", d)
	}
}

// usesOf returns the stats of the model or of the pool.
func usesOf(rl *ratelimit.RateLimiter) ratelimit.ModelStats {
	if s := rl.PoolStats("p"); s.MaxSpendPerTenMinutes != 0 {
		return s
	}
	return rl.Stats("m")
}

// A call that was open when the limit came gives nothing back of what others have spent at the same
// instant; one that arrives counts from then on.
func TestSpendPerTenMinutesOfOpenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := openLimiter(t, ratelimit.Config{Prices: map[string]money.Price{"m": dollarEach}, Quotas: map[string]ratelimit.ModelQuota{"m": {}}})
		old, _ := rl.Reserve("m", 3_000_000, 0)
		rl.SetQuota("m", ratelimit.ModelQuota{MaxSpendPerTenMinutes: 10 * money.Dollar})
		rl.RecordUsage("m", 5_000_000, 0)
		old.Cancel()
		if s := rl.Stats("m"); s.SpendTenMinutes != 5*money.Dollar {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		r, _ := rl.Reserve("m", 4_000_000, 0)
		time.Sleep(time.Minute)
		r.Arrived(time.Now())
		time.Sleep(9*time.Minute + time.Millisecond)
		if s := rl.Stats("m"); s.SpendTenMinutes != 4*money.Dollar {
			t.Errorf("%+v", s)
		}
		if d := rl.Decide("m", 7_000_000); d.RetryAfter != time.Minute+1-time.Millisecond {
			t.Errorf("%+v", d)
		}
		r.Cancel()
		if s := rl.Stats("m"); s.SpendTenMinutes != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// What counts of both windows is the same behind a restart, in either file, to the nanosecond and
// to the token; and a Load forgets nothing of what came meanwhile.
func TestWindowsOutlastTheProgram(t *testing.T) {
	needSQLite(t)
	quota := ratelimit.ModelQuota{MaxSpendPerTenMinutes: 10 * money.Dollar, MaxTokensPerMonth: 20_000_000}
	for _, file := range []string{"state.yaml", "state.db"} { // "free" spends nothing
		t.Run(file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.Config{
					FilePath: filepath.Join(t.TempDir(), file), Prices: map[string]money.Price{"*": dollarEach},
					Quotas: map[string]ratelimit.ModelQuota{"m": quota, "*": quota, "free*": {MaxTokensPerMonth: 9}},
					Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: quota}},
				}
				if file == "state.db" {
					cfg.Backend = "sqlite"
				}
				rl := openLimiter(t, cfg)
				for _, tokens := range []int{4_000_000, 3_000_000} {
					rl.RecordUsage("m", tokens, 0)
					rl.RecordUsage("unlisted", tokens, 0)
					time.Sleep(4 * time.Minute)
				}
				rl.SetPrice("free*", money.Price{})
				rl.RecordUsage("free-1", 9, 0)
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				again := func(what string, rl *ratelimit.RateLimiter, more int) {
					t.Helper()
					for _, model := range []string{"m", "unlisted"} {
						d := rl.Decide(model, 3_000_001-more)
						if d.Allowed || d.Code != ratelimit.DecisionSpendLimit || d.RetryAfter != 2*time.Minute+1 {
							t.Errorf("%s, %s: %+v", what, model, d)
						}
						if s := rl.Stats(model); s.SpendTenMinutes != money.Amount(7_000_000+more) || s.TokensMonth != 7_000_000+more {
							t.Errorf("%s, %s: %+v", what, model, s)
						}
					}
					if s := rl.PoolStats("p"); s.SpendTenMinutes != money.Amount(7_000_000+more) || s.TokensMonth != 7_000_000+more {
						t.Errorf("%s: the pool: %+v", what, s)
					}
				}
				next := openLimiter(t, cfg)
				if err := next.Load(); err != nil {
					t.Fatal(err)
				}
				again("a restart", next, 0)
				next.RecordUsage("m", 10, 0)
				next.RecordUsage("unlisted", 10, 0)
				if err := next.Load(); err != nil {
					t.Fatal(err)
				}
				again("a load", next, 10)
				if err := next.Persist(); err != nil {
					t.Fatal(err)
				}
				if err := next.Load(); err != nil {
					t.Fatal(err)
				}
				again("persist and load", next, 10)
				time.Sleep(26 * time.Hour) // no usage of the minute and the day is in a file any more
				if err := next.Persist(); err != nil {
					t.Fatal(err)
				}
				last := openLimiter(t, cfg)
				for range 2 {
					if err := last.Load(); err != nil {
						t.Fatal(err)
					}
					for _, model := range []string{"m", "unlisted"} {
						if s := last.Stats(model); s.SpendTenMinutes != 0 || s.TokensMonth != 7_000_010 || s.TPD != 0 {
							t.Errorf("a day later, %s: %+v", model, s)
						}
					}
					if s := last.Stats("free-1"); s.TokensMonth != 9 || s.SpendMonth != 0 || last.CanSend("free-1", 1) {
						t.Errorf("a day later: %+v", s)
					}
				}
				last.Reset("")
				if s := last.Stats("m"); s.TokensMonth != 0 || s.SpendMonth == 0 {
					t.Errorf("reset: %+v", s)
				}
			})
		})
	}
}

// A call that arrives after Reset gives nothing back of the tokens that came since.
func TestTokensPerMonthAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := openLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTokensPerMonth: 1000}}})
		old, _ := rl.Reserve("m", 50, 0)
		time.Sleep(time.Second)
		rl.Reset("m")
		time.Sleep(time.Second)
		old.Arrived(time.Now())
		rl.RecordUsage("m", 100, 0)
		old.Commit(40, 0)
		if s := rl.Stats("m"); s.TokensMonth != 100 {
			t.Errorf("%+v", s)
		}
		r, _ := rl.Reserve("m", 70, 0)
		r.Cancel()
		if s := rl.Stats("m"); s.TokensMonth != 100 {
			t.Errorf("%+v", s)
		}
	})
}

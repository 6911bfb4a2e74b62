package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
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
					first := budget(t, cfg)
					second := first
					if shared {
						fake := fakestore.New()
						fake.Contact, fake.Steady = 24*time.Hour, true
						cfg.Store = fake
						first, second = open(t, cfg), open(t, cfg)
					}
					livesThroughMonths(t, first, second, end, shared)
					if shared {
						third := open(t, cfg)
						if d := third.Decide("m", 951); d.Allowed || !third.CanSend("m", 950) {
							t.Errorf("one that comes later: %+v", d)
						}
					}
				})
			})
		}
	}
}

func open(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
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
	if s := second.Explain("m"); s.Next.Stats.RPM != 0 || limitOf(s) != (ratelimit.LimitState{Limit: "max_tokens_per_month", Max: 1000, Used: 500, Left: 500}) {
		t.Errorf("%+v", s)
	}
	open := reserve(450)
	d := second.Decide("m", 51)
	time.Sleep(d.RetryAfter - 1)
	if d = second.Decide("m", 51); d.Allowed || d.RetryAfter != 1 {
		t.Errorf("a nanosecond before the end: %+v", d)
	}
	time.Sleep(1)
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

package limit_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of tokenbucket.go and tokentake.go:
//   - Comparisons at equality where both ways give the same: a full bucket, a Limit of Inf or
//     0, an elapsed or a missing of 0, n = 0 after its own case, sums at InfDuration.
//   - The instant of a hold, which Commit does not read.
//   - untilLocked with other steps: they are short cuts to what the bisection behind them
//     finds (internal/bench, BenchmarkLimit).
//   - end that notifies waiters of a hold that had ended before: they look and wait on.

var (
	_ limit.Limiter = (*limit.TokenBucket)(nil)
	_ limit.Holder  = (*limit.TokenBucket)(nil)

	bucketStart = time.Unix(1_800_000_000, 0)
)

// after is the instant d after the start.
func after(d time.Duration) time.Time { return bucketStart.Add(d) }

const tenth = 100 * time.Millisecond

// A bucket of 20 tokens, 10 a second: 10 requests at 0, 30 at 1 s, and as many as can pass
// at 1.5 and 2 s. 40 pass, the most that can.
func TestTokenBucketWorkedExample(t *testing.T) {
	b := limit.NewTokenBucket(10, 20)
	total := 0
	for _, c := range []struct {
		at       time.Duration
		tokens   float64 // before
		requests int
		passed   int
	}{
		{0, 20, 10, 10},
		{time.Second, 20, 30, 20},
		{1500 * time.Millisecond, 5, 10, 5},
		{2 * time.Second, 5, 10, 5},
	} {
		if tokens := b.TokensAt(after(c.at)); tokens != c.tokens {
			t.Errorf("at %v: %v tokens, want %v", c.at, tokens, c.tokens)
		}
		passed := 0
		for range c.requests {
			if b.AllowN(after(c.at), 1) {
				passed++
			}
		}
		if passed != c.passed {
			t.Errorf("at %v: %d passed, want %d", c.at, passed, c.passed)
		}
		total += passed
	}
	if total != 40 {
		t.Errorf("%d passed, want 40", total)
	}
}

// The decisions of TakeAt say how many tokens there are, and when there are more.
func TestTokenBucketTakeAt(t *testing.T) {
	b := limit.NewTokenBucket(10, 3)
	for i, c := range []struct {
		at   time.Duration
		n    int
		want limit.Decision
	}{
		{0, 0, limit.Decision{OK: true, Remaining: 3}},
		{0, 1, limit.Decision{OK: true, Remaining: 2, ResetAfter: tenth}},
		{0, 3, limit.Decision{Remaining: 2, RetryAfter: tenth, ResetAfter: tenth}},
		{0, 2, limit.Decision{OK: true, ResetAfter: 3 * tenth}},
		{0, 1, limit.Decision{RetryAfter: tenth, ResetAfter: 3 * tenth}},
		{0, 3, limit.Decision{RetryAfter: 3 * tenth, ResetAfter: 3 * tenth}},
		{0, 4, limit.Decision{Never: true, ResetAfter: 3 * tenth}},
		{0, -1, limit.Decision{Never: true, ResetAfter: 3 * tenth}},
		{0, math.MaxInt, limit.Decision{Never: true, ResetAfter: 3 * tenth}},
		{0, math.MinInt, limit.Decision{Never: true, ResetAfter: 3 * tenth}},
		{0, 0, limit.Decision{OK: true, ResetAfter: 3 * tenth}},
		{tenth - 1, 1, limit.Decision{RetryAfter: 1, ResetAfter: 2*tenth + 1}},
		{tenth, 1, limit.Decision{OK: true, ResetAfter: 3 * tenth}},
		{3 * tenth / 2, 1, limit.Decision{RetryAfter: tenth / 2, ResetAfter: 5 * tenth / 2}},
		// Earlier than the latest is as the latest, and the times count from the caller's.
		{0, 0, limit.Decision{OK: true, ResetAfter: 4 * tenth}},
		{0, 1, limit.Decision{RetryAfter: 2 * tenth, ResetAfter: 4 * tenth}},
		{-tenth, 2, limit.Decision{RetryAfter: 4 * tenth, ResetAfter: 5 * tenth}},
		{time.Hour, 0, limit.Decision{OK: true, Remaining: 3}},
		{time.Hour, 1, limit.Decision{OK: true, Remaining: 2, ResetAfter: tenth}},
		{0, 1, limit.Decision{OK: true, Remaining: 1, ResetAfter: time.Hour + 2*tenth}},
		{time.Hour, 1, limit.Decision{OK: true, ResetAfter: 3 * tenth}},
		{time.Hour + tenth - 1, 1, limit.Decision{RetryAfter: 1, ResetAfter: 2*tenth + 1}},
		{time.Hour + 2*tenth, 1, limit.Decision{OK: true, Remaining: 1, ResetAfter: 2 * tenth}},
	} {
		if d := b.TakeAt(after(c.at), c.n); d != c.want {
			t.Errorf("row %d, %d tokens at %v: %+v, want %+v", i+1, c.n, c.at, d, c.want)
		}
	}
}

// Limits, and numbers of tokens, at the ends of what there is.
func TestTokenBucketLimits(t *testing.T) {
	never := limit.Decision{Never: true}
	for _, c := range []struct {
		name  string
		limit limit.Limit
		burst int
		ns    []int
		want  []limit.Decision
	}{
		{"Inf", limit.Inf, 0, []int{1, math.MaxInt, 0, -1}, []limit.Decision{
			{OK: true, Remaining: math.MaxInt}, {OK: true, Remaining: math.MaxInt},
			{OK: true, Remaining: math.MaxInt}, {Remaining: math.MaxInt, Never: true}}},
		{"infinite", limit.Limit(math.Inf(1)), -1, []int{1}, []limit.Decision{{OK: true, Remaining: math.MaxInt}}},
		{"zero", 0, 2, []int{1, 1, 1, 0}, []limit.Decision{
			{OK: true, Remaining: 1, ResetAfter: limit.InfDuration}, {OK: true, ResetAfter: limit.InfDuration},
			{Never: true, ResetAfter: limit.InfDuration}, {OK: true, ResetAfter: limit.InfDuration}}},
		{"negative", -5, 1, []int{1, 1}, []limit.Decision{
			{OK: true, ResetAfter: limit.InfDuration}, {Never: true, ResetAfter: limit.InfDuration}}},
		{"not a number", limit.Limit(math.NaN()), 1, []int{1, 1}, []limit.Decision{
			{OK: true, ResetAfter: limit.InfDuration}, {Never: true, ResetAfter: limit.InfDuration}}},
		{"longer than a Duration", 1e-10, 1, []int{1, 1}, []limit.Decision{
			{OK: true, ResetAfter: limit.InfDuration}, {Never: true, ResetAfter: limit.InfDuration}}},
		{"as long as a Duration", limit.Every(math.MaxInt64).Limit(), 1, []int{1, 1}, []limit.Decision{
			{OK: true, ResetAfter: limit.InfDuration}, {Never: true, ResetAfter: limit.InfDuration}}},
		{"no burst", 10, 0, []int{1, 0, -1}, []limit.Decision{never, {OK: true}, never}},
		{"negative burst", 10, -3, []int{1, 0, -1, math.MinInt}, []limit.Decision{never, {OK: true}, never, never}},
		{"least burst", 10, math.MinInt, []int{1, 0}, []limit.Decision{never, {OK: true}}},
		{"largest burst", 10, math.MaxInt, []int{0}, []limit.Decision{{OK: true, Remaining: math.MaxInt}}},
		{"faster than time, no burst", 1e40, -3, []int{0, 1}, []limit.Decision{{OK: true}, never}},
		{"faster than time", 1e300, 5, []int{5, 5, 6}, []limit.Decision{
			{OK: true, Remaining: 5, ResetAfter: 1}, {OK: true, Remaining: 5, ResetAfter: 1}, {Remaining: 5, Never: true, ResetAfter: 1}}},
	} {
		b := limit.NewTokenBucket(c.limit, c.burst)
		for i, n := range c.ns {
			if d := b.TakeAt(bucketStart, n); d != c.want[i] {
				t.Errorf("%s: step %d, %d tokens: %+v, want %+v", c.name, i+1, n, d, c.want[i])
			}
		}
	}
}

// Elapsed time counts up to 292 years, so no wait helps a request that needs more.
func TestTokenBucketOfCenturies(t *testing.T) {
	b := limit.NewTokenBucket(1e-10, 1)
	b.AllowN(after(-math.MaxInt64), 1)
	now := after(time.Hour)
	want := limit.Decision{Never: true, ResetAfter: b.TakeAt(now, 0).ResetAfter}
	if tokens := b.TokensAt(now); tokens < 0.92 || b.TakeAt(now, 1) != want {
		t.Errorf("%v tokens, %+v, want %+v", tokens, b.TakeAt(now, 1), want)
	}
	// What would be there at last is not, where the caller is too early to say when.
	b = limit.NewTokenBucket(1e-9, 1)
	b.AllowN(after(0), 1)
	if d := b.TakeAt(after(-math.MaxInt64), 1); !d.Never || d.RetryAfter != 0 || d.ResetAfter != limit.InfDuration {
		t.Errorf("%+v", d)
	}
	if d := b.TakeAt(after(-time.Hour), 1); d.RetryAfter < time.Hour+1e18-1e4 || d.RetryAfter > time.Hour+1e18 {
		t.Errorf("%+v", d)
	}
}

// However slow the bucket, RetryAfter is the first nanosecond at which it passes.
func TestTokenBucketRetriesExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	for i := range 5_000 {
		rate := limit.Limit(math.Pow(10, -9+12*r.Float64()))
		b := limit.NewTokenBucket(rate, 5)
		b.TakeAt(after(0), 5)
		now := after(time.Duration(r.Float64() * 1e9 / float64(rate)))
		n := 2 + r.IntN(4)
		d := b.TakeAt(now, n)
		if d.OK || d.RetryAfter <= 0 {
			if !d.Never || float64(n)/float64(rate) < 9e9 {
				t.Fatalf("%d: %d tokens at limit %v: %+v", i, n, rate, d)
			}
			continue
		}
		if b.TakeAt(now.Add(d.RetryAfter-1), n).OK || !b.TakeAt(now.Add(d.RetryAfter), n).OK {
			t.Fatalf("%d: %d tokens at limit %v: %+v is not the first", i, n, rate, d)
		}
	}
}

// Tokens that are reserved in advance are missing until then.
func TestTokenBucketTakeAtInDebt(t *testing.T) {
	b := limit.NewTokenBucket(10, 3)
	b.AllowN(after(0), 3)
	b.ReserveN(after(0), 2)
	if d, want := b.TakeAt(after(0), 1), (limit.Decision{RetryAfter: 3 * tenth, ResetAfter: 5 * tenth}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	// A full bucket is also full as seen from an earlier instant.
	b.AllowN(after(time.Hour), 0)
	if d, want := b.TakeAt(after(0), 0), (limit.Decision{OK: true, Remaining: 3}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}

// AllowN never lets more than the burst pass at once, however fast the bucket is, and a
// wait of 292 years is none of less than nothing.
func TestTokenBucketAllowAtTheEnds(t *testing.T) {
	b := limit.NewTokenBucket(1e12, 5)
	if b.AllowN(after(0), 6) || !b.AllowN(after(0), 5) {
		t.Error("not 5 of 5")
	}
	b = limit.NewTokenBucket(limit.Every(math.MaxInt64).Limit(), 1)
	if !b.AllowN(after(0), 1) || b.AllowN(after(0), 1) {
		t.Error("not 1 of 1")
	}
}

// What passes at Inf takes nothing, and neither does what is on hold, or cancelled then.
func TestTokenBucketInfTakesNothing(t *testing.T) {
	b := limit.NewTokenBucket(10, 5)
	b.AllowN(after(0), 1)
	r := b.ReserveN(after(0), 2)
	b.SetLimitAt(after(0), limit.Inf)
	b.TakeAt(after(0), 3)
	b.AllowN(after(0), 3)
	hold, _ := b.HoldAt(after(0), 3)
	r.CancelAt(after(0))
	b.SetLimitAt(after(0), 10)
	hold.Commit()
	if tokens := b.TokensAt(after(0)); tokens != 2 || hold != (limit.Hold{}) {
		t.Errorf("%v tokens, want 2; hold %v", tokens, hold)
	}
}

// The zero value admits nothing, and can be set to admit.
func TestTokenBucketZeroValue(t *testing.T) {
	var b limit.TokenBucket
	if b.Allow() || b.Take(1).OK || b.Reserve().OK() || b.Limit() != 0 || b.Burst() != 0 || b.Tokens() != 0 {
		t.Error("something passed")
	}
	b.SetBurstAt(after(0), 1)
	b.SetLimitAt(after(0), 1)
	if b.AllowN(after(time.Second-2), 1) || !b.AllowN(after(time.Second), 1) {
		t.Error("not one after a second")
	}
}

// What is set counts from then on: what came before came at the old rate, and a larger
// burst is not filled at once.
func TestTokenBucketSet(t *testing.T) {
	b := limit.NewTokenBucket(10, 10)
	b.AllowN(after(0), 10)
	b.SetLimitAt(after(tenth), 20)
	b.SetBurstAt(after(2*tenth), 5)
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{{2 * tenth, 3}, {3 * tenth, 5}, {time.Hour, 5}} {
		if tokens := b.TokensAt(after(c.at)); tokens != c.want {
			t.Errorf("at %v: %v tokens, want %v", c.at, tokens, c.want)
		}
	}
	b.SetBurstAt(after(time.Hour), 10)
	if tokens := b.TokensAt(after(time.Hour)); tokens != 5 {
		t.Errorf("grown: %v tokens, want 5", tokens)
	}
	if b.Limit() != 20 || b.Burst() != 10 {
		t.Errorf("limit %v, burst %d", b.Limit(), b.Burst())
	}
	// NaN would stay in the tokens for ever, and let everything pass.
	b.SetLimitAt(after(time.Hour), limit.Limit(math.NaN()))
	if b.Limit() != 0 || b.TokensAt(after(2*time.Hour)) != 5 {
		t.Errorf("limit %v, %v tokens", b.Limit(), b.TokensAt(after(2*time.Hour)))
	}
	b.SetLimitAt(after(time.Hour), limit.Limit(math.Inf(1)))
	b.AllowN(after(time.Hour), 1000)
	b.SetLimitAt(after(time.Hour), 10)
	if tokens := b.TokensAt(after(time.Hour)); tokens != 5 {
		t.Errorf("after an infinite limit: %v tokens, want 5", tokens)
	}
}

// AllowN of a negative number gives tokens, as in x/time.
// SetLimit and SetBurst are SetLimitAt and SetBurstAt now.
func TestTokenBucketSetNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewTokenBucket(1, 5)
		b.Allow()
		b.SetLimit(2)
		b.SetBurst(7)
		time.Sleep(time.Second)
		if b.Limit() != 2 || b.Burst() != 7 || b.Tokens() != 6 {
			t.Errorf("limit %v, burst %d, %v tokens, want 2, 7 and 6", b.Limit(), b.Burst(), b.Tokens())
		}
	})
}

// Allow counts whole nanoseconds, a negative limit refills nothing, and a full bucket that is
// not refilled is as new.
func TestTokenBucketAtTheEdges(t *testing.T) {
	b := limit.NewTokenBucket(5e8, 1) // a token every 2 ns
	if !b.AllowN(after(0), 1) || b.AllowN(after(1), 1) || !b.AllowN(after(2), 1) {
		t.Error("a token every 2 ns is not 2 ns apart")
	}
	b = limit.NewTokenBucket(-5, 2)
	if !b.AllowN(after(0), 2) || b.AllowN(after(time.Hour), 1) {
		t.Error("a negative limit admits another number than the burst")
	}
	b = limit.NewTokenBucket(0, 3)
	if d, want := b.TakeAt(after(0), 0), (limit.Decision{OK: true, Remaining: 3}); d != want {
		t.Errorf("full, without a refill: %+v, want %+v", d, want)
	}
	b = limit.NewTokenBucket(1e9, 1)
	b.TakeAt(after(5), 1)
	if d := b.TakeAt(after(0), 0); d.ResetAfter != 6 {
		t.Errorf("seen from 5 ns before, the bucket is full after %v, want 6ns", d.ResetAfter)
	}
}

func TestTokenBucketAllowNegative(t *testing.T) {
	b := limit.NewTokenBucket(10, 3)
	if !b.AllowN(after(0), 3) || !b.AllowN(after(0), -2) || b.TokensAt(after(0)) != 2 {
		t.Errorf("%v tokens, want 2", b.TokensAt(after(0)))
	}
	if !b.AllowN(after(0), 2) || b.AllowN(after(0), 1) || !b.AllowN(after(0), 0) {
		t.Error("not two and then none")
	}
}

// A clock that goes back refills the bucket twice in AllowN, as in x/time, and not in
// TakeAt.
func TestTokenBucketJumpsBack(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(b *limit.TokenBucket, t time.Time) bool
		want int
	}{
		{"AllowN", func(b *limit.TokenBucket, t time.Time) bool { return b.AllowN(t, 1) }, 5},
		{"TakeAt", func(b *limit.TokenBucket, t time.Time) bool { return b.TakeAt(t, 1).OK }, 3},
		{"HoldAt", func(b *limit.TokenBucket, t time.Time) bool {
			h, d := b.HoldAt(t, 1)
			h.Commit()
			return d.OK
		}, 3},
	} {
		b := limit.NewTokenBucket(10, 3)
		passed := 0
		for _, at := range []time.Duration{2 * tenth, 0, 2 * tenth, 2 * tenth, 2 * tenth, 2 * tenth} {
			if c.take(b, after(at)) {
				passed++
			}
		}
		if passed != c.want {
			t.Errorf("%s: %d passed, want %d", c.name, passed, c.want)
		}
	}
}

// Tokens on hold are not given to others; then they are charged or given back.
func TestTokenBucketHold(t *testing.T) {
	b := limit.NewTokenBucket(10, 5)
	first, d := b.HoldAt(after(0), 3)
	if want := (limit.Decision{OK: true, Remaining: 2}); d != want {
		t.Errorf("hold: %+v, want %+v", d, want)
	}
	for i, c := range []struct {
		at   time.Duration
		n    int
		want limit.Decision
	}{
		{0, 3, limit.Decision{Remaining: 2}}, // until the hold ends, however long that is
		{time.Hour, 3, limit.Decision{Remaining: 2}},
		{time.Hour, 6, limit.Decision{Remaining: 2, Never: true}},
		{time.Hour, 2, limit.Decision{OK: true, ResetAfter: 2 * tenth}},
		{time.Hour, 1, limit.Decision{RetryAfter: tenth, ResetAfter: 2 * tenth}},
		{time.Hour, 2, limit.Decision{RetryAfter: 2 * tenth, ResetAfter: 2 * tenth}},
	} {
		if d := b.TakeAt(after(c.at), c.n); d != c.want {
			t.Errorf("row %d: %+v, want %+v", i+1, d, c.want)
		}
	}
	if b.AllowN(after(time.Hour), 1) || !b.AllowN(after(time.Hour+tenth), 1) {
		t.Error("AllowN took what is on hold")
	}
	if d := b.ReserveN(after(time.Hour+tenth), 1).DelayFrom(after(time.Hour + tenth)); d != tenth {
		t.Errorf("a reservation beside the hold waits %v, want %v", d, tenth)
	}
	// 3 are on hold, and 2 are there that the reservation has left for it.
	if none, d := b.HoldAt(after(time.Hour+tenth), 1); d.OK || none != (limit.Hold{}) {
		t.Errorf("a second hold: %+v", d)
	}
	first.Cancel()
	first.Commit()
	if want := (limit.Decision{OK: true, Remaining: 2, ResetAfter: 3 * tenth}); b.TakeAt(after(time.Hour+tenth), 0) != want {
		t.Errorf("cancelled: %+v, want %+v", b.TakeAt(after(time.Hour+tenth), 0), want)
	}
	second, _ := b.HoldAt(after(time.Hour+tenth), 2)
	second.Commit()
	second.Cancel()
	second.Commit()
	if want := (limit.Decision{OK: true, ResetAfter: 5 * tenth}); b.TakeAt(after(time.Hour+tenth), 0) != want {
		t.Errorf("committed: %+v, want %+v", b.TakeAt(after(time.Hour+tenth), 0), want)
	}
}

// Where nothing comes any more, the end of a hold still helps, if there are tokens.
func TestTokenBucketHoldAtZeroLimit(t *testing.T) {
	b := limit.NewTokenBucket(0, 5)
	b.AllowN(after(0), 2)
	if none, d := b.HoldAt(after(0), 0); !d.OK || none != (limit.Hold{}) {
		t.Errorf("a hold of nothing: %v, %+v", none, d)
	}
	hold, _ := b.HoldAt(after(0), 2)
	if d, want := b.TakeAt(after(0), 2), (limit.Decision{Remaining: 1, ResetAfter: limit.InfDuration}); d != want {
		t.Errorf("2 of 3, 2 of them on hold: %+v, want %+v", d, want)
	}
	hold.Commit()
	if d, want := b.TakeAt(after(0), 2), (limit.Decision{Remaining: 1, ResetAfter: limit.InfDuration, Never: true}); d != want {
		t.Errorf("2 of 1: %+v, want %+v", d, want)
	}
}

// A hold is charged as of the latest instant that counted, which is never before it.
func TestTokenBucketCommitsAtTheLatest(t *testing.T) {
	for _, c := range []struct {
		name   string
		take   time.Duration // of one token; none if 0
		at     time.Duration
		tokens float64
	}{
		{"of the hold", 0, tenth, 10 - 4 + 1},
		{"of the hold, full again", 0, 4 * tenth, 10},
		{"of what was taken since", 5 * tenth, 6 * tenth, 10 - 1 - 4 + 1},
	} {
		b := limit.NewTokenBucket(10, 10)
		b.AllowN(after(-time.Second), 10)
		hold, _ := b.HoldAt(after(0), 4)
		if c.take > 0 {
			b.TakeAt(after(c.take), 1)
		}
		b.TakeAt(after(time.Minute), 7) // is refused, and does not count
		hold.Commit()
		if tokens := b.TokensAt(after(c.at)); tokens != c.tokens {
			t.Errorf("%s: %v tokens, want %v", c.name, tokens, c.tokens)
		}
	}
}

// The end of a hold does not let the cancellation of a reservation give back more than
// it took.
func TestTokenBucketHoldBesideReservations(t *testing.T) {
	for _, commit := range []bool{false, true} {
		b := limit.NewTokenBucket(10, 10)
		hold, _ := b.HoldAt(after(0), 10)
		r := b.ReserveN(after(0), 2)
		if d := r.DelayFrom(after(0)); d != 2*tenth {
			t.Fatalf("beside a hold of everything: %v, want %v", d, 2*tenth)
		}
		want := 10.0
		if commit {
			hold.Commit()
			want = 0
		} else {
			hold.Cancel()
		}
		later := b.ReserveN(after(0), 1)
		r.CancelAt(after(0))
		later.CancelAt(after(0))
		// As in x/time, what was reserved later is not given back for r.
		if tokens := b.TokensAt(after(0)); tokens > want || tokens < want-3 {
			t.Errorf("commit %v: %v tokens, want at most %v", commit, tokens, want)
		}
	}
}

// Many at once take what there is, and nothing of it twice.
func TestTokenBucketConcurrently(t *testing.T) {
	const burst, goroutines, calls = 300, 8, 100
	b := limit.NewTokenBucket(1e-9, burst)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range calls {
				switch (g + i) % 4 {
				case 0:
					if b.Allow() {
						admitted.Add(1)
					}
				case 1:
					if b.Take(2).OK {
						admitted.Add(2)
					}
				case 2:
					if hold, d := b.HoldAt(time.Now(), 1); d.OK {
						if i%8 < 4 {
							admitted.Add(1)
							hold.Commit()
						}
						hold.Cancel()
					}
				case 3:
					b.Tokens()
					b.SetBurst(burst)
					b.SetLimit(b.Limit())
				}
			}
		})
	}
	wg.Wait()
	if got := admitted.Load(); got != burst {
		t.Errorf("%d admitted, want %d", got, burst)
	}
}

func TestTokenBucketAllocatesNothing(t *testing.T) {
	open, closed := limit.NewTokenBucket(1e9, 1<<30), limit.NewTokenBucket(1e-3, 1)
	closed.Allow()
	for _, b := range []*limit.TokenBucket{open, closed} {
		now := time.Now()
		if n := testing.AllocsPerRun(100, func() {
			b.Allow()
			b.AllowN(now, 2)
			b.Take(1)
			b.TakeAt(now, 1)
			b.TokensAt(now)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

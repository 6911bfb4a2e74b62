package bench

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
	"golang.org/x/time/rate"
)

// pair is a limit.TokenBucket and the rate.Limiter that it has to equal.
type pair struct {
	ours   *limit.TokenBucket
	theirs *rate.Limiter
	now    time.Time
	made   []madeReservation // of which none is cancelled yet
}

type madeReservation struct {
	ours   *limit.Reservation
	theirs *rate.Reservation
}

var (
	pairLimits = []float64{
		math.MaxFloat64, 0, -1, 1e-300, 1e-10, 1e-3, 0.1, 1.0 / 3, 1, 7, 10, 100, 12345.678, 1e6,
		1e9, 3e9, 1e12, 1e300, math.Inf(-1), math.SmallestNonzeroFloat64,
	}
	// None that makes a wait of 2^63 ns, see TestTokenBucketWaitOf292Years.
	pairBursts = []int{math.MinInt / 7, -7, -1, 0, 1, 2, 3, 10, 100, 1 << 20, math.MaxInt32, math.MaxInt / 7}
	pairCounts = []int{math.MinInt / 7, -5, -1, 0, 1, 1, 1, 1, 2, 3, 7, 10, 100, 1 << 20, math.MaxInt / 7}
	pairSteps  = []time.Duration{
		0, 0, 0, 1, 2, time.Microsecond, time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour,
		math.MaxInt64, -1, -time.Millisecond, -time.Second, -time.Hour, math.MinInt64,
	}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func newPair(r *rand.Rand) *pair {
	now := time.Now()
	if r.IntN(2) == 0 {
		now = time.Unix(1_800_000_000, r.Int64N(1e9))
	}
	l, burst := pick(r, pairLimits), pick(r, pairBursts)
	if r.IntN(2) == 0 {
		l, burst = 10, 3 // where reservations and cancellations meet
	}
	return &pair{ours: limit.NewTokenBucket(limit.Limit(l), burst), theirs: rate.NewLimiter(rate.Limit(l), burst), now: now}
}

// step does one thing to both, and returns what it was and whether the answers are equal.
func (p *pair) step(r *rand.Rand) (what string, equal bool) {
	if step := pick(r, pairSteps); r.IntN(4) > 0 && step > -time.Hour && step < time.Hour {
		p.now = p.now.Add(step/2 + time.Duration(r.Int64N(max(1, int64(step.Abs())))))
	} else if r.IntN(40) == 0 {
		p.now = p.now.Add(step)
	}
	n := pick(r, pairCounts)
	if r.IntN(2) == 0 {
		n = 1 + r.IntN(4)
	}
	switch r.IntN(12) {
	default:
		return "AllowN", p.ours.AllowN(p.now, n) == p.theirs.AllowN(p.now, n)
	case 0, 1, 2, 3:
		m := madeReservation{p.ours.ReserveN(p.now, n), p.theirs.ReserveN(p.now, n)}
		p.made = append(p.made, m)
		return "ReserveN", m.ours.OK() == m.theirs.OK() && m.ours.DelayFrom(p.now) == m.theirs.DelayFrom(p.now)
	case 4, 5, 6:
		if len(p.made) == 0 {
			return "nothing", true
		}
		// Also a second time, which gives back again.
		m := pick(r, p.made)
		m.ours.CancelAt(p.now)
		m.theirs.CancelAt(p.now)
		return "CancelAt", m.ours.DelayFrom(p.now) == m.theirs.DelayFrom(p.now)
	case 7:
		if r.IntN(8) > 0 {
			return "nothing", true
		}
		l := pick(r, pairLimits)
		p.ours.SetLimitAt(p.now, limit.Limit(l))
		p.theirs.SetLimitAt(p.now, rate.Limit(l))
		return "SetLimitAt", float64(p.ours.Limit()) == float64(p.theirs.Limit())
	case 8:
		if r.IntN(8) > 0 {
			return "nothing", true
		}
		burst := pick(r, pairBursts)
		p.ours.SetBurstAt(p.now, burst)
		p.theirs.SetBurstAt(p.now, burst)
		return "SetBurstAt", p.ours.Burst() == p.theirs.Burst()
	}
}

// Every call of a TokenBucket gives what that of a rate.Limiter gives, to the bit.
func TestTokenBucketEqualsXTime(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps /= 10
	}
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	var allowed, waits, broken int
	for done := 0; done < steps; {
		p := newPair(r)
		for range 50 {
			what, equal := p.step(r)
			done++
			ours, theirs := p.ours.TokensAt(p.now), p.theirs.TokensAt(p.now)
			if !equal || math.Float64bits(ours) != math.Float64bits(theirs) {
				t.Errorf("step %d: %s at %v: %v tokens, want %v; limit %v, burst %d",
					done, what, p.now, ours, theirs, p.theirs.Limit(), p.theirs.Burst())
				if broken++; broken > 10 {
					t.FailNow()
				}
				break
			}
			if ours < 0 {
				waits++
			} else {
				allowed++
			}
		}
	}
	t.Logf("seed %d: %d steps, %d of them in debt", seed, allowed+waits, waits)
}

// The one difference: x/time leaves the conversion of a wait of 2^63 ns to the processor,
// and on amd64 it is then a negative wait, which lets a token too many pass.
func TestTokenBucketWaitOf292Years(t *testing.T) {
	now := time.Now()
	ours := limit.NewTokenBucket(limit.Every(math.MaxInt64).Limit(), 1)
	theirs := rate.NewLimiter(rate.Every(math.MaxInt64), 1)
	if !ours.AllowN(now, 1) || ours.AllowN(now, 1) {
		t.Error("one token of one, and no more")
	}
	t.Logf("x/time: %v, then %v", theirs.AllowN(now, 1), theirs.AllowN(now, 1))
}

// Many goroutines at once take no more than there is, as TestSimultaneousRequests of
// x/time wants of a few.
func TestTokenBucketSimultaneousRequests(t *testing.T) {
	const burst, goroutines, calls = 500, 8, 1000
	b := limit.NewTokenBucket(1e-3, burst)
	var wg sync.WaitGroup
	var allowed atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for range calls {
				if b.Allow() {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := allowed.Load(); got != burst {
		t.Errorf("%d passed, want %d", got, burst)
	}
}

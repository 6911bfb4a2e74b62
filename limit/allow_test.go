package limit_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Allow, which some limiters do on a shorter way, is TakeAt of one unit now.
func TestAllowIsTakeAtOfOneUnit(t *testing.T) {
	type limiter interface {
		limit.Holder
		Allow() bool
	}
	made := func(l limiter, err error) limiter {
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, build := range map[string]func() limiter{
		"GCRA":           func() limiter { return made(limit.NewGCRA(limit.PerSecond(7), 5)) },
		"AtomicGCRA":     func() limiter { return made(limit.NewAtomicGCRA(limit.PerSecond(7), 5)) },
		"Meter":          func() limiter { return made(limit.NewMeter(limit.PerSecond(7), 5)) },
		"FixedWindow":    func() limiter { return made(limit.NewFixedWindow(5, time.Second)) },
		"AnchoredWindow": func() limiter { return made(limit.NewAnchoredWindow(5, time.Second)) },
		"SlidingLog":     func() limiter { return made(limit.NewSlidingLog(5, time.Second)) },
		"SlidingCounter": func() limiter { return made(limit.NewSlidingCounter(5, time.Second)) },
		"a shard":        func() limiter { return made(limit.NewSharded(limit.PerSecond(7), 5, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 9))
				quick, plain := build(), build()
				var open [][2]limit.Hold
				passed := 0
				for step := range 20_000 / racetest.Factor {
					switch what := random.IntN(20); {
					case what == 0:
						a, _ := quick.HoldAt(time.Now(), 1)
						b, _ := plain.HoldAt(time.Now(), 1)
						open = append(open, [2]limit.Hold{a, b})
					case what < 4 && len(open) > 0:
						i := random.IntN(len(open))
						for _, h := range open[i] {
							if what == 2 {
								h.Cancel()
							} else {
								h.Commit()
							}
						}
						open = append(open[:i], open[i+1:]...)
					case what == 4: // the clock of somebody else is ahead
						at := time.Now().Add(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
						if got, want := quick.TakeAt(at, 1), plain.TakeAt(at, 1); got != want {
							t.Fatalf("step %d: %+v, want %+v", step, got, want)
						}
					}
					got, want := quick.Allow(), plain.TakeAt(time.Now(), 1).OK
					if got {
						passed++
					}
					is, be := quick.TakeAt(time.Now(), 0), plain.TakeAt(time.Now(), 0)
					if got != want || is != be {
						t.Fatalf("step %d: %v and then %+v, want %v and %+v", step, got, is, want, be)
					}
					earlier := time.Now().Add(-time.Duration(random.Int64N(int64(300 * time.Millisecond))))
					if is, be := quick.TakeAt(earlier, 0), plain.TakeAt(earlier, 0); is != be {
						t.Fatalf("step %d, seen from earlier: %+v, want %+v", step, is, be)
					}
					if random.IntN(4) == 0 {
						time.Sleep(be.ResetAfter) // to the end of a window
					} else {
						time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
					}
				}
				if passed == 0 {
					t.Error("nothing passed")
				}
			})
		})
	}
}

package keyed_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
)

// Goroutines that take, hold, commit, release and take in batches, at instants of one cell, pass
// exactly as many units as the limit has.
func TestExactCount(t *testing.T) {
	const most = 2000
	now := time.Unix(1_700_000_000, 0)
	for round := range 200 / racetest.Factor {
		lim, err := keyed.New(keyed.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := keyed.Request{Namespace: "n", Key: "a", Limit: most, Window: time.Minute, Cost: 1}
		b := a
		b.Key = "b"
		var passedA, passedB atomic.Int64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for n := range most {
					switch (g + n) % 4 {
					case 0:
						if d, _ := lim.TakeAt(background, now, a); d.OK {
							passedA.Add(1)
						}
						if d, _ := lim.TakeAt(background, now, b); d.OK {
							passedB.Add(1)
						}
					case 1:
						batch := []keyed.Request{a, b}
						if g%2 == 0 {
							batch = []keyed.Request{b, a}
						}
						if ds, _ := lim.TakeManyAt(background, now, batch...); ds[0].OK && ds[1].OK {
							passedA.Add(1)
							passedB.Add(1)
						}
					case 2:
						if h, d, _ := lim.HoldAt(background, now, a); d.OK {
							h.CommitAt(now, 1)
							passedA.Add(1)
						}
					default:
						h, _, _ := lim.HoldAt(background, now, b)
						h.Release()
					}
				}
				for { // what a release gave back
					if d, _ := lim.TakeAt(background, now, b); !d.OK {
						break
					}
					passedB.Add(1)
				}
			})
		}
		wg.Wait()
		for {
			if d, _ := lim.TakeAt(background, now, b); !d.OK {
				break
			}
			passedB.Add(1)
		}
		if passedA.Load() != most || passedB.Load() != most {
			t.Fatalf("round %d: %d and %d units passed, want %d of each", round, passedA.Load(), passedB.Load(), most)
		}
	}
}

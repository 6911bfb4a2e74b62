package keyed_test

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
)

// Goroutines that take, hold, commit, cancel and take in batches, at instants of one cell, pass
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
						if ds, _ := lim.TakeAllAt(background, now, batch...); ds[0].OK && ds[1].OK {
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
						h.Cancel()
					}
				}
				for { // what a cancel gave back
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

// While cells roll, counters expire and are evicted, and goroutines come late with their instants,
// no counter admits more than its limit in a cell.
func TestNoCellAboveItsLimit(t *testing.T) {
	const (
		most   = 5
		keys   = 24
		window = time.Millisecond
	)
	for _, size := range []int{3, 16, 1000} {
		lim := newLimiter(t, keyed.Options{MaxKeys: size})
		var clock, overshoot atomic.Int64
		type cell struct {
			key      string
			sequence int64
		}
		var mu sync.Mutex
		passed := map[cell]int{}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for n := range 6000 / racetest.Factor {
					now := epoch.Add(time.Duration(clock.Add(5_000)))
					if n%50 == 0 {
						runtime.Gosched() // the instant is late by then
					}
					r := keyed.Request{Namespace: "n", Key: strconv.Itoa((g*7 + n) % keys), Limit: most, Window: window, Cost: 1}
					ok := false
					switch n % 3 {
					case 0:
						d, _ := lim.TakeAt(background, now, r)
						ok = d.OK
					case 1:
						ds, _ := lim.TakeAllAt(background, now, r)
						ok = ds[0].OK
					default:
						h, d, _ := lim.HoldAt(background, now, r)
						h.CommitAt(now, 1)
						ok = d.OK
					}
					if !ok {
						continue
					}
					// An instant of an earlier cell may have counted in the later one, not
					// the other way round: all of two cells are at most two limits.
					c := cell{r.Key, now.UnixNano() / int64(window)}
					mu.Lock()
					passed[c]++
					if passed[c] > 2*most {
						overshoot.Add(1)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if overshoot.Load() > 0 {
			t.Errorf("MaxKeys %d: %d units above twice the limit in a cell", size, overshoot.Load())
		}
		if n := lim.Len(); n > size {
			t.Errorf("MaxKeys %d: %d counters", size, n)
		}
	}
}

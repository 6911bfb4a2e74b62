// Many goroutines at once, and exact counts.

package keyedoracle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

const goroutines = 8

// hammer runs work in several goroutines, each with a source of randomness of its own.
func hammer(seed uint64, work func(g int, random *rand.Rand)) {
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() { work(g, rand.New(rand.NewPCG(seed, uint64(g)))) })
	}
	all.Wait()
}

// Of 8 goroutines that ask for more than there is, exactly the limit passes: with units taken one
// by one, in pairs, in batches of two counters in any order, and held and committed. Requests of
// one unit come last: whatever the larger ones leave, they use.
func TestHammerExactlyTheLimitPasses(t *testing.T) {
	for seed := range uint64(times(100, 2000)) {
		synctest.Test(t, func(t *testing.T) { // Commit charges at time.Now, which stands still
			lim := newLimiter(t, keyed.Options{})
			limits := [2]int64{int64(500 + seed), 700}
			h := &counted{t: t, lim: lim, limits: limits}
			hammer(seed, func(_ int, random *rand.Rand) {
				for range 400 {
					h.step(random)
				}
			})
			hammer(seed, func(_ int, random *rand.Rand) {
				for range 300 {
					h.take(0, 1)
					h.take(1, 1)
				}
			})
			for i, limit := range limits {
				if n := h.passed[i].Load(); n != limit {
					t.Errorf("seed %d: %d of %d passed", seed, n, limit)
				}
				if n := count(t, lim, time.Now(), h.request(i, 0)); int64(n) != limit {
					t.Errorf("seed %d: %d of %d counted", seed, n, limit)
				}
			}
		})
	}
}

// counted asks for two counters, and counts what passed.
type counted struct {
	t      *testing.T
	lim    *keyed.Limiter
	limits [2]int64
	passed [2]atomic.Int64
}

func (h *counted) request(i int, cost int64) keyed.Request {
	return keyed.Request{Namespace: fmt.Sprint("n", i), Key: "k", Limit: int(h.limits[i]), Window: time.Hour, Cost: int(cost)}
}

func (h *counted) step(random *rand.Rand) {
	i, cost := random.IntN(2), 1+random.Int64N(3)
	switch random.IntN(4) {
	case 0:
		h.takeBoth(i, cost)
	case 1:
		h.hold(i, cost, random.IntN(2) == 0)
	default:
		h.take(i, cost)
	}
}

func (h *counted) take(i int, cost int64) {
	d, err := h.lim.Take(context.Background(), h.request(i, cost))
	if err != nil {
		h.t.Error(err)
	}
	if d.OK {
		h.passed[i].Add(cost)
	}
}

func (h *counted) takeBoth(first int, cost int64) {
	ds, err := h.lim.TakeAll(context.Background(), h.request(first, cost), h.request(1-first, 1), h.request(first, 1))
	if err != nil || len(ds) != 3 {
		h.t.Errorf("%d decisions, %v", len(ds), err)
		return
	}
	if ds[0].OK && ds[1].OK && ds[2].OK {
		h.passed[first].Add(cost + 1)
		h.passed[1-first].Add(1)
	}
}

func (h *counted) hold(i int, cost int64, commit bool) {
	hold, d, err := h.lim.Hold(context.Background(), h.request(i, cost))
	if err != nil {
		h.t.Error(err)
	}
	switch {
	case d.OK && commit:
		hold.Commit(int(cost))
		h.passed[i].Add(cost)
	case d.OK:
		hold.Cancel()
	}
	hold.Commit(99) // has ended
}

// ledger is what was admitted between two readings of a clock that goroutines move on together. A
// request that began in cell a and ended in cell b was charged in one of a to b.
type ledger struct {
	mu       sync.Mutex
	admitted map[[2]int64]int64
}

var start = time.Unix(1_800_000_000, 0) // begins a cell of a millisecond

func (l *ledger) add(from, to, units int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admitted[[2]int64{from, to}] += units
}

// check looks for a run of cells in which more was admitted than their limits, if each request is
// counted there only if it was there from beginning to end.
func (l *ledger) check(t *testing.T, name string, limit int64) (total int64) {
	const longest = 3
	in := map[[2]int64]int64{}
	for span, n := range l.admitted {
		total += n
		for from := span[1] - longest + 1; from <= span[0]; from++ {
			for to := span[1]; to < from+longest; to++ {
				in[[2]int64{from, to}] += n
			}
		}
	}
	for span, n := range in {
		if most := limit * (span[1] - span[0] + 1); n > most {
			t.Errorf("%s: %d admitted in cells %d to %d, want at most %d", name, n, span[0], span[1], most)
		}
	}
	return total
}

// Cells of a millisecond roll while goroutines ask, hold and batch; a few counters fit at a time
// where keys are evicted. No cell of any key ever holds more than its limit.
func TestHammerRollingCells(t *testing.T) {
	const window, limit, keys = time.Millisecond, 20, 64
	for _, most := range []int{0, 16} {
		for seed := range uint64(times(20, 300)) {
			lim := newLimiter(t, keyed.Options{MaxKeys: most})
			var ledgers [keys]ledger
			var clock atomic.Int64 // nanoseconds since start
			for i := range ledgers {
				ledgers[i].admitted = map[[2]int64]int64{}
			}
			hammer(seed, func(_ int, random *rand.Rand) {
				for range 4000 {
					clock.Add(random.Int64N(int64(20 * time.Microsecond)))
					i := random.IntN(keys)
					if random.IntN(3) > 0 {
						i = random.IntN(2) // some keys are in demand
					}
					r := keyed.Request{Namespace: "n", Key: fmt.Sprint("key", i), Limit: limit, Window: window}
					from := clock.Load()
					if cost := rollOnce(t, lim, start.Add(time.Duration(from)), r, random); cost > 0 {
						ledgers[i].add(from/int64(window), clock.Load()/int64(window), cost)
					}
				}
			})
			total := int64(0)
			for i := range ledgers {
				total += ledgers[i].check(t, fmt.Sprintf("key %d of at most %d, seed %d", i, most, seed), limit)
			}
			if total < limit {
				t.Errorf("seed %d: only %d admitted", seed, total)
			}
		}
	}
}

// rollOnce makes a random call, and returns what it charged.
func rollOnce(t *testing.T, lim *keyed.Limiter, now time.Time, r keyed.Request, random *rand.Rand) int64 {
	ctx := context.Background()
	r.Cost = int(1 + random.Int64N(4))
	switch random.IntN(4) {
	case 0:
		one := r
		one.Cost = 1
		ds, err := lim.TakeAllAt(ctx, now, one, r)
		if err != nil {
			t.Error(err)
		} else if ds[0].OK && ds[1].OK {
			return int64(r.Cost + 1)
		}
	case 1:
		h, _, err := lim.HoldAt(ctx, now, r)
		if err != nil {
			t.Error(err)
		}
		h.Cancel()
	default:
		d, err := lim.TakeAt(ctx, now, r)
		if err != nil {
			t.Error(err)
		}
		if d.OK {
			return int64(r.Cost)
		}
	}
	return 0
}

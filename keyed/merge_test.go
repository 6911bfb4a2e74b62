package keyed_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// What is held is no part of what is merged: 5 are charged and 3 held when a read tells of 10.
// After the cancel there are 10, and a request of 3 at a limit of 10 is refused.
func TestHoldMergeCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 20)
		takeNow(t, l, costing(r, 5))
		hold, d, err := l.Hold(t.Context(), costing(r, 3))
		if err != nil || !d.OK {
			t.Fatal(d, err)
		}
		synctest.Wait()
		origin.Charge(cellOf(r), 5) // 10 there
		time.Sleep(5 * time.Second)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 20-10-3 {
			t.Errorf("%d remain before the cancel, want 7", d.Remaining)
		}
		hold.Cancel()
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 20-10 {
			t.Errorf("%d remain after the cancel, want 10", d.Remaining)
		}
		if d := takeNow(t, l, costing(perMinute("a", 10), 3)); d.OK {
			t.Errorf("3 passed on 10 at a limit of 10: %+v", d)
		}
		if got := origin.Count(cellOf(r)); got != 10 {
			t.Errorf("the origin counts %d, want 10: held units are not replayed", got)
		}
	})
}

// deaf is an Origin that acknowledges nothing.
type deaf struct{ *keyedtest.Origin }

func (deaf) Add(context.Context, keyed.Replay) ([]int64, error) { return nil, keyedtest.ErrLost }

// The count is that of the origin and what it has not acknowledged.
func TestUnacknowledgedCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := deaf{keyedtest.NewOrigin()}
		l, err := keyed.New(keyed.Options{Origin: origin})
		if err != nil {
			t.Fatal(err)
		}
		r := perMinute("a", 100)
		takeNow(t, l, costing(r, 3))
		origin.Charge(cellOf(r), 4)
		time.Sleep(5 * time.Second)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 93 {
			t.Errorf("%d remain, want 93", d.Remaining)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l.Close(ctx) == nil {
			t.Error("closed, though nothing was acknowledged")
		}
	})
}

// The units of a replay whose reply is lost count twice once they are read, and once again when
// the replay is acknowledged.
func TestReadDuringReplay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 100)
		takeNow(t, l, costing(r, 0))
		origin.Set(keyedtest.Faults{Lose: true})
		takeNow(t, l, costing(r, 3))
		synctest.Wait()
		origin.Charge(cellOf(r), 4)
		origin.Set(keyedtest.Faults{})
		time.Sleep(50 * time.Millisecond) // the next attempt comes after 100 ms
		d, err := l.TakeAt(t.Context(), time.Now().Add(5*time.Second), costing(r, 0))
		if err != nil || d.Remaining != 90 {
			t.Errorf("%d remain before the acknowledgement, want 90; %v", d.Remaining, err)
		}
		time.Sleep(100 * time.Millisecond)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 93 {
			t.Errorf("%d remain after the acknowledgement, want 93", d.Remaining)
		}
	})
}

// An origin that loses its counts lowers nothing, and what is charged after that adds up.
func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 100)
		takeNow(t, l, costing(r, 6))
		synctest.Wait()
		origin.Charge(cellOf(r), 4)
		time.Sleep(5 * time.Second)
		if d := takeNow(t, l, r); d.Remaining != 89 {
			t.Errorf("%d remain before the flush, want 89", d.Remaining)
		}
		synctest.Wait()
		origin.Flush()
		if d := takeNow(t, l, r); d.Remaining != 88 {
			t.Errorf("%d remain after the flush, want 88", d.Remaining)
		}
		synctest.Wait()
		if d := takeNow(t, l, r); d.Remaining != 87 {
			t.Errorf("%d remain after a replay, want 87", d.Remaining)
		}
		synctest.Wait()
		origin.Charge(cellOf(r), 10)
		time.Sleep(5 * time.Second)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 77 {
			t.Errorf("%d remain after 10 of others, want 77", d.Remaining)
		}
	})
}

// Processes that charge one counter, with reads, replays and lost replies in any order: no process
// ever counts less than it did before in that cell, but for replays that it counted twice, and in
// the end all count the same.
func TestProcessesAgree(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { agree(t, rand.New(rand.NewPCG(seed, 18))) })
	}
}

func agree(t *testing.T, random *rand.Rand) {
	origin := keyedtest.NewOrigin()
	r := keyed.Request{Namespace: "requests", Key: "a", Limit: 1 << 30, Window: time.Hour}
	var limiters []*keyed.Limiter
	for range 3 {
		limiters = append(limiters, shared(t, keyed.Options{Origin: origin}))
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	for _, l := range limiters {
		own := rand.New(rand.NewPCG(random.Uint64(), 1))
		wg.Go(func() {
			for range 200 {
				cost := own.Int64N(10)
				if takeNow(t, l, costing(r, int(cost))).OK {
					total.Add(cost)
				}
				time.Sleep(time.Duration(own.Int64N(int64(500 * time.Millisecond))))
			}
		})
	}
	for range 100 {
		origin.Set(keyedtest.Faults{
			Delay: time.Duration(random.Int64N(int64(200 * time.Millisecond))),
			Lose:  random.IntN(3) == 0,
			Hang:  random.IntN(5) == 0,
		})
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
	}
	wg.Wait()
	origin.Set(keyedtest.Faults{})
	time.Sleep(10 * time.Second) // all is acknowledged and stale
	for i, l := range limiters {
		if used := int64(r.Limit) - int64(takeNow(t, l, costing(r, 0)).Remaining); used != total.Load() {
			t.Errorf("process %d counts %d, want %d", i, used, total.Load())
		}
	}
	if got := origin.Count(cellOf(r)); got != total.Load() {
		t.Errorf("the origin counts %d, want %d", got, total.Load())
	}
}

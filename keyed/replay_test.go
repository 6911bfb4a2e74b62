package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// recorder keeps the replays that come to an Origin.
type recorder struct {
	*keyedtest.Origin
	mu      sync.Mutex
	replays []keyed.Replay
}

// seen returns the replays that came so far.
func (o *recorder) seen() []keyed.Replay {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.replays)
}

func newRecorder() *recorder { return &recorder{Origin: keyedtest.NewOrigin()} }

func (o *recorder) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	o.mu.Lock()
	o.replays = append(o.replays, keyed.Replay{Process: r.Process, Number: r.Number, Deltas: slices.Clone(r.Deltas)})
	o.mu.Unlock()
	return o.Origin.Add(ctx, r)
}

// What is charged while a replay is in flight adds up in the next, one delta for each cell, in the
// order of the cells.
func TestReplaysAddUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := newRecorder()
		l := shared(t, keyed.Options{Origin: origin})
		origin.Set(keyedtest.Faults{Delay: 100 * time.Millisecond})
		a, b := perMinute("a", 1000), perMinute("b", 1000)
		if _, err := l.TakeAll(t.Context(), costing(b, 0), costing(a, 0)); err != nil { // read them
			t.Fatal(err)
		}
		takeNow(t, l, b)
		synctest.Wait()
		takes(t, l, b, 99)
		takes(t, l, costing(a, 2), 10)
		time.Sleep(time.Second)
		synctest.Wait()
		got := origin.seen()
		want := []keyed.Replay{
			{Number: 1, Deltas: []keyed.Delta{{Cell: cellOf(b), Add: 1}}},
			{Number: 2, Deltas: []keyed.Delta{{Cell: cellOf(a), Add: 20}, {Cell: cellOf(b), Add: 99}}},
		}
		for i := range want {
			want[i].Process = got[0].Process
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("replays are %+v, want %+v", got, want)
		}
	})
}

// A replay is repeated with the same number and the same content until it is acknowledged, and
// counts once, although its replies are lost.
func TestLostReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := newRecorder()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 1000)
		takeNow(t, l, costing(r, 0))
		origin.Set(keyedtest.Faults{Lose: true})
		takeNow(t, l, costing(r, 3))
		synctest.Wait()
		takeNow(t, l, costing(r, 4))
		time.Sleep(3 * time.Second)
		first := origin.seen()
		if len(first) < 3 {
			t.Fatalf("%d attempts in 3 s", len(first))
		}
		for _, other := range first[1:] {
			if !reflect.DeepEqual(other, first[0]) {
				t.Errorf("%+v is not what came first: %+v", other, first[0])
			}
		}
		origin.Set(keyedtest.Faults{})
		time.Sleep(2 * time.Second)
		if got := origin.Count(cellOf(r)); got != 7 {
			t.Errorf("the origin counts %d, want 7", got)
		}
		if d := takeNow(t, l, r); d.Remaining != 1000-8 {
			t.Errorf("%d remain, want 992", d.Remaining)
		}
	})
}

// An Origin is down for an hour: nothing is dropped, and Close delivers all.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		origin.Set(failing)
		want := map[string]int64{}
		random := rand.New(rand.NewPCG(1, 2))
		for range 3600 {
			key := fmt.Sprint(random.IntN(5))
			r := costing(perMinute(key, 100), 1+random.IntN(3))
			if takeNow(t, l, r).OK {
				want[key] += int64(r.Cost)
			}
			time.Sleep(time.Second)
		}
		origin.Set(keyedtest.Faults{})
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for key, units := range want {
			if got := origin.Total("requests", key); got != units {
				t.Errorf("key %s: the origin counts %d, want %d", key, got, units)
			}
		}
	})
}

// Keys come and go faster than a failing Origin takes their units: those are kept, and a key that
// comes back has its own.
func TestOutageWithEviction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin, MaxKeys: 16})
		origin.Set(failing)
		want := map[string]int64{}
		random := rand.New(rand.NewPCG(3, 4))
		for range 4000 {
			key := fmt.Sprint(random.IntN(200))
			if takeNow(t, l, perMinute(key, 5)).OK {
				want[key]++
			}
		}
		var total int64
		for key, units := range want {
			total += units
			if units > 5 {
				t.Errorf("%d of key %s passed at a limit of 5", units, key)
			}
		}
		if total == 0 {
			t.Error("nothing passed")
		}
		origin.Set(keyedtest.Faults{})
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for key, units := range want {
			if got := origin.Total("requests", key); got != units {
				t.Errorf("key %s: the origin counts %d, want %d", key, got, units)
			}
		}
	})
}

// More cells than one replay holds take several.
func TestManyCells(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := newRecorder()
		l := shared(t, keyed.Options{Origin: origin})
		origin.Set(keyedtest.Faults{Delay: time.Millisecond})
		for i := range 2500 {
			takeNow(t, l, perMinute(fmt.Sprint(i), 5))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range origin.seen() {
			if len(r.Deltas) > 1000 {
				t.Errorf("%d deltas in a replay", len(r.Deltas))
			}
		}
		for i := range 2500 {
			if got := origin.Total("requests", fmt.Sprint(i)); got != 1 {
				t.Errorf("key %d counts %d", i, got)
			}
		}
	})
}

// Close gives up at the end of its context, and delivers what is left when it is called again.
func TestCloseDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 100)
		takeNow(t, l, r)
		synctest.Wait()
		origin.Set(keyedtest.Faults{Hang: true})
		takes(t, l, r, 5)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 10*time.Second {
			t.Errorf("close: %v after %v", err, time.Since(begin))
		}
		if _, err := l.Take(t.Context(), r); !errors.Is(err, keyed.ErrClosed) {
			t.Errorf("take after close: %v", err)
		}
		calls := origin.Calls("Add")
		time.Sleep(time.Minute)
		wantCalls(t, origin, "Add", calls)
		origin.Set(keyedtest.Faults{})
		for range 2 {
			if err := l.Close(t.Context()); err != nil {
				t.Errorf("close again: %v", err)
			}
		}
		if got := origin.Total("requests", "a"); got != 6 {
			t.Errorf("the origin counts %d, want 6", got)
		}
	})
}

// A hold that is committed after Close is delivered by the next Close.
func TestCommitAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		h, _, err := l.Hold(t.Context(), costing(perMinute("a", 100), 10))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := origin.Total("requests", "a"); got != 0 {
			t.Errorf("the origin counts %d of a hold, want 0", got)
		}
		h.Commit(12)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := origin.Total("requests", "a"); got != 12 {
			t.Errorf("the origin counts %d, want 12", got)
		}
	})
}

// Goroutines, each with its own errors and delays of the Origin: in the end every unit that passed
// is counted once.
func TestReplayHammer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		const processes, callers = 3, 4
		var mu sync.Mutex
		want := map[string]int64{}
		var limiters []*keyed.Limiter
		for range processes {
			limiters = append(limiters, shared(t, keyed.Options{Origin: origin, MaxKeys: 32}))
		}
		var wg sync.WaitGroup
		for i := range processes * callers {
			random := rand.New(rand.NewPCG(18, uint64(i)))
			wg.Go(func() {
				for range 300 {
					key := fmt.Sprint(random.IntN(40))
					r := costing(perMinute(key, math.MaxInt), 1+random.IntN(4))
					if d, err := limiters[i%processes].Take(t.Context(), r); err != nil {
						t.Error(err)
					} else if d.OK {
						mu.Lock()
						want[key] += int64(r.Cost)
						mu.Unlock()
					}
					time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
				}
			})
		}
		faults := []keyedtest.Faults{{}, failing, {Lose: true}, {Hang: true}, {Delay: 50 * time.Millisecond}, {Panic: "boom"}}
		for i := range 100 {
			origin.Set(faults[i%len(faults)])
			time.Sleep(time.Second)
		}
		wg.Wait()
		origin.Set(keyedtest.Faults{})
		for _, l := range limiters {
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for key, units := range want {
			if got := origin.Total("requests", key); got != units {
				t.Errorf("key %s: the origin counts %d, want %d", key, got, units)
			}
		}
	})
}

// silent is an Origin that acknowledges replays, and does not tell the counts.
type silent struct{ *keyedtest.Origin }

func (o silent) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	_, err := o.Origin.Add(ctx, r)
	return nil, err
}

// A replay without counts is acknowledged all the same: its units are not sent again.
func TestReplayWithoutCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := silent{keyedtest.NewOrigin()}
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 100)
		for range 3 {
			takeNow(t, l, costing(r, 5))
			synctest.Wait()
		}
		origin.Charge(cellOf(r), 10)
		time.Sleep(5 * time.Second)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 75 {
			t.Errorf("%d remain, want 75", d.Remaining)
		}
		wantCalls(t, origin, "Add", 3)
		if got := origin.Count(cellOf(r)); got != 25 {
			t.Errorf("the origin counts %d, want 25", got)
		}
	})
}

// While the breaker is open nothing is replayed either, whatever ends meanwhile.
func TestBreakerRestsReplays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		origin.Set(keyedtest.Faults{Hang: true})
		var calls sync.WaitGroup
		for key := range 25 {
			if key == 20 {
				time.Sleep(100 * time.Millisecond)
			}
			calls.Go(func() { takeNow(t, l, costing(perMinute(fmt.Sprint(key), 9), 0)) })
		}
		calls.Wait() // opened 100 ms ago
		origin.Set(keyedtest.Faults{})
		takeNow(t, l, perMinute("a", 9))
		time.Sleep(4900*time.Millisecond - 1)
		synctest.Wait()
		wantCalls(t, origin, "Add", 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantCalls(t, origin, "Add", 1)
	})
}

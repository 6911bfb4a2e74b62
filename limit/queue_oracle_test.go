package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// queueOracle looks at every slot. It knows of no gaps.
type queueOracle struct {
	interval int64
	capacity int
	starts   []int64
}

func (o *queueOracle) reserve(now int64, n int) (delay time.Duration, d limit.Decision) {
	next := now
	if k := len(o.starts); k > 0 {
		next = max(now, o.starts[k-1]+o.interval)
	}
	room := func(now int64) int {
		ahead := 0
		for at := next - o.interval; at >= now; at -= o.interval {
			ahead++
		}
		return o.capacity - ahead
	}
	switch {
	case n < 0 || n > o.capacity:
		d.Never = true
	case n == 0:
		d.OK, delay = true, time.Duration(next-now)
	case n <= room(now):
		d.OK, delay = true, time.Duration(next-now)
		for range n {
			o.starts = append(o.starts, next)
			next += o.interval
		}
		o.starts = o.starts[max(0, len(o.starts)-1):]
	default:
		d.RetryAfter = 1
		for n > room(now+int64(d.RetryAfter)) {
			d.RetryAfter++
		}
	}
	d.Remaining = max(0, room(now))
	d.ResetAfter = time.Duration(next - now)
	return delay, d
}

func TestQueueDecidesLikeAListOfSlots(t *testing.T) {
	rounds := 1_000_000
	if testing.Short() || racetest.Factor > 1 {
		rounds /= 10
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var q *limit.Queue
	var o *queueOracle
	var now int64
	for i := range rounds {
		if i%500 == 0 {
			o = &queueOracle{interval: 1 + rng.Int64N(12), capacity: 1 + rng.IntN(6)}
			q = must(limit.NewQueue(limit.Every(time.Duration(o.interval)), o.capacity))
			now = 0
		}
		now += pause(rng, o.interval, o.capacity)
		if rng.IntN(8) == 0 {
			now -= rng.Int64N(3 * o.interval)
		}
		n := rng.IntN(o.capacity+3) - 1
		delay, d := q.ReserveAt(noon.Add(time.Duration(now)), n)
		if wait, want := o.reserve(now, n); d != want || delay != wait {
			t.Fatalf("round %d, every %d, capacity %d: %d at %d: %v, %+v, want %v, %+v", i, o.interval, o.capacity, n, now, delay, d, wait, want)
		}
		if d.OK && n > 0 && delay >= time.Duration(o.interval)*time.Duration(o.capacity) {
			t.Fatalf("round %d: %v to wait", i, delay)
		}
	}
}

// Waiting, giving up, reserving, holding and cancelling in random order: no two requests
// start closer than an interval, waiters start in their order and before the capacity has
// passed, and with waiters alone each starts exactly when the one before it ends.
func TestQueueRandomly(t *testing.T) {
	rounds := 300
	if testing.Short() || racetest.Factor > 1 {
		rounds /= 5
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 3))
		interval := int64(1 + rng.IntN(20))
		capacity := 1 + rng.IntN(12)
		mixed := round%2 == 0
		synctest.Test(t, func(t *testing.T) { queueRound(t, rng, interval, capacity, mixed) })
		if t.Failed() {
			t.Fatalf("round %d: every %d, capacity %d, mixed %v", round, interval, capacity, mixed)
		}
	}
}

type queueRequest struct {
	n        int
	start    int64
	err      error
	done     bool
	cancel   context.CancelFunc
	expected int64 // where only waiting requests are
}

func queueRound(t *testing.T, rng *rand.Rand, interval int64, capacity int, mixed bool) {
	q := must(limit.NewQueue(limit.Every(time.Duration(interval)), capacity))
	begin := time.Now()
	since := func() int64 { return int64(time.Since(begin)) }
	var mu sync.Mutex
	var line []*queueRequest // all that were accepted, in their order
	type span struct{ start, end int64 }
	var told []span
	var holds []limit.Hold
	var holdSpans []span
	free := int64(0) // after those that have started
	// behind moves all that still wait up, as a list of the requests in their order says,
	// and returns when the next starts.
	behind := func() int64 {
		at := max(free, since())
		for _, r := range line {
			if !r.done {
				r.expected = at
				at += int64(r.n) * interval
			}
		}
		return at
	}
	for range 350 {
		synctest.Wait()
		switch k := rng.IntN(10); {
		case k < 4:
			ctx, cancel := context.WithCancel(t.Context())
			r := &queueRequest{n: 1 + rng.IntN(min(3, capacity)), cancel: cancel}
			came := since()
			mu.Lock()
			if !mixed {
				r.expected = behind()
				if room := max(0, capacity-int((r.expected-came)/interval)); q.Take(0).Remaining != room {
					t.Errorf("room for %d, want %d", q.Take(0).Remaining, room)
				}
			}
			line = append(line, r)
			mu.Unlock()
			go func() {
				err := q.WaitN(ctx, r.n)
				mu.Lock()
				defer mu.Unlock()
				r.err, r.done, r.start = err, true, since()
				if err == nil {
					free = max(free, r.start+int64(r.n)*interval)
					if !mixed && r.start != r.expected {
						t.Errorf("started at %d, want %d", r.start, r.expected)
					}
					if r.start-came >= interval*int64(capacity) {
						t.Errorf("came at %d, started at %d", came, r.start)
					}
				}
			}()
			synctest.Wait()
			mu.Lock()
			if errors.Is(r.err, limit.ErrFull) {
				line = line[:len(line)-1]
			}
			mu.Unlock()
		case k < 6:
			if len(line) > 0 {
				r := line[max(0, len(line)-1-rng.IntN(6))]
				r.cancel()
				synctest.Wait()
				mu.Lock()
				behind()
				mu.Unlock()
			}
		case k < 7 && mixed:
			now := since()
			if delay, d := q.ReserveAt(time.Now(), 1); d.OK {
				told = append(told, span{now + int64(delay), now + int64(delay) + interval})
			}
		case k < 8 && mixed:
			now := since()
			delay, _ := q.ReserveAt(time.Now(), 0)
			if hold, d := q.HoldAt(time.Now(), 1); d.OK {
				holds = append(holds, hold)
				holdSpans = append(holdSpans, span{now + int64(delay), now + int64(delay) + interval})
			}
		case k < 9 && len(holds) > 0:
			i := rng.IntN(len(holds))
			if rng.IntN(3) == 0 {
				holds[i].Commit()
				told = append(told, holdSpans[i])
			} else {
				holds[i].Cancel()
			}
			holds, holdSpans = slices.Delete(holds, i, i+1), slices.Delete(holdSpans, i, i+1)
		default:
			time.Sleep(time.Duration(rng.Int64N(3*interval + 1)))
		}
	}
	time.Sleep(time.Duration(10 * int64(capacity) * interval))
	synctest.Wait()
	last := int64(-1)
	spans := append(told, holdSpans...)
	for _, r := range line {
		r.cancel()
		if !r.done {
			t.Error("somebody still waits")
		}
		if r.err != nil {
			continue
		}
		if r.start < last {
			t.Errorf("started at %d, one that came before it at %d", r.start, last)
		}
		last = r.start
		spans = append(spans, span{r.start, r.start + int64(r.n)*interval})
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.start - b.start) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			t.Errorf("%v begins before %v has ended", spans[i], spans[i-1])
		}
	}
	if d := q.Take(0); d.Remaining != capacity || d.ResetAfter != 0 {
		t.Errorf("in the end: %+v", d)
	}
}

func FuzzQueue(f *testing.F) {
	f.Add(100, int64(time.Second), 100, int64(0), 1, int64(5), 100)
	f.Add(1, int64(1<<60), 1, int64(1<<61), 1, int64(-1<<61), 1)
	f.Add(3, int64(time.Second), 5, int64(-1), 5, int64(333_333_333), 2)
	f.Fuzz(func(t *testing.T, count int, per int64, capacity int, step1 int64, n1 int, step2 int64, n2 int) {
		q, err := limit.NewQueue(limit.Rate{Count: count, Per: time.Duration(per)}, capacity)
		if err != nil {
			if !errors.Is(err, limit.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		checkFuzzed(t, "Queue", q, capacity, []time.Time{
			noon, noon.Add(time.Duration(step1)), noon.Add(time.Duration(step2)), {}, time.Unix(math.MaxInt64, 0),
		}, []int{n1, n2, capacity})
	})
}

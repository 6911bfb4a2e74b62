package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// 30 at once, where 20 have room: 20 start a tenth of a second apart, 10 are refused at
// once; and after a pause the next starts at once.
func TestQueueFull(t *testing.T) {
	q := must(limit.NewQueue(limit.PerSecond(10), 20))
	for i := range 30 {
		delay, d := q.ReserveAt(noon, 1)
		if i < 20 {
			if want := time.Duration(i) * 100 * time.Millisecond; !d.OK || delay != want || d.Remaining != 19-i || d.ResetAfter != want+100*time.Millisecond {
				t.Errorf("request %d: %v, %+v", i, delay, d)
			}
		} else if want := (limit.Decision{RetryAfter: 1, ResetAfter: 2 * time.Second}); d != want || delay != 0 {
			t.Errorf("request %d: %v, %+v, want %+v", i, delay, d, want)
		}
	}
	if delay, d := q.ReserveAt(noon.Add(1), 1); !d.OK || delay != 2*time.Second-1 {
		t.Errorf("a nanosecond later: %v, %+v", delay, d)
	}
	if delay, d := q.ReserveAt(noon.Add(6*time.Second), 1); !d.OK || delay != 0 || d.Remaining != 19 {
		t.Errorf("after a pause: %v, %+v", delay, d)
	}
	if delay, d := q.ReserveAt(noon.Add(6*time.Second), 0); !d.OK || delay != 100*time.Millisecond {
		t.Errorf("a look at the next: %v, %+v", delay, d)
	}
}

func TestQueueRefusesParameters(t *testing.T) {
	for _, c := range []struct {
		rate     limit.Rate
		capacity int
		ok       bool
	}{
		{limit.Rate{}, 1, false},
		{limit.Rate{Count: -1, Per: time.Second}, 1, false},
		{limit.Rate{Count: 1, Per: -1}, 1, false},
		{limit.Rate{Count: 2, Per: 1}, 1, false},
		{limit.PerSecond(1), 0, false},
		{limit.PerSecond(1), -1, false},
		{limit.Every(1 << 60), 2, false},
		{limit.Every(1 << 60), 1, true},
		{limit.Every(1), 1, true},
	} {
		q, err := limit.NewQueue(c.rate, c.capacity)
		if c.ok != (err == nil) || c.ok != (q != nil) || err != nil && !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("NewQueue(%v, %d): %v", c.rate, c.capacity, err)
		}
	}
}

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
	if testing.Short() || raceFactor > 1 {
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

// What a hold gives back is taken by the next that fits; what it keeps stays.
func TestQueueHolds(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(limit.Hold)
		n      int
		delays []time.Duration // of the requests of n units that come after
	}{
		{"open", func(limit.Hold) {}, 1, []time.Duration{4, 5, 6}},
		{"committed", limit.Hold.Commit, 1, []time.Duration{4, 5, 6}},
		{"released, for those that fit", limit.Hold.Release, 1, []time.Duration{1, 2, 4, 5}},
		{"released, as a whole", limit.Hold.Release, 2, []time.Duration{1, 4, 6}},
		{"released, for those that do not fit", limit.Hold.Release, 3, []time.Duration{4}},
	} {
		q := must(limit.NewQueue(limit.PerSecond(1), 9))
		q.TakeAt(noon, 1)
		hold, d := q.HoldAt(noon, 2)
		if want := (limit.Decision{OK: true, Remaining: 6, ResetAfter: time.Second}); d != want {
			t.Errorf("hold: %+v, want %+v", d, want)
		}
		q.TakeAt(noon, 1)
		c.end(hold)
		if c.name != "open" {
			hold.Commit() // is too late
			hold.Release()
		}
		for i, want := range c.delays {
			if delay, d := q.ReserveAt(noon, c.n); !d.OK || delay != want*time.Second {
				t.Errorf("%s, request %d: %v, %+v, want %v", c.name, i, delay, d, want*time.Second)
			}
		}
	}
}

// Once slots are over and others were taken since, the hold on them has no effect.
func TestQueueHoldThatIsOver(t *testing.T) {
	q := must(limit.NewQueue(limit.PerSecond(1), 5))
	hold, _ := q.HoldAt(noon, 1)
	q.TakeAt(noon.Add(10*time.Second), 1)
	hold.Release()
	if delay, d := q.ReserveAt(noon, 1); d.OK || d.RetryAfter != 6*time.Second+1 {
		t.Errorf("time has come back: %v, %+v", delay, d)
	}
	if delay, _ := q.ReserveAt(noon.Add(10*time.Second), 1); delay != time.Second {
		t.Errorf("the next waits %v", delay)
	}
	if none, _ := q.HoldAt(noon.Add(10*time.Second), 0); none != (limit.Hold{}) {
		t.Error("a hold of nothing")
	}
}

func TestQueueAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 5))
		if !q.Allow() || q.Allow() {
			t.Error("not exactly one starts now")
		}
		if d := q.Take(0); d.Remaining != 4 {
			t.Errorf("a refused Allow has taken a slot: %+v", d)
		}
		time.Sleep(time.Second - 1)
		if q.Allow() {
			t.Error("a nanosecond early")
		}
		time.Sleep(time.Nanosecond)
		if !q.Allow() {
			t.Error("in time")
		}
	})
}

func TestQueueWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 6))
		f := newFinishes()
		short, cancel := context.WithTimeout(t.Context(), 4*time.Second-1)
		defer cancel()
		f.wait(t.Context(), q, 1, 1)
		f.wait(t.Context(), q, 2, 2)
		f.wait(t.Context(), q, 3, 1)
		f.wait(short, q, 4, 1)
		if delay, _ := q.ReserveAt(time.Now(), 0); delay != 4*time.Second {
			t.Errorf("who cannot start in time has taken a slot: the next waits %v", delay)
		}
		f.wait(t.Context(), q, 5, 2)
		f.wait(t.Context(), q, 6, 1)
		if d := q.Take(0); d != (limit.Decision{OK: true, Remaining: 0, ResetAfter: 6 * time.Second}) {
			t.Errorf("of all that wait: %+v", d)
		}
		f.wait(t.Context(), q, 7, 7)
		f.wait(t.Context(), q, 8, -1)
		f.wait(t.Context(), q, 9, 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		f.wait(ended, q, 10, 1)
		time.Sleep(time.Minute)
		f.want(t, finish{1, 0, nil}, finish{4, 0, limit.ErrDeadline}, finish{6, 0, limit.ErrFull},
			finish{7, 0, limit.ErrNeverFits}, finish{8, 0, limit.ErrNeverFits}, finish{9, 0, nil}, finish{10, 0, context.Canceled},
			finish{2, time.Second, nil}, finish{3, 3 * time.Second, nil}, finish{5, 4 * time.Second, nil})
		if !errors.Is(q.WaitN(short, 1), context.DeadlineExceeded) {
			t.Error("an ended context")
		}
	})
}

// Whoever gives up frees its slots at once: those behind move up, but not those who were
// told when to start.
func TestQueueWaitCancelled(t *testing.T) {
	const half = time.Second / 2
	for _, c := range []struct {
		name   string
		cancel int
		want   []finish
	}{
		{"the first", 2, []finish{{1, 0, nil}, {2, half, context.Canceled}, {3, half * 2, nil}, {4, half * 4, nil}, {5, half * 10, nil}}},
		{"the middle", 3, []finish{{1, 0, nil}, {3, half, context.Canceled}, {2, half * 2, nil}, {4, half * 4, nil}, {5, half * 10, nil}}},
		{"the last before a slot that stays", 4, []finish{{1, 0, nil}, {4, half, context.Canceled}, {2, half * 2, nil}, {3, half * 4, nil}, {5, half * 10, nil}}},
		{"the last", 5, []finish{{1, 0, nil}, {5, half, context.Canceled}, {2, half * 2, nil}, {3, half * 4, nil}, {4, half * 6, nil}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := must(limit.NewQueue(limit.PerSecond(1), 10))
			f := newFinishes()
			var cancels [6]context.CancelFunc
			wait := func(who, n int) {
				ctx, cancel := context.WithCancel(t.Context())
				cancels[who] = cancel
				f.wait(ctx, q, who, n)
			}
			wait(1, 1) // at 0
			wait(2, 1) // at 1
			wait(3, 1) // at 2
			wait(4, 1) // at 3
			if delay, d := q.ReserveAt(time.Now(), 1); !d.OK || delay != 4*time.Second {
				t.Errorf("told to start after %v, %+v", delay, d)
			}
			wait(5, 2) // at 5, and it would take two slots to move up
			time.Sleep(half)
			cancels[c.cancel]()
			time.Sleep(time.Minute)
			if f.want(t, c.want...); t.Failed() {
				t.Log(c.name)
			}
			for _, cancel := range cancels[1:] {
				cancel()
			}
		})
	}
}

// Who waits skips a slot that stays, and one that is given back wakes it.
func TestQueueWaitBehindAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(limit.NewQueue(limit.PerSecond(1), 10))
		hold, _ := q.HoldAt(time.Now(), 2)
		f := newFinishes()
		f.wait(t.Context(), q, 1, 1)
		f.wait(t.Context(), q, 2, 1)
		if q.Allow() {
			t.Error("a slot now, behind those that wait")
		}
		time.Sleep(time.Second / 2)
		hold.Release()
		f.want(t, finish{1, time.Second / 2, nil})
		time.Sleep(time.Minute)
		f.want(t, finish{1, time.Second / 2, nil}, finish{2, 3 * time.Second / 2, nil})
	})
}

// However those that wait, that give up, that are told when to start, and that hold and
// release, come together: no two start sooner than an interval after each other, those
// that wait start in their order and before their capacity has passed, and where only
// they are, each starts exactly when one after the other would.
func TestQueueRandomly(t *testing.T) {
	rounds := 300
	if testing.Short() || raceFactor > 1 {
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
				holds[i].Release()
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

func TestQueueConcurrently(t *testing.T) {
	q := must(limit.NewQueue(limit.Every(time.Microsecond), 1000))
	var mu sync.Mutex
	var starts []time.Duration
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for range 300 {
				switch rng.IntN(4) {
				case 0:
					if hold, d := q.HoldAt(noon, 1); d.OK {
						hold.Release()
					}
				default:
					if delay, d := q.ReserveAt(noon, 1); d.OK {
						mu.Lock()
						starts = append(starts, delay)
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	for {
		delay, d := q.ReserveAt(noon, 1)
		if !d.OK {
			break
		}
		starts = append(starts, delay)
	}
	slices.Sort(starts)
	if len(starts) != 1000 {
		t.Errorf("%d have been accepted", len(starts))
	}
	for i, s := range starts {
		if s != time.Duration(i)*time.Microsecond {
			t.Fatalf("slot %d starts after %v", i, s)
		}
	}
}

// On real threads nobody is forgotten, and nobody starts early.
func TestQueueOnRealThreads(t *testing.T) {
	const interval = 100 * time.Microsecond
	q := must(limit.NewQueue(limit.Every(interval), 100))
	var wg sync.WaitGroup
	var passed atomic.Int64
	begin := time.Now()
	for i := range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				defer time.AfterFunc(time.Duration(i)*interval/2, cancel).Stop()
			}
			if q.Wait(ctx) == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n < 80 {
		t.Errorf("%d have started, 80 had no reason not to", n)
	} else if least, took := time.Duration(n-1)*interval, time.Since(begin); took < least {
		t.Errorf("%d have started in %v, want at least %v", n, took, least)
	}
}

func TestQueueAcrossTheEndOfItsLine(t *testing.T) {
	const end = time.Duration(1 << 61)
	q := must(limit.NewQueue(limit.PerSecond(1), 5))
	q.TakeAt(noon, 1)
	q.TakeAt(noon.Add(end-1), 2)
	hold, _ := q.HoldAt(noon.Add(end-1), 1)
	if delay, d := q.ReserveAt(noon.Add(end), 1); !d.OK || delay != 3*time.Second-1 || d.Remaining != 2 {
		t.Errorf("%v, %+v", delay, d)
	}
	hold.Release()
	if delay, d := q.ReserveAt(noon.Add(end), 1); !d.OK || delay != 2*time.Second-1 {
		t.Errorf("%v, %+v", delay, d)
	}
	if delay, d := q.ReserveAt(noon.Add(end).Add(math.MaxInt64), 5); !d.OK || delay != 0 {
		t.Errorf("%v, %+v", delay, d)
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

package main

import (
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// phase is requests that come evenly: each at the start, the middle or the end of a slot.
type phase struct {
	from, to time.Duration
	requests int
}

var phases = []phase{
	{0, time.Second, 100},
	{2 * time.Second, 2100 * time.Millisecond, 100},
	{3 * time.Second, 4 * time.Second, 200},
}

// place is where in its slot a request comes, in halves of the slot.
type place int

const (
	start place = iota
	middle
	end
)

// outcome is what a limiter made of a request.
type outcome struct {
	phase    int
	at       time.Duration
	admitted bool
	starts   time.Duration // later than at where it queues
}

// algorithm is a limiter of 100 a second, and of 100 at once.
type algorithm struct {
	name string
	take func() func(now time.Time) (delay time.Duration, ok bool)
}

var (
	rate   = limit.PerSecond(100)
	window = time.Second
	origin = time.Unix(1_800_000_000, 0) // a cell of the calendar begins here
)

const burst = 100

var algorithms = []algorithm{
	{"TokenBucket", taking(func() (limit.Limiter, error) { return limit.NewTokenBucket(rate.Limit(), burst), nil })},
	{"GCRA", taking(func() (limit.Limiter, error) { return limit.NewGCRA(rate, burst) })},
	{"AtomicGCRA", taking(func() (limit.Limiter, error) { return limit.NewAtomicGCRA(rate, burst) })},
	{"Meter", taking(func() (limit.Limiter, error) { return limit.NewMeter(rate, burst) })},
	{"Queue", queueing},
	{"FixedWindow", taking(func() (limit.Limiter, error) { return limit.NewFixedWindow(burst, window) })},
	{"AnchoredWindow", taking(func() (limit.Limiter, error) { return limit.NewAnchoredWindow(burst, window) })},
	{"SlidingLog", taking(func() (limit.Limiter, error) { return limit.NewSlidingLog(burst, window) })},
	{"SlidingCounter", taking(func() (limit.Limiter, error) { return limit.NewSlidingCounter(burst, window) })},
}

func taking(make func() (limit.Limiter, error)) func() func(time.Time) (time.Duration, bool) {
	return func() func(time.Time) (time.Duration, bool) {
		l, err := make()
		if err != nil {
			panic(err)
		}
		return func(now time.Time) (time.Duration, bool) { return 0, l.TakeAt(now, 1).OK }
	}
}

func queueing() func(time.Time) (time.Duration, bool) {
	q, err := limit.NewQueue(rate, burst)
	if err != nil {
		panic(err)
	}
	return func(now time.Time) (time.Duration, bool) {
		delay, d := q.ReserveAt(now, 1)
		return delay, d.OK
	}
}

// run shows the whole workload to a new limiter.
func (a algorithm) run(p place) (outcomes []outcome) {
	take := a.take()
	for i, ph := range phases {
		slot := (ph.to - ph.from) / time.Duration(ph.requests)
		for j := range ph.requests {
			at := ph.from + slot*time.Duration(j) + slot*time.Duration(p)/2
			delay, ok := take(origin.Add(at))
			outcomes = append(outcomes, outcome{i, at, ok, at + delay})
		}
	}
	return outcomes
}

// tally counts what was admitted in each phase, and in all.
func tally(outcomes []outcome) (each [3]int, all int) {
	for _, o := range outcomes {
		if o.admitted {
			each[o.phase]++
			all++
		}
	}
	return each, all
}

// densest is the largest number that started in a second, of which the end is not part.
func densest(outcomes []outcome) (most int) {
	var starts []time.Duration
	for _, o := range outcomes {
		if o.admitted {
			starts = append(starts, o.starts)
		}
	}
	first := 0
	for i, s := range starts {
		for s-starts[first] >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

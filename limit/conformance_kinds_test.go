package limit_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// atOnce is how many units every limiter of the suite admits at once, and no more.
const atOnce = 4

// conforming is a limiter of the suite. Each admits atOnce units in the time that they
// take at a rate, of which it is made.
type conforming struct {
	name string
	make func(limit.Rate) waiting
	// most is the largest number of units in a closed interval of length t.
	most func(rate limit.Rate, t time.Duration) int
	// Where a unit goes is chance, so that two of them cannot be compared.
	byChance bool
	// TakeAt charges what starts later, and Wait waits until that.
	queues bool
	// Wait gives a negative number of units back, as x/time does.
	givesBack bool
}

// window is how long atOnce units take.
func window(r limit.Rate) time.Duration { return atOnce * r.Per / time.Duration(r.Count) }

func windows(t, window time.Duration) int { return int((t + window - 1) / window) }

// bucketBound is ⌊rate × t⌋ + burst.
func bucketBound(burst int) func(limit.Rate, time.Duration) int {
	return func(r limit.Rate, t time.Duration) int { return int(t*time.Duration(r.Count)/r.Per) + burst }
}

// cellBound is that of cells of which as many as can be lie in the interval.
func cellBound(r limit.Rate, t time.Duration) int { return atOnce * (windows(t, window(r)) + 1) }

var conformingKinds = []conforming{
	{name: "GCRA", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting { return must(limit.NewGCRA(r, atOnce)) }},
	{name: "AtomicGCRA", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting { return must(limit.NewAtomicGCRA(r, atOnce)) }},
	{name: "Meter", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting { return must(limit.NewMeter(r, atOnce)) }},
	{name: "TokenBucket", givesBack: true, most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting { return limit.NewTokenBucket(r.Limit(), atOnce) }},
	{name: "Queue", queues: true,
		most: func(r limit.Rate, t time.Duration) int { // a slot is free as soon as one has begun
			interval := (r.Per + time.Duration(r.Count) - 1) / time.Duration(r.Count)
			return atOnce + windows(t, interval)
		},
		make: func(r limit.Rate) waiting { return must(limit.NewQueue(r, atOnce)) }},
	{name: "FixedWindow", most: cellBound,
		make: func(r limit.Rate) waiting { return must(limit.NewFixedWindow(atOnce, window(r))) }},
	{name: "AnchoredWindow",
		most: func(r limit.Rate, t time.Duration) int {
			if t%window(r) == 0 {
				return cellBound(r, t)
			}
			return cellBound(r, t) - 1 // the first of them begins with a unit before the interval
		},
		make: func(r limit.Rate) waiting { return must(limit.NewAnchoredWindow(atOnce, window(r))) }},
	{name: "SlidingLog",
		most: func(r limit.Rate, t time.Duration) int { return atOnce * (int(t/window(r)) + 1) },
		make: func(r limit.Rate) waiting { return must(limit.NewSlidingLog(atOnce, window(r))) }},
	{name: "SlidingCounter", most: cellBound,
		make: func(r limit.Rate) waiting { return must(limit.NewSlidingCounter(atOnce, window(r))) }},
	{name: "Sharded", byChance: true, most: bucketBound(2 * atOnce),
		make: func(r limit.Rate) waiting { return must(limit.NewSharded(r, 2*atOnce, 2)) }},
	{name: "Sharded in one", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting { return must(limit.NewSharded(r, atOnce, 1)) }},
	{name: "All", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting {
			return limit.All(must(limit.NewGCRA(r, atOnce)), must(limit.NewSlidingLog(atOnce+1, window(r))),
				must(limit.NewFixedWindow(atOnce+2, window(r))))
		}},
	{name: "Tree", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting {
			root := must(limit.NewTree("root", must(limit.NewSlidingCounter(atOnce+1, window(r)))))
			return must(root.Child("leaf", must(limit.NewMeter(r, atOnce))))
		}},
	{name: "Keyed", most: bucketBound(atOnce),
		make: func(r limit.Rate) waiting {
			return ofKey{must(limit.NewKeyed(1, 1000*time.Hour, func(string) (limit.Limiter, error) { return limit.NewGCRA(r, atOnce) }))}
		}},
}

// ofKey is a Keyed as the limiter of one key.
type ofKey struct{ *limit.Keyed[string] }

func (k ofKey) TakeAt(now time.Time, n int) limit.Decision {
	return must(k.Keyed.TakeAt("key", now, n))
}
func (k ofKey) HoldAt(now time.Time, n int) (limit.Hold, limit.Decision) {
	h, d, err := k.Keyed.HoldAt("key", now, n)
	if err != nil {
		panic(err)
	}
	return h, d
}
func (k ofKey) Allow() bool                            { return k.Keyed.Allow("key") }
func (k ofKey) Take(n int) limit.Decision              { return must(k.Keyed.Take("key", n)) }
func (k ofKey) Wait(ctx context.Context) error         { return k.Keyed.Wait(ctx, "key") }
func (k ofKey) WaitN(ctx context.Context, n int) error { return k.Keyed.WaitN(ctx, "key", n) }

// sevens is a rate that does not divide a second, eights one of which floats are exact.
var sevens, eights = limit.PerSecond(7), limit.PerSecond(8)

func onConforming(t *testing.T, f func(t *testing.T, kind conforming, rng *rand.Rand)) {
	for i, kind := range conformingKinds {
		t.Run(kind.name, func(t *testing.T) { f(t, kind, rand.New(rand.NewPCG(7, uint64(i)))) })
	}
}

package classuse

import (
	"math/rand/v2"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// call is a call as the model of the test knows it.
type call struct {
	charge   *Charge
	at, day  int64
	count    tokens.Count
	refunded bool
	closed   bool
}

func TestUseAgreesWithALookAtAllCalls(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		var u Use
		var calls []*call
		now, day := int64(1), int64(1)
		for range 500 {
			now += random.Int64N(4)
			if random.IntN(50) == 0 {
				day = now
			}
			tokens := tokens.Count{Input: random.IntN(10), Output: random.IntN(5)}
			switch {
			case random.IntN(2) == 0 || len(calls) == 0:
				calls = append(calls, &call{charge: u.Charge(now, day, tokens), at: now, day: day, count: tokens})
			default:
				c := calls[random.IntN(len(calls))]
				if c.closed {
					break
				}
				if c.closed = true; random.IntN(2) == 0 {
					c.refunded = true
					c.charge.Refund()
				} else {
					c.count = tokens
					c.charge.Settle(tokens)
				}
				c.charge.Close()
			}
			for of := range state.Dimensions {
				want := 0
				for _, c := range calls {
					cost := state.Cost{Requests: 1, Count: c.count}
					switch w := state.Limits[of].Window; {
					case w == state.Settled && !c.closed:
						want++
					case w == state.Settled || c.refunded:
					case w == state.Day && c.day == day, w == state.Minute && c.at >= now-20:
						want += cost.Of(of)
					}
				}
				if got := u.Of(of, now-20, day); got != want {
					t.Fatalf("%s: %d, want %d", state.Limits[of].Field, got, want)
				}
			}
		}
	}
}

func TestNilChargeCountsNothing(t *testing.T) {
	var c *Charge
	c.Settle(tokens.Count{Input: 1})
	c.Refund()
	c.Close()
}

package adaptivesim

import (
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

func ours(c adaptive.RateConfig) *Rate {
	if c.Floor.Count == 0 {
		c.Floor = limit.PerMinute(6)
	}
	if c.Ceiling.Count == 0 {
		c.Ceiling = limit.PerSecond(10000)
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	r, err := adaptive.NewRate(c)
	if err != nil {
		panic(err)
	}
	return &Rate{Limiter: r}
}

func TestTry(t *testing.T) {
	for _, ra := range []bool{false, true} {
		for _, c := range []float64{1, 3, 10, 30, 100} {
			for _, depth := range []time.Duration{200 * time.Millisecond, time.Second, 10 * time.Second, 60 * time.Second} {
				p := Provider{Capacity: Constant(c), Depth: depth, RetryAfter: ra}
				cl := ours(adaptive.RateConfig{})
				ss := Run{Provider: p, Clients: []Client{cl}, Length: 40 * time.Minute, Seed: 3}.Do()
				s := Total(p, 10*time.Minute, 40*time.Minute, ss...)
				a, _ := Settles(ss[0], 0, 30*time.Minute, c, .2)
				fmt.Printf("ra %v c %4v depth %5v refused %.2f%% good %.2f%% lowered %d, found in %v\n", ra, c, depth, 100*s.RefusedShare(), 100*s.Goodput(), cl.Lowered, a)
			}
		}
	}
	for _, c := range []float64{1, 5, 10, 100} {
		for _, f := range []float64{.25, .5, 2, 4} {
			p := Provider{Capacity: Step(c, 10*time.Minute, c*f), Depth: time.Second}
			cl := ours(adaptive.RateConfig{})
			ss := Run{Provider: p, Clients: []Client{cl}, Length: 20 * time.Minute, Seed: 3}.Do()
			a, ok := Settles(ss[0], 10*time.Minute, 20*time.Minute, c*f, .2)
			l := Leaves(ss[0], 11*time.Minute, 20*time.Minute, c*f, .2)
			fmt.Printf("step %v x %v: %v %v out after 60 s %.3f\n", c, f, a, ok, l)
		}
	}
	for _, c := range []float64{2, 10, 100} {
		for _, join := range []time.Duration{0, 5 * time.Minute} {
			p := Provider{Capacity: Constant(c), Depth: time.Second}
			a, b := ours(adaptive.RateConfig{Seed: 1}), ours(adaptive.RateConfig{Seed: 2})
			ss := Run{Provider: p, Clients: []Client{a, b}, Joins: []time.Duration{0, join}, Length: 60 * time.Minute, Seed: 3}.Do()
			for _, m := range []time.Duration{10, 20, 30, 50} {
				x := Total(p, m*time.Minute, (m+10)*time.Minute, ss[0])
				y := Total(p, m*time.Minute, (m+10)*time.Minute, ss[1])
				fmt.Printf("rival c %v join %v min %v: share %.2f refused %.2f%% good %.2f%%\n", c, join, m, float64(x.Answered)/float64(x.Answered+y.Answered), 100*float64(x.Refused+y.Refused)/float64(x.Sent+y.Sent), 100*(x.Goodput()+y.Goodput()))
			}
		}
	}
}

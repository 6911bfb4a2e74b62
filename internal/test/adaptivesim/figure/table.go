package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
	"dappco.re/go/core/go-ratelimit/limit"
)

// newRate returns a client of 6 calls a minute to 1,000 a second with some settings.
func newRate(c adaptive.RateConfig, seed uint64) (sim.Client, error) {
	c.Floor, c.Ceiling, c.Seed = limit.PerMinute(6), limit.PerSecond(1000), seed
	r, err := adaptive.NewRate(c)
	return &sim.Rate{Limiter: r}, err
}

// steady returns what a client does between the 10th and the 30th minute of a capacity that
// does not change.
func steady(client sim.Client, p sim.Provider) sim.Sum {
	seconds := sim.Run{Provider: p, Clients: []sim.Client{client}, Length: 30 * time.Minute, Seed: 3}.Do()
	return sim.Total(p, 10*time.Minute, 30*time.Minute, seconds...)
}

// steadyTable has the steady state at several capacities, buckets and habits of a provider.
func steadyTable() (string, error) {
	var b strings.Builder
	b.WriteString("| Calls a second | bucket of 1 s | of 10 s | of 60 s | of 1 s, with `Retry-After` | of 10 s, with `Retry-After` |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, capacity := range []float64{0.5, 1, 2, 3, 5, 10, 30, 100} {
		fmt.Fprintf(&b, "| %v ", capacity)
		for _, c := range []struct {
			depth      time.Duration
			retryAfter bool
		}{{time.Second, false}, {10 * time.Second, false}, {time.Minute, false}, {time.Second, true}, {10 * time.Second, true}} {
			client, err := newRate(adaptive.RateConfig{}, 1)
			if err != nil {
				return "", err
			}
			s := steady(client, sim.Provider{Capacity: sim.Constant(capacity), Depth: c.depth, RetryAfter: c.retryAfter})
			fmt.Fprintf(&b, "| %.2f, %.1f ", 100*s.RefusedShare(), 100*s.Goodput())
		}
		b.WriteString("|\n")
	}
	return b.String(), nil
}

// setting is a row of the sweep.
type setting struct {
	name   string
	config adaptive.RateConfig
}

var settings = []setting{
	{"the defaults", adaptive.RateConfig{}},
	{"`CoolDown` 500 ms", adaptive.RateConfig{CoolDown: 500 * time.Millisecond}},
	{"`CoolDown` 1 s", adaptive.RateConfig{CoolDown: time.Second}},
	{"`CoolDown` 5 s", adaptive.RateConfig{CoolDown: 5 * time.Second}},
	{"`Window` 1 s", adaptive.RateConfig{Window: time.Second}},
	{"`Window` 4 s", adaptive.RateConfig{Window: 4 * time.Second}},
	{"`WindowUnits` 1", adaptive.RateConfig{WindowUnits: 1}},
	{"`WindowUnits` 25", adaptive.RateConfig{WindowUnits: 25}},
	{"`Decrease` 20", adaptive.RateConfig{Decrease: 20}},
	{"`Decrease` 100", adaptive.RateConfig{Decrease: 100}},
	{"`Decrease` 300", adaptive.RateConfig{Decrease: 300}},
	{"`Decrease` 500", adaptive.RateConfig{Decrease: 500}},
	{"`Increase` 1", adaptive.RateConfig{Increase: 1}},
	{"`Increase` 4", adaptive.RateConfig{Increase: 4}},
	{"`Increase` 10", adaptive.RateConfig{Increase: 10}},
}

// sweepTable has the figures of settings that differ from the defaults in one field, and last
// those of one decrease for each refusal.
func sweepTable() (string, error) {
	var b strings.Builder
	b.WriteString("| Setting | at 3 a second | at 10 | at 100 | new capacity found, median and worst | share of the first of two, worst |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, s := range settings {
		row, err := sweepRow(func(seed uint64) (sim.Client, error) { return newRate(s.config, seed) })
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s %s\n", s.name, row)
	}
	row, err := sweepRow(func(uint64) (sim.Client, error) { return sim.NewPerEvent(0.1, 1000), nil })
	fmt.Fprintf(&b, "| a decrease for each refusal, by half %s\n", row)
	return b.String(), err
}

func sweepRow(client func(seed uint64) (sim.Client, error)) (string, error) {
	var b strings.Builder
	for _, capacity := range []float64{3, 10, 100} {
		c, err := client(1)
		if err != nil {
			return "", err
		}
		s := steady(c, sim.Provider{Capacity: sim.Constant(capacity), Depth: time.Second})
		fmt.Fprintf(&b, "| %.2f, %.1f ", 100*s.RefusedShare(), 100*s.Goodput())
	}
	found, err := stepTimes(client)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "| %s, %s ", found[len(found)/2], found[len(found)-1])
	share, err := worstShare(client)
	fmt.Fprintf(&b, "| %.0f %% |", 100*share)
	return b.String(), err
}

// stepTimes returns how long clients take to come within 20 % of a new capacity, in order.
func stepTimes(client func(seed uint64) (sim.Client, error)) (times []time.Duration, err error) {
	const at = 10 * time.Minute
	for _, before := range []float64{5, 10, 100} {
		for _, factor := range []float64{0.25, 0.5, 2, 4} {
			for seed := range uint64(3) {
				c, err := client(seed + 1)
				if err != nil {
					return nil, err
				}
				change := at + time.Duration(seed)*7*time.Second
				p := sim.Provider{Capacity: sim.Step(before, change, before*factor), Depth: time.Second}
				seconds := sim.Run{Provider: p, Clients: []sim.Client{c}, Length: 20 * time.Minute, Seed: seed}.Do()
				took, ok := sim.Settles(seconds[0], change, 20*time.Minute, before*factor, 0.2)
				if !ok {
					took = 10 * time.Minute
				}
				times = append(times, took)
			}
		}
	}
	slices.Sort(times)
	return times, nil
}

// worstShare returns the share of the first of two clients, the second of which comes 5 minutes
// later, between the 30th and the 50th minute, that is furthest from a half.
func worstShare(client func(seed uint64) (sim.Client, error)) (worst float64, err error) {
	worst = 0.5
	for _, capacity := range []float64{3, 10, 100} {
		for seed := range uint64(3) {
			first, err := client(10 + seed)
			if err != nil {
				return 0, err
			}
			second, err := client(20 + seed)
			if err != nil {
				return 0, err
			}
			p := sim.Provider{Capacity: sim.Constant(capacity), Depth: time.Second}
			seconds := sim.Run{
				Provider: p, Clients: []sim.Client{first, second}, Joins: []time.Duration{0, 5 * time.Minute},
				Length: 50 * time.Minute, Seed: seed,
			}.Do()
			one := sim.Total(p, 30*time.Minute, 50*time.Minute, seconds[0])
			both := sim.Total(p, 30*time.Minute, 50*time.Minute, seconds...)
			if share := float64(one.Answered) / float64(both.Answered); math.Abs(share-0.5) > math.Abs(worst-0.5) {
				worst = share
			}
		}
	}
	return worst, nil
}

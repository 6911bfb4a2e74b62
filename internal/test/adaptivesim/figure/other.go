package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// lateTable has the steady state where refusals take long to come back.
func lateTable() (string, error) {
	var b strings.Builder
	b.WriteString("| Refusals after | 10 a second, bucket of 1 s | of 10 s | of 60 s | 100 a second, bucket of 1 s | of 10 s | of 60 s |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, trip := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second} {
		fmt.Fprintf(&b, "| %v ", trip)
		for _, capacity := range []float64{10, 100} {
			for _, depth := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
				client, err := newRate(adaptive.RateConfig{}, 1)
				if err != nil {
					return "", err
				}
				p := sim.Provider{Capacity: sim.Constant(capacity), Depth: depth, Trip: trip}
				seconds := sim.Run{Provider: p, Clients: []sim.Client{client}, Length: 50 * time.Minute, Seed: 3}.Do()
				s := sim.Total(p, 15*time.Minute, 50*time.Minute, seconds...)
				fmt.Fprintf(&b, "| %.2f, %.1f ", 100*s.RefusedShare(), 100*s.Goodput())
			}
		}
		b.WriteString("|\n")
	}
	return b.String(), nil
}

// sharesTable has the shares of the first of two clients, the second of which comes 4 minutes
// later, between the 30th and the 50th minute of 40 runs.
func sharesTable() (string, error) {
	var b strings.Builder
	b.WriteString("| Calls a second | share of the first | within 40 and 60 % | refused, of both | used |\n")
	b.WriteString("|---|---|---|---|---|\n")
	const runs, from, to = 40, 30 * time.Minute, 50 * time.Minute
	for _, capacity := range []float64{1, 2, 3, 5, 10, 30, 100} {
		least, most, within, refused, used := 1., 0., 0, 0., 0.
		for seed := range uint64(runs) {
			first, err := newRate(adaptive.RateConfig{}, 100+seed)
			if err != nil {
				return "", err
			}
			second, err := newRate(adaptive.RateConfig{}, 200+seed)
			if err != nil {
				return "", err
			}
			p := sim.Provider{Capacity: sim.Constant(capacity), Depth: time.Second}
			seconds := sim.Run{
				Provider: p, Clients: []sim.Client{first, second}, Joins: []time.Duration{0, 4 * time.Minute},
				Length: to, Seed: seed,
			}.Do()
			one, both := sim.Total(p, from, to, seconds[0]), sim.Total(p, from, to, seconds...)
			share := float64(one.Answered) / float64(both.Answered)
			least, most = min(least, share), max(most, share)
			if share >= 0.4 && share <= 0.6 {
				within++
			}
			refused, used = refused+both.RefusedShare()/runs, used+both.Goodput()/runs
		}
		fmt.Fprintf(&b, "| %v | %.0f to %.0f %% | %d of %d | %.2f | %.1f |\n",
			capacity, 100*least, 100*most, within, runs, 100*refused, 100*used)
	}
	return b.String(), nil
}

// slotsTable has the steady state of some numbers of slots, and how long a new number takes to
// be found.
func slotsTable() (string, error) {
	var b strings.Builder
	b.WriteString("| Slots | overloaded | the limit is at | half as many found | twice as many |\n")
	b.WriteString("|---|---|---|---|---|\n")
	for _, slots := range []int{2, 4, 8, 16, 50, 300} {
		const at, end = 70 * time.Minute, 2 * time.Hour
		fmt.Fprintf(&b, "| %d ", slots)
		for i, later := range []int{slots / 2, slots * 2} {
			limiter, err := adaptive.NewConcurrency(adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 1000, Seed: 1})
			if err != nil {
				return "", err
			}
			p := sim.Provider{Capacity: sim.Constant(1e6), Depth: time.Second, Slots: func(t time.Duration) int {
				if t < at {
					return slots
				}
				return later
			}}
			seconds := sim.Run{Provider: p, Clients: []sim.Client{&sim.Slots{Limiter: limiter}}, Length: end, Seed: 3}.Do()
			if i == 0 {
				level := 0.
				for _, second := range seconds[0][10*60 : at/time.Second] {
					level += second.Level / 3600 / float64(slots)
				}
				s := sim.Total(p, 10*time.Minute, at, seconds...)
				fmt.Fprintf(&b, "| %.2f %% | %.0f %% ", 100*s.RefusedShare(), 100*level)
			}
			took, _ := sim.Settles(seconds[0], at, end, float64(later), 0.2)
			fmt.Fprintf(&b, "| %v ", took)
		}
		b.WriteString("|\n")
	}
	return b.String(), nil
}

// throttleTable has, for settings of a Throttle, the calls a second that are sent in the last 8
// minutes of an outage of 10, and how long after it all pass.
func throttleTable() (string, error) {
	var b strings.Builder
	b.WriteString("| Calls a second | the default | `MaxRejection` 900 | `RejectionWeight` 1000 |\n")
	b.WriteString("|---|---|---|---|\n")
	for _, demand := range []float64{1, 5, 50, 500} {
		fmt.Fprintf(&b, "| %v ", demand)
		for _, c := range []adaptive.ThrottleConfig{{}, {MaxRejection: 900}, {RejectionWeight: 1000}} {
			c.Seed = 1
			limiter, err := adaptive.NewThrottle(c)
			if err != nil {
				return "", err
			}
			run := sim.Dead()
			run.Provider.Answer = func(*rand.Rand) time.Duration { return 300 * time.Millisecond }
			run.Provider.Capacity = sim.Outage(1e6, 5*time.Minute, 15*time.Minute)
			run.Clients, run.Demand = []sim.Client{&sim.Throttled{Limiter: limiter}}, sim.Constant(demand)
			seconds := run.Do()[0]
			out := sim.Total(run.Provider, 7*time.Minute, 15*time.Minute, seconds)
			took, _ := sim.Settles(seconds, 15*time.Minute, run.Length, 0, 0)
			fmt.Fprintf(&b, "| %.2f, %v ", float64(out.Sent)/480, took)
		}
		b.WriteString("|\n")
	}
	return b.String(), nil
}

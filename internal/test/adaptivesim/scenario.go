package adaptivesim

import (
	"math"
	"time"
)

// Changing is the run of docs/adaptive.svg: a capacity of 10 calls a second that doubles, falls
// to a half, is out, and then swings.
func Changing() Run {
	return Run{
		Provider: Provider{Depth: time.Second, Capacity: func(t time.Duration) float64 {
			switch minutes := t.Minutes(); {
			case minutes < 8:
				return 10
			case minutes < 14:
				return 20
			case minutes < 20:
				return 5
			case minutes < 22:
				return 0
			case minutes < 28:
				return 10
			default:
				return 10 + 5*math.Sin(2*math.Pi*(minutes-28)/6)
			}
		}},
		Length: 40 * time.Minute,
		Seed:   3,
	}
}

// Dead is a run in which clients want 20 calls a second, and the provider is out from the 5th
// to the 15th minute.
func Dead() Run {
	return Run{
		Provider: Provider{Depth: time.Second, Capacity: Outage(100, 5*time.Minute, 15*time.Minute)},
		Demand:   Constant(20),
		Length:   30 * time.Minute,
		Seed:     3,
	}
}

// Shape is a way in which a provider counts calls.
type Shape struct {
	Name     string
	Provider Provider
}

// Shapes are the ways of docs/adaptive.md.
func Shapes() []Shape {
	return []Shape{
		{"a bucket of 1", Provider{Least: 1, Even: true}},
		{"of 1 s", Provider{Depth: time.Second}},
		{"of 10 s", Provider{Depth: 10 * time.Second}},
		{"of 60 s", Provider{Depth: time.Minute}},
		{"a sliding minute", Provider{Window: Sliding}},
		{"a calendar minute", Provider{Window: Calendar}},
		{"the same, begun late", Provider{Window: Calendar, Phase: 43 * time.Second}},
	}
}

// Run is a run of half an hour at a capacity. A neighbour takes 30 % of it in every other period,
// if that is not 0.
func (s Shape) Run(capacity float64, retryAfter bool, period time.Duration, seed uint64) Run {
	p := s.Provider
	p.Capacity, p.RetryAfter = Constant(capacity), retryAfter
	if period > 0 {
		p.Neighbour = OnAndOff(0.3*capacity, period)
	}
	return Run{Provider: p, Length: 30 * time.Minute, Seed: seed}
}

// Settled is what happened in a Run of a Shape from its tenth minute on.
func (r Run) Settled(seconds ...[]Second) Sum {
	return Total(r.Provider, 10*time.Minute, r.Length, seconds...)
}

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

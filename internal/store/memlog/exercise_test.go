package memlog

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store/storetest"
)

func TestExercise(t *testing.T) {
	for name, faults := range map[string]Faults{
		"a plain store":     {},
		"one with gaps":     {Latency: time.Millisecond, Gap: 700, Page: 3, Witness: true},
		"one without words": {Latency: time.Millisecond, NoInstant: true, Tick: time.Millisecond, Blind: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Exercise(t, func(*testing.T) storetest.Place {
				s := New(faults)
				return storetest.Place{
					Store:   s,
					Empty:   func(*testing.T) { s.Empty() },
					LoseEnd: func(*testing.T) { s.LoseEnd(1) },
					Kill:    func(_ *testing.T, process int64) { s.Kill(process) },
				}
			})
		})
	}
}

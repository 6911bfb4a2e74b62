// What a program that waits for capacity, and records, is counted as.

package instruments_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

type reading func(m *instruments.Measurements)

func (f reading) HandleEvent(_ context.Context, e *ratelimit.Event) {
	var m instruments.Measurements
	instruments.Read(e, &m)
	f(&m)
}

// A wait without a reservation is no request, whether it is refused or not.
func TestWaitsAreNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, refused := 0, 0
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath: t.TempDir() + "/state.yaml",
			Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}},
			Events: reading(func(m *instruments.Measurements) {
				if m.Request {
					requests++
					if m.Result == instruments.Refused {
						refused++
					}
				}
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer rl.Close()
		for range 20 { // calls, one of which in twenty is given up early
			rl.RecordUsage("m", 1, 1)
			rl.WaitForCapacity(t.Context(), "m", 1)
		}
		rl.RecordUsage("m", 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rl.WaitForCapacity(ctx, "m", 1)
		if requests != 0 {
			t.Errorf("%d requests, of which %d were refused", requests, refused)
		}
	})
}

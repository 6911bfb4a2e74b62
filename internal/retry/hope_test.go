package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestHope(t *testing.T) {
	for _, tt := range []struct {
		name           string
		takes, most    time.Duration
		asks           time.Duration // after the beginning
		patience, want time.Duration // of the caller
	}{
		{"until the attempt ends", second, 5 * second, 0, time.Hour, second},
		{"for the rest of it", 3 * second, 5 * second, 2 * second, time.Hour, second},
		{"for a limited time", time.Minute, 5 * second, 0, time.Hour, 5 * second},
		{"not once that is over", time.Minute, 5 * second, 6 * second, time.Hour, 0},
		{"not after the attempt", second, 5 * second, 2 * second, time.Hour, 0},
		{"no longer than the caller", second, 5 * second, 0, second / 2, second / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h Hope
				h.Await(t.Context()) // there is none yet
				h.Begin(tt.most, func() { time.Sleep(tt.takes) })
				time.Sleep(tt.asks)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				h.Await(ctx)
				if waited := time.Since(began); waited != tt.want {
					t.Errorf("waited %v, want %v", waited, tt.want)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// Close and waiters: no call begins during a shutdown.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestCloseRefusesEverybodyWhoWaits(t *testing.T) {
	needSQLite(t)
	quotas := map[string]ratelimit.ModelQuota{"a": {MaxTPM: 100}, "b": {MaxTPM: 100}, "slots": {MaxInFlight: 1}}
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas, Shared: shared, Backend: "sqlite", FilePath: path})
				reserve(t, rl, "a", 60, 0)
				reserve(t, rl, "b", 60, 0)
				slot := reserve(t, rl, "slots", 1, 0)
				ctx := context.Background()
				one := func(model string, tokens int) func() error {
					return func() error {
						_, err := rl.Acquire(ctx, model, tokens, 0)
						return err
					}
				}
				waits := []struct {
					name string
					wait func() error
				}{
					{"the head of a line", one("a", 90)},
					{"a smaller one behind it", one("a", 1)},
					{"one without cost", one("a", 0)},
					{"the head of two lines", func() error {
						_, err := rl.AcquireAll(ctx, ratelimit.Request{Model: "b", PromptTokens: 90}, ratelimit.Request{Model: "a", PromptTokens: 1})
						return err
					}},
					{"behind the head of two lines", one("b", 1)},
					{"for capacity", func() error { return rl.WaitForCapacity(ctx, "b", 1) }},
					{"for a slot", one("slots", 1)},
					{"behind one for a slot", one("slots", 0)},
				}
				type result struct {
					name string
					err  error
				}
				results := make(chan result, len(waits))
				for _, w := range waits {
					go func() { results <- result{w.name, w.wait()} }()
					time.Sleep(time.Second)
				}
				if n := len(results); n > 0 {
					t.Fatalf("%d do not wait, such as %+v", n, <-results)
				}
				if err := rl.Close(); err != nil {
					t.Error(err)
				}
				slot.Cancel()
				for range waits {
					if r := <-results; !errors.Is(r.err, ratelimit.ErrClosed) {
						t.Errorf("%s: error is %v, want ErrClosed", r.name, r.err)
					}
				}
			})
		})
	}
}

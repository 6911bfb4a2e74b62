//go:build !nosqlite

// Shared: days from events and from the table.

package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// The table daily is written only when newer events are deleted. A limiter that opens the file at
// any time finds the same days as the limiters that had it open all along.
func TestSharedDaysFromEventsAndTable(t *testing.T) {
	t.Parallel()
	seeds := 2 / uint64(min(racetest.Factor, 2))
	if os.Getenv("RATELIMIT_LONG") != "" {
		seeds = 200
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(1, seed))
		path := filepath.Join(t.TempDir(), "s.db")
		open := func() *RateLimiter {
			rl, err := NewWithSQLiteConfig(path, Config{Shared: true})
			if err != nil {
				t.Fatal(err)
			}
			return rl
		}
		models := []string{"a", "b", "c"}
		limiters := []*RateLimiter{open(), open(), open()}
		all := func(f func(*RateLimiter)) {
			for _, rl := range limiters {
				f(rl)
			}
		}
		know := func(rl *RateLimiter) { rl.Stats("a") }
		var held []*Reservation
		for step := range 400 {
			rl, model := limiters[r.IntN(3)], models[r.IntN(3)]
			switch n := r.IntN(240); {
			case n < 10: // so that this one deletes them
				all(know)
				rl.mu.Lock()
				for _, e := range rl.ledger.tail.Live() {
					e.At -= 3 * minute
				}
				rl.mu.Unlock()
				rl.RecordUsage("other", 1, 1)
				all(know)
			case n < 12:
				rl.Reset(model)
			case n < 13:
				rl.Reset("")
			case n < 15:
				i := r.IntN(3)
				limiters[i].Close()
				limiters[i] = open()
			case n < 55 && len(held) > 0:
				i := r.IntN(len(held))
				if r.IntN(2) == 0 {
					held[i].Commit(r.IntN(20), 3)
				} else {
					held[i].Cancel()
				}
				held = slices.Delete(held, i, i+1)
			case n < 110:
				if made, _ := rl.Reserve(model, r.IntN(10), 5); made != nil {
					held = append(held, made)
				}
			default:
				rl.RecordUsage(model, r.IntN(10), 5)
			}
			if step%20 != 0 {
				continue
			}
			late := open()
			for _, model := range models {
				day := func(rl *RateLimiter) string {
					requests := rl.Stats(model).RPD
					if stats := rl.State[model]; stats != nil {
						return fmt.Sprint(requests, stats.DayTokens)
					}
					return fmt.Sprint(requests, 0)
				}
				want := day(late)
				all(func(rl *RateLimiter) {
					if got := day(rl); got != want {
						t.Fatalf("seed %d, step %d, %s: %s requests and tokens, one that came later found %s", seed, step, model, got, want)
					}
				})
			}
			late.Close()
		}
		all(func(rl *RateLimiter) {
			if err := rl.Err(); err != nil {
				t.Fatal(err)
			}
			if err := rl.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

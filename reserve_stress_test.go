// Reservations: what they allocate, and many at once.

package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestReserveAllocatesTheReservationOnly(t *testing.T) {
	tests := []struct {
		name  string
		quota ratelimit.ModelQuota
		call  func(rl *ratelimit.RateLimiter)
		most  float64
	}{
		{"Reserve and Commit", ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30},
			func(rl *ratelimit.RateLimiter) { r, _ := rl.Reserve("m", 9, 9); r.Commit(5, 12) }, 1},
		{"every dimension", ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30, MaxITPM: 1 << 30, MaxOTPM: 1 << 30, MaxTPD: 1 << 30, MaxInFlight: 5},
			func(rl *ratelimit.RateLimiter) { r, _ := rl.Reserve("m", 9, 9); r.Commit(5, 9) }, 1},
		{"Reserve and Cancel", ratelimit.ModelQuota{MaxRPM: 1 << 30},
			func(rl *ratelimit.RateLimiter) { r, _ := rl.Reserve("m", 9, 9); r.Cancel() }, 1},
		{"Acquire that need not wait", ratelimit.ModelQuota{MaxRPM: 1 << 30},
			func(rl *ratelimit.RateLimiter) { r, _ := rl.Acquire(context.Background(), "m", 9, 9); r.Commit(9, 9) }, 1},
		{"denied by the tokens", ratelimit.ModelQuota{MaxTPM: 1, MaxITPM: 1}, func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 0) }, 0},
		{"denied by the calls", ratelimit.ModelQuota{MaxInFlight: 1}, func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 0) }, 0},
		{"never fits", ratelimit.ModelQuota{MaxOTPM: 1}, func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 0, 2) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rl := newLimiter(t, tt.quota)
			held, _ := rl.Reserve("m", 1, 0)
			if tt.most > 0 {
				held.Commit(1, 0)
				for range 3000 { // so that the storage has grown
					rl.RecordUsage("m", 1, 1)
				}
			}
			if got := testing.AllocsPerRun(500, func() { tt.call(rl) }); got > tt.most {
				t.Errorf("%v allocations, want %v", got, tt.most)
			}
			held.Cancel()
		})
	}
}

// TestReservationsUnderWay lets many goroutines reserve and settle while the
// state is written, read and reset. With -race it also shows that what is written
// without the lock is not changed meanwhile.
func TestReservationsUnderWay(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{
				Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), HoldTTL: time.Minute,
				Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1 << 20, MaxTPM: 1 << 30}, "slots": {MaxInFlight: 3}},
			})
			defer rl.Close()
			for range 2000 {
				rl.RecordUsage("m", 3, 4)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 8 {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				wg.Go(func() {
					for ctx.Err() == nil {
						model := []string{"m", "slots", "unknown"}[random.IntN(3)]
						r, err := rl.Acquire(ctx, model, random.IntN(9), random.IntN(9))
						if err != nil {
							return
						}
						var both sync.WaitGroup
						both.Go(func() { r.Arrived(time.Now()) })
						both.Go(func() { _ = r.Model() + fmt.Sprint(r.ReservedAt()) })
						if random.IntN(2) == 0 {
							r.Commit(random.IntN(20), random.IntN(20))
						} else {
							r.Cancel()
						}
						both.Wait()
					}
				})
			}
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if err := rl.Persist(); err != nil {
						t.Error(err)
						return
					}
					switch i % 7 {
					case 3:
						if err := rl.Load(); err != nil {
							t.Error(err)
							return
						}
					case 6:
						rl.Reset("")
					}
				}
			})
			wg.Wait()
			for model, s := range rl.Iter() {
				if s.InFlight != 0 || s.Waiting != 0 {
					t.Errorf("%s: %+v in the end", model, s)
				}
			}
			if err := rl.Persist(); err != nil {
				t.Fatal(err)
			}
			before := rl.AllStats()
			if err := rl.Load(); err != nil {
				t.Fatal(err)
			}
			for model, s := range rl.Iter() {
				if was := before[model]; s.RPD != was.RPD || s.TPD != was.TPD {
					t.Errorf("%s: loaded %+v, stored %+v", model, s, was)
				}
			}
		})
	}
}

// A reservation that is open while the state is written is written as it is, and
// the file is right again at the next Persist.
func TestYAMLHasTheEstimateAndThenWhatWasUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := newLimiterWith(t, ratelimit.Config{FilePath: path})
	r := reserve(t, rl, "m", 20, 30)
	for _, want := range []string{"count: 50", "count: 7", "day_tokens: 7"} {
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
		r.Commit(3, 4)
	}
}

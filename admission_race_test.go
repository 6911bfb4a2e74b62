// Admission by many goroutines at once: exactly the quota, and never more slots.

package ratelimit_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// hammer runs f in 64 goroutines that start together.
func hammer(f func(goroutine int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for g := range 64 {
		done.Go(func() {
			start.Wait()
			f(g)
		})
	}
	start.Done()
	done.Wait()
}

func TestHammeredReserveAdmitsExactlyTheQuota(t *testing.T) {
	tests := []struct {
		name  string
		quota ratelimit.ModelQuota
		want  int64
	}{
		{"rpm", ratelimit.ModelQuota{MaxRPM: 100}, 100},
		{"rpd", ratelimit.ModelQuota{MaxRPD: 101}, 101},
		{"tpm", ratelimit.ModelQuota{MaxTPM: 1004}, 100}, // 10 each
		{"itpm", ratelimit.ModelQuota{MaxITPM: 700}, 100},
		{"otpm", ratelimit.ModelQuota{MaxOTPM: 299}, 99},
		{"tpd", ratelimit.ModelQuota{MaxTPD: 330}, 33},
		{"in flight", ratelimit.ModelQuota{MaxInFlight: 17}, 17},
		{"all", ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 10000, MaxRPD: 900, MaxITPM: 7000, MaxOTPM: 3000, MaxTPD: 900, MaxInFlight: 95}, 90},
	}
	for _, tt := range tests {
		for _, together := range []int{1, 2} {
			t.Run(tt.name, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				var admitted atomic.Int64
				var mu sync.Mutex
				var kept ratelimit.Reservations
				hammer(func(g int) {
					for range 30 {
						var rs ratelimit.Reservations
						if together == 2 && g%2 == 0 {
							req := ratelimit.Request{Model: "m", PromptTokens: 7, OutputTokens: 3}
							rs, _ = rl.ReserveAll(req, req)
						} else if r, _ := rl.Reserve("m", 7, 3); r != nil {
							rs = append(rs, r)
						}
						admitted.Add(int64(len(rs)))
						mu.Lock()
						kept = append(kept, rs...)
						mu.Unlock()
					}
				})
				if got := admitted.Load(); got != tt.want {
					t.Errorf("%d admitted, want %d", got, tt.want)
				}
				if stats := rl.Stats("m"); stats.RPM != int(tt.want) || stats.InFlight != int(tt.want) || stats.TPD != int(tt.want)*10 {
					t.Errorf("stats are %+v, want %d", stats, tt.want)
				}
				hammer(func(g int) { // all settle all
					for i := range kept {
						kept[(i+g)%len(kept)].Cancel()
					}
				})
				if stats := rl.Stats("m"); stats.RPM+stats.TPM+stats.RPD+stats.TPD+stats.ITPM+stats.OTPM+stats.InFlight != 0 {
					t.Errorf("after all were given back the stats are %+v", stats)
				}
			})
		}
	}
}

func TestHammeredSlotsAreNeverOversubscribed(t *testing.T) {
	const slots, rounds = 5, 300
	for _, name := range []string{"reserve", "acquire", "both"} {
		t.Run(name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: slots})
			var inFlight, most, calls, commits atomic.Int64
			hammer(func(g int) {
				for i := range rounds {
					var r *ratelimit.Reservation
					if name == "acquire" || name == "both" && g%4 == 0 {
						var err error
						if r, err = rl.Acquire(t.Context(), "m", 2, 1); err != nil {
							t.Error(err)
							return
						}
					} else if r, _ = rl.Reserve("m", 2, 1); r == nil {
						continue
					}
					calls.Add(1)
					now := inFlight.Add(1)
					for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
					}
					if now > slots {
						t.Errorf("%d in flight", now)
					}
					for range 1 + g%3 {
						runtime.Gosched()
					}
					inFlight.Add(-1)
					if (i+g)%3 == 0 {
						r.Cancel()
					} else {
						commits.Add(1)
						r.Commit(1, 1)
					}
					r.Commit(100, 100)
					r.Cancel()
				}
			})
			stats := rl.Stats("m")
			if n := int(commits.Load()); stats.InFlight != 0 || stats.Waiting != 0 || stats.RPM != n || stats.TPM != 2*n || stats.ITPM != n || stats.RPD != n || stats.TPD != 2*n {
				t.Errorf("after %d commits the stats are %+v", n, stats)
			}
			if name == "acquire" && calls.Load() != 64*rounds {
				t.Errorf("%d calls, want %d", calls.Load(), 64*rounds)
			}
			var free int
			for {
				r, _ := rl.Reserve("m", 0, 0)
				if r == nil {
					break
				}
				defer r.Cancel()
				free++
			}
			if free != slots {
				t.Errorf("%d slots are free at the end, want %d", free, slots)
			}
			t.Logf("%d calls, at most %d at once", calls.Load(), most.Load())
		})
	}
}

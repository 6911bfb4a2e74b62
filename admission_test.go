// Admission at its edges and by many goroutines at once: exactly the quota, and never more slots.

package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// A call counts to the day in which it arrived, if that lasts, whether or not somebody looked at
// the model before, and whatever else counts to the day.
func TestArrivedCountsToItsDay(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name     string
		now, ago time.Duration // when it is told to have arrived, after the admission, and how long before
		reset    bool          // what was counted is forgotten before
		more     bool          // another call has used a token more than it had charged
		requests int           // that count to the day
		tokens   int
	}{
		{"now", 25 * time.Hour, 0, false, false, 1, 10},
		{"a nanosecond ago", 25 * time.Hour, 1, false, false, 1, 10},
		{"a second ago", 25 * time.Hour, time.Second, false, false, 1, 10},
		{"before the minute", 25 * time.Hour, 2 * time.Minute, false, false, 1, 10},
		{"in the day of the admission", day + time.Minute, time.Hour, false, false, 0, 0},
		{"in the day of the admission, beside tokens", day + time.Minute, time.Hour, false, true, 0, 1},
		{"in the day of the admission, after a Reset", day + time.Hour, 2*time.Hour - time.Minute, true, true, 0, 1},
	} {
		for _, zone := range []string{"", "UTC"} {
			for _, looked := range []bool{false, true} {
				if tt.reset && zone == "" {
					continue // a day without a zone begins anew
				}
				t.Run(fmt.Sprintf("%s, zone %q, looked %t", tt.name, zone, looked), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 5, DayZone: zone})
						r, other := reserve(t, rl, "m", 10, 0), reserve(t, rl, "m", 1, 0)
						if !tt.more {
							other.Cancel()
						}
						time.Sleep(day)
						if looked {
							rl.Stats("m")
						}
						time.Sleep(tt.now - day)
						if tt.reset {
							rl.Reset("m")
						}
						if tt.more {
							other.Commit(2, 0)
						}
						r.Arrived(time.Now().Add(-tt.ago))
						if s := rl.Stats("m"); s.RPD != tt.requests || s.TPD != tt.tokens {
							t.Errorf("RPD %d, TPD %d of a day from %v, want %d, %d", s.RPD, s.TPD, s.DayStart, tt.requests, tt.tokens)
						}
					})
				})
			}
		}
	}
}

// "An in-flight denial has RetryAfter 0 …: it ends with an event." And Decision:
// the request passes after exactly RetryAfter; zero when it waits for a call in
// flight. That must not depend on the order of the requests.
func TestReserveAllThatWaitsForASlotHasNoRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.SetQuota("slots", ratelimit.ModelQuota{MaxInFlight: 1})
		rl.Reserve("m", 1, 0)
		held, _ := rl.Reserve("slots", 1, 0)
		m, slots := ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "slots"}
		_, slotFirst := rl.ReserveAll(slots, m)
		_, slotLast := rl.ReserveAll(m, slots)
		if slotFirst.RetryAfter != 0 || slotLast.RetryAfter != 0 {
			t.Errorf("RetryAfter is %v and %v, want 0 twice", slotFirst.RetryAfter, slotLast.RetryAfter)
		}
		time.Sleep(slotLast.RetryAfter)
		if _, d := rl.ReserveAll(m, slots); slotLast.RetryAfter > 0 && !d.Allowed {
			t.Errorf("after RetryAfter it is denied all the same: %v", d.Code)
		}
		held.Cancel()
	})
}

// Decision.Stats is what the model had used: of the one that Decision.Model names.
func TestStatsOfAQueuedReserveAllAreOfOneModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.Reserve("m", 1, 0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go rl.Acquire(ctx, "m", 1, 0)
		synctest.Wait()
		rl.Cooldown("cold", time.Now().Add(time.Hour))
		// "cold" denies as well; "m" is asked at the instant at which it would pass.
		for _, reqs := range [][]ratelimit.Request{
			{{Model: "m"}, {Model: "cold"}},
			{{Model: "cold"}, {Model: "m"}},
		} {
			_, d := rl.ReserveAll(reqs...)
			if d.Model != "m" || !d.Stats.CooldownUntil.IsZero() || d.Stats != rl.Stats("m") {
				t.Errorf("%q denied by %s, stats %+v; those of m are %+v", d.Model, d.Code, d.Stats, rl.Stats("m"))
			}
		}
	})
}

// "A cancelled waiter leaves no trace and the one behind it moves up in the same
// instant." Here the two first in line end in the same instant, and the third,
// who fits, is told that it cannot pass before its deadline: it was looked at
// while the second was served, whose context had ended.
func TestWaiterWhoseContextEndedRefusesTheOneBehind(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 10, MaxInFlight: 2})
			held, _ := rl.Reserve("m", 0, 0)
			// The first needs both slots; the second and the third one each.
			two := []ratelimit.Request{{Model: "m", PromptTokens: 1}, {Model: "m", PromptTokens: 1}}
			end := time.Now().Add(time.Second)
			ctx, cancel := context.WithDeadline(t.Context(), end)
			defer cancel()
			go rl.AcquireAll(ctx, two...)
			synctest.Wait()
			go rl.Acquire(ctx, "m", 5, 0)
			synctest.Wait()
			third := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				r, err := rl.Acquire(ctx, "m", 10, 0)
				r.Cancel()
				third <- err
			}()
			time.Sleep(2 * time.Second)
			select {
			case err := <-third:
				if err != nil {
					t.Errorf("the third: %v", err)
				}
			default:
				t.Error("the third still waits")
			}
			held.Cancel()
		})
		if t.Failed() {
			return
		}
	}
}

// "Cancel gives everything back": also when SetQuota named another zone for the
// day meanwhile, and the day's count went on.
func TestCancelGivesTheDayBackAfterAnotherZone(t *testing.T) {
	for _, zones := range [][2]string{{"", "UTC"}, {"UTC", ""}, {"UTC", "America/New_York"}, {"UTC", "UTC"}} {
		t.Run(zones[0]+" to "+zones[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(12 * time.Hour)
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 5, DayZone: zones[0]})
				r, _ := rl.Reserve("m", 10, 0)
				rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 5, DayZone: zones[1]})
				before := rl.Stats("m")
				r.Cancel()
				if s := rl.Stats("m"); s.RPD != 0 || s.TPD != 0 {
					t.Errorf("RPD %d, TPD %d after Cancel, want 0; before it RPD %d of the day from %v", s.RPD, s.TPD, before.RPD, before.DayStart)
				}
			})
		})
	}
}

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

// Events cost no allocation: neither without a handler, nor with one that counts, nor with two.
func TestReserveAllocatesTheReservationOnly(t *testing.T) {
	var told atomic.Int64
	counting := handling(func(context.Context, *ratelimit.Event) { told.Add(1) })
	valued := callNamed(context.Background(), "call")
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
		{"Acquire with a value", ratelimit.ModelQuota{MaxRPM: 1 << 30},
			func(rl *ratelimit.RateLimiter) { r, _ := rl.Acquire(valued, "m", 9, 9); r.Commit(9, 9) }, 1},
		{"slots", ratelimit.ModelQuota{MaxInFlight: 9},
			func(rl *ratelimit.RateLimiter) { r, _ := rl.Reserve("m", 9, 9); r.Commit(9, 9) }, 1},
		{"RecordUsage", ratelimit.ModelQuota{MaxRPM: 1 << 30}, func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 1, 1) }, 0},
		{"ReserveContext", ratelimit.ModelQuota{MaxTPM: 1 << 30, MaxInFlight: 10}, func(rl *ratelimit.RateLimiter) {
			rs, _ := rl.ReserveContext(context.Background(), ratelimit.Request{Model: "m", PromptTokens: 10, OutputTokens: 5})
			rs[0].Commit(10, 5)
		}, 1},
		{"denied by the tokens", ratelimit.ModelQuota{MaxTPM: 1, MaxITPM: 1}, func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 0) }, 0},
		{"denied by the calls", ratelimit.ModelQuota{MaxInFlight: 1}, func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 0) }, 0},
		{"never fits", ratelimit.ModelQuota{MaxOTPM: 1}, func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 0, 2) }, 0},
	}
	for _, tt := range tests {
		for name, h := range map[string]ratelimit.EventHandler{"no handler": nil, "one": counting, "two": ratelimit.EventHandlers(counting, counting)} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				rl := openLimiter(t, ratelimit.Config{Quotas: quotas{"m": tt.quota}, Events: h})
				held, _ := rl.Reserve("m", 1, 0)
				if tt.most > 0 || tt.name == "RecordUsage" {
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
	if told.Load() == 0 {
		t.Error("nothing was told")
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

// However many goroutines spend at once, a budget is never exceeded by calls within their
// estimates, and the audit adds up to what the stats say.
func TestManySpendOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Prices: microPrices, HoldTTL: 10 * time.Minute,
			Quotas:  map[string]ratelimit.ModelQuota{"a": {MaxSpendPerDay: 3000, DayZone: "UTC"}, "b": {}},
			Pools:   map[string]ratelimit.Pool{"all": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 5000, DayZone: "UTC"}}},
			Classes: map[string]ratelimit.Class{"x": {Weight: 2}, "y": {Ahead: true}},
		})
		var all sync.WaitGroup
		var mu sync.Mutex
		var kept []*ratelimit.Reservation
		for i := range 24 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(51, uint64(i)))
				for range 40 {
					req := ratelimit.Request{Model: []string{"a", "b"}[random.IntN(2)], PromptTokens: random.IntN(30), OutputTokens: random.IntN(30),
						Class: []string{"", "x", "y"}[random.IntN(3)]}
					rs, d := rl.ReserveAll(req)
					if s := rl.PoolStats("all"); s.SpendDay > 5000 || rl.Stats("a").SpendDay > 3000 {
						t.Errorf("spent is %v", s.SpendDay)
					}
					if !d.Allowed {
						time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
						continue
					}
					mu.Lock()
					kept = append(kept, rs...)
					mu.Unlock()
					time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
					switch used := random.IntN(req.PromptTokens + 1); random.IntN(5) {
					case 0:
						rs.Cancel()
					case 1: // it expires
					case 2:
						rs[0].CommitUsage(used, 1, money.Usage{CachedInput: used})
					default:
						rs[0].Commit(used, random.IntN(req.OutputTokens+1))
					}
				}
			})
		}
		all.Wait()
		time.Sleep(10 * time.Minute)
		audit := rl.Audit()
		left := func(e ratelimit.AuditEntry) money.Amount {
			return e.Settled.Money + e.Expired.Money + e.Open.Money + e.Recorded.Money
		}
		for name, got := range map[string]struct {
			entry ratelimit.AuditEntry
			spent money.Amount
		}{
			"a": {audit.Models["a"], rl.Stats("a").SpendDay}, "b": {audit.Models["b"], rl.Stats("b").SpendDay}, "pool": {audit.Pools["all"], rl.PoolStats("all").SpendDay},
		} {
			if e := got.entry; left(e) != got.spent || e.Reserved.Money != e.Estimated.Money+e.Released.Money+e.Expired.Money+e.Open.Money || e.Open.Calls != 0 {
				t.Errorf("%s has spent %v, the audit is %+v", name, got.spent, e)
			}
		}
		var models, classes ratelimit.AuditSum
		for _, e := range audit.Models {
			models.Calls, models.Money = models.Calls+e.Reserved.Calls, models.Money+e.Reserved.Money
		}
		for _, e := range audit.Classes {
			classes.Calls, classes.Money = classes.Calls+e.Reserved.Calls, classes.Money+e.Reserved.Money
		}
		if pool := audit.Pools["all"].Reserved; models != classes || models.Calls != pool.Calls || models.Money != pool.Money || models.Calls != len(kept) {
			t.Errorf("reserved by models %+v, by classes %+v, by the pool %+v, of %d calls", models, classes, pool, len(kept))
		}
	})
}

// AutoPersist: when it saves, and what.

package persist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestAutoPersistWritesAfterTheLastChange(t *testing.T) {
	every := func(first, step, last int) (at []int) {
		for ; first <= last; first += step {
			at = append(at, first)
		}
		return at
	}
	tests := []struct {
		name    string
		when    ratelimit.AutoPersist
		changes []int // in milliseconds
		want    []int
	}{
		{"never without Delay", ratelimit.AutoPersist{MaxWait: time.Second}, []int{5}, nil},
		{"never without a change", ratelimit.AutoPersist{Delay: 100 * time.Millisecond}, nil, nil},
		{"Delay after a change", ratelimit.AutoPersist{Delay: 100 * time.Millisecond}, []int{5}, []int{105}},
		{"Delay after the last", ratelimit.AutoPersist{Delay: 100 * time.Millisecond}, []int{5, 6, 50, 149}, []int{249}},
		{"each that is alone", ratelimit.AutoPersist{Delay: 100 * time.Millisecond}, []int{5, 106, 300}, []int{105, 206, 400}},
		{"MaxWait after the first that is not saved",
			ratelimit.AutoPersist{Delay: 100 * time.Millisecond, MaxWait: 310 * time.Millisecond},
			every(5, 50, 1000), []int{315, 665, 1015}},
		{"a MaxWait of Delay",
			ratelimit.AutoPersist{Delay: 100 * time.Millisecond, MaxWait: 100 * time.Millisecond},
			every(5, 30, 300), []int{105, 225, 345}},
		{"ten times Delay without MaxWait",
			ratelimit.AutoPersist{Delay: 100 * time.Millisecond}, every(5, 90, 2000), []int{1005, 2085}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state.yaml")
				rl := autosaved(t, "yaml", path, tt.when, nil)
				s := watchSaves(path)
				for _, at := range tt.changes {
					s.pass(time.Duration(at) * time.Millisecond)
					rl.RecordUsage("m", 10, 1)
				}
				s.pass(4 * time.Second)
				limitertest.Close(t, rl)
				s.pass(5 * time.Second)
				if !slices.Equal(s.at, tt.want) {
					t.Errorf("saved at %v ms, want %v", s.at, tt.want)
				}
				if len(tt.want) > 0 {
					if got := inFile(t, "yaml", path).Stats("m").RPD; got != len(tt.changes) {
						t.Errorf("the file holds %d requests, want %d", got, len(tt.changes))
					}
				}
			})
		})
	}
}

// Every call that changes what the file holds has it saved, and other calls do not.
func TestAutoPersistSavesEveryChange(t *testing.T) {
	t.Parallel()
	stateOf := func(rl *ratelimit.RateLimiter) string {
		text := fmt.Sprintf("%d quotas, m %+v", len(rl.Quotas), rl.Quotas["m"])
		all := rl.AllStats()
		for _, model := range slices.Sorted(maps.Keys(all)) {
			if s := all[model]; s.RPD > 0 {
				text += fmt.Sprintf("; %s: %d requests, %d and %d tokens, since %v",
					model, s.RPD, s.ITPM, s.OTPM, s.DayStart.UTC())
			}
		}
		return text + fmt.Sprintf("; cooldown until %v", all["m"].CooldownUntil.UTC())
	}
	var held *ratelimit.Reservation
	tests := []struct {
		name   string
		change func(rl *ratelimit.RateLimiter)
		saves  bool
	}{
		{"RecordUsage", func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 1, 2) }, true},
		{"Reserve", func(rl *ratelimit.RateLimiter) { held, _ = rl.Reserve("m", 10, 5) }, true},
		{"Reserve without a quota", func(rl *ratelimit.RateLimiter) { rl.Reserve("other", 10, 5) }, true},
		{"Commit of the estimate", func(*ratelimit.RateLimiter) { held.Commit(10, 5) }, false},
		{"Reserve again", func(rl *ratelimit.RateLimiter) { held, _ = rl.Reserve("m", 10, 5) }, true},
		{"Arrived", func(rl *ratelimit.RateLimiter) { held.Arrived(time.Now()) }, true},
		{"Commit of something else", func(*ratelimit.RateLimiter) { held.Commit(11, 5) }, true},
		{"Commit again", func(*ratelimit.RateLimiter) { held.Commit(12, 5) }, false},
		{"ReserveAll", func(rl *ratelimit.RateLimiter) {
			rs, _ := rl.ReserveAll(ratelimit.Request{Model: "m", PromptTokens: 1}, ratelimit.Request{Model: "n", PromptTokens: 1})
			held = rs[0]
		}, true},
		{"Cancel", func(*ratelimit.RateLimiter) { held.Cancel() }, true},
		{"Acquire", func(rl *ratelimit.RateLimiter) { held, _ = rl.Acquire(context.Background(), "m", 3, 0) }, true},
		{"Do", func(rl *ratelimit.RateLimiter) {
			rl.Do(context.Background(), ratelimit.Request{Model: "m", PromptTokens: 3},
				func(context.Context) (ratelimit.Usage, error) { return ratelimit.Usage{PromptTokens: 3}, nil })
		}, true},
		{"a denied Reserve", func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1_000_000, 0) }, false},
		{"questions", func(rl *ratelimit.RateLimiter) {
			rl.CanSend("m", 1)
			rl.Decide("m", 1)
			rl.Stats("m")
			rl.AllStats()
			rl.QuotaFor("m")
			rl.WaitForCapacity(context.Background(), "m", 1)
		}, false},
		{"SetQuota", func(rl *ratelimit.RateLimiter) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 500, MaxInFlight: 10})
		}, true},
		{"AddProvider", func(rl *ratelimit.RateLimiter) { rl.AddProvider(ratelimit.ProviderOpenAI) }, true},
		{"AddProvider that is not known", func(rl *ratelimit.RateLimiter) { rl.AddProvider("nobody") }, false},
		{"Cooldown", func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now().Add(time.Hour)) }, true},
		{"Cooldown that is over", func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now()) }, false},
		{"a shorter Cooldown", func(rl *ratelimit.RateLimiter) { rl.Cooldown("m", time.Now().Add(time.Minute)) }, false},
		{"Reset of a model", func(rl *ratelimit.RateLimiter) { rl.Reset("m") }, true},
		{"RecordUsage again", func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 1, 2) }, true},
		{"Persist", func(rl *ratelimit.RateLimiter) { rl.Persist() }, false},
		{"Load", func(rl *ratelimit.RateLimiter) { rl.Load() }, false},
		{"Reset of all", func(rl *ratelimit.RateLimiter) { rl.Reset("") }, true},
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				when := ratelimit.AutoPersist{Delay: 100 * time.Millisecond}
				rl := autosaved(t, backend, path, when, map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}})
				rl.SetQuota("n", ratelimit.ModelQuota{MaxRPM: 5})
				time.Sleep(time.Second)
				old := stateOf(inFile(t, backend, path))
				for _, tt := range tests {
					tt.change(rl)
					time.Sleep(99 * time.Millisecond)
					synctest.Wait()
					if tt.name != "Persist" {
						if early := stateOf(inFile(t, backend, path)); early != old {
							t.Errorf("%s: saved before Delay was over:\n%s", tt.name, early)
						}
					}
					s := watchSaves(path)
					s.pass(2 * time.Millisecond)
					if saved := len(s.at) > 0; backend == "yaml" && saved != tt.saves {
						t.Errorf("%s: saved %v, want %v", tt.name, saved, tt.saves)
					}
					got, want := stateOf(inFile(t, backend, path)), stateOf(rl)
					if got != want {
						t.Errorf("%s: the file holds\n%s\nmemory\n%s", tt.name, got, want)
					}
					old = got
				}
				limitertest.Close(t, rl)
			})
		})
	}
}

// A limiter that saves by itself starts from what was saved, and so never writes
// over it.
func TestAutoPersistLoads(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "folder", "state")
				when := ratelimit.AutoPersist{Delay: time.Second}
				for day := range 3 {
					rl := autosaved(t, backend, path, when, nil)
					if got := rl.Stats("m").RPD; got != day {
						t.Errorf("the limiter begins with %d requests, want %d", got, day)
					}
					rl.RecordUsage("m", 1, 1)
					time.Sleep(time.Minute)
					limitertest.Close(t, rl)
				}
				said := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 7}}
				rl := autosaved(t, backend, path, when, said)
				if rl.Quotas["m"] != said["m"] {
					t.Errorf("the quota is %+v, want what Config says", rl.Quotas["m"])
				}
				limitertest.Close(t, rl)
			})
		})
	}
}

func TestAutoPersistNeedsASoundFile(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			const damaged = "quotas: [no: map\n"
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ratelimit.NewWithConfig(ratelimit.Config{
				Backend: backend, FilePath: path, AutoPersist: ratelimit.AutoPersist{Delay: time.Second},
			})
			if !errors.Is(err, ratelimit.ErrCorruptState) {
				t.Errorf("got %v, want ErrCorruptState", err)
			}
			if text, _ := os.ReadFile(path); string(text) != damaged {
				t.Errorf("the file holds %q now", text)
			}
		})
	}
}

// A database that opens and does not load is closed again: one left open would keep
// the bubble from ending.
func TestAutoPersistClosesWhatDoesNotLoad(t *testing.T) {
	limitertest.NeedSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		cfg := ratelimit.Config{AutoPersist: ratelimit.AutoPersist{Delay: time.Second}}
		rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
			t.Fatal(err)
		}
		statefile.Exec(t, path, "UPDATE quotas SET max_rpm = -1")
		if _, err := ratelimit.NewWithSQLiteConfig(path, cfg); !errors.Is(err, ratelimit.ErrInvalidQuota) {
			t.Errorf("got %v, want ErrInvalidQuota", err)
		}
	})
}

func TestAutoPersistRefusesOddDurations(t *testing.T) {
	tests := []struct {
		when ratelimit.AutoPersist
		want string // "" is no error
	}{
		{ratelimit.AutoPersist{Delay: -time.Second}, "new limiter: AutoPersist.Delay is -1s, want 0 or more"},
		{ratelimit.AutoPersist{Delay: time.Second, MaxWait: -1}, "new limiter: AutoPersist.MaxWait is -1ns, want 0 or more"},
		{ratelimit.AutoPersist{MaxWait: -1}, "new limiter: AutoPersist.MaxWait is -1ns, want 0 or more"},
		{ratelimit.AutoPersist{Delay: time.Second, MaxWait: time.Millisecond},
			"new limiter: AutoPersist.MaxWait is 1ms, want 0 or at least Delay, which is 1s"},
		{ratelimit.AutoPersist{Delay: 1<<63 - 1}, ""},
		{ratelimit.AutoPersist{Delay: 1, MaxWait: 1<<63 - 1}, ""},
	}
	for _, tt := range tests {
		for _, backend := range backends {
			path := filepath.Join(t.TempDir(), "state")
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: backend, FilePath: path, AutoPersist: tt.when})
			if tt.want == "" && err == nil {
				rl.RecordUsage("m", 1, 1)
				limitertest.Close(t, rl)
				continue
			}
			if fmt.Sprint(err) != tt.want {
				t.Errorf("%+v: got %v, want %v", tt.when, err, tt.want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%+v: a file was made", tt.when)
			}
		}
	}
}

// Persist writes at once, and nothing is left to write then.
func TestPersistIsAheadOfAutoPersist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		rl := autosaved(t, "yaml", path, ratelimit.AutoPersist{Delay: 100 * time.Millisecond}, nil)
		s := watchSaves(path)
		s.pass(5 * time.Millisecond)
		rl.RecordUsage("m", 1, 1)
		s.pass(50 * time.Millisecond)
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		s.pass(300 * time.Millisecond)
		rl.RecordUsage("m", 1, 1)
		s.pass(time.Second)
		limitertest.Close(t, rl)
		s.pass(2 * time.Second)
		if want := []int{51, 400}; !slices.Equal(s.at, want) {
			t.Errorf("saved at %v ms, want %v", s.at, want)
		}
	})
}

// What changes in the same instant as a save, but after it began, is saved, too.
func TestAutoPersistSavesWhatCameDuringASave(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				rl := autosaved(t, backend, path, ratelimit.AutoPersist{Delay: time.Second}, nil)
				rl.RecordUsage("m", 1, 1)
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				rl.RecordUsage("m", 1, 1)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := inFile(t, backend, path).Stats("m").RPD; got != 2 {
					t.Errorf("the file holds %d requests, want 2", got)
				}
				limitertest.Close(t, rl)
			})
		})
	}
}

func TestCloseSavesWhatIsLeft(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				rl := autosaved(t, backend, path, ratelimit.AutoPersist{Delay: time.Hour}, nil)
				rl.RecordUsage("m", 1, 1)
				var wg sync.WaitGroup
				for range 3 { // also when several close
					wg.Go(func() {
						limitertest.Close(t, rl)
						if got := inFile(t, backend, path).Stats("m").RPD; got != 1 {
							t.Errorf("after Close the file holds %d requests, want 1", got)
						}
					})
				}
				wg.Wait()
				rl.RecordUsage("m", 1, 1)
				time.Sleep(24 * time.Hour)
				limitertest.Close(t, rl)
				if got := inFile(t, backend, path).Stats("m").RPD; got > 1 {
					t.Errorf("a change after Close was saved")
				}
			})
		})
	}
}

// However much is recorded, no two saves are closer together than Delay.
func TestAutoPersistOfABusyLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		when := ratelimit.AutoPersist{Delay: 100 * time.Millisecond, MaxWait: 100 * time.Millisecond}
		rl := autosaved(t, "yaml", path, when, nil)
		s := watchSaves(path)
		const seconds = 3
		for range seconds * 1000 {
			for range 10 { // 10,000 a second
				rl.RecordUsage("m", 1, 1)
				time.Sleep(100 * time.Microsecond)
			}
			s.look()
		}
		last := -100
		for _, at := range s.at {
			if at-last < 100 {
				t.Errorf("saved at %d and %d ms", last, at)
			}
			last = at
		}
		if n := len(s.at); n < seconds*1000/103 {
			t.Errorf("saved %d times in %d s", n, seconds)
		}
		limitertest.Close(t, rl)
		if got := inFile(t, "yaml", path).Stats("m").RPD; got != seconds*10_000 {
			t.Errorf("the file holds %d requests, want %d", got, seconds*10_000)
		}
	})
}

// With many calls at once, the file holds all that was recorded before Close.
func TestAutoPersistInACrowd(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				rl := autosaved(t, backend, path, ratelimit.AutoPersist{Delay: time.Millisecond}, nil)
				var wg sync.WaitGroup
				for g := range 8 {
					wg.Go(func() {
						for i := range 100 {
							rl.RecordUsage(fmt.Sprint("m", g%3), 1, 1)
							if i%10 == g {
								time.Sleep(time.Duration(g) * 700 * time.Microsecond)
							}
							if i%50 == g {
								if err := rl.Persist(); err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				wg.Wait()
				limitertest.Close(t, rl)
				total := 0
				for _, stats := range inFile(t, backend, path).AllStats() {
					total += stats.RPD
				}
				if total != 800 {
					t.Errorf("the file holds %d requests, want 800", total)
				}
			})
		})
	}
}

// AutoPersist in random sessions: the file follows memory.

package persist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// autosaveView is all that a file should hold of a limiter.
func autosaveView(rl *ratelimit.RateLimiter) string {
	var b strings.Builder
	all := rl.AllStats()
	for _, m := range slices.Sorted(maps.Keys(all)) {
		s := all[m]
		s.InFlight, s.Waiting = 0, 0
		if s.RPM == 0 && s.TPM == 0 && s.RPD == 0 && s.TPD == 0 {
			if s.DayStart = (time.Time{}); s.CooldownUntil.IsZero() {
				continue
			}
		}
		fmt.Fprintf(&b, "%s rpm %d tpm %d rpd %d itpm %d otpm %d tpd %d day %v cool %v max %d %d %d %d %d %d %d\n", m, s.RPM, s.TPM, s.RPD,
			s.ITPM, s.OTPM, s.TPD, s.DayStart.UTC().Format(time.RFC3339Nano), s.CooldownUntil.UTC().Format(time.RFC3339Nano),
			s.MaxRPM, s.MaxTPM, s.MaxRPD, s.MaxITPM, s.MaxOTPM, s.MaxTPD, s.MaxInFlight)
	}
	for _, m := range slices.Sorted(maps.Keys(rl.Quotas)) {
		fmt.Fprintf(&b, "quota %s %+v\n", m, rl.Quotas[m])
	}
	return b.String()
}

// autosaveLess is what is in a and not in b.
func autosaveLess(a, b string) string {
	var out []string
	for line := range strings.Lines(a) {
		if !strings.Contains(b, line) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// After random calls and pauses the file holds the state of memory, once the limiter has been idle
// for Delay, and after Close.
func TestAutoPersistFollowsRandomSessions(t *testing.T) {
	t.Parallel()
	seeds := racetest.Times(3, 1, 100)
	for _, backend := range backends {
		for seed := range seeds {
			t.Run(fmt.Sprint(backend, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { autosaveRandomly(t, backend, uint64(seed)) })
			})
		}
	}
}

func autosaveRandomly(t *testing.T, backend string, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 77))
	path := filepath.Join(t.TempDir(), "state")
	delay := []time.Duration{1, 1000, time.Millisecond, 20 * time.Millisecond, time.Second, time.Minute}[rnd.IntN(6)]
	cfg := ratelimit.Config{
		Backend: backend, FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Quotas: map[string]ratelimit.ModelQuota{
			"a": {MaxRPM: 20, MaxTPM: 1000, MaxRPD: 300, MaxInFlight: 3},
			"b": {MaxTPM: 1000, DayZone: "America/Los_Angeles"},
			"*": {MaxRPM: 5},
		},
		MatchVersions: rnd.IntN(2) == 0,
		Aliases:       map[string]string{"alias": "a"},
		HoldTTL:       2 * time.Minute,
		MaxModels:     []int{0, 4}[rnd.IntN(2)],
	}
	reader := cfg
	reader.Quotas = nil
	reload := func() *ratelimit.RateLimiter {
		t.Helper()
		rl, err := ratelimit.NewWithConfig(reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(rl.Load(), rl.Close()); err != nil {
			t.Fatal(err)
		}
		return rl
	}
	cfg.AutoPersist = ratelimit.AutoPersist{Delay: delay}
	var failing atomic.Bool
	cfg.OnError = limitertest.OfTheStore(func(err error) {
		if !failing.Load() && backend == "yaml" {
			t.Error(err)
		}
	})
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	rl.RecordUsage("a", 1, 1) // the quotas of Config alone are no change
	names := []string{"a", "b", "alias", "a-2024-08-06", "x", "y", "z", "b@1", "w", "v"}
	name := func() string { return names[rnd.IntN(len(names))] }
	var held []*ratelimit.Reservation
	ctx, cancel := context.WithCancel(context.Background())
	var log []string
	got := make(chan *ratelimit.Reservation, 1000)
	for range 60 {
		for range 1 + rnd.IntN(4) {
			op := rnd.IntN(22)
			m := name()
			log = append(log, fmt.Sprint(op, m))
			switch op {
			case 0, 1:
				rl.RecordUsage(m, rnd.IntN(50), rnd.IntN(50))
			case 2, 3, 4:
				if r, _ := rl.Reserve(m, rnd.IntN(50), rnd.IntN(50)); r != nil {
					held = append(held, r)
				}
			case 5:
				rs, _ := rl.ReserveAll(ratelimit.Request{Model: m, PromptTokens: 1}, ratelimit.Request{Model: name(), PromptTokens: 2})
				held = append(held, rs...)
			case 6, 7, 8, 9:
				if len(held) > 0 {
					i := rnd.IntN(len(held))
					r := held[i]
					switch rnd.IntN(4) {
					case 0:
						r.Commit(rnd.IntN(100), rnd.IntN(100))
					case 1:
						r.Cancel()
					case 2:
						r.Arrived(time.Now().Add(-time.Duration(rnd.IntN(60)) * time.Second))
						continue
					case 3:
						r.Arrived(time.Now())
						continue
					}
					held = slices.Delete(held, i, i+1)
				}
			case 10:
				rl.Reset(m)
			case 11:
				if rnd.IntN(4) == 0 {
					rl.Reset("")
				}
			case 12:
				rl.Cooldown(m, time.Now().Add(time.Duration(rnd.IntN(100))*time.Second))
			case 13:
				rl.SetQuota(m, ratelimit.ModelQuota{MaxRPM: 1 + rnd.IntN(30), MaxInFlight: rnd.IntN(4), DayZone: []string{"", "Europe/Berlin", "Asia/Tokyo"}[rnd.IntN(3)]})
			case 14:
				rl.SetQuota("*", ratelimit.ModelQuota{MaxRPM: 1 + rnd.IntN(30), MaxRPD: rnd.IntN(2) * 50, DayZone: []string{"", "Europe/Berlin"}[rnd.IntN(2)]})
			case 15:
				if rnd.IntN(5) == 0 {
					rl.AddProvider(ratelimit.ProviderOpenAI)
				}
			case 16:
				rl.Do(ctx, ratelimit.Request{Model: "free", PromptTokens: 5}, func(context.Context) (ratelimit.Usage, error) {
					return []ratelimit.Usage{{}, {PromptTokens: 7}}[rnd.IntN(2)], []error{nil, errors.New("x"), ratelimit.ErrNotSent}[rnd.IntN(3)]
				})
			case 17:
				go func() {
					if r, err := rl.Acquire(ctx, m, 30, 30); err == nil {
						got <- r
					}
				}()
				synctest.Wait()
			case 18:
				rl.Load()
			case 19:
				rl.Persist()
			case 20:
				rl.Decide(m, 1)
				rl.CanSend(m, 1)
			case 21:
				time.Sleep(time.Duration(rnd.IntN(50)) * time.Microsecond)
			}
		}
		for len(got) > 0 {
			held = append(held, <-got)
		}
		if backend == "yaml" && !failing.Load() && rnd.IntN(5) == 0 {
			failing.Store(true)
			if err := os.Rename(path, path+".away"); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			limitertest.Obstacle(t, path)
		} else if failing.Load() && rnd.IntN(2) == 0 {
			failing.Store(false)
			os.RemoveAll(path)
			if err := os.Rename(path+".away", path); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		// A while passes: short, minutes, or hours.
		time.Sleep([]time.Duration{0, delay / 2, delay, 10 * time.Second, time.Minute, 3 * time.Minute, 8 * time.Hour}[rnd.IntN(7)])
		synctest.Wait()
		for len(got) > 0 {
			held = append(held, <-got)
		}
		if rnd.IntN(4) == 0 && !failing.Load() {
			time.Sleep(10*time.Second + 12*delay) // retries
			time.Sleep(2 * time.Minute)           // who waits is served
			time.Sleep(12 * delay)
			synctest.Wait()
			want, have := autosaveView(rl), autosaveView(reload())
			if have != want {
				t.Fatalf("delay %v: after %v the file has\n%s\nmemory\n%s", delay, log[max(0, len(log)-12):],
					autosaveLess(have, want), autosaveLess(want, have))
			}
		}
	}
	cancel()
	if failing.Load() {
		os.RemoveAll(path)
		os.Rename(path+".away", path)
	}
	synctest.Wait()
	want := autosaveView(rl)
	if err := rl.Close(); err != nil {
		t.Fatal(err)
	}
	if have := autosaveView(reload()); have != want {
		t.Fatalf("delay %v: after Close the file has\n%s\nmemory\n%s", delay, autosaveLess(have, want), autosaveLess(want, have))
	}
}

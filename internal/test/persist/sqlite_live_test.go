//go:build !nosqlite

// SQLite: what a save has is what the limiter has, however calls were settled between saves.

package persist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
	"dappco.re/go/core/go-ratelimit/money"
)

// A day that was saved, given back and begun anew is as empty in the database as in memory.
func TestSQLiteDayThatWasGivenBack(t *testing.T) {
	t.Parallel()
	anew := func(t *testing.T, rl *ratelimit.RateLimiter) *ratelimit.Reservation {
		time.Sleep(time.Second)
		return limitertest.Reserve(t, rl, "m", 6, 2)
	}
	for name, do := range map[string]func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation){
		"given back": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Cancel() },
		"given back twice": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			r.Cancel()
			anew(t, rl).Cancel()
		},
		"given back and looked at": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			r.Cancel()
			anew(t, rl).Cancel()
			time.Sleep(time.Minute)
			rl.AllStats()
		},
		"given back, saved, and again": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			r.Cancel()
			second := anew(t, rl)
			limitertest.Save(t, rl)
			second.Cancel()
			anew(t, rl).Cancel()
		},
		"begun anew without tokens": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			r.Cancel()
			time.Sleep(time.Second)
			rl.RecordUsage("m", 0, 0)
		},
		"begun anew with more": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			r.Cancel()
			anew(t, rl).Commit(60, 20)
		},
		"begun anew by what arrived": func(t *testing.T, rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			r.Cancel()
			second := anew(t, rl)
			time.Sleep(time.Second)
			second.Arrived(time.Now())
			second.Cancel()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := statefile.Path(t)
				rl := sqliteLimiter(t, path)
				r := limitertest.Reserve(t, rl, "m", 6, 2)
				limitertest.Save(t, rl)
				do(t, rl, r)
				limitertest.Save(t, rl)
				again := sqliteLimiter(t, path)
				limitertest.Load(t, again)
				if got, want := liveText(again.Stats("m")), liveText(rl.Stats("m")); got != want {
					t.Errorf("saved %s, want %s", got, want)
				}
			})
		})
	}
}

// A charge that arrived late is in the day, and not in the minute any more. Given back, it goes
// from the database, also where memory forgets the model before it is saved.
func TestSQLiteDayAlone(t *testing.T) {
	t.Parallel()
	for _, looks := range []bool{false, true} {
		t.Run(fmt.Sprint(looks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := poolsConfig(t, "sqlite")
				cfg.Quotas = map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000, DayZone: "UTC"}}
				rl := limitertest.With(t, cfg)
				t.Cleanup(func() { limitertest.Close(t, rl) })
				r := limitertest.Reserve(t, rl, "m", 4, 4)
				limitertest.Save(t, rl)
				time.Sleep(25 * time.Hour)
				rl.Stats("m") // which forgets the window
				limitertest.Save(t, rl)
				r.Arrived(time.Now().Add(-68 * time.Second))
				limitertest.Save(t, rl)
				r.Cancel()
				if looks {
					rl.Stats("m")
				}
				limitertest.Save(t, rl)
				again := limitertest.With(t, cfg)
				t.Cleanup(func() { limitertest.Close(t, again) })
				limitertest.Load(t, again)
				if got := again.Stats("m"); got.RPD != 0 || got.TPD != 0 {
					t.Errorf("saved %s, want nothing", liveText(got))
				}
			})
		})
	}
}

// The zone of a quota ends the day of a budget elsewhere. What is spent from then on counts, in
// memory and after a Load, whether the day was over when the zone was set or not.
func TestSpendAfterZone(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"sqlite", "yaml"} {
		for _, until := range []time.Duration{time.Hour, 24*time.Hour + time.Minute} {
			t.Run(fmt.Sprint(backend, until), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := poolsConfig(t, backend)
					cfg.Prices = map[string]money.Price{"m": {Input: money.USD(1_000_000)}}
					rl := limitertest.With(t, cfg)
					t.Cleanup(func() { limitertest.Close(t, rl) })
					zoned := ratelimit.ModelQuota{MaxSpendPerDay: money.USD(100), DayZone: "Asia/Tokyo"}
					limitertest.Reserve(t, rl, "m", 3, 0).Commit(3, 0)
					limitertest.Save(t, rl)
					time.Sleep(until)
					rl.SetQuota("m", zoned)
					limitertest.Save(t, rl)
					time.Sleep(24*time.Hour - until + 2*time.Minute) // the day of 24 hours is over
					for want := range 3 {
						if got := rl.Stats("m").SpendDay; got != money.USD(float64(want)) {
							t.Errorf("spent %v, want %d", got, want)
						}
						limitertest.Reserve(t, rl, "m", 1, 0).Commit(1, 0)
						limitertest.Save(t, rl)
						again := limitertest.With(t, cfg)
						t.Cleanup(func() { limitertest.Close(t, again) })
						again.SetQuota("m", zoned)
						limitertest.Load(t, again)
						if got, want := liveText(again.Stats("m")), liveText(rl.Stats("m")); got != want {
							t.Errorf("saved %s, want %s", got, want)
						}
					}
				})
			})
		}
	}
}

// A day that began behind the one that a file has does not reach into that in another zone, and
// neither does a month: what is spent in it is there after a Load.
func TestSpendBesideAPeriodBeforeInAnotherZone(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"sqlite", "yaml"} {
		for _, zone := range []string{"UTC", "Asia/Tokyo", "America/New_York"} {
			for _, behind := range []time.Duration{0, 26 * time.Hour, 49 * time.Hour, 31*24*time.Hour - time.Hour} {
				t.Run(fmt.Sprint(backend, zone, behind), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						cfg := poolsConfig(t, backend)
						cfg.Prices = map[string]money.Price{"m": {Input: money.USD(1_000_000)}}
						rl := limitertest.With(t, cfg)
						t.Cleanup(func() { limitertest.Close(t, rl) })
						rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 1000, MaxSpendPerDay: money.USD(1000)})
						time.Sleep(2 * time.Hour)
						rl.RecordUsage("m", 1, 0)
						limitertest.Save(t, rl)
						time.Sleep(behind)
						rl.RecordUsage("m", 2, 0)
						rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 1000, DayZone: zone})
						if spent := rl.Stats("m").SpendDay; spent < money.USD(2) {
							t.Errorf("spent %v, want $2 at least", spent)
						}
						limitertest.Save(t, rl)
						again := limitertest.With(t, cfg)
						t.Cleanup(func() { limitertest.Close(t, again) })
						limitertest.Load(t, again)
						if got, want := liveText(again.Stats("m")), liveText(rl.Stats("m")); got != want {
							t.Errorf("saved %s, want %s", got, want)
						}
					})
				})
			}
		}
	}
}

// liveText is the part of the stats that a file has. A day without anything in it has no start.
func liveText(s ratelimit.ModelStats) string {
	start := s.DayStart.UTC()
	if s.RPD == 0 && s.TPD == 0 {
		start = time.Time{}
	}
	return fmt.Sprint(s.RPM, s.TPM, s.ITPM, s.OTPM, " day ", s.RPD, s.TPD, start, " spent ", s.SpendDay, s.SpendMonth)
}

// liveTwin is a limiter, and what it has open.
type liveTwin struct {
	cfg  ratelimit.Config
	rl   *ratelimit.RateLimiter
	open []*ratelimit.Reservation
}

func (l *liveTwin) persist(t *testing.T) {
	t.Helper()
	if err := l.rl.Persist(); err != nil {
		t.Fatal(err)
	}
}

// liveTexts is what a limiter tells of all models and pools.
func liveTexts(rl *ratelimit.RateLimiter) string {
	var b strings.Builder
	for _, model := range []string{"m", "n", "z", "free"} {
		fmt.Fprintf(&b, "%s %s\n", model, liveText(rl.Stats(model)))
	}
	for _, pool := range []string{"p", "q"} {
		fmt.Fprintf(&b, "pool %s %s\n", pool, liveText(rl.PoolStats(pool)))
	}
	return b.String()
}

// Whatever a limiter does, what it saved last is what it has: in a database, and in a YAML file.
func TestSavedIsLive(t *testing.T) {
	t.Parallel()
	for seed := range racetest.Seeds(t, 20) {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { savedIsLive(t, seed) })
		}) {
			break
		}
	}
}

func savedIsLive(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 18))
	var twins []*liveTwin
	for _, backend := range []string{"sqlite", "yaml"} {
		cfg := poolsConfig(t, backend)
		cfg.Quotas = map[string]ratelimit.ModelQuota{
			"m": {MaxRPD: 1000, MaxSpendPerDay: money.USD(1000)}, "n": {MaxRPM: 1000, DayZone: "Asia/Kolkata"}, "z": {MaxTPD: 100_000, DayZone: "UTC"},
		}
		cfg.Pools = map[string]ratelimit.Pool{
			"p": {Models: []string{"m", "z"}, Quota: ratelimit.ModelQuota{MaxTPD: 100_000, MaxSpendPerMonth: money.USD(1000)}},
			"q": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 1000, DayZone: "America/New_York"}},
		}
		cfg.Prices = map[string]money.Price{"m": {Input: money.USD(3), Output: money.USD(15)}, "z": {Input: money.USD(1)}}
		cfg.Unpriced = ratelimit.UnpricedFree
		rl := limitertest.With(t, cfg)
		t.Cleanup(func() { limitertest.Close(t, rl) })
		twins = append(twins, &liveTwin{cfg: cfg, rl: rl})
	}
	pauses := []time.Duration{0, 0, 1, time.Millisecond, time.Second, time.Second, 20 * time.Second, time.Minute, 61 * time.Second}
	if seed%3 == 1 {
		pauses = append(pauses, time.Hour, 9*time.Hour, 24*time.Hour)
	}
	var log []string
	for range 60 {
		pause := pauses[rnd.IntN(len(pauses))]
		time.Sleep(pause)
		model, step := []string{"m", "m", "n", "z", "free"}[rnd.IntN(5)], rnd.IntN(100)
		in, out, which, back := rnd.IntN(8), rnd.IntN(8), rnd.Int(), time.Duration(rnd.IntN(70))*time.Second
		said := ""
		for _, l := range twins {
			said = l.step(t, model, step, in, out, which, back)
		}
		log = append(log, fmt.Sprintf("%v: %s", pause, said))
		live := liveTexts(twins[0].rl)
		if yaml := liveTexts(twins[1].rl); yaml != live {
			t.Fatalf("the live limiters differ:\n%s\n%s\nafter\n%s", live, yaml, strings.Join(log, "\n"))
		}
		if !strings.HasPrefix(said, "persist") {
			continue
		}
		for _, l := range twins {
			again := limitertest.With(t, l.cfg)
			t.Cleanup(func() { limitertest.Close(t, again) })
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			if got := liveTexts(again); got != live {
				t.Fatalf("%s: loaded\n%swant\n%safter\n%s", l.cfg.Backend, got, live, strings.Join(log, "\n"))
			}
		}
	}
}

// step does something, and says what.
func (l *liveTwin) step(t *testing.T, model string, step, in, out, which int, back time.Duration) string {
	take := func() *ratelimit.Reservation {
		if len(l.open) == 0 {
			return nil
		}
		i := which % len(l.open)
		r := l.open[i]
		l.open = slices.Delete(l.open, i, i+1)
		return r
	}
	switch {
	case step < 25:
		r, d := l.rl.Reserve(model, in, out)
		if !d.Allowed {
			t.Fatalf("%+v", d)
		}
		l.open = append(l.open, r)
		return fmt.Sprint("reserve ", model, in, out)
	case step < 50:
		take().Cancel()
		return fmt.Sprint("cancel ", which)
	case step < 58:
		take().Commit(in, out)
		return fmt.Sprint("commit ", which, in, out)
	case step < 64:
		if len(l.open) > 0 {
			l.open[which%len(l.open)].Arrived(time.Now().Add(-back))
		}
		return fmt.Sprint("arrived ", which, -back)
	case step < 69:
		l.rl.RecordUsage(model, in, out)
		return fmt.Sprint("record ", model, in, out)
	case step < 71:
		l.rl.Reset(model)
		return fmt.Sprint("reset ", model)
	case step < 73:
		l.rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 1000, DayZone: []string{"", "UTC", "Asia/Tokyo"}[which%3]})
		return fmt.Sprint("zone ", which%3)
	case step < 77:
		l.persist(t)
		if err := l.rl.Load(); err != nil {
			t.Fatal(err)
		}
		return "persist and load"
	case step < 80:
		l.rl.AllStats()
		return "look"
	default:
		l.persist(t)
		return "persist"
	}
}

//go:build !nosqlite

// SQLite: reservations that are settled after a save.

package persist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// What was written as an estimate is corrected by the next Persist.
func TestSQLiteCorrectsWhatWasWritten(t *testing.T) {
	t.Parallel()
	type res = *ratelimit.Reservation
	tests := []struct {
		name string
		do   func(rl *ratelimit.RateLimiter, r res)
		want []string // tokens and day, of a reservation of 20 and 30 between two charges of 1 and 1
	}{
		{"nothing happens", func(rl *ratelimit.RateLimiter, r res) {}, []string{"0 2 1", "1 50 20", "2 2 1", "day 3 54"}},
		{"Commit", func(rl *ratelimit.RateLimiter, r res) { r.Commit(7, 8) }, []string{"0 2 1", "1 15 7", "2 2 1", "day 3 19"}},
		{"Commit of more", func(rl *ratelimit.RateLimiter, r res) { r.Commit(70, 8) }, []string{"0 2 1", "1 78 70", "2 2 1", "day 3 82"}},
		{"Cancel", func(rl *ratelimit.RateLimiter, r res) { r.Cancel() }, []string{"0 2 1", "2 2 1", "day 2 4"}},
		{"Arrived", func(rl *ratelimit.RateLimiter, r res) { r.Arrived(time.Now()) }, []string{"0 2 1", "2 2 1", "10 50 20", "day 3 54"}},
		{"Arrived and Commit", func(rl *ratelimit.RateLimiter, r res) { r.Arrived(time.Now()); r.Commit(1, 2) },
			[]string{"0 2 1", "2 2 1", "10 3 1", "day 3 7"}},
		{"Arrived and Cancel", func(rl *ratelimit.RateLimiter, r res) { r.Arrived(time.Now()); r.Cancel() },
			[]string{"0 2 1", "2 2 1", "day 2 4"}},
		{"Commit, and more", func(rl *ratelimit.RateLimiter, r res) { r.Commit(7, 8); rl.RecordUsage("m", 3, 0) },
			[]string{"0 2 1", "1 15 7", "2 2 1", "10 3 3", "day 4 22"}},
		{"Cancel and Reset", func(rl *ratelimit.RateLimiter, r res) { r.Cancel(); rl.Reset("m") }, []string{}},
		{"Cancel of all, and all anew", func(rl *ratelimit.RateLimiter, r res) {
			rl.Reset("m")
			r.Cancel()
			limitertest.Reserve(t, rl, "m", 1, 2).Cancel()
			rl.RecordUsage("m", 5, 5)
		}, []string{"10 10 5", "day 1 10"}},
		{"Cancel of all, and one more", func(rl *ratelimit.RateLimiter, r res) {
			rl.Reset("m")
			a := limitertest.Reserve(t, rl, "m", 1, 0)
			limitertest.Save(t, rl)
			a.Cancel()
			time.Sleep(time.Second)
			rl.RecordUsage("m", 5, 5)
		}, []string{"11 10 5", "day 1 10"}},
		{"Persist and Load between", func(rl *ratelimit.RateLimiter, r res) {
			limitertest.Save(t, rl)
			limitertest.Load(t, rl)
			r.Commit(7, 8)
		}, []string{"0 2 1", "1 15 7", "2 2 1", "day 3 19"}},
		{"Cancel after a Load", func(rl *ratelimit.RateLimiter, r res) {
			limitertest.Load(t, rl)
			r.Cancel()
		}, []string{"0 2 1", "2 2 1", "day 2 4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := statefile.Path(t)
				rl := sqliteLimiterWith(t, path, ratelimit.Config{})
				start := time.Now()
				rl.RecordUsage("m", 1, 1)
				time.Sleep(time.Second)
				r := limitertest.Reserve(t, rl, "m", 20, 30)
				time.Sleep(time.Second)
				rl.RecordUsage("m", 1, 1)
				limitertest.Save(t, rl)
				time.Sleep(8 * time.Second)
				tt.do(rl, r)
				for range 2 { // the second has nothing to do
					limitertest.Save(t, rl)
					got := statefile.Query(t, path, fmt.Sprintf(`SELECT (ts - %d) / 1000000000 AS s, count, input FROM tokens ORDER BY s`, start.UnixNano()))
					got = append(got, statefile.Query(t, path, `SELECT 'day', day_count, day_tokens FROM daily WHERE day_count > 0`)...)
					if !slices.Equal(got, tt.want) {
						t.Errorf("the database has %q, want %q", got, tt.want)
					}
					requests := statefile.Query(t, path, fmt.Sprintf(`SELECT (ts - %d) / 1000000000 AS s FROM requests ORDER BY s`, start.UnixNano()))
					if len(requests) != max(len(tt.want)-1, 0) {
						t.Errorf("the database has requests %q", requests)
					}
				}
				before := rl.Stats("m")
				other := sqliteLimiterWith(t, path, ratelimit.Config{})
				limitertest.Load(t, other)
				after := other.Stats("m")
				if before.InFlight = 0; !after.DayStart.Equal(before.DayStart) {
					t.Errorf("loaded %+v, want %+v", after, before)
				}
				if after.DayStart = before.DayStart; after != before {
					t.Errorf("loaded %+v, want %+v", after, before)
				}
			})
		})
	}
}

// A model of which everything was given back stays known until the database has
// heard of it.
func TestSQLiteHearsOfWhatWasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := statefile.Path(t)
		rl := sqliteLimiterWith(t, path, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}}})
		r := limitertest.Reserve(t, rl, "m", 20, 30)
		limitertest.Save(t, rl)
		r.Cancel()
		rl.Decide("m", 1) // which forgets what is empty
		rl.Stats("m")
		limitertest.Save(t, rl)
		for _, table := range []string{"requests", "tokens"} {
			if rows := statefile.Query(t, path, "SELECT * FROM "+table); len(rows) != 0 {
				t.Errorf("%s: %q", table, rows)
			}
		}
		if rows := statefile.Query(t, path, "SELECT * FROM daily WHERE day_count > 0 OR day_tokens > 0"); len(rows) != 0 {
			t.Errorf("daily: %q", rows)
		}
		rl.Stats("m")
		if len(rl.State) != 0 {
			t.Errorf("state is %v", rl.State)
		}
	})
}

// TestSQLiteReservationsRandomly lets two limiters reserve, settle and persist at
// random on one database, each with models of its own and one that they share,
// and in the end holds what a third loads against what they counted.
func TestSQLiteReservationsRandomly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(racetest.Times(8, 2, 80)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			path := statefile.Path(t)
			var limiters [2]*ratelimit.RateLimiter
			var open [2][]*ratelimit.Reservation
			for i := range limiters {
				limiters[i] = sqliteLimiterWith(t, path, ratelimit.Config{})
			}
			for range 200 {
				i := random.IntN(2)
				rl := limiters[i]
				switch op := random.IntN(12); {
				case op < 4:
					model := []string{"shared", fmt.Sprint("own", i)}[random.IntN(2)]
					open[i] = append(open[i], limitertest.Reserve(t, rl, model, random.IntN(5), random.IntN(5)))
				case op < 8 && len(open[i]) > 0:
					k := random.IntN(len(open[i]))
					r := open[i][k]
					switch random.IntN(4) {
					case 0:
						r.Cancel()
					case 1:
						r.Arrived(time.Now().Add(-time.Duration(random.IntN(10)) * time.Second))
						continue
					default:
						r.Commit(random.IntN(9), random.IntN(9))
					}
					open[i] = slices.Delete(open[i], k, k+1)
				case op < 10:
					time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
				default:
					limitertest.Save(t, rl)
				}
			}
			for _, rl := range limiters {
				limitertest.Save(t, rl)
			}
			third := sqliteLimiterWith(t, path, ratelimit.Config{})
			limitertest.Load(t, third)
			for _, model := range []string{"shared", "own0", "own1"} {
				a, b, got := limiters[0].Stats(model), limiters[1].Stats(model), third.Stats(model)
				if got.RPM != a.RPM+b.RPM || got.ITPM != a.ITPM+b.ITPM || got.OTPM != a.OTPM+b.OTPM || got.RPD != a.RPD+b.RPD || got.TPD != a.TPD+b.TPD {
					t.Errorf("seed %d: %s: loaded %+v\nof %+v\nand %+v", seed, model, got, a, b)
				}
			}
		})
	}
}

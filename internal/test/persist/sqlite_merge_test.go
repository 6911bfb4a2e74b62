//go:build !nosqlite

// SQLite: several limiters save to one file, and nothing is lost.

package persist

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// A script is what limiters called A, B and C do on one file, a word each:
//
//	A+3     A records three charges of model m, one a second
//	A+n3    the same of model n
//	A.save  Persist
//	A.load  Load
//	A.m A.n Reset of the model
//	A.all   Reset of all
//	A.look  AllStats, which forgets what is over
//	A=2     A replaces its entry of m by one that keeps the newest two charges
//	10m 25h time passes
//
// and then a fresh limiter loads the file.
func sqlitePlay(t *testing.T, script string) (stored map[string]ratelimit.ModelStats) {
	t.Helper()
	path := statefile.Path(t)
	limiters := make(map[string]*ratelimit.RateLimiter)
	for _, word := range strings.Fields(script) {
		if pause, err := time.ParseDuration(word); err == nil {
			time.Sleep(pause)
			continue
		}
		name, what := word[:1], word[1:]
		rl := limiters[name]
		if rl == nil {
			rl = sqliteLimiter(t, path)
			limiters[name] = rl
		}
		model := "m"
		switch what[0] {
		case '+':
			if what[1] == 'n' {
				model, what = "n", what[1:]
			}
			var n int
			if _, err := fmt.Sscan(what[1:], &n); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
			for range n {
				time.Sleep(time.Second)
				rl.RecordUsage(model, 10, 0)
			}
		case '=':
			var n int
			if _, err := fmt.Sscan(what[1:], &n); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
			old := rl.State["m"]
			rl.State["m"] = &ratelimit.UsageStats{
				Requests: slices.Clone(old.Requests[len(old.Requests)-n:]),
				Tokens:   slices.Clone(old.Tokens[len(old.Tokens)-n:]),
				DayStart: old.DayStart, DayCount: n,
			}
		default:
			switch what {
			case ".save":
				limitertest.Save(t, rl)
			case ".load":
				limitertest.Load(t, rl)
			case ".look":
				rl.AllStats()
			case ".m", ".n":
				rl.Reset(what[1:])
			case ".all":
				rl.Reset("")
			default:
				t.Fatalf("what is %s?", word)
			}
		}
	}
	reader := sqliteLimiter(t, path)
	limitertest.Load(t, reader)
	stored = reader.AllStats()
	for _, s := range stored {
		if s.TPM != 10*s.RPM {
			t.Errorf("%d tokens of %d requests", s.TPM, s.RPM)
		}
	}
	return stored
}

func TestSQLiteLimitersMerge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		minute, day  int // of model m
	}{
		{"one limiter", "A+3 A.save", 3, 3},
		{"saved twice", "A+3 A.save A.save", 3, 3},
		{"in two parts", "A+3 A.save A+2 A.save", 5, 5},
		{"unsaved", "A+3 A.save A+2", 3, 3},
		{"two limiters lose nothing", "A+3 B+2 A.save B.save", 5, 5},
		{"nor when they take turns", "A+1 A.save B+1 B.save A+1 A.save B+1 B.save A+1 A.save", 5, 5},
		{"nor does a third", "A+1 B+2 C+3 C.save A.save B.save", 6, 6},
		{"nor when one has loaded", "A+3 A.save B.load B+2 B.save A+1 A.save", 6, 6},
		{"what was loaded is not stored again", "A+3 A.save B.load B.save C.load C.save", 3, 3},
		{"Load replaces what is unsaved", "A+3 A.save B+2 B.load B.save", 3, 3},

		{"Reset", "A+3 A.save A.m A.save", 0, 0},
		{"Reset of all", "A+3 A.save A.all A.save", 0, 0},
		{"Reset of another model", "A+3 A+n1 A.save A.n A.save", 3, 3},
		{"Reset, not saved", "A+3 A.save A.m", 3, 3},
		{"Reset, then a charge", "A+3 A.save A.m A+1 A.save", 1, 1},
		{"Reset of what was loaded", "A+3 A.save B.load B.m B.save", 0, 0},
		{"Reset before anything was saved", "A+3 A.m A.save", 0, 0},
		{"Reset keeps what others wrote since", "A+3 A.save B+2 B.save A.m A.save", 2, 2},
		{"and what they wrote to what was known", "A+3 A.save B.load B+2 B.save A.m A.save", 2, 2},
		{"but not what they wrote before the last Persist", "A+3 A.save B+2 B.save A.save A.m A.save", 0, 0},
		{"nor before the last Load", "A+3 A.save B+2 B.save A.load A.m A.save", 0, 0},
		{"nor to what another wrote", "A+3 A.save B+2 B.save A+1 A.save B.m B.save", 1, 1},
		{"a Reset of another is not undone", "A+3 A.save B.load B.m B.save A+1 A.save", 1, 1},
		{"nor by one that has loaded", "A+3 A.save B.load C.load C.m C.save B+1 B.save A+1 A.save", 2, 2},
		{"two Resets do not take away a third's", "A+3 A.save B.load C.load C+1 C.save B.m B.save A.m A.save", 1, 1},
		{"Reset after Reset", "A+3 A.save A.m A+1 A.save A.m A+2 A.save", 2, 2},

		{"an entry made by hand", "A+5 A.save A=2 A.save", 2, 2},
		{"keeps what others wrote since", "A+5 A.save B+1 B.save A=2 A.save", 3, 3},
		{"and goes on", "A+5 A.save A=2 A+1 A.save A+1 A.save", 4, 4},

		{"the minute passes, the day does not", "A+3 A.save 61s A+1 A.save", 1, 4},
		{"the day passes", "A+3 A.save 24h A+1 A.save", 1, 1},
		{"for the first to save", "A+3 A.save B+2 B.save 24h A+1 A.save", 1, 1},
		{"and for the second", "A+3 A.save B+2 B.save 24h A+1 A.save B+1 B.save", 2, 2},
		{"nothing is charged any more", "A+3 A.save 24h A.save", 0, 0},
		{"nor looked at", "A+3 A.save 24h A.look A.save", 0, 0},
		{"the day is that of the first charge of all", "A+3 12h B+2 B.save A.save 12h", 0, 0},
		{"also the other way round", "B+2 A+3 A.save 12h B.save 11h", 0, 5},
		{"others have begun another day", "A+3 A.save 24h B+2 B.save A+1 A.save", 3, 3},
		{"and one has loaded it", "A+3 A.save 24h B+2 B.save A.load A+1 A.save", 3, 3},
		{"one goes on with its day when the common one is over", "A+1 1h B+2 B.save A.save 23h B+1 B.save", 1, 3},
		{"and the other with what it adds to that", "A+1 1h B+2 B.save A.save 23h B+1 B.save A+1 A.save", 2, 4},
		{"a long pause between saves", "A+3 10m A.save", 0, 3},

		{"expiry is not a Reset", "A+1 A.save 24h B+2 B.save A+n1 A.save A.look A.save", 2, 2},
		{"also when the model is used again", "A+1 A.save 24h B+2 B.save A+n1 A.save A.look A+1 A.save", 3, 3},
		{"but a Reset before it is", "A+3 A.save A.m 30s A.save 1s", 0, 0},
	}
	for i, tt := range tests {
		if i%min(racetest.Factor, 3) > 0 {
			continue // one at a time uses the limiters, so the race detector has little to see
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if s := sqlitePlay(t, tt.script)["m"]; s.RPM != tt.minute || s.RPD != tt.day {
					t.Errorf("%s\nstored: %d in the minute and %d in the day, want %d and %d", tt.script, s.RPM, s.RPD, tt.minute, tt.day)
				}
			})
		})
	}
}

// Limiters that load before and save after each charge are as one, for days.
func TestSQLiteLimitersInTurnAreAsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := statefile.Path(t)
		alone := sqliteLimiter(t, filepath.Join(t.TempDir(), "alone.db"))
		var limiters []*ratelimit.RateLimiter
		for range 3 {
			limiters = append(limiters, sqliteLimiter(t, path))
		}
		for i := range 80 {
			time.Sleep(time.Duration(i*i%37)*10*time.Minute + time.Duration(i)*time.Millisecond)
			rl := limiters[i*7%3]
			limitertest.Load(t, rl)
			rl.RecordUsage("m", i, 0)
			limitertest.Save(t, rl)
			alone.RecordUsage("m", i, 0)
			if got, want := rl.Stats("m"), alone.Stats("m"); !got.DayStart.Equal(want.DayStart) || got.RPD != want.RPD || got.RPM != want.RPM || got.TPM != want.TPM {
				t.Fatalf("charge %d: %+v, want %+v", i, got, want)
			}
		}
	})
}

func TestSQLiteQuotasMerge(t *testing.T) {
	quota := func(rpm int) ratelimit.ModelQuota { return ratelimit.ModelQuota{MaxRPM: rpm} }
	const gemini = "gemini-2.5-pro"
	defaults := ratelimit.DefaultProfiles()[ratelimit.ProviderGemini].Models[gemini]
	type limiters struct{ a, b *ratelimit.RateLimiter } // with Gemini's profile
	save := func(t *testing.T, rl *ratelimit.RateLimiter) { limitertest.Save(t, rl) }
	tests := []struct {
		name string
		play func(t *testing.T, l limiters)
		want ratelimit.ModelQuota
	}{
		{"a profile is stored", func(t *testing.T, l limiters) { save(t, l.a) }, defaults},
		{"what the program said is stored", func(t *testing.T, l limiters) { l.a.SetQuota(gemini, quota(1)); save(t, l.a) }, quota(1)},
		{"over what was", func(t *testing.T, l limiters) { save(t, l.a); l.a.SetQuota(gemini, quota(1)); save(t, l.a) }, quota(1)},
		{"over what others wrote", func(t *testing.T, l limiters) {
			l.b.SetQuota(gemini, quota(2))
			save(t, l.b)
			l.a.SetQuota(gemini, quota(1))
			save(t, l.a)
		}, quota(1)},
		{"a profile is not, over what others wrote", func(t *testing.T, l limiters) {
			l.b.SetQuota(gemini, quota(2))
			save(t, l.b)
			save(t, l.a)
			save(t, l.a)
		}, quota(2)},
		{"unless the program says just that", func(t *testing.T, l limiters) {
			l.b.SetQuota(gemini, quota(2))
			save(t, l.b)
			save(t, l.a)
			l.a.SetQuota(gemini, defaults)
			save(t, l.a)
		}, defaults},
		{"what others wrote since is kept", func(t *testing.T, l limiters) {
			l.a.SetQuota(gemini, quota(1))
			save(t, l.a)
			l.b.SetQuota(gemini, quota(2))
			save(t, l.b)
			save(t, l.a)
		}, quota(2)},
		{"also after Load", func(t *testing.T, l limiters) {
			save(t, l.a)
			limitertest.Load(t, l.a)
			l.b.SetQuota(gemini, quota(2))
			save(t, l.b)
			save(t, l.a)
		}, quota(2)},
		{"what was said wins over what is loaded, and is stored", func(t *testing.T, l limiters) {
			l.b.SetQuota(gemini, quota(2))
			save(t, l.b)
			l.a.SetQuota(gemini, quota(1))
			limitertest.Load(t, l.a)
			save(t, l.a)
		}, quota(1)},
		{"what was taken away is gone", func(t *testing.T, l limiters) { save(t, l.a); delete(l.a.Quotas, gemini); save(t, l.a) }, ratelimit.ModelQuota{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := statefile.Path(t)
			tt.play(t, limiters{sqliteLimiterWith(t, path, ratelimit.Config{}), sqliteLimiterWith(t, path, ratelimit.Config{})})
			reader := sqliteLimiter(t, path)
			limitertest.Load(t, reader)
			if got := reader.Quotas[gemini]; got != tt.want {
				t.Errorf("stored %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A Persist that fails loses nothing, and what it saw there is not known by it.
func TestSQLiteFailedPersistIsMadeGood(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		break_, fix string
		takes       time.Duration
	}{
		{"a trigger", `CREATE TRIGGER no BEFORE INSERT ON tokens BEGIN SELECT RAISE(ABORT, 'no'); END`, `DROP TRIGGER no`, 0},
		{"a table is missing", `ALTER TABLE tokens RENAME TO gone`, `ALTER TABLE gone RENAME TO tokens`, 0},
		{"another program holds the file", `BEGIN IMMEDIATE`, `ROLLBACK`, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.takes > 0 {
				t.Parallel()
			}
			path := statefile.Path(t)
			rl, other := sqliteLimiter(t, path), sqliteLimiter(t, path)
			rl.RecordUsage("m", 1, 0)
			rl.RecordUsage("n", 1, 0)
			limitertest.Save(t, rl)
			other.RecordUsage("m", 1, 0)
			limitertest.Save(t, other)

			db := statefile.Open(t, path)
			if _, err := db.Exec(tt.break_); err != nil {
				t.Fatal(err)
			}
			rl.Reset("m")
			rl.RecordUsage("n", 1, 0)
			started := time.Now()
			if err := rl.Persist(); err == nil || !strings.Contains(err.Error(), path+": ") {
				t.Fatalf("error %v", err)
			}
			if waited := time.Since(started); waited < tt.takes {
				t.Errorf("it gave up after %v, want %v", waited, tt.takes)
			}
			if _, err := db.Exec(tt.fix); err != nil {
				t.Fatal(err)
			}
			limitertest.Save(t, rl)
			reader := sqliteLimiter(t, path)
			limitertest.Load(t, reader)
			if m, n := reader.Stats("m"), reader.Stats("n"); m.RPM != 1 || m.RPD != 1 || n.RPM != 2 || n.RPD != 2 {
				t.Errorf("m %+v, n %+v; want the other's charge of m, and both of n", m, n)
			}
		})
	}
}

//go:build !nosqlite

// SQLite: cooldowns, tokens of the day and migration, field by field.

package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// A script is what limiters called A, B and C do on one file, a word each: A=5
// begins a cooldown of model m that ends 5 hours after midnight, A.m is a Reset
// of it, A.save, A.load and 10m are what they say. Then the file says until when
// the cooldown lasts.
func TestSQLiteCooldownsMerge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script, want string
	}{
		{"one", "A=5 A.save", "5"},
		{"unsaved", "A=5", ""},
		{"it grows", "A=5 A.save A=6 A.save", "6"},
		{"the later wins", "A=5 B=6 A.save B.save", "6"},
		{"also when it comes first", "A=5 B=6 B.save A.save", "6"},
		{"also when it was loaded between", "A=5 A.save B=6 B.load B.save A.save", "6"},
		{"Reset", "A=5 A.save A.m A.save", ""},
		{"Reset of what was loaded", "A=5 A.save B.load B.m B.save", ""},
		{"Reset before anything was saved", "A=5 A.m A.save", ""},
		{"Reset of what was not known", "A=5 A.save B=4 B.m B.save", "5"},
		{"Reset does not delete a later one", "A=5 A.save B=6 B.save A.m A.save", "6"},
		{"nor one that it once overwrote", "A=5 B=6 B.save A.save A.m A.save", "6"},
		{"Reset, and a shorter one", "A=5 A.save A.m A=3 A.save", "3"},
		{"a shorter one without Reset", "A=5 A.save A=3 A.save", "3"},
		{"a shorter one does not shorten another's", "A=5 A.save B=6 B.save A.m A=3 A.save", "6"},
		{"a Reset of another is not undone", "A=5 A.save B.load B.m B.save A.save", ""},
		{"but by a cooldown that is new", "A=5 A.save B.load B.m B.save A=6 A.save", "6"},
		{"a cooldown survives saving and loading in turns", "A=5 B.save A.load A.save B.load B.save A.load A.save", "5"},
		{"what is over goes", "A=5 A.save 5h A.save", ""},
		{"what is over goes, by another", "A=5 A.save 6h B.save", ""},
		{"what lasts stays", "A=5 A.save 299m B.save A.save", "5"},
		{"what was over is known no more", "A=2 A.save 3h A.save B=9 B.save A.save", "9"},
		{"what is over is not stored", "A=1 2h A.save", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path, midnight := filepath.Join(t.TempDir(), "state.db"), time.Now()
				limiters := make(map[string]*RateLimiter)
				for _, word := range strings.Fields(tt.script) {
					if pause, err := time.ParseDuration(word); err == nil {
						time.Sleep(pause)
						continue
					}
					rl := limiters[word[:1]]
					if rl == nil {
						rl = fieldsLimiter(t, "sqlite", path)
						limiters[word[:1]] = rl
					}
					fieldsStep(t, rl, word[1:], midnight)
				}
				got := fieldsQuery(t, path, `SELECT model || ' ' || until FROM cooldowns`)
				var want []string
				if tt.want != "" {
					hours, err := time.ParseDuration(tt.want + "h")
					if err != nil {
						t.Fatal(err)
					}
					want = []string{fmt.Sprint("m ", midnight.Add(hours).UnixNano())}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s\nstored %q, want %q", tt.script, got, want)
				}
			})
		})
	}
}

func fieldsStep(t *testing.T, rl *RateLimiter, what string, midnight time.Time) {
	t.Helper()
	var err error
	switch what {
	case ".save":
		err = rl.Persist()
	case ".load":
		err = rl.Load()
	case ".m":
		rl.setCooldowns(nil)
	default:
		var hours int
		_, err = fmt.Sscanf(what, "=%d", &hours)
		rl.setCooldowns(map[string]state.Cooldown{"m": {Until: midnight.Add(time.Duration(hours) * time.Hour)}})
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// fieldsQuery returns the first column of the rows of a query.
func fieldsQuery(t *testing.T, path, query string) (found []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		found = append(found, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// A Persist that fails knows no more of cooldowns than before.
func TestSQLiteFailedPersistOfCooldowns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	rl := fieldsLimiter(t, "sqlite", path)
	until := time.Now().Add(time.Hour)
	rl.setCooldowns(map[string]state.Cooldown{"m": {Until: until}, "n": {Until: until}})
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`ALTER TABLE daily RENAME TO gone`); err != nil {
		t.Fatal(err)
	}
	rl.setCooldowns(map[string]state.Cooldown{"n": {Until: until}, "o": {Until: until}})
	rl.RecordUsage("m", 1, 1)
	if err := rl.Persist(); !errors.Is(err, ErrCorruptState) {
		t.Fatalf("Persist = %v", err)
	}
	if _, err := db.Exec(`ALTER TABLE gone RENAME TO daily`); err != nil {
		t.Fatal(err)
	}
	if got := fieldsQuery(t, path, `SELECT model FROM cooldowns ORDER BY 1`); !slices.Equal(got, []string{"m", "n"}) {
		t.Errorf("a failed Persist left %q", got)
	}
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	if got := fieldsQuery(t, path, `SELECT model FROM cooldowns ORDER BY 1`); !slices.Equal(got, []string{"n", "o"}) {
		t.Errorf("the next one left %q", got)
	}
}

// Limiters that add to and take from one day, in random order, add up.
func TestSQLiteDayTokensAddUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10 / min(racetest.Factor, 4)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			path := filepath.Join(t.TempDir(), "state.db")
			var limiters []*RateLimiter
			for range 3 {
				rl := fieldsLimiter(t, "sqlite", path)
				rl.State["m"] = &UsageStats{DayStart: time.Now().Round(0), DayCount: 1, DayTokens: 10_000}
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				limiters = append(limiters, rl)
			}
			count, tokens := 3, 30_000
			for range 40 {
				time.Sleep(time.Second)
				rl := limiters[rnd.IntN(3)]
				switch rnd.IntN(4) {
				case 0:
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
				case 1:
					if err := errors.Join(rl.Persist(), rl.Load()); err != nil {
						t.Fatal(err)
					}
				default:
					stats := rl.State["m"]
					more, used := rnd.IntN(3), rnd.IntN(200)-100
					stats.DayCount, stats.DayTokens = stats.DayCount+more, stats.DayTokens+used
					count, tokens = count+more, tokens+used
				}
			}
			for _, rl := range limiters {
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{fmt.Sprint(count, " ", tokens)}
			if got := fieldsQuery(t, path, `SELECT day_count || ' ' || day_tokens FROM daily`); !slices.Equal(got, want) {
				t.Errorf("seed %d: stored %q, want %q", seed, got, want)
			}
		})
	}
}

// Tokens of the day that change alone are stored, and are reset with it.
func TestSQLiteDayTokensAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	rl, reader := fieldsLimiter(t, "sqlite", path), fieldsLimiter(t, "sqlite", path)
	start := time.Now().Round(0)
	rl.State["m"] = &UsageStats{DayStart: start, DayCount: 1, DayTokens: 5}
	for _, step := range []struct {
		do   func()
		want int
	}{
		{func() {}, 5},
		{func() { rl.State["m"].DayTokens = 7 }, 7},
		{func() { rl.State["m"].DayTokens = 4 }, 4},
		{func() { rl.State["m"].DayTokens = -4 }, 0},
		{func() { rl.State["m"].DayTokens = math.MaxInt }, math.MaxInt},
		{func() { rl.Reset("m"); rl.State["m"] = &UsageStats{DayStart: start, DayCount: 1, DayTokens: 3} }, 3},
	} {
		step.do()
		if err := errors.Join(rl.Persist(), reader.Load()); err != nil {
			t.Fatal(err)
		}
		if got := reader.State["m"]; got.DayTokens != step.want || got.DayCount != 1 {
			t.Errorf("stored %d requests of %d tokens, want %d", got.DayCount, got.DayTokens, step.want)
		}
	}
}

// What a program filled in by hand is stored as Load accepts it.
func TestSQLiteWritesWhatItReads(t *testing.T) {
	now := time.Now()
	path := filepath.Join(t.TempDir(), "state.db")
	rl := fieldsLimiter(t, "sqlite", path)
	rl.SetQuota("bad", ModelQuota{DayZone: "Mars/Base"})
	rl.State["m"] = &UsageStats{Tokens: []TokenEntry{
		{Time: now, Count: 5, Input: 7}, {Time: now, Count: 5, Input: -7}, {Time: now, Count: -5, Input: 7}, {Time: now, Count: -5, Input: -7},
	}}
	again := fieldsLimiter(t, "sqlite", path)
	if err := errors.Join(rl.Persist(), again.Load()); err != nil {
		t.Fatal(err)
	}
	inputs := map[int]int{}
	for _, e := range again.State["m"].Tokens {
		inputs[e.Input]++
	}
	if want := map[int]int{5: 1, 0: 3}; !maps.Equal(inputs, want) || len(again.Quotas) != 0 {
		t.Errorf("input tokens %v, want %v; quotas %v", inputs, want, again.Quotas)
	}
}

// A migration carries every field.
func TestMigrateEveryField(t *testing.T) {
	dir := t.TempDir()
	from := fieldsLimiter(t, "yaml", filepath.Join(dir, "state.yaml"))
	from.take(fieldsSample(time.Now()))
	if err := errors.Join(from.Persist(), MigrateYAMLToSQLite(from.storage.path, filepath.Join(dir, "state.db"))); err != nil {
		t.Fatal(err)
	}
	to := fieldsLimiter(t, "sqlite", filepath.Join(dir, "state.db"))
	if err := to.Load(); err != nil {
		t.Fatal(err)
	}
	if diff := from.content().differs(to.content()); diff != "" {
		t.Error(diff)
	}
}

// Providers that are empty and not nil are none, so a limiter joins a shared quota as it is.
func TestNoProviders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	shared := func(cfg Config) *RateLimiter {
		cfg.Shared = true
		rl, err := NewWithSQLiteConfig(path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rl.Close() })
		return rl
	}
	said := map[string]ModelQuota{"m": {MaxRPM: 3}}
	shared(Config{Quotas: said})
	if got := shared(Config{Providers: []Provider{}}).Quotas; !maps.Equal(got, said) {
		t.Errorf("the quotas are %v", got)
	}
	if is, err := Inspect(t.Context(), Config{FilePath: path}); err != nil || !maps.Equal(is.Quotas, said) {
		t.Errorf("a look shows the quotas %v, %v", is, err)
	}
	if got := shared(Config{}).Quotas; len(got) <= len(said) {
		t.Errorf("without the list they are %v", got)
	}
}

//go:build !nosqlite

// Databases that programs of earlier commits used, or use beside this version: those of formats
// without limits that are found, and without pools.

package ratelimit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/formertest"
)

var adaptive = map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000, AdaptiveFloorRPM: 5, AdaptiveCeilingInFlight: 6}}

// formerProgram is a program of an earlier commit.
type formerProgram struct {
	path   string
	events string // the table that it has them in
	knows  string // the formats that it knows, in words
	format string // that it refuses of a private database with news in it
	// news are what a private database has then.
	news func(rl *ratelimit.RateLimiter)
}

// buildFormer builds a program once for all tests of it.
func buildFormer(t *testing.T, commit string) string {
	t.Helper()
	source, err := os.ReadFile("testdata/former/main.go")
	if err != nil {
		t.Fatal(err)
	}
	return formertest.Build(t, commit, ".", string(source))
}

func TestFormerProgram(t *testing.T) {
	t.Parallel()
	for _, former := range []formerProgram{
		{buildFormer(t, formertest.BeforeFound), "ledger", "up to 1 and 100", "format 2", func(rl *ratelimit.RateLimiter) {
			rl.SetQuota("m", adaptive["m"])
		}},
		{buildFormer(t, formertest.BeforePools), "shared_log", "up to 2 and 101", "format 3", func(rl *ratelimit.RateLimiter) {
			rl.SetQuota("m", adaptive["m"])
			rl.SetPool("p", ratelimit.Pool{Models: []string{"m"}, Quota: adaptive["m"]})
		}},
	} {
		t.Run("shared/"+former.events, func(t *testing.T) { formerShared(t, former) })
		t.Run("private/"+former.events, func(t *testing.T) { formerPrivate(t, former) })
	}
}

// formerShared: this version is refused as long as a program of before has the shared database
// open, which goes on. Then it takes the database over, with all that was done there.
func formerShared(t *testing.T, program formerProgram) {
	path := filepath.Join(t.TempDir(), "shared.db")
	former, said := formertest.Start(t, program.path, "shared", path)
	if said.Error != "" {
		t.Fatal(said)
	}
	killed, said := formertest.Start(t, program.path, "shared", path)
	if said.Error != "" {
		t.Fatal(said)
	}
	for _, p := range []*formertest.Process{former, killed, former} {
		formerRefuses(t, path)
		if said := p.Do("reserve"); !said.Allowed || said.Error != "" {
			t.Fatalf("reserve: %+v", said)
		}
	}
	former.End()
	formerRefuses(t, path)
	killed.Kill()
	rl := openShared(t, path, func(cfg *ratelimit.Config) { cfg.Quotas = adaptive })
	if s := rl.Stats("m"); s.TPM != 30 || s.RPM != 3 {
		t.Errorf("what the programs of before did is %+v", s)
	}
	_, said = formertest.Start(t, program.path, "shared", path)
	if !said.Corrupt || !strings.Contains(said.Error, "format 102, this version knows "+program.knows) {
		t.Errorf("opened again: %+v", said)
	}
	_, said = formertest.Start(t, program.path, "private", path)
	if !said.Corrupt || !strings.Contains(said.Error, "format 102") {
		t.Errorf("opened as a private one: %+v", said)
	}
	rl.RecordUsage("m", 7, 0)
	other := openShared(t, path, func(cfg *ratelimit.Config) { cfg.Quotas = nil })
	if s := other.Stats("m"); s.TPM != 37 || s.RPM != 4 || rl.Err() != nil {
		t.Errorf("afterwards %+v, %v", s, rl.Err())
	}
	if _, q, _ := other.QuotaFor("m"); q != adaptive["m"] {
		t.Errorf("the quota is %+v", q)
	}
	sharedEventually(t, "the calls of the dead program end", func() bool { return other.Stats("m").InFlight == 0 })
	if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) > 0 {
		t.Errorf("set aside: %v", kept)
	}
}

// formerRefuses opens a database that a program of before has open.
func formerRefuses(t *testing.T, path string) {
	t.Helper()
	before := sqliteQuery(t, path, "SELECT name, sql FROM sqlite_master ORDER BY name")
	rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Shared: true, Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
	if err == nil {
		rl.Close()
	}
	if err == nil || errors.Is(err, ratelimit.ErrCorruptState) || !strings.Contains(err.Error(), "earlier version") || !strings.Contains(err.Error(), path) {
		t.Fatalf("beside a program of before: %v", err)
	}
	if after := sqliteQuery(t, path, "SELECT name, sql FROM sqlite_master ORDER BY name"); !slices.Equal(after, before) {
		t.Errorf("the tables are %q, were %q", after, before)
	}
	if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) > 0 {
		t.Errorf("set aside: %v", kept)
	}
}

// formerPrivate: a program of before goes on with a private database until there is something in it
// that the program does not know.
func formerPrivate(t *testing.T, program formerProgram) {
	path := filepath.Join(t.TempDir(), "private.db")
	former, said := formertest.Start(t, program.path, "private", path)
	if said.Error != "" {
		t.Fatal(said)
	}
	former.Do("reserve")
	if said := former.Do("persist"); said.Error != "" {
		t.Fatal(said)
	}
	rl := sqliteLimiter(t, path)
	sqliteLoad(t, rl)
	if s := rl.Stats("m"); s.TPM != 10 || s.MaxTPM != 1000 {
		t.Errorf("what the program of before stored is %+v", s)
	}
	rl.RecordUsage("m", 7, 0)
	sqlitePersist(t, rl)
	for _, order := range []string{"load", "persist"} {
		if said := former.Do(order); said.Error != "" {
			t.Errorf("%s of a database without news: %+v", order, said)
		}
	}
	program.news(rl)
	sqlitePersist(t, rl)
	for _, order := range []string{"load", "persist"} {
		if said := former.Do(order); !said.Corrupt || !strings.Contains(said.Error, program.format+", this version knows "+program.knows) {
			t.Errorf("%s of a database with news: %+v", order, said)
		}
	}
	if _, said := formertest.Start(t, program.path, "private", path); !said.Corrupt || !strings.Contains(said.Error, program.format) {
		t.Errorf("opened again: %+v", said)
	}
	again := sqliteLimiter(t, path)
	sqliteLoad(t, again)
	if q := again.Quotas["m"]; q != adaptive["m"] {
		t.Errorf("the quota is %+v", q)
	}
}

// testdata/former/shared100.db is what the program of before left, filled. Its times are those of
// the machine that recorded it: here they are of this start of this machine or of another one, and
// the clock of this machine has gone on, or is behind.
func TestFormerSharedDatabase(t *testing.T) {
	sample, err := os.ReadFile("testdata/former/shared100.db")
	if err != nil {
		t.Fatal(err)
	}
	const boot = "SELECT value FROM facts WHERE name = 'boot'"
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	openShared(t, fresh)
	here := strings.Join(sqliteQuery(t, fresh, boot), "") // "" where the start is not known
	for _, of := range []struct {
		name, boot string
		mono       string // what becomes of the readings of the machine's clock
	}{{"this start", here, "mono"}, {"another start", "another", "0"}} {
		if here == "" {
			of.mono = "mono"
		}
		for _, age := range []time.Duration{time.Minute, 400 * 24 * time.Hour, -24 * time.Hour} {
			t.Run(fmt.Sprintf("%s/%v ago", of.name, age), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "shared.db")
				if err := os.WriteFile(path, sample, 0o600); err != nil {
					t.Fatal(err)
				}
				first, err := strconv.ParseInt(sqliteQuery(t, path, "SELECT min(wall) FROM ledger")[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				later := time.Now().Add(-age).UnixNano() - first
				sqliteExec(t, path,
					"UPDATE facts SET value = '"+of.boot+"' WHERE name = 'boot'",
					fmt.Sprintf("UPDATE ledger SET wall = wall + %d WHERE model <> 'cooled'", later),
					fmt.Sprintf("UPDATE ledger SET day_start = day_start + %d WHERE has_day", later))
				formerDatabase(t, path, of.mono)
			})
		}
	}
}

// formerDatabase opens a sample, and finds all of it there. Of the readings of the machine's clock
// it finds what the expression mono says.
func formerDatabase(t *testing.T, path, mono string) {
	rows := func(table, mono string) []string {
		return sqliteQuery(t, path, "SELECT seq, process, n, kind, ref, model, wall, "+mono+", age, requests, input, output,"+
			" has_day, day_start, day_count, day_tokens, text FROM "+table+" ORDER BY seq")
	}
	events := rows("ledger", mono)
	if rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Shared") {
		t.Errorf("as a private one: %v, %v", rl, err)
	}
	rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Shared: true, Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	if d := rl.Decide("cooled", 1); d.Code != ratelimit.DecisionCooldown {
		t.Errorf("the cooldown: %+v", d)
	}
	if _, q, _ := rl.QuotaFor("other"); q != (ratelimit.ModelQuota{MaxRPM: 7, MaxTPD: 8, DayZone: "UTC"}) {
		t.Errorf("the quota is %+v", q)
	}
	if _, q, _ := rl.QuotaFor("m"); q != (ratelimit.ModelQuota{MaxTPM: 1000}) {
		t.Errorf("the quota is %+v", q)
	}
	if e := rl.Estimate("m"); e.Answers != 40 || e.PromptPermille != 1500 {
		t.Errorf("learned %+v", e)
	}
	if got := rows("shared_events", "mono"); len(events) == 0 || !slices.Equal(got[:min(len(events), len(got))], events) {
		t.Errorf("the events are %q, were %q", got, events)
	}
	if got := sqliteQuery(t, path, "PRAGMA user_version"); !slices.Equal(got, []string{"102"}) {
		t.Errorf("format %s", got)
	}
	if got := sqliteQuery(t, path, "SELECT count(*) FROM sqlite_master WHERE name = 'ledger'"); !slices.Equal(got, []string{"0"}) {
		t.Error("a program that has the database open would go on")
	}
	if err := rl.Err(); err != nil {
		t.Error(err)
	}
}

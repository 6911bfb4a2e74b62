//go:build !nosqlite

// Databases that programs of earlier commits used, or use beside this version: those of formats
// without limits that are found, and without pools.

package ratelimit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/formertest"
)

var adaptive = map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000, AdaptiveFloorRPM: 5, AdaptiveCeilingInFlight: 6}}

// formerProgram is a program of an earlier commit.
type formerProgram struct {
	path   string
	table  string // of its events
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
		t.Run("shared/"+former.table, func(t *testing.T) { formerShared(t, former) })
		t.Run("private/"+former.table, func(t *testing.T) { formerPrivate(t, former) })
	}
}

// formerShared: this version takes a shared database over, with what a program of before did there.
// That program fails with its next step, and cannot open the database again.
func formerShared(t *testing.T, program formerProgram) {
	path := filepath.Join(t.TempDir(), "shared.db")
	former, said := formertest.Start(t, program.path, "shared", path)
	if said.Error != "" {
		t.Fatal(said)
	}
	for range 3 {
		if said := former.Do("reserve"); !said.Allowed || said.Error != "" {
			t.Fatalf("reserve: %+v", said)
		}
	}
	rl := openShared(t, path, func(cfg *ratelimit.Config) { cfg.Quotas = adaptive })
	if s := rl.Stats("m"); s.TPM != 30 || s.RPM != 3 || s.InFlight != 3 {
		t.Errorf("what the program of before did is %+v", s)
	}
	for range 2 {
		if said := former.Do("reserve"); !said.Corrupt || !strings.Contains(said.Error, program.table) {
			t.Errorf("the step of a program that has the database open: %+v", said)
		}
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
	former.End()
	sharedEventually(t, "the calls of the dead program end", func() bool { return other.Stats("m").InFlight == 0 })
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

// testdata/former/shared100.db is what the program of before left, filled.
func TestFormerSharedDatabase(t *testing.T) {
	sample, err := os.ReadFile("testdata/former/shared100.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shared.db")
	if err := os.WriteFile(path, sample, 0o600); err != nil {
		t.Fatal(err)
	}
	events := sqliteQuery(t, path, "SELECT * FROM ledger ORDER BY seq")
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
	if got := sqliteQuery(t, path, "SELECT * FROM shared_events ORDER BY seq"); len(events) == 0 || !slices.Equal(got[:min(len(events), len(got))], events) {
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

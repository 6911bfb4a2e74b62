//go:build !nosqlite

// SQLite: saving and loading.

package persist

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestSQLiteLoadsADatabaseOfTheOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, journal := range []string{"WAL", "DELETE"} {
			path := statefile.Path(t)
			now := time.Now()
			statefile.Exec(t, path, `PRAGMA journal_mode=`+journal, statefile.Documented,
				`INSERT INTO quotas VALUES ('m', 5, 600, 7)`,
				fmt.Sprintf(`INSERT INTO requests VALUES ('m', %d), ('m', %d), ('old', 1)`, now.Add(-2*time.Second).UnixNano(), now.Add(-time.Second).UnixNano()),
				fmt.Sprintf(`INSERT INTO tokens VALUES ('m', %d, 30), ('m', %d, 40), ('old', 1, 50)`, now.Add(-2*time.Second).UnixNano(), now.Add(-time.Second).UnixNano()),
				fmt.Sprintf(`INSERT INTO daily VALUES ('m', %d, 6), ('old', 1, 9)`, now.Add(-time.Hour).UnixNano()),
			)
			rl := sqliteLimiter(t, path)
			limitertest.Load(t, rl)
			want := ratelimit.ModelStats{RPM: 2, MaxRPM: 5, TPM: 70, OTPM: 70, MaxTPM: 600, RPD: 6, MaxRPD: 7, DayStart: now.Add(-time.Hour).Round(0)}
			got := rl.Stats("m")
			if !got.DayStart.Equal(want.DayStart) {
				t.Errorf("DayStart = %v, want %v", got.DayStart, want.DayStart)
			}
			if got.DayStart = want.DayStart; got != want {
				t.Errorf("Stats = %+v, want %+v", got, want)
			}
			if got := rl.Stats("old"); got != (ratelimit.ModelStats{}) {
				t.Errorf("what is long over counts: %+v", got)
			}
			rl.RecordUsage("m", 1, 1)
			limitertest.Save(t, rl)
			if got, want := statefile.Query(t, path, `SELECT model, count FROM tokens ORDER BY 2`), []string{"m 2", "m 30", "m 40"}; !slices.Equal(got, want) {
				t.Errorf("tokens = %q, want %q", got, want)
			}
			if got := statefile.Query(t, path, `PRAGMA user_version`); !slices.Equal(got, []string{"0"}) {
				t.Errorf("the original does not know user_version %q", got)
			}
		}
	})
}

func TestSQLiteRoundTrip(t *testing.T) {
	models := []string{
		"gemini-2.5-pro", "", " ", "a\x00b", "\x00", "\xff\xfe", "naïve ☃", "'; DROP TABLE tokens; --", `"`, "A", "a",
		strings.Repeat("x", 10_000), "NULL", "1", "1.0", "x'00'",
	}
	now := time.Now()
	states := map[string]*ratelimit.UsageStats{
		"a charge": {
			Requests: []time.Time{now.Add(-time.Second)}, Tokens: []ratelimit.TokenEntry{{Time: now.Add(-time.Second), Count: 5}},
			DayStart: now.Add(-time.Hour), DayCount: 9,
		},
		"nanoseconds": {
			Requests: []time.Time{now.Add(-3), now.Add(-2), now.Add(-2), now.Add(-1)},
			DayStart: now.Add(-1), DayCount: 1,
		},
		"the largest count":   {Tokens: []ratelimit.TokenEntry{{Time: now.Add(-1), Count: math.MaxInt}}, DayStart: now.Add(-1), DayCount: math.MaxInt},
		"no day":              {},
		"an old day":          {DayStart: time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC), DayCount: 42},
		"old charges":         {Requests: []time.Time{time.Unix(0, 0), time.Unix(0, 1)}, Tokens: []ratelimit.TokenEntry{{Time: time.Unix(0, 1), Count: 2}}},
		"requests only":       {Requests: []time.Time{now.Add(-1)}},
		"tokens only, of 0":   {Tokens: []ratelimit.TokenEntry{{Time: now.Add(-1)}}},
		"a day without count": {DayStart: now.Add(-time.Hour)},
	}
	path := statefile.Path(t)
	from := sqliteLimiter(t, path)
	for i, model := range models {
		from.SetQuota(model, ratelimit.ModelQuota{MaxRPM: i, MaxTPM: math.MaxInt, MaxRPD: i * i})
	}
	want := make(map[string]*ratelimit.UsageStats)
	for name, stats := range states {
		models := []string{name}
		if name == "a charge" {
			models = append(models, slices.Clone(models)...)
			models = append(models, "", "a\x00b", "\xff\xfe", "'; DROP TABLE tokens; --", "A", "a", "1")
		}
		for _, model := range models {
			copied := *stats
			want[model], from.State[model] = stats, &copied
		}
	}
	limitertest.Save(t, from)
	to := sqliteLimiter(t, path)
	limitertest.Load(t, to)
	if !reflect.DeepEqual(to.Quotas, from.Quotas) {
		t.Errorf("quotas = %v, want %v", to.Quotas, from.Quotas)
	}
	if len(to.State) != len(want) {
		t.Errorf("%d models, want %d", len(to.State), len(want))
	}
	for model, stats := range want {
		sqliteWantStats(t, model, to.State[model], stats)
	}
}

func TestSQLiteLoadReplacesUsage(t *testing.T) {
	path := statefile.Path(t)
	other := sqliteLimiter(t, path)
	other.RecordUsage("stored", 1, 0)
	limitertest.Save(t, other)

	rl := sqliteLimiter(t, path)
	rl.RecordUsage("stored", 10, 0)
	rl.RecordUsage("unsaved", 10, 0)
	limitertest.Load(t, rl)
	if s := rl.Stats("stored"); s.RPM != 1 || s.TPM != 1 || s.RPD != 1 {
		t.Errorf("stored: %+v", s)
	}
	if s := rl.Stats("unsaved"); s != (ratelimit.ModelStats{}) {
		t.Errorf("unsaved: %+v", s)
	}
}

func TestSQLiteQuotaPrecedence(t *testing.T) {
	quota := func(rpm int) ratelimit.ModelQuota { return ratelimit.ModelQuota{MaxRPM: rpm} }
	path := statefile.Path(t)
	file := sqliteLimiter(t, path)
	for _, model := range []string{"gemini-2.5-pro", "gemini-2.0-flash", "configured", "set", "foreign"} {
		file.SetQuota(model, quota(77))
	}
	limitertest.Save(t, file)

	rl := sqliteLimiterWith(t, path, ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderGemini},
		Quotas:    map[string]ratelimit.ModelQuota{"configured": quota(1)},
	})
	rl.SetQuota("set", quota(2))
	rl.SetQuota("gemini-2.0-flash", quota(3))
	profile := rl.Quotas["gemini-3-pro-preview"]
	limitertest.Load(t, rl)
	for model, want := range map[string]ratelimit.ModelQuota{
		"gemini-2.5-pro":       quota(77), // the file over the profile
		"gemini-3-pro-preview": profile,   // only in the profile
		"foreign":              quota(77), // only in the file
		"configured":           quota(1),  // the program over the file
		"set":                  quota(2),
		"gemini-2.0-flash":     quota(3),
	} {
		if got := rl.Quotas[model]; got != want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
	limitertest.Save(t, rl)
	want := []string{"configured 1", "foreign 77", "gemini-2.0-flash 3", "gemini-2.5-pro 77", "set 2"}
	if got := statefile.Query(t, path, `SELECT model, max_rpm FROM quotas WHERE model NOT LIKE 'gemini-3%' AND model <> 'gemini-2.0-flash-lite' ORDER BY 1`); !slices.Equal(got, want) {
		t.Errorf("stored: %q, want %q", got, want)
	}
}

func TestSQLiteEmptyDatabaseLoads(t *testing.T) {
	rl := sqliteLimiterWith(t, statefile.Path(t), ratelimit.Config{})
	rl.RecordUsage("m", 1, 1)
	quotas := len(rl.Quotas)
	limitertest.Load(t, rl)
	if len(rl.State) != 0 || len(rl.Quotas) != quotas {
		t.Errorf("%d models used, %d quotas; want 0, %d", len(rl.State), len(rl.Quotas), quotas)
	}
}

func TestSQLiteClose(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiter(t, path)
	rl.RecordUsage("m", 1, 1)
	limitertest.Save(t, rl)
	for range 3 {
		if err := rl.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rl.RecordUsage("m", 1, 1)
	if err := rl.Persist(); !errors.Is(err, ratelimit.ErrClosed) {
		t.Errorf("Persist = %v, want ErrClosed", err)
	}
	if err := rl.Load(); !errors.Is(err, ratelimit.ErrClosed) {
		t.Errorf("Load = %v, want ErrClosed", err)
	}
	if s := rl.Stats("m"); s.RPM != 2 {
		t.Errorf("a closed limiter counts on: %+v", s)
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if _, err := os.Stat(path + suffix); err == nil {
			t.Errorf("Close left %s", suffix)
		}
	}
}

func TestSQLiteConfigIgnoresBackendAndFilePath(t *testing.T) {
	path, elsewhere := statefile.Path(t), filepath.Join(t.TempDir(), "other", "x.yaml")
	rl := sqliteLimiterWith(t, path, ratelimit.Config{Backend: "punch cards", FilePath: elsewhere})
	rl.RecordUsage("m", 1, 1)
	limitertest.Save(t, rl)
	if got := statefile.Query(t, path, `SELECT count(*) FROM requests`); !slices.Equal(got, []string{"1"}) {
		t.Errorf("requests: %q", got)
	}
	if _, err := os.Stat(filepath.Dir(elsewhere)); err == nil {
		t.Error("FilePath was used")
	}
}

func TestSQLiteBackendByConfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CORE_HOME", home)
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: " SQLite "})
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	if got := statefile.Query(t, filepath.Join(home, ".core", "ratelimits.db"), `PRAGMA user_version`); !slices.Equal(got, []string{"1"}) {
		t.Errorf("user_version = %q", got)
	}
}

func TestSQLiteConstructorDoesNotLoad(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiter(t, path)
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1})
	rl.RecordUsage("m", 1, 1)
	limitertest.Save(t, rl)
	if again := sqliteLimiter(t, path); len(again.Quotas) != 0 || len(again.State) != 0 {
		t.Errorf("quotas %v, state %v", again.Quotas, again.State)
	}
}

func TestSQLitePersistOfNothingNewWritesNothing(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiterWith(t, path, ratelimit.Config{})
	rl.RecordUsage("m", 1, 1)
	limitertest.Save(t, rl)
	content := func() []byte {
		var all []byte
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		return all
	}
	// To read the files in this process drops the locks of SQLite, which are not
	// held between transactions.
	before := content()
	for range 3 {
		limitertest.Save(t, rl)
	}
	if !bytes.Equal(content(), before) {
		t.Error("a Persist of nothing new wrote to the file")
	}
	limitertest.Load(t, rl)
	limitertest.Save(t, rl)
	if !bytes.Equal(content(), before) {
		t.Error("a Persist after Load wrote to the file")
	}
}

func TestSQLiteExpiredRowsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := statefile.Path(t)
		rl := sqliteLimiter(t, path)
		count := func(table string) (n int) {
			t.Helper()
			_, err := fmt.Sscan(statefile.Query(t, path, `SELECT count(*) FROM `+table)[0], &n)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		const perPersist = 40
		most := 0
		for round := range 30 { // five minutes of 4 calls a second by ever new models
			for i := range perPersist {
				time.Sleep(250 * time.Millisecond)
				rl.RecordUsage(fmt.Sprint("m", round, "-", i%10), 1, 1)
			}
			limitertest.Save(t, rl)
			most = max(most, count("requests"), count("tokens"))
		}
		if most > 4*130 {
			t.Errorf("%d rows, but only 60 s of charges are counted and 130 s need be kept", most)
		}
		time.Sleep(3 * time.Minute)
		limitertest.Save(t, rl)
		if r, k := count("requests"), count("tokens"); r != 0 || k != 0 {
			t.Errorf("%d requests and %d tokens are left", r, k)
		}
		if got := count("daily"); got != 300 {
			t.Errorf("%d days, want 300", got)
		}
		time.Sleep(25 * time.Hour)
		rl.AllStats()
		limitertest.Save(t, rl)
		if got := count("daily"); got != 0 {
			t.Errorf("%d days are left", got)
		}
	})
}

func TestSQLiteTimesFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := statefile.Path(t)
		ahead := time.Now().Add(time.Hour)
		statefile.Exec(t, path, statefile.Documented,
			fmt.Sprintf(`INSERT INTO requests VALUES ('m', %d)`, ahead.UnixNano()),
			fmt.Sprintf(`INSERT INTO tokens VALUES ('m', %d, 5)`, ahead.UnixNano()),
			fmt.Sprintf(`INSERT INTO daily VALUES ('m', %d, 3)`, ahead.UnixNano()))
		rl := sqliteLimiter(t, path)
		limitertest.Load(t, rl)
		if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 5 || s.RPD != 3 || s.DayStart.After(time.Now()) {
			t.Errorf("they count as of now: %+v", s)
		}
		limitertest.Save(t, rl)
		time.Sleep(time.Minute + 1)
		again := sqliteLimiter(t, path)
		limitertest.Load(t, again)
		if s := again.Stats("m"); s.RPM != 0 || s.TPM != 0 || s.RPD != 3 {
			t.Errorf("a minute after the next Persist they are over: %+v", s)
		}
		time.Sleep(24*time.Hour - time.Minute)
		if s := again.Stats("m"); s.RPD != 0 {
			t.Errorf("and so is the day: %+v", s)
		}
	})
}

func TestSQLiteInvalidQuotaIsNotStored(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiter(t, path)
	rl.SetQuota("was valid", ratelimit.ModelQuota{MaxRPM: 5})
	limitertest.Save(t, rl)
	rl.SetQuota("was valid", ratelimit.ModelQuota{MaxRPM: -1})
	rl.SetQuota("never was", ratelimit.ModelQuota{MaxRPM: -1})
	limitertest.Save(t, rl)
	want := []string{"was valid 5"} // rather than no limit at all
	if got := statefile.Query(t, path, `SELECT model, max_rpm FROM quotas`); !slices.Equal(got, want) {
		t.Errorf("quotas = %q, want %q", got, want)
	}
	delete(rl.Quotas, "was valid")
	limitertest.Save(t, rl)
	if got := statefile.Query(t, path, `SELECT model FROM quotas`); len(got) != 0 {
		t.Errorf("quotas = %q, want none", got)
	}
}

func TestSQLiteCallsDuringPersistAreKept(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiter(t, path)
	for i := range 100 {
		rl.RecordUsage(fmt.Sprint("m", i), 1, 0)
	}
	for range 3 {
		var recorder sync.WaitGroup
		recorder.Go(func() {
			for i := range 200 {
				rl.RecordUsage("same", 1, 0)
				rl.RecordUsage(fmt.Sprint("new", i), 1, 0)
				rl.Reset(fmt.Sprint("m", i))
				runtime.Gosched()
			}
		})
		limitertest.Save(t, rl)
		limitertest.Save(t, rl)
		recorder.Wait()
		sqliteWantStored(t, rl, path)
	}
}

// What is charged in the moment after a Load took over, by somebody who waited
// for it, is not taken for stored.
func TestSQLiteCallsDuringLoadAreKept(t *testing.T) {
	path := statefile.Path(t)
	rl := sqliteLimiter(t, path)
	for i := range 400 {
		rl.RecordUsage(fmt.Sprint("m", i), 1, 0)
	}
	limitertest.Save(t, rl)
	rl.SetQuota("gate", ratelimit.ModelQuota{MaxRPM: 1})
	for range 3 {
		rl.RecordUsage("gate", 1, 0) // unsaved, so Load opens the gate
		var waiter sync.WaitGroup
		waiting := make(chan struct{})
		waiter.Go(func() {
			close(waiting)
			if err := rl.WaitForCapacity(t.Context(), "gate", 1); err != nil {
				t.Error(err)
			}
			for i := range 200 {
				rl.RecordUsage(fmt.Sprint("m", 2*i), 1, 0)
			}
		})
		<-waiting
		limitertest.Load(t, rl)
		waiter.Wait()
		sqliteWantStored(t, rl, path)
	}
}

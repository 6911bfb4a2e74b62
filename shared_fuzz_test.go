//go:build !nosqlite

// Shared: rows of any values.

package ratelimit_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

// sharedTables are the tables that a shared limiter reads, and what is in a column of
// which a fuzzed row does not say anything. Of times that is the present.
var sharedTables = []struct {
	name    string
	columns []string
	values  []any
}{
	{"shared_events", []string{
		"seq", "process", "n", "kind", "ref", "model", "wall", "mono", "age", "requests", "input", "output",
		"has_day", "day_start", "day_count", "day_tokens", "text",
	}, []any{sharedNext{}, 5, sharedNext{}, 1, 0, "m", sharedNow{}, 0, 0, 1, 2, 3, 0, sharedNow{}, 1, 5, ""}},
	{"processes", []string{"id", "lease", "lease_mono", "ttl"}, []any{5, sharedNow{}, 0, int64(10 * time.Second)}},
	{"facts", []string{"name", "value"}, []any{"used", "1"}},
	{"daily", []string{"model", "day_start", "day_count", "day_tokens"}, []any{"m", sharedNow{}, 1, 5}},
	{"quotas", []string{
		"model", "max_rpm", "max_tpm", "max_rpd", "max_itpm", "max_otpm", "max_tpd", "max_in_flight", "day_zone", "burst",
	}, []any{"m", 10, 1000, 100, 0, 0, 0, 3, "", int64(time.Second)}},
	{"cooldowns", []string{"model", "until"}, []any{"m", sharedNow{}}},
	{"found", []string{"model", "found"}, []any{"m", `{"rate":{"level":5},"at":6}`}},
	{"pools", []string{"model", "members"}, []any{"\x1fpool:p", `{"models":["m"]}`}},
	{"quota_bounds", []string{
		"model", "adaptive_floor_rpm", "adaptive_ceiling_rpm", "adaptive_floor_in_flight", "adaptive_ceiling_in_flight",
	}, []any{"m", 1, 2, 3, 4}},
	{"quota_budgets", []string{"model", "max_spend_per_day", "max_spend_per_month"}, []any{"m", 1, 2}},
	{"spend", []string{"model", "spent"}, []any{"m", "[0,1,5,0,1,7]"}},
}

type (
	sharedNow  struct{}
	sharedNext struct{} // place in the file, from 100 on
)

// sharedExtremes are values that a mutation would hardly come to.
var sharedExtremes = []int64{
	math.MinInt64, math.MinInt64 + 1, math.MinInt32, -1, 0, 1, math.MaxInt32, math.MaxInt32 + 1, 1 << 53,
	1 << 62, math.MaxInt64 - 1, math.MaxInt64,
}

// What a byte says of the value in the next column, and what follows it.
const (
	sharedPreset  = iota // the value of sharedTables
	sharedSmall          // a byte, as an int8
	sharedExtreme        // a byte, which of sharedExtremes
	sharedTime           // eight bytes, how long from now
	sharedInt            // eight bytes
	sharedFloat          // eight bytes
	sharedText           // a byte, how long it is, and so many bytes
	sharedOther          // the same, a blob; NULL where it has no length
)

// sharedRows decodes rows of any values. What is missing at the end is as preset.
func sharedRows(program []byte, row func(table int, values []any)) {
	take := func(n int) []byte {
		b := make([]byte, n)
		program = program[copy(b, program):]
		return b
	}
	now := time.Now().UnixNano()
	for next := int64(100); len(program) > 0 && next < 132; next++ {
		table := int(take(1)[0]) % len(sharedTables)
		values := append([]any(nil), sharedTables[table].values...)
		for i := range values {
			switch take(1)[0] % 8 {
			case sharedPreset:
				switch values[i].(type) {
				case sharedNow:
					values[i] = now
				case sharedNext:
					values[i] = next
				}
			case sharedSmall:
				values[i] = int64(int8(take(1)[0]))
			case sharedExtreme:
				values[i] = sharedExtremes[int(take(1)[0])%len(sharedExtremes)]
			case sharedTime:
				values[i] = now + int64(binary.BigEndian.Uint64(take(8)))
			case sharedInt:
				values[i] = int64(binary.BigEndian.Uint64(take(8)))
			case sharedFloat:
				values[i] = math.Float64frombits(binary.BigEndian.Uint64(take(8)))
			case sharedText:
				values[i] = string(take(int(take(1)[0])))
			case sharedOther:
				if n := take(1)[0]; n == 0 {
					values[i] = nil
				} else {
					values[i] = take(int(n))
				}
			}
		}
		row(table, values)
	}
}

// sharedRow is a row for sharedRows: of a table, with values for some of its columns.
func sharedRow(t testing.TB, table string, values map[string]any) []byte {
	t.Helper()
	for i, tab := range sharedTables {
		if tab.name != table {
			continue
		}
		row := []byte{byte(i)}
		for _, column := range tab.columns {
			value, ok := values[column]
			if !ok {
				row = append(row, sharedPreset)
				continue
			}
			delete(values, column)
			switch v := value.(type) {
			case int:
				row = binary.BigEndian.AppendUint64(append(row, sharedInt), uint64(v))
			case time.Duration:
				row = binary.BigEndian.AppendUint64(append(row, sharedTime), uint64(v))
			case float64:
				row = binary.BigEndian.AppendUint64(append(row, sharedFloat), math.Float64bits(v))
			case string:
				row = append(append(row, sharedText, byte(len(v))), v...)
			case []byte:
				row = append(append(row, sharedOther, byte(len(v))), v...)
			case nil:
				row = append(row, sharedOther, 0)
			}
		}
		if len(values) > 0 {
			t.Fatalf("%s has no %v", table, values)
		}
		return row
	}
	t.Fatalf("there is no table %s", table)
	return nil
}

// sharedSample returns the bytes of a shared database in which there is something of
// everything.
func sharedSample(t testing.TB) []byte {
	t.Helper()
	path := sqlitePath(t)
	rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Shared: true, Quotas: map[string]ratelimit.ModelQuota{
		"m": {MaxRPM: 10, MaxTPM: 1000, MaxRPD: 100, MaxInFlight: 3}, "n": {},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		rl.RecordUsage([]string{"m", "n"}[i%2], i, i)
	}
	for range 3 {
		r, _ := rl.Reserve("n", 1, 1)
		r.Commit(2, 2)
	}
	rl.Cooldown("n", time.Now().Add(time.Hour))
	if err := errors.Join(rl.Err(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sharedFuzzRefused reports whether an error says, in short, that the file is damaged. No
// other error is expected.
func sharedFuzzRefused(t *testing.T, what string, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	if !errors.Is(err, ratelimit.ErrCorruptState) {
		t.Fatalf("%s: %v, want ErrCorruptState", what, err)
	}
	if len(err.Error()) > 2048 || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\r\x00\u202e") {
		t.Fatalf("%s: an error of %d bytes: %q", what, len(err.Error()), err)
	}
	return true
}

// sharedFuzzUse does a little of everything. What the limiter says must make sense,
// whether it can use the file or not. All rows of the file are older than what it does,
// unless they have places that it has not come to yet.
func sharedFuzzUse(t *testing.T, rl *ratelimit.RateLimiter, ahead bool) {
	t.Helper()
	sane := func(model string, s ratelimit.ModelStats) {
		t.Helper()
		for _, n := range []int{
			s.RPM, s.TPM, s.RPD, s.ITPM, s.OTPM, s.TPD, s.InFlight, s.Waiting,
			s.MaxRPM, s.MaxTPM, s.MaxRPD, s.MaxITPM, s.MaxOTPM, s.MaxTPD, s.MaxInFlight,
		} {
			if n < 0 {
				t.Fatalf("%q: %+v", model, s)
			}
		}
		if s.SpendDay < 0 || s.SpendMonth < 0 {
			t.Fatalf("%q has spent %v and %v", model, s.SpendDay, s.SpendMonth)
		}
	}
	use := func() {
		t.Helper()
		for _, model := range []string{"m", "new"} {
			r, d := rl.Reserve(model, 3, 2)
			if d.Allowed != (r != nil) || d.RetryAfter < 0 {
				t.Fatalf("Reserve: %v, %+v", r, d)
			}
			sane(model, d.Stats)
			sane(model, rl.Stats(model))
			r.Arrived(time.Now())
			r.Commit(1, 2)
			rl.RecordUsage(model, 1, 1)
		}
		for model, s := range rl.AllStats() {
			sane(model, s)
		}
		for pool, s := range rl.IterPools() {
			sane(pool, s)
		}
	}
	use()
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 50, MaxRPD: 50, DayZone: "Asia/Tokyo"})
	rl.Reset("m")
	use()
	rl.Reset("")
	use()
	for model, s := range rl.AllStats() {
		if !ahead && (s.RPM > 2 || s.TPM > 5) {
			t.Fatalf("after a reset of all and two charges %q: %+v", model, s)
		}
	}
	sharedFuzzRefused(t, "persist", rl.Persist())
	sharedFuzzRefused(t, "Err", rl.Err())
}

// FuzzSharedRows writes rows of any values and types into the tables of a shared
// database: before a limiter opens it, or while one has it open.
func FuzzSharedRows(f *testing.F) {
	sample := sharedSample(f)
	live, n := false, 0
	seed := func(rows ...[]byte) {
		if n++; n%min(racetest.Factor, 3) == 0 {
			f.Add(slices.Concat(rows...), live)
		}
		live = !live
	}
	type columns = map[string]any
	event := func(values columns) []byte { return sharedRow(f, "shared_events", values) }
	for kind := range 16 { // those that there are, and two that there are not
		refer := event(columns{"kind": kind, "ref": 1, "has_day": 1, "input": int64(math.MaxInt64), "output": int64(math.MaxInt64), "text": `{"MaxRPM":1}`})
		seed(
			event(columns{"kind": 2, "n": 1}), event(columns{"kind": 2, "n": 2, "model": "new"}),
			event(columns{"kind": 10, "n": 1, "process": 6, "text": `[{"Model":"m","PromptTokens":1}]`}),
			refer, event(columns{"kind": kind, "process": 6, "ref": 1}), event(columns{"kind": kind, "ref": 5}),
		)
	}
	seed(event(columns{"kind": 10, "process": 0, "text": `[{"Model":"m"},{"Model":"m"},{"Model":"other","PromptTokens":-1}]`}))
	seed(event(columns{"age": int64(math.MaxInt64), "wall": time.Hour, "model": ""}))
	seed(event(columns{"age": -1, "mono": int64(math.MaxInt64)}))
	for _, extreme := range []int{math.MinInt, -1, math.MaxInt} {
		for _, kind := range []int{2, 8} {
			all := columns{"kind": kind, "has_day": 1}
			for _, column := range []string{"ref", "wall", "mono", "requests", "input", "output", "day_start", "day_count", "day_tokens"} {
				all[column] = extreme
			}
			seed(event(all))
		}
		seed(event(columns{"seq": extreme}))
		seed(sharedRow(f, "processes", columns{"lease": extreme, "lease_mono": extreme, "ttl": extreme}), event(columns{"kind": 2}))
		seed(sharedRow(f, "daily", columns{"day_start": extreme}))
		seed(sharedRow(f, "daily", columns{"day_count": extreme, "day_tokens": extreme}))
		seed(sharedRow(f, "quotas", columns{"max_rpm": extreme, "max_in_flight": extreme}))
		seed(sharedRow(f, "cooldowns", columns{"until": extreme}))
		fact := func(name string) []byte {
			return sharedRow(f, "facts", columns{"name": name, "value": fmt.Sprint(extreme)})
		}
		seed(fact("used"), fact("usedmono"))
		seed(fact("span"))
		seed(fact("folded"))
	}
	odd := []any{1.5, "text\n\u202e\xff", []byte("\x00\xff"), nil}
	for i, tab := range sharedTables {
		for j := range 2 {
			seed(sharedRow(f, tab.name, columns{tab.columns[(i+5*j)%len(tab.columns)]: odd[(i+j)%len(odd)]}))
		}
	}
	seed(event(columns{"kind": 9, "text": `{"MaxRPM":3,"AdaptiveFloorRPM":2}`}), event(columns{"kind": 21, "text": `{"rate":{"level":5},"at":6,"anew":1}`}),
		event(columns{"kind": 21, "process": 6, "text": `{"slots":{"level":1152921504606846976},"at":-9223372036854775808,"told":true}`}))
	seed(event(columns{"kind": 22, "model": "\x1fpool:p", "text": `{"models":["m","*"]}`}),
		event(columns{"kind": 9, "model": "\x1fpool:p", "text": `{"MaxRPM":3,"MaxSpendPerDay":2}`}), event(columns{"kind": 22, "model": "\x1fpool:p", "text": `{"models":[],"gone":true}`}))
	for _, model := range []string{"m", "\x1fpool:p", "\x1fother"} {
		seed(event(columns{"kind": 23, "model": model, "text": "[0,1,5,0,1,7]"}), event(columns{"kind": 23, "model": model, "text": "[9223372036854775806,9223372036854775807,-9223372036854775808,0,9,9223372036854775807]"}))
		seed(event(columns{"kind": 23, "model": model, "text": "[5,1,5,0,1,7]"}), event(columns{"kind": 22, "model": model, "text": "{}"}), event(columns{"kind": 24, "model": model, "text": "{}"}))
		seed(sharedRow(f, "spend", columns{"model": model, "spent": "[5,1,5,0,1,7]"}))
		seed(sharedRow(f, "spend", columns{"model": model, "spent": "[0,1,-5,0,1,7]"}), event(columns{"kind": 23, "model": model, "text": "[0,1,5,0,1,7]"}))
	}
	for _, text := range []string{`{"a":{"Weight":3,"ReservePercent":50},"":{"MaxQueue":1}}`, `{"a":{"Weight":-1}}`, `{"Of":5,"Virtual":[9223372036854775807,-1],"Classes":{"a":{"Start":9223372036854775807,"Turn":-5}}}`} {
		seed(event(columns{"kind": 24, "model": "", "text": text}), event(columns{"kind": 24, "text": text}))
	}
	var rows []byte // which are passed over; those of other kinds are refused
	for _, text := range []string{"", "{", "null", "[]", `{"MaxRPM":-1}`, `{"DayZone":"Mars/Base"}`, `[null]`, strings.Repeat("[", 255)} {
		rows = append(rows, event(columns{"kind": 10, "text": text})...)
		seed(event(columns{"kind": 9, "text": text}))
		seed(event(columns{"kind": 21, "text": text}))
		seed(event(columns{"kind": 22, "model": "\x1fpool:p", "text": text}))
		seed(event(columns{"kind": 23, "text": text}))
		seed(event(columns{"kind": 24, "model": "", "text": text}))
	}
	seed(rows)
	seed(rows)

	folder := filepath.Dir(sqliteFuzzPath(f))
	f.Fuzz(func(t *testing.T, program []byte, live bool) {
		// A folder for each, because there is more than the database that is not to stay.
		dir, err := os.MkdirTemp(folder, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "state.db")
		sqliteFuzzWrite(t, path, sample)
		write := func() {
			db := sqliteRaw(t, path)
			defer db.Close()
			sharedRows(program, func(table int, values []any) {
				tab := sharedTables[table]
				// What the schema does not permit is not written.
				db.Exec("INSERT OR REPLACE INTO "+tab.name+" ("+strings.Join(tab.columns, ", ")+") VALUES (?"+
					strings.Repeat(", ?", len(values)-1)+")", values...)
			})
		}
		open := func() *ratelimit.RateLimiter {
			t.Helper()
			rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{
				Shared: true, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}}, Prices: map[string]money.Price{"*": {Input: money.Dollar}},
			})
			if sharedFuzzRefused(t, "open", err) {
				return nil
			}
			return rl
		}
		if !live {
			write()
		}
		for i := range 2 {
			rl := open()
			if rl == nil {
				return
			}
			sharedFuzzUse(t, rl, live)
			if live && i == 0 {
				write()
				sharedFuzzUse(t, rl, live)
			}
			sharedFuzzRefused(t, "close", rl.Close())
		}
	})
}

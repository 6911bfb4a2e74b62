//go:build !nosqlite

// SQLite files of any bytes and rows.

package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// sqliteFuzzPath returns a path that every run of a fuzz target uses anew.
func sqliteFuzzPath(f *testing.F) string {
	dir, err := os.MkdirTemp("", "sqlite-fuzz-*")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "state.db")
}

func sqliteFuzzWrite(t *testing.T, path string, data []byte) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sqliteFuzzUse opens, loads and persists. Each has to work or to say in short
// that the file is damaged.
func sqliteFuzzUse(t *testing.T, path string) (loaded bool) {
	t.Helper()
	refused := func(what string, err error) bool {
		t.Helper()
		if err == nil {
			return false
		}
		// A format that SQLite knows how to read and not how to write is as a file
		// without the permission.
		if !errors.Is(err, ratelimit.ErrCorruptState) && !strings.Contains(err.Error(), "readonly") {
			t.Fatalf("%s: %v, want ErrCorruptState", what, err)
		}
		if len(err.Error()) > 1024 || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\n\r\x00\u202e") {
			t.Fatalf("%s: an error of %d bytes: %q", what, len(err.Error()), err)
		}
		return true
	}
	rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}})
	if refused("open", err) {
		return false
	}
	defer rl.Close()
	loaded = !refused("load", rl.Load())
	for model, s := range rl.AllStats() {
		if s.RPM < 0 || s.TPM < 0 || s.RPD < 0 || s.MaxRPM < 0 || s.MaxTPM < 0 || s.MaxRPD < 0 {
			t.Fatalf("%q: %+v", model, s)
		}
	}
	rl.RecordUsage("m", 1, 1)
	if refused("persist", rl.Persist()) || !loaded {
		return loaded
	}
	counted := rl.Stats("m")
	if refused("load again", rl.Load()) {
		return loaded
	}
	if again := rl.Stats("m"); again.RPM != counted.RPM || again.TPM != counted.TPM || again.RPD != counted.RPD {
		t.Fatalf("stored %+v, counted %+v", again, counted)
	}
	return loaded
}

// FuzzLoadSQLite changes bytes of a sound database: edits are a position of four
// bytes and what it is XORed with, and keep is how much of the file is kept.
func FuzzLoadSQLite(f *testing.F) {
	sample, err := os.ReadFile(sqliteSample(f))
	if err != nil {
		f.Fatal(err)
	}
	edit := func(at int, with byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(at)), with) }
	f.Add([]byte{}, uint32(math.MaxUint32))
	f.Add([]byte{}, uint32(len(sample)/2))
	for _, at := range []int{0, 16, 18, 28, 40, 56, 60, 100, 103, 105, 110, 4096, 4099, 4101, 3 * 4096, len(sample) - 10} {
		f.Add(edit(at, 0x01), uint32(math.MaxUint32))
		f.Add(edit(at, 0xff), uint32(math.MaxUint32))
	}
	path := sqliteFuzzPath(f)
	f.Fuzz(func(t *testing.T, edits []byte, keep uint32) {
		data := append([]byte(nil), sample...)
		for ; len(edits) >= 5; edits = edits[5:] {
			data[int(binary.BigEndian.Uint32(edits))%len(data)] ^= edits[4]
		}
		sqliteFuzzWrite(t, path, data[:min(uint64(keep), uint64(len(data)))])
		sqliteFuzzUse(t, path)
	})
}

// FuzzSQLiteRows inserts a row of any types into one of the tables, into some of
// its columns.
func FuzzSQLiteRows(f *testing.F) {
	sample, err := os.ReadFile(sqliteSample(f))
	if err != nil {
		f.Fatal(err)
	}
	tables := []struct {
		name    string
		columns []string
	}{
		{"quotas", []string{"model", "max_rpm", "max_tpm", "max_rpd"}},
		{"requests", []string{"model", "ts"}},
		{"tokens", []string{"model", "ts", "count", "input"}},
		{"daily", []string{"model", "day_start", "day_count", "day_tokens"}},
		{"cooldowns", []string{"model", "until"}},
		{"quotas", []string{"model", "max_itpm", "max_otpm", "day_zone"}},
		{"quotas", []string{"model", "max_tpd", "max_in_flight", "burst"}},
		{"answers", []string{"model", "learned"}},
		{"found", []string{"model", "found"}},
		{"pools", []string{"model", "members"}},
		{"spend", []string{"model", "spent"}},
		{"quota_budgets", []string{"model", "max_spend_per_day", "max_spend_per_month"}},
		{"quota_bounds", []string{"model", "adaptive_floor_rpm", "adaptive_ceiling_rpm", "adaptive_floor_in_flight"}},
	}
	for i := range tables {
		if i%min(racetest.Factor, 3) != 0 {
			continue
		}
		f.Add(byte(i), byte(0b00000000), "m", int64(1), int64(2), int64(3), int64(4), "")
		f.Add(byte(i), byte(0b00000001), "new", int64(1), int64(2), int64(3), int64(4), "x")
		f.Add(byte(i), byte(0b00000110), "", int64(math.MinInt64), int64(math.MaxInt64), int64(-1), int64(math.MaxInt64), "\xff")
		f.Add(byte(i), byte(0b01000000), "new", int64(1), int64(2), int64(3), int64(4), "Asia/Tokyo")
		f.Add(byte(i), byte(0b01000000), "new", int64(1), int64(2), int64(3), int64(4), "Mars/Base\n\u202e")
		f.Add(byte(i), byte(0b11000000), "\x00", int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(-5), strings.Repeat("x", 2000))
	}
	for i, tab := range tables {
		texts := map[string][]string{
			"spend": {
				"[0,1,5,0,1,7]", "[0,86400000000000,5,0,9223372036854775807,7]", "[5,1,5,0,1,7]", "[0,1,-5,0,1,7]", "[0,1]", "null", "{", "[1.5,1,5,0,1,7]",
				"[-9223372036854775808,9223372036854775807,1,0,0,0]", "[9223372036854775806,9223372036854775807,9223372036854775807,0,0,0]",
			},
			"pools": {`{"models":["m","*"]}`, `{"models":null}`, `{"gone":true}`, `{"models":[1]}`, `{"models":["m"],"more":1}`, "null", "{"},
		}[tab.name]
		for _, text := range texts {
			models := []string{"m", "\x1fpool:p", "\x1fother", "\x1fpool:"}
			for _, model := range models[:max(len(models)/racetest.Factor, 1)] {
				f.Add(byte(i), byte(0b00000100), model, int64(1), int64(2), int64(3), int64(4), text)
			}
		}
	}
	path := sqliteFuzzPath(f)
	f.Fuzz(func(t *testing.T, table, kinds byte, model string, a, b, c, rowid int64, text string) {
		sqliteFuzzWrite(t, path, sample)
		tab := tables[int(table)%len(tables)]
		values := []any{model, a, b, c}[:len(tab.columns)]
		for i := range values { // two bits a column say what is in it
			switch kinds >> (2 * i) & 3 {
			case 1:
				values[i] = text
			case 2:
				values[i] = []byte(text)
			case 3:
				values[i] = math.Float64frombits(uint64(a) ^ uint64(i))
			}
		}
		db := statefile.Open(t, path)
		_, err := db.Exec(fmt.Sprintf("INSERT OR REPLACE INTO %s (rowid, %s) VALUES (?%s)", tab.name,
			strings.Join(tab.columns, ", "), strings.Repeat(", ?", len(values))), append([]any{rowid}, values...)...)
		if closeErr := db.Close(); closeErr != nil {
			t.Fatal(closeErr)
		}
		if err != nil {
			t.Skip(err) // NULL, which NaN becomes, where none may be
		}
		sqliteFuzzUse(t, path)
	})
}

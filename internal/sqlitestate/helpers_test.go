//go:build !nosqlite

package sqlitestate

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// TestMain has no symbolic link on the way to the temporary files, as macOS has: errors name the
// file that the link leads to, and tests compare that with their paths.
func TestMain(m *testing.M) {
	statefile.RealTemp()
	os.Exit(m.Run())
}

// charge is a call of a model.
func charge(model string, at time.Time, tokens int) *Change {
	return &Change{
		Model: model, Requests: []time.Time{at}, Tokens: []state.Token{{Time: at, Count: tokens}},
		Day: state.DayUsage{Start: at.UnixNano(), Count: 1, Tokens: int64(tokens)},
	}
}

// storeCharge stores a call of the model m.
func storeCharge(t *testing.T, d *DB) {
	t.Helper()
	store(t, d, &Update{Changes: []*Change{charge("m", time.Now(), 1)}})
}

// sample makes a database of some pages and closes it.
func sample(t testing.TB) (path string) {
	t.Helper()
	bytes, err := sampleBytes()
	path = statefile.Path(t)
	if err := errors.Join(err, os.WriteFile(path, bytes, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// sampleBytes makes the sample once for all tests.
var sampleBytes = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.db")
	d, err := Open(path, Formats{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	u := &Update{Quotas: map[string]state.Quota{"m": {MaxRPM: 10, MaxTPM: 1000, MaxRPD: 100}, "n": {}}, Now: now.UnixNano()}
	for _, model := range []string{"m", "n"} {
		c := &Change{Model: model, Day: state.DayUsage{Start: now.UnixNano(), Count: 150, Tokens: 150 * 150}}
		var tokens []state.Token
		for i := range 150 {
			c.Requests = append(c.Requests, now)
			tokens = append(tokens, state.Token{Time: now, Count: 2 * i, Input: i})
		}
		c.Tokens = tokens
		u.Changes = append(u.Changes, c)
	}
	if err := errors.Join(d.Store(u), d.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

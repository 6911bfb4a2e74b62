//go:build !nosqlite

// The table of origins.

package sqlitestate

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

func TestOrigins(t *testing.T) {
	q, account := state.Quota{MaxRPM: 1}, state.SaidBy(state.Account, state.Quota{MaxRPM: 1})
	d := openDB(t, filepath.Join(t.TempDir(), "s.db"))
	for _, row := range []struct {
		what   string
		quotas map[string]state.Quota
		said   state.Said
		want   state.Said
	}{
		{"one", map[string]state.Quota{"m": q, "": q}, account, account},
		{"another, of the same quota", map[string]state.Quota{"m": q, "": q}, state.SaidBy(state.Profile, q), state.SaidBy(state.Profile, q)},
		{"none any more", map[string]state.Quota{"m": q}, state.Said{}, state.Said{}},
		{"one that is refused", map[string]state.Quota{"m": q}, state.SaidBy(state.Profile, state.Quota{MaxRPM: -1}), state.Said{}},
		{"again", map[string]state.Quota{"m": q}, account, account},
		{"of no quota", nil, account, state.Said{}},
	} {
		store(t, d, &Update{Quotas: row.quotas, Said: map[string]state.Said{"m": row.said}})
		if s := load(t, d); s.Said["m"] != row.want || len(s.Quotas) != len(row.quotas) {
			t.Errorf("%s: %+v of %+v", row.what, s.Said, s.Quotas)
		}
	}
}

// A supplied quota that others have said otherwise keeps their origin.
func TestOriginsOfOthersStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := openDB(t, path), openDB(t, path)
	account := state.SaidBy(state.Account, state.Quota{MaxRPM: 1})
	store(t, a, &Update{Quotas: map[string]state.Quota{"m": {MaxRPM: 1}}, Said: map[string]state.Said{"m": account}})
	store(t, b, &Update{
		Quotas: map[string]state.Quota{"m": {MaxRPM: 2}}, Supplied: map[string]bool{"m": true},
		Said: map[string]state.Said{"m": state.SaidBy(state.Profile, state.Quota{MaxRPM: 2})},
	})
	if s := load(t, b); s.Said["m"] != account || s.Quotas["m"].MaxRPM != 1 {
		t.Errorf("%+v of %+v", s.Said, s.Quotas)
	}
}

func TestOriginsThatAreNone(t *testing.T) {
	for _, text := range []string{"x", `{"account":{"MaxRPM":-1}}`, `{"account":{"DayZone":"Mars/Base"}}`} {
		d := openDB(t, filepath.Join(t.TempDir(), "s.db"))
		if _, err := d.db.Exec("INSERT INTO origins (model, said) VALUES ('m', ?)", text); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Load(); !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), `origins of "m"`) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

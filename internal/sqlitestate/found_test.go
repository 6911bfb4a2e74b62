//go:build !nosqlite

// The tables of bounds and of what was found.

package sqlitestate

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Versions that do not know bounds refuse a database with some, and no other.
func TestBounds(t *testing.T) {
	bounded, free := state.Quota{MaxRPM: 1, AdaptiveFloorRPM: 2, AdaptiveCeilingInFlight: 3}, state.Quota{MaxRPM: 1}
	for _, tt := range []struct {
		name   string
		quotas map[string]state.Quota
		said   state.Said
		format int64
	}{
		{"no bounds", map[string]state.Quota{"m": free}, state.SaidBy(state.Account, free), baseFormat},
		{"of a quota", map[string]state.Quota{"m": free, "b": bounded}, state.Said{}, boundsFormat},
		{"of what was said", map[string]state.Quota{"m": free}, state.SaidBy(state.Account, bounded), boundsFormat},
		{"of a model without a name", map[string]state.Quota{"": bounded, "m": bounded}, state.Said{}, boundsFormat},
	} {
		path := filepath.Join(t.TempDir(), "s.db")
		d := openDB(t, path)
		for _, quotas := range []map[string]state.Quota{{"m": free, "": free}, tt.quotas} {
			store(t, d, &Update{Quotas: quotas, Said: map[string]state.Said{"m": tt.said}})
		}
		for _, d := range []*DB{d, openDB(t, path)} {
			if s := load(t, d); !maps.Equal(s.Quotas, tt.quotas) || s.Said["m"] != tt.said {
				t.Errorf("%s: %+v, %+v", tt.name, s.Quotas, s.Said)
			}
			if format, err := statementsOnDB(t, d).Format(); err != nil || format != tt.format {
				t.Errorf("%s: format %d, %v, want %d", tt.name, format, err, tt.format)
			}
		}
	}
}

// The bounds of a quota go with it.
func TestBoundsOfAnotherQuota(t *testing.T) {
	d := openDB(t, filepath.Join(t.TempDir(), "s.db"))
	for _, quotas := range []map[string]state.Quota{
		{"m": {AdaptiveFloorRPM: 2}, "": {AdaptiveFloorRPM: 3}, "n": {AdaptiveFloorRPM: 4}},
		{"m": {AdaptiveCeilingRPM: 5}, "n": {MaxRPM: 1}},
		{"m": {MaxRPM: 1}, "n": {AdaptiveFloorInFlight: 6}},
		{},
		{"m": {}, "n": {}, "": {}},
	} {
		store(t, d, &Update{Quotas: quotas})
		if s := load(t, d); !maps.Equal(s.Quotas, quotas) {
			t.Errorf("%+v, want %+v", s.Quotas, quotas)
		}
	}
	if n, err := statementsOnDB(t, d).Number("SELECT count(*) FROM quota_bounds"); err != nil || n != 0 {
		t.Errorf("%d bounds, %v, of no quota", n, err)
	}
}

func TestFoundAndAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	d := openDB(t, path)
	found := state.Found{Rate: state.Search{Level: state.MostLevel, Streak: 5}, Slots: state.Search{Lowered: 7}, At: -8, Told: true}
	for _, models := range []map[string]state.Found{
		{"m": found, "": {}}, {"m": {At: 1}, "n": found}, {"m": {At: 1}, "": found}, {"m": {At: 1}}, nil,
	} {
		answers := make(map[string]state.Answers)
		for model := range models {
			answers[model] = state.Answers{Count: len(models)}
		}
		store(t, d, &Update{Found: models, Answers: answers})
		for _, d := range []*DB{d, openDB(t, path)} {
			s := load(t, d)
			if !maps.Equal(s.Found, models) {
				t.Errorf("%+v, want %+v", s.Found, models)
			}
			if !maps.EqualFunc(s.Answers, answers, func(a, b state.Answers) bool { return a.Count == b.Count }) {
				t.Errorf("%+v, want %+v", s.Answers, answers)
			}
		}
	}
}

func TestFoundThatIsNone(t *testing.T) {
	for insert, want := range map[string]string{
		`INSERT INTO found VALUES ('m', 'x')`:                                                         `found of "m": found: `,
		`INSERT INTO found VALUES ('m', '{"rate":{"level":-5}}')`:                                     `found of "m": found: rate_level is -5`,
		`INSERT INTO found VALUES ('m', '{"at":5,"until":6}')`:                                        `unknown field "until"`,
		`INSERT INTO found VALUES ('m', 7.5)`:                                                         ``,
		`INSERT INTO found VALUES ('m', x'00')`:                                                       `found of "m": found is`,
		`INSERT INTO quotas (model) VALUES ('m'); INSERT INTO quota_bounds VALUES ('m', -1, 0, 0, 0)`: `AdaptiveFloorRPM (adaptive_floor_rpm) is -1`,
		`INSERT INTO quotas (model) VALUES ('m'); INSERT INTO quota_bounds VALUES ('m', 2, 1, 0, 0)`:  `want at most the ceiling, 1`,
		`INSERT INTO quota_bounds VALUES ('m', 'x', 1, 0, 0)`:                                         `quota_bounds of "m": adaptive_floor_rpm is "text x"`,
	} {
		d := openDB(t, filepath.Join(t.TempDir(), "s.db"))
		if _, err := d.db.Exec(insert); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Load(); !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", insert, err)
		}
	}
}

// Versions that do not know the windows refuse a database with one, or with what counts in one.
func TestWindowsFormat(t *testing.T) {
	begun := time.Now().Add(-30 * time.Minute).UnixNano() // rows of the last hour are kept
	late := begun - int64(38*time.Minute)                 // a payment counts for ten minutes
	limited := state.Quota{MaxSpendPerDay: 1, MaxSpendPerTenMinutes: 2, MaxTokensPerMonth: 3}
	for name, u := range map[string]*Update{
		"a quota":       {Quotas: map[string]state.Quota{"m": limited}},
		"what was said": {Quotas: map[string]state.Quota{"m": {}}, Said: map[string]state.Said{"m": state.SaidBy(state.Account, limited)}},
		"tokens":        {Spend: map[string]state.Spend{"m": {Tokens: state.Period[int64]{Begin: begun, End: begun + 1, Spent: 3}}}},
		"payments":      {Spend: map[string]state.Spend{"m": {Recent: state.PaymentsOf([]state.Payment{{At: late - int64(time.Minute), Spent: 3}, {At: late, Spent: 4}})}}},
	} {
		d := openDB(t, filepath.Join(t.TempDir(), "s.db"))
		store(t, d, u)
		if format, err := statementsOnDB(t, d).Format(); err != nil || format != windowsFormat {
			t.Errorf("%s: format %d, %v", name, format, err)
		}
		if s := load(t, d); s.Quotas["m"] != u.Quotas["m"] || s.Spend["m"] != u.Spend["m"] {
			t.Errorf("%s: %+v", name, s)
		}
		store(t, d, &Update{Quotas: map[string]state.Quota{"m": {MaxSpendPerDay: 4}}})
		if s := load(t, d); s.Quotas["m"] != (state.Quota{MaxSpendPerDay: 4}) {
			t.Errorf("%s: another quota: %+v", name, s.Quotas)
		}
	}
}

package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/doctor"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// shared is a file with what a configuration says.
func shared(t *testing.T, cfg ratelimit.Config, models ...string) doctor.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shared.db")
	cfg.Shared = true
	rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range models {
		rl.RecordUsage(model, 1, 1)
	}
	if err := rl.Close(); err != nil {
		t.Fatal(err)
	}
	return doctor.Settings{File: path, Config: ratelimit.Config{FilePath: path}, Now: time.Now()}
}

// found is the lines of the findings.
func found(s doctor.Settings) string {
	var lines strings.Builder
	for _, f := range doctor.Examine(context.Background(), s).Findings {
		fmt.Fprintf(&lines, "%s: %s: %s: %s\n", f.Check, f.About, f.Text, f.Do)
	}
	return lines.String()
}

// Limits of a profile are told of once their figures are older than 90 days, and those that the
// program said are not.
func TestStaleProfile(t *testing.T) {
	p, err := ratelimit.Profile(ratelimit.ProviderOpenAI, "1")
	if err != nil {
		t.Fatal(err)
	}
	// all of the profile's figures are read on several days; the first of them is told
	eldest := time.Time{}
	for name, from := range p.Sources {
		if p.Models[name] != (ratelimit.ModelQuota{}) && !strings.Contains(name, "*") && (eldest.IsZero() || from.ReadOn.Before(eldest)) {
			eldest = from.ReadOn
		}
	}
	profile := shared(t, ratelimit.Config{
		Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}, Tiers: map[ratelimit.Provider]string{ratelimit.ProviderOpenAI: "1"},
	})
	program := shared(t, ratelimit.Config{Quotas: p.Models})
	for _, test := range []struct {
		s    doctor.Settings
		days int
		want bool
	}{{profile, 90, false}, {profile, 92, true}, {program, 92, false}} {
		test.s.Now = eldest.Add(time.Duration(test.days)*24*time.Hour - time.Hour)
		got := found(test.s)
		want := fmt.Sprintf("are those of the profile that was read on %s, %d days ago: look up", eldest.Format(time.DateOnly), test.days-1)
		if strings.Contains(got, want) != test.want || test.want != strings.Contains(got, "profiles: openai: the limits of ") {
			t.Errorf("after %d days: %s", test.days, got)
		}
	}
}

// What the library says of an old price is a finding. That it says so is a test of the library.
func TestStalePrice(t *testing.T) {
	now := time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	told := &ratelimit.StalePriceError{Provider: "openai", Model: "m", ReadOn: now.Add(-100 * 24 * time.Hour)}
	r := doctor.Told(now, told, errors.New("something else"))
	if len(r.Findings) != 1 || r.Findings[0].Check != "prices" || !strings.Contains(r.Findings[0].Text, "2027-02-21, 100 days ago") ||
		len(r.Notes) != 1 || r.Notes[0] != "something else" {
		t.Errorf("%+v", r)
	}
}

// Limits above those of the account are told of, each with the command that lowers it; lower ones
// are no fault.
func TestProviderLimits(t *testing.T) {
	const key = "sk-admin-secret"
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("asked with %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"data":[
			{"object":"project.rate_limit","id":"a","model":"gpt-4o","max_requests_per_1_minute":500,"max_tokens_per_1_minute":30000,"max_requests_per_1_day":10000},
			{"object":"project.rate_limit","id":"b","model":"o3","max_requests_per_1_minute":5,"max_tokens_per_1_minute":30000},
			{"object":"project.rate_limit","id":"c","model":"unused","max_requests_per_1_minute":5,"max_tokens_per_1_minute":30000}],"has_more":false}`)
	}))
	defer server.Close()
	s := shared(t, ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{
			"gpt-4o": {MaxRPM: 600, MaxTPM: 20000}, "openai/o3": {MaxRPM: 10, MaxTPM: 30000}, "other": {MaxRPM: 9, MaxSpendPerDay: 0 * money.Dollar},
		},
		Pools: map[string]ratelimit.Pool{"all": {Models: []string{"openai/*"}, Quota: ratelimit.ModelQuota{MaxRPM: 5}}},
	})
	s.Sources = map[string]accountlimits.Source{"openai": accountlimits.OpenAI{AdminKey: key, Project: "p", BaseURL: server.URL}}
	want := `limits: gpt-4o: openai allows 500 requests/minute, and here are 600: ratelimit quota set "gpt-4o" --rpm 500
limits: gpt-4o: openai allows 10000 requests/day, and nothing limits them here: ratelimit quota set "gpt-4o" --rpd 10000
`
	if got := found(s); got != want {
		t.Errorf("found\n%swant\n%s", got, want)
	}
	if notes := strings.Join(doctor.Examine(t.Context(), s).Notes, "\n"); !strings.Contains(notes, "gpt-4o: openai allows 30000 tokens/minute, of which 20000 are used here") ||
		!strings.Contains(notes, "openai: it has limits for 3 models, of which 2 are used here") {
		t.Errorf("notes:\n%s", notes)
	}
	status = http.StatusUnauthorized
	if got := found(s); !strings.Contains(got, "limits: openai: they cannot be read: ") || strings.Contains(got, "secret") {
		t.Errorf("refused: %s", got)
	}
}

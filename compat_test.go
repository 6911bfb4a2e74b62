// Programs that were written for the original go-ratelimit go on working.

package ratelimit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"gopkg.in/yaml.v3"
)

// TestProgramWrittenForTheOriginal is such a program: keyed literals, access to
// State and Quotas, a round trip through the file in the home folder.
func TestProgramWrittenForTheOriginal(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CORE_HOME", "")
	t.Setenv("HOME", home)
	rl, err := ratelimit.New()
	if err != nil {
		t.Fatal(err)
	}
	rl.Quotas["gpt-4o"] = ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 1000, MaxRPD: 10}
	start := time.Now()
	rl.State["gpt-4o"] = &ratelimit.UsageStats{
		Requests: []time.Time{start},
		Tokens:   []ratelimit.TokenEntry{{Time: start, Count: 100}},
		DayStart: start,
		DayCount: 1,
	}
	if !rl.CanSend("gpt-4o", 900) || rl.CanSend("gpt-4o", 901) {
		t.Error("the tokens in State are not counted")
	}
	rl.RecordUsage("gpt-4o", 50, 25)
	if got := rl.State["gpt-4o"]; len(got.Requests) != 2 || got.Tokens[1].Count != 75 || got.DayCount != 2 {
		t.Errorf("State = %+v", got)
	}
	d := rl.Decide("gpt-4o", 1)
	if d.Allowed || d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter <= 0 || d.Stats.RPM != 2 {
		t.Errorf("Decide = %+v", d)
	}
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}

	again, err := ratelimit.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Load(); err != nil {
		t.Fatal(err)
	}
	found := ""
	for model, stats := range again.Iter() {
		if stats.RPM > 0 {
			found += fmt.Sprintf("%s: %d/%d RPM, %d/%d TPM", model, stats.RPM, stats.MaxRPM, stats.TPM, stats.MaxTPM)
		}
	}
	if want := "gpt-4o: 2/2 RPM, 175/1000 TPM"; found != want {
		t.Errorf("Iter says %q, want %q", found, want)
	}
	if !again.State["gpt-4o"].Requests[0].Equal(start) {
		t.Errorf("the first request was at %v, want %v", again.State["gpt-4o"].Requests[0], start)
	}

	// The file is one that the original reads: by way of yaml.Unmarshal into
	// maps of these types.
	data, err := os.ReadFile(filepath.Join(home, ".core", "ratelimits.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Quotas map[string]ratelimit.ModelQuota  `yaml:"quotas"`
		State  map[string]*ratelimit.UsageStats `yaml:"state"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if s := file.State["gpt-4o"]; len(file.Quotas) != 6 || s == nil || s.DayCount != 2 || !s.Tokens[0].Time.Equal(start) {
		t.Errorf("the original reads %+v", file)
	}
	// And one that yaml.Marshal of the original wrote is one that we read.
	data, err = yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "original.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	rl = newLimiterWith(t, ratelimit.Config{FilePath: path})
	if err := rl.Load(); err != nil || rl.Stats("gpt-4o").TPM != 175 {
		t.Errorf("Load: %v, %+v", err, rl.Stats("gpt-4o"))
	}
}

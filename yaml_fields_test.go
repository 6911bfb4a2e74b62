package ratelimit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"
)

// fieldsLimiter returns a limiter without quotas of its own on a file.
func fieldsLimiter(t testing.TB, backend, path string) *RateLimiter {
	t.Helper()
	rl, err := NewWithConfig(Config{Backend: backend, FilePath: path, Providers: []Provider{ProviderLocal}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// fieldsSample is a snapshot with every field set, in one of its models.
func fieldsSample(now time.Time) *snapshot {
	at := now.Add(-time.Second).Round(0)
	return &snapshot{
		quotas: map[string]ModelQuota{
			"full": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3, MaxITPM: 4, MaxOTPM: 5, MaxTPD: 6, MaxInFlight: 7, DayZone: "America/Los_Angeles", Burst: 90 * time.Second},
			"old":  {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3},
			"odd":  {DayZone: "Etc/GMT+5"},
		},
		state: map[string]*UsageStats{
			"full": {
				Requests: []time.Time{at, at},
				Tokens:   []TokenEntry{{Time: at, Count: 100, Input: 70}, {Time: at, Count: 5}, {Time: at, Count: 8, Input: 8}},
				DayStart: at, DayCount: 2, DayTokens: 113,
			},
			"old":     {Requests: []time.Time{at}, Tokens: []TokenEntry{{Time: at, Count: 1}}, DayStart: at, DayCount: 1},
			"largest": {Tokens: []TokenEntry{{Time: at, Count: math.MaxInt, Input: math.MaxInt}}, DayStart: at, DayCount: 1, DayTokens: math.MaxInt},
		},
		cooldowns: map[string]time.Time{"full": now.Add(time.Hour).Round(0), "not used": now.Add(time.Minute + 1).Round(0)},
	}
}

// take puts a snapshot into a limiter, as a program and its calls would.
func (rl *RateLimiter) take(s *snapshot) {
	rl.Quotas, rl.State, rl.cooldowns = s.quotas, s.state, s.cooldowns
}

func (rl *RateLimiter) content() *snapshot { return &snapshot{rl.Quotas, rl.State, rl.cooldowns} }

func TestYAMLWritesEveryField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now() // midnight of 2000-01-01
		s := fieldsSample(now)
		delete(s.state, "largest")
		const want = `quotas:
    full:
        max_rpm: 1
        max_tpm: 2
        max_rpd: 3
        max_itpm: 4
        max_otpm: 5
        max_tpd: 6
        max_in_flight: 7
        day_zone: America/Los_Angeles
        burst: 1m30s
    odd:
        max_rpm: 0
        max_tpm: 0
        max_rpd: 0
        day_zone: Etc/GMT+5
    old:
        max_rpm: 1
        max_tpm: 2
        max_rpd: 3
state:
    full:
        requests:
            - 1999-12-31T23:59:59Z
            - 1999-12-31T23:59:59Z
        tokens:
            - time: 1999-12-31T23:59:59Z
              count: 100
              input: 70
            - time: 1999-12-31T23:59:59Z
              count: 5
            - time: 1999-12-31T23:59:59Z
              count: 8
              input: 8
        day_start: 1999-12-31T23:59:59Z
        day_count: 2
        day_tokens: 113
    old:
        requests:
            - 1999-12-31T23:59:59Z
        tokens:
            - time: 1999-12-31T23:59:59Z
              count: 1
        day_start: 1999-12-31T23:59:59Z
        day_count: 1
cooldowns:
    full:
        until: 2000-01-01T01:00:00Z
    not used:
        until: 2000-01-01T00:01:00.000000001Z
`
		var file bytes.Buffer
		if err := writeYAML(&file, s, now); err != nil {
			t.Fatal(err)
		}
		if got := file.String(); got != strings.Replace(want, "not used", `"not used"`, 1) {
			t.Errorf("wrote\n%s", got)
		}
		// It is what yaml.Marshal writes, but for the quotes.
		type cooldown struct {
			Until time.Time `yaml:"until"`
		}
		content := struct {
			Quotas    map[string]ModelQuota  `yaml:"quotas"`
			State     map[string]*UsageStats `yaml:"state"`
			Cooldowns map[string]cooldown    `yaml:"cooldowns"`
		}{s.quotas, s.state, map[string]cooldown{}}
		for model, until := range s.cooldowns {
			content.Cooldowns[model] = cooldown{until.UTC()}
		}
		for _, stats := range s.state {
			stats.DayStart = stats.DayStart.UTC()
			for i := range stats.Requests {
				stats.Requests[i] = stats.Requests[i].UTC()
			}
			for i := range stats.Tokens {
				stats.Tokens[i].Time = stats.Tokens[i].Time.UTC()
			}
		}
		marshalled, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if string(marshalled) != want {
			t.Errorf("yaml.Marshal writes\n%s", marshalled)
		}
	})
}

// Both readers read every field, in the layout of Persist and in others.
func TestYAMLReadsEveryField(t *testing.T) {
	s := fieldsSample(time.Now())
	var file bytes.Buffer
	if err := writeYAML(&file, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	scanned, err := scanYAML(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := s.differs(scanned); diff != "" {
		t.Errorf("scanYAML: %s", diff)
	}
	layouts := map[string]string{
		"ours":        file.String(),
		"in quotes":   strings.ReplaceAll(file.String(), "America/Los_Angeles", "'America/Los_Angeles'"),
		"with spaces": strings.ReplaceAll(file.String(), "\n", " \n"),
	}
	for name, text := range layouts {
		parsed, err := parseYAML([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := s.differs(parsed); diff != "" {
			t.Errorf("%s: parseYAML: %s", name, diff)
		}
	}
}

// A program may have filled State by hand. What Load would refuse is not
// written.
func TestYAMLWritesWhatItReads(t *testing.T) {
	now := time.Now()
	s := newSnapshot()
	s.state["m"] = &UsageStats{
		Tokens:    []TokenEntry{{Time: now, Count: 5, Input: 7}, {Time: now, Count: 5, Input: -7}, {Time: now, Count: -5, Input: 7}, {Time: now, Count: -5, Input: -7}},
		DayTokens: -1,
	}
	var file bytes.Buffer
	if err := writeYAML(&file, s, now); err != nil {
		t.Fatal(err)
	}
	got, err := scanYAML(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{5, 0, 0, 0} {
		if input := got.state["m"].Tokens[i].Input; input != want {
			t.Errorf("entry %d has %d input tokens, want %d", i, input, want)
		}
	}
	if got.state["m"].DayTokens != 0 {
		t.Errorf("tokens of the day: %d", got.state["m"].DayTokens)
	}
}

// In a large file there is no second reader that could say more.
func TestYAMLLargeFilesWithUnknownZones(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	long := "state:\n  m:\n    requests:\n" + strings.Repeat("      - 2026-02-20T14:32:01.123456789Z\n", 40_000)
	for text, want := range map[string]string{
		"quotas:\n  m:\n    day_zone: Mars/Base\n":                                                    "line 40006: day_zone: invalid quota: unknown time zone \"Mars/Base\"",
		"  n:\n    tokens:\n      - time: 2026-02-20T14:32:01Z\n        count: 1\n        input: 2\n": "line 40008: input: 2 is more than the count, 1",
	} {
		if err := os.WriteFile(path, []byte(long+text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := fieldsLimiter(t, "yaml", path).Load()
		if !errors.Is(err, ErrCorruptState) || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want it to say %s", err, want)
		}
		if errors.Is(err, ErrInvalidQuota) != strings.Contains(want, "invalid quota") {
			t.Errorf("Load = %v; is it ErrInvalidQuota?", err)
		}
	}
}

// fieldsBackends are run by the tests of what both backends do alike.
var fieldsBackends = []string{"yaml", "sqlite"}

func TestEveryFieldIsPersisted(t *testing.T) {
	for _, backend := range fieldsBackends {
		t.Run(backend, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			rl := fieldsLimiter(t, backend, path)
			rl.take(fieldsSample(time.Now()))
			for range 2 {
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
			}
			again := fieldsLimiter(t, backend, path)
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			if diff := rl.content().differs(again.content()); diff != "" {
				t.Errorf("%s\n%+v\n%+v", diff, rl.content(), again.content())
			}
		})
	}
}

func TestCooldownsArePersisted(t *testing.T) {
	hour := func(n float64) time.Time { return time.Now().Add(time.Duration(n * float64(time.Hour))) }
	far := time.Date(23_456, 1, 1, 0, 0, 0, 0, time.UTC)
	type cooldowns = map[string]time.Time
	tests := []struct {
		name                string
		before, after, want func() cooldowns // in the file; in memory at Load; in memory after it
	}{
		{"none", func() cooldowns { return nil }, func() cooldowns { return nil }, func() cooldowns { return nil }},
		{"one", func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": hour(1)} }},
		{"over ones go", func() cooldowns { return cooldowns{"m": hour(0), "n": hour(-1), "o": {}} }, func() cooldowns { return nil }, func() cooldowns { return nil }},
		{"the file has none", func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return cooldowns{"m": hour(1)} }},
		{"the file has a later one", func() cooldowns { return cooldowns{"m": hour(2)} }, func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return cooldowns{"m": hour(2)} }},
		{"memory has a later one", func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return cooldowns{"m": hour(2)} }, func() cooldowns { return cooldowns{"m": hour(2)} }},
		{"each model apart", func() cooldowns { return cooldowns{"m": hour(1), "n": hour(2), "o": hour(3)} },
			func() cooldowns { return cooldowns{"m": hour(2), "n": hour(1), "p": hour(4)} },
			func() cooldowns { return cooldowns{"m": hour(2), "n": hour(2), "o": hour(3), "p": hour(4)} }},
		{"odd names", func() cooldowns { return cooldowns{"": hour(1), "a\x00b": hour(1), "\xff": hour(1)} }, func() cooldowns { return nil },
			func() cooldowns { return cooldowns{"": hour(1), "a\x00b": hour(1), "\xff": hour(1)} }},
		{"to the nanosecond", func() cooldowns { return cooldowns{"m": hour(1).Add(1)} }, func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": hour(1).Add(1)} }},
		{"memory knows more years than a file", func() cooldowns { return cooldowns{"m": far} }, func() cooldowns { return cooldowns{"m": far} }, func() cooldowns { return cooldowns{"m": far} }},
	}
	for _, tt := range tests {
		for _, backend := range fieldsBackends {
			t.Run(tt.name+", "+backend, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "state")
					writer, reader := fieldsLimiter(t, backend, path), fieldsLimiter(t, backend, path)
					writer.cooldowns, reader.cooldowns = tt.before(), tt.after()
					if err := writer.Persist(); err != nil {
						t.Fatal(err)
					}
					if err := reader.Load(); err != nil {
						t.Fatal(err)
					}
					if want := tt.want(); !maps.EqualFunc(reader.cooldowns, want, time.Time.Equal) {
						t.Errorf("cooldowns %v, want %v", reader.cooldowns, want)
					}
				})
			})
		}
	}
}

// A limiter that cannot express a cooldown in its file stores the last instant
// that it can.
func TestCooldownsOfFarYears(t *testing.T) {
	for backend, year := range map[string]int{"yaml": 9999, "sqlite": 2262} {
		path := filepath.Join(t.TempDir(), "state")
		writer, reader := fieldsLimiter(t, backend, path), fieldsLimiter(t, backend, path)
		writer.cooldowns = map[string]time.Time{"m": time.Date(23_456, 1, 1, 0, 0, 0, 0, time.UTC)}
		if err := errors.Join(writer.Persist(), reader.Load()); err != nil {
			t.Fatal(err)
		}
		if got := reader.cooldowns["m"].UTC(); got.Year() != year {
			t.Errorf("%s: loaded %v", backend, got)
		}
	}
}

// Cooldowns come and go while others persist and load.
func TestCooldownsDuringPersistAndLoad(t *testing.T) {
	for _, backend := range fieldsBackends {
		path := filepath.Join(t.TempDir(), "state")
		rl := fieldsLimiter(t, backend, path)
		until := time.Now().Add(time.Hour)
		var other sync.WaitGroup
		other.Go(func() {
			for i := range 20_000 {
				rl.mu.Lock()
				if rl.cooldowns == nil {
					rl.cooldowns = make(map[string]time.Time)
				}
				rl.cooldowns[fmt.Sprint("m", i%100)] = until.Add(time.Duration(i))
				delete(rl.cooldowns, fmt.Sprint("m", (i+50)%100))
				rl.mu.Unlock()
			}
		})
		for range 5 {
			if err := errors.Join(rl.Persist(), rl.Load()); err != nil {
				t.Fatal(err)
			}
		}
		other.Wait()
		want := len(rl.cooldowns)
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		again := fieldsLimiter(t, backend, path)
		if err := again.Load(); err != nil || len(again.cooldowns) != want {
			t.Errorf("%s: %v, %d cooldowns stored, want %d", backend, err, len(again.cooldowns), want)
		}
	}
}

// What sets nothing new is written as before there was anything new.
func TestYAMLWithoutCooldownsIsAsBefore(t *testing.T) {
	s := newSnapshot()
	s.quotas["m"] = ModelQuota{MaxRPM: 1}
	var file bytes.Buffer
	if err := writeYAML(&file, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	if want := "quotas:\n    m:\n        max_rpm: 1\n        max_tpm: 0\n        max_rpd: 0\nstate: {}\n"; file.String() != want {
		t.Errorf("wrote\n%s", file.String())
	}
}

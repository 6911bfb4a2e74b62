// State: entries made by hand, limits of counts, what callers may keep, what is forgotten, and a
// program that was written for the original.

package ratelimit_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestHandMadeStateIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 3, MaxTPM: 100, MaxRPD: 5})
		rl.State = map[string]*ratelimit.UsageStats{
			"m": {
				Requests: []time.Time{now.Add(-10 * time.Second), now.Add(-50 * time.Second).Round(0), now.Add(-2 * time.Minute)},
				Tokens: []ratelimit.TokenEntry{
					{Time: now.Add(-10 * time.Second), Count: 30},
					{Time: now.Add(-50 * time.Second), Count: 40},
					{Time: now.Add(-2 * time.Minute), Count: 500},
					{Time: now.Add(-5 * time.Second), Count: -90},
				},
				DayStart: now.Add(-3 * time.Hour),
				DayCount: 4,
			},
			"nothing": nil,
		}
		want := ratelimit.ModelStats{RPM: 2, MaxRPM: 3, TPM: 70, OTPM: 70, MaxTPM: 100, RPD: 4, MaxRPD: 5, DayStart: now.Add(-3 * time.Hour)}
		if got := rl.Stats("m"); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		if d := rl.Decide("m", 31); d.RetryAfter != 10*time.Second+1 {
			t.Errorf("the oldest of the unordered entries leaves first: %+v", d)
		}
		if got := rl.Stats("nothing"); got != (ratelimit.ModelStats{}) {
			t.Errorf("Stats of a nil entry = %+v", got)
		}
		rl.State["nothing"] = nil
		rl.RecordUsage("nothing", 1, 2)
		if got := rl.Stats("nothing"); got.RPM != 1 || got.TPM != 3 || got.RPD != 1 {
			t.Errorf("a nil entry was recorded as %+v", got)
		}
	})
}

func TestNilMaps(t *testing.T) {
	rl := &ratelimit.RateLimiter{}
	if !rl.CanSend("m", 1) || !rl.Decide("m", 1).Allowed || rl.Stats("m") != (ratelimit.ModelStats{}) {
		t.Error("an empty limiter allows everything")
	}
	if len(rl.AllStats()) != 0 {
		t.Error("an empty limiter knows no models")
	}
	rl.Reset("")
	rl.Reset("m")
	rl.RecordUsage("m", 1, 1)
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1})
	if rl.CanSend("m", 1) || rl.Stats("m").RPM != 1 {
		t.Errorf("Stats = %+v", rl.Stats("m"))
	}
	if err := rl.WaitForCapacity(t.Context(), "other", 1); err != nil {
		t.Error(err)
	}
	if rl.Persist() == nil || rl.Load() == nil {
		t.Error("without a file there is nothing to persist to or load from")
	}
	(&ratelimit.RateLimiter{}).AddProvider(ratelimit.ProviderGemini)
	if err := rl.Close(); err != nil {
		t.Error(err)
	}
}

func TestEntriesFromTheFutureAreGoneWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1, MaxRPD: 1})
		ahead := time.Now().Add(100 * 24 * time.Hour).Round(0)
		rl.State["m"] = &ratelimit.UsageStats{
			Requests: []time.Time{ahead},
			Tokens:   []ratelimit.TokenEntry{{Time: ahead, Count: 5}},
			DayStart: ahead,
			DayCount: 1,
		}
		if d := rl.Decide("m", 1); d.Stats.RPM != 1 || d.Stats.TPM != 5 || d.RetryAfter != 24*time.Hour {
			t.Errorf("Decide = %+v", d)
		}
		time.Sleep(time.Minute + 1)
		if s := rl.Stats("m"); s.RPM != 0 || s.TPM != 0 || s.RPD != 1 {
			t.Errorf("a minute later: %+v", s)
		}
		time.Sleep(24*time.Hour - time.Minute - 1)
		if !rl.CanSend("m", 1) {
			t.Errorf("a day later: %+v", rl.Decide("m", 1))
		}
	})
}

func TestChangesByHandAreNoticed(t *testing.T) {
	now := time.Now()
	entry := func(n int) *ratelimit.UsageStats {
		s := &ratelimit.UsageStats{DayStart: now, DayCount: n}
		for range n {
			s.Requests = append(s.Requests, now)
			s.Tokens = append(s.Tokens, ratelimit.TokenEntry{Time: now, Count: 10})
		}
		return s
	}
	tests := []struct {
		name           string
		edit           func(rl *ratelimit.RateLimiter)
		rpm, tpm, rpds int
	}{
		{"another map", func(rl *ratelimit.RateLimiter) { rl.State = map[string]*ratelimit.UsageStats{"m": entry(3)} }, 3, 30, 3},
		{"another entry", func(rl *ratelimit.RateLimiter) { rl.State["m"] = entry(1) }, 1, 10, 1},
		{"a copied entry", func(rl *ratelimit.RateLimiter) { c := *rl.State["m"]; c.DayCount = 7; rl.State["m"] = &c }, 2, 20, 7},
		{"no entry", func(rl *ratelimit.RateLimiter) { delete(rl.State, "m") }, 0, 0, 0},
		{"a longer slice", func(rl *ratelimit.RateLimiter) { s := rl.State["m"]; s.Requests = append(s.Requests, now) }, 3, 20, 2},
		{"a shorter slice", func(rl *ratelimit.RateLimiter) { s := rl.State["m"]; s.Tokens = s.Tokens[:1] }, 2, 10, 2},
		{"a slice that starts later", func(rl *ratelimit.RateLimiter) { s := rl.State["m"]; s.Tokens = s.Tokens[1:] }, 2, 10, 2},
		{"another slice of the same length", func(rl *ratelimit.RateLimiter) {
			rl.State["m"].Tokens = []ratelimit.TokenEntry{{Time: now, Count: 1}, {Time: now, Count: 2}}
		}, 2, 3, 2},
		{"nil slices", func(rl *ratelimit.RateLimiter) { s := rl.State["m"]; s.Requests, s.Tokens = nil, nil }, 0, 0, 2},
		{"the day's start", func(rl *ratelimit.RateLimiter) { rl.State["m"].DayStart = now.Add(-25 * time.Hour) }, 2, 20, 0},
		{"the day's count", func(rl *ratelimit.RateLimiter) { rl.State["m"].DayCount = 99 }, 2, 20, 99},
		{"a negative count", func(rl *ratelimit.RateLimiter) { rl.State["m"].DayCount = -99 }, 2, 20, 0},
		{"a quota", func(rl *ratelimit.RateLimiter) { rl.Quotas["m"] = ratelimit.ModelQuota{MaxRPM: 9} }, 2, 20, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
			rl.RecordUsage("m", 5, 5)
			rl.RecordUsage("m", 5, 5)
			rl.CanSend("m", 1)
			tt.edit(rl)
			if s := rl.Stats("m"); s.RPM != tt.rpm || s.TPM != tt.tpm || s.RPD != tt.rpds || s.MaxRPM != rl.Quotas["m"].MaxRPM {
				t.Errorf("Stats = %+v, want %d, %d, %d", s, tt.rpm, tt.tpm, tt.rpds)
			}
			rl.RecordUsage("m", 1, 0)
			if s := rl.Stats("m"); s.RPM != tt.rpm+1 || s.TPM != tt.tpm+1 || s.RPD != tt.rpds+1 {
				t.Errorf("Stats = %+v after one more", s)
			}
		})
	}
}

func TestStateIsOnShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		first := time.Now()
		rl.RecordUsage("m", 3, 4)
		time.Sleep(40 * time.Second)
		rl.RecordUsage("m", -5, 6)
		s := rl.State["m"]
		if len(s.Requests) != 2 || !s.Requests[0].Equal(first) || len(s.Tokens) != 2 || s.Tokens[0].Count != 7 || s.Tokens[1].Count != 6 {
			t.Errorf("State = %+v", s)
		}
		if s.DayCount != 2 || !s.DayStart.Equal(first) {
			t.Errorf("the day is %d since %v", s.DayCount, s.DayStart)
		}
		time.Sleep(21 * time.Second)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; len(s.Requests) != 1 || len(s.Tokens) != 1 || s.Tokens[0].Count != 6 {
			t.Errorf("State = %+v after the first left", s)
		}
	})
}

func TestCallersSlicesAreLeftAlone(t *testing.T) {
	now := time.Now()
	shared := make([]time.Time, 2, 10)
	shared[0], shared[1] = now, now.Add(-time.Second)
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
	rl.State["m"] = &ratelimit.UsageStats{Requests: shared}
	rl.State["n"] = &ratelimit.UsageStats{Requests: shared}
	rl.RecordUsage("m", 1, 1)
	rl.RecordUsage("n", 1, 1)
	if !shared[0].Equal(now) || !shared[:3][2].IsZero() {
		t.Errorf("the caller's slice is now %v", shared[:3])
	}
	grown := append(rl.State["m"].Requests, time.Time{})
	rl.RecordUsage("m", 1, 1)
	if !grown[3].IsZero() {
		t.Error("a caller's append shares storage with the limiter")
	}
}

func TestCountsSaturate(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	rl.RecordUsage("m", math.MaxInt, math.MaxInt)
	rl.RecordUsage("m", math.MaxInt, 1)
	rl.RecordUsage("m", math.MinInt, math.MinInt)
	rl.State["m"].DayCount = math.MaxInt
	rl.RecordUsage("m", 0, 0)
	if s := rl.Stats("m"); s.TPM != math.MaxInt || s.RPD != math.MaxInt || s.RPM != 4 {
		t.Errorf("Stats = %+v", s)
	}
}

func TestStateMovesToAnotherLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := ratelimit.ModelQuota{MaxRPM: 1}
		older := newLimiter(t, quota)
		time.Sleep(time.Hour)
		newer := newLimiter(t, quota)
		withMargin := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": quota},
			Margin: time.Second,
		})
		older.RecordUsage("m", 1, 1)
		for _, move := range []struct {
			from, to *ratelimit.RateLimiter
			want     time.Duration
		}{
			{older, newer, time.Minute + 1},
			{newer, older, time.Minute + 1},
			{older, withMargin, time.Minute + time.Second + 1},
		} {
			move.to.State = move.from.State
			if d := move.to.Decide("m", 1); d.Allowed || d.RetryAfter != move.want {
				t.Errorf("Decide = %+v, want a wait of %v", d, move.want)
			}
		}
	})
}

func TestEntriesStayDuringPersist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		for range times(100, 20, 400) {
			for i := range 50 {
				rl.RecordUsage("m", i, 0)
				time.Sleep(100 * time.Millisecond)
			}
			done := make(chan error)
			go func() { done <- rl.Persist() }()
			for i := range 700 {
				rl.RecordUsage("m", i, 0)
				time.Sleep(time.Millisecond)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		want := rl.Stats("m")
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		if got := rl.Stats("m"); got.RPM != want.RPM || got.TPM != want.TPM || got.RPD != want.RPD {
			t.Errorf("Stats = %+v after a round trip, want %+v", got, want)
		}
	})
}

func TestBackgroundPruneStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		rl.BackgroundPrune(0)()
		rl.BackgroundPrune(-time.Second)()

		rl.RecordUsage("m", 1, 1)
		stop := rl.BackgroundPrune(time.Second)
		time.Sleep(1500 * time.Millisecond)
		stop()
		stop()
		time.Sleep(48 * time.Hour)
		if len(rl.State) != 1 {
			t.Error("a stopped prune ran")
		}

		// The bubble ends only when no goroutine is left: Close stops this one.
		rl.BackgroundPrune(time.Second)
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
		rl.BackgroundPrune(time.Second)
	})
}

func TestStorageOfAnEmptiedWindowIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1 << 30})
		for range 50_000 {
			rl.RecordUsage("m", 1, 1)
		}
		time.Sleep(30 * time.Second)
		rl.RecordUsage("m", 1, 1)
		time.Sleep(30*time.Second + 1)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; len(s.Requests) != 1 || cap(s.Requests) > 10 || cap(s.Tokens) > 10 {
			t.Errorf("one entry keeps room for %d and %d", cap(s.Requests), cap(s.Tokens))
		}
		time.Sleep(time.Minute)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; cap(s.Requests) != 0 || cap(s.Tokens) != 0 {
			t.Errorf("an emptied window keeps room for %d and %d", cap(s.Requests), cap(s.Tokens))
		}
	})
}

func TestManyModelsWithoutQuotaDoNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		for i := range 10_000 {
			rl.RecordUsage(fmt.Sprint("model-", i), 1, 1)
		}
		if n := len(rl.AllStats()); n != 10_001 {
			t.Errorf("AllStats has %d models", n)
		}
		time.Sleep(25 * time.Hour)
		if n := len(rl.AllStats()); n != 10_001 {
			t.Errorf("AllStats has %d models on the way to forget them", n)
		}
		if len(rl.State) != 0 {
			t.Errorf("%d models keep state", len(rl.State))
		}
	})
}

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

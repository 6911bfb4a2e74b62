// YAML files keep what was used.

package ratelimit_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestYAMLKeepsUsage(t *testing.T) {
	// In the bubble it is midnight of 2000-01-01.
	type entry = ratelimit.TokenEntry
	zero := time.Time{}
	tests := []struct {
		name  string
		stats func(now time.Time) *ratelimit.UsageStats
		want  string // "" for no model at all
	}{
		{"an unused model", func(now time.Time) *ratelimit.UsageStats { return &ratelimit.UsageStats{} },
			"day 0001-01-01T00:00:00Z 0\n"},
		{"nil", func(now time.Time) *ratelimit.UsageStats { return nil }, ""},
		{"every nanosecond", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{now.Add(-1e9 + 1), now.Add(-5e8), now.Add(-1e9 + 999_999_999), now.Add(-1)},
				Tokens:   []entry{{Time: now.Add(-123_456_789), Count: 7}},
				DayStart: now.Add(-1), DayCount: 1,
			}
		}, "day 1999-12-31T23:59:59.999999999Z 1\n\trequest 1999-12-31T23:59:59.000000001Z\n\trequest 1999-12-31T23:59:59.5Z\n" +
			"\trequest 1999-12-31T23:59:59.999999999Z\n\trequest 1999-12-31T23:59:59.999999999Z\n\ttokens 1999-12-31T23:59:59.876543211Z 7\n"},
		{"times without a monotonic reading and of other zones", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{now.Add(-2).Round(0), now.Add(-1).In(time.FixedZone("", -12*3600+1))},
				Tokens:   []entry{{Time: now.UTC(), Count: 1}, {Time: now.Round(0), Count: 2}},
				DayStart: now.In(time.FixedZone("", 14*3600)),
			}
		}, "day 2000-01-01T00:00:00Z 0\n\trequest 1999-12-31T23:59:59.999999998Z\n\trequest 1999-12-31T23:59:59.999999999Z\n" +
			"\ttokens 2000-01-01T00:00:00Z 1\n\ttokens 2000-01-01T00:00:00Z 2\n"},
		{"entries in disorder", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{Requests: []time.Time{now, now.Add(-3e9), now.Add(-1e9)}}
		}, "day 0001-01-01T00:00:00Z 0\n\trequest 1999-12-31T23:59:57Z\n\trequest 1999-12-31T23:59:59Z\n\trequest 2000-01-01T00:00:00Z\n"},
		{"the largest counts", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{Tokens: []entry{{Time: now, Count: math.MaxInt}}, DayCount: math.MaxInt}
		}, fmt.Sprintf("day 0001-01-01T00:00:00Z %d\n\ttokens 2000-01-01T00:00:00Z %[1]d\n", math.MaxInt)},
		{"negative counts are none", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{Tokens: []entry{{Time: now, Count: -1}, {Time: now, Count: math.MinInt}}, DayCount: -5}
		}, "day 0001-01-01T00:00:00Z 0\n\ttokens 2000-01-01T00:00:00Z 0\n\ttokens 2000-01-01T00:00:00Z 0\n"},
		{"long past times", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{zero, time.Date(0, 1, 1, 0, 0, 0, 5, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 5, time.UTC), time.Unix(0, 0)},
				DayStart: time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), DayCount: 9,
			}
		}, "day 1500-01-01T00:00:00Z 9\n\trequest 0001-01-01T00:00:00Z\n\trequest 0000-01-01T00:00:00.000000005Z\n" +
			"\trequest 0001-01-01T00:00:00.000000005Z\n\trequest 1970-01-01T00:00:00Z\n"},
		{"times that RFC 3339 has no words for are long past", func(now time.Time) *ratelimit.UsageStats {
			bc := time.Date(-1, 1, 1, 0, 0, 0, 5, time.UTC)
			return &ratelimit.UsageStats{Requests: []time.Time{bc, bc.AddDate(-1e6, 0, 0), now}, DayStart: bc}
		}, "day 0001-01-01T00:00:00Z 0\n\trequest 0001-01-01T00:00:00Z\n\trequest 0001-01-01T00:00:00Z\n\trequest 2000-01-01T00:00:00Z\n"},
		{"times from the future are now", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{now.Add(1), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
				Tokens:   []entry{{Time: time.Date(400_000, 1, 1, 0, 0, 0, 0, time.UTC), Count: 3}, {Time: now.Add(time.Hour), Count: -3}},
				DayStart: now.AddDate(300, 0, 0), DayCount: 2,
			}
		}, "day 2000-01-01T00:00:00Z 2\n\trequest 2000-01-01T00:00:00Z\n\trequest 2000-01-01T00:00:00Z\n" +
			"\ttokens 2000-01-01T00:00:00Z 3\n\ttokens 2000-01-01T00:00:00Z 0\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state.yaml")
				rl := yamlLimiter(t, path)
				rl.State = yamlState{"m": test.stats(time.Now())}
				yamlPersist(t, rl)
				again := yamlLimiter(t, path)
				yamlLoad(t, again)
				want := test.want
				if want != "" {
					want = `"m" ` + want
				}
				if got := yamlText(again.State); got != want {
					t.Errorf("state =\n%swant\n%s", got, want)
				}
				first := yamlRead(t, path)
				yamlPersist(t, again)
				if second := yamlRead(t, path); second != first && test.name != "entries in disorder" {
					t.Errorf("persisted again as\n%safter\n%s", second, first)
				}
			})
		})
	}
}

func TestYAMLLoadedUsageCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		quota := ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 100, MaxRPD: 10}
		rl := yamlLimiter(t, path)
		rl.SetQuota("m", quota)
		rl.RecordUsage("m", 20, 10)
		time.Sleep(20 * time.Second)
		rl.RecordUsage("m", 20, 10)
		yamlPersist(t, rl)
		time.Sleep(10 * time.Second)

		again := yamlLimiter(t, path)
		yamlLoad(t, again)
		if got, want := again.Stats("m"), rl.Stats("m"); !got.DayStart.Equal(want.DayStart) || got.RPM != 2 || got.TPM != 60 || got.RPD != 2 {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		got := again.Decide("m", 1)
		if got.Code != ratelimit.DecisionRPMLimit || got.RetryAfter != 30*time.Second+1 {
			t.Errorf("Decide = %+v", got)
		}
		time.Sleep(got.RetryAfter)
		if !again.CanSend("m", 70) || again.CanSend("m", 71) {
			t.Error("a loaded entry leaves the window like one recorded here")
		}
	})
}

// A million entries take the way through the file and back.
func TestYAMLMillionEntries(t *testing.T) {
	const entries = 1_000_000 / racetest.Factor
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	now := time.Now()
	stats := &ratelimit.UsageStats{DayStart: now.Add(-time.Minute).Round(0), DayCount: entries}
	for i := range entries {
		at := now.Add(time.Duration(i-entries) * 10 * time.Microsecond)
		stats.Requests = append(stats.Requests, at)
		stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: at, Count: i})
	}
	rl.State = yamlState{"m": stats}
	yamlPersist(t, rl)
	again := yamlLimiter(t, path)
	yamlLoad(t, again)
	got := again.State["m"]
	if !slices.EqualFunc(got.Requests, stats.Requests, time.Time.Equal) {
		t.Error("requests differ")
	}
	if !slices.EqualFunc(got.Tokens, stats.Tokens, func(a, b ratelimit.TokenEntry) bool {
		return a.Time.Equal(b.Time) && a.Count == b.Count
	}) {
		t.Error("tokens differ")
	}
	if !got.DayStart.Equal(stats.DayStart) || got.DayCount != stats.DayCount {
		t.Errorf("day = %v %d, want %v %d", got.DayStart, got.DayCount, stats.DayStart, stats.DayCount)
	}
}

// A mebibyte of names costs a limiter no more than 128 MiB of allocations. What costs a reader of
// YAML more, internal/yamlfile refuses.
func TestYAMLManyNamesAreCheap(t *testing.T) {
	const size = 1 << 20 / min(racetest.Factor, 8)
	for name, line := range map[string]string{
		"models":                "quotas:\n %x:\n  max_rpm: 1\n",
		"models that were used": "state:\n %x_:\n  day_count: 1\n",
		"cooldowns":             "cooldowns:\n %x_:\n  until: 9999-12-31T23:59:59Z\n",
		"zones":                 "quotas:\n %x_:\n  day_zone: Etc/GMT-%d\n",
	} {
		section, line, _ := strings.Cut(line, "\n")
		var b strings.Builder
		b.WriteString(section + "\n")
		for i := 0; b.Len() < size-64; i++ {
			b.WriteString(strings.Replace(strings.Replace(line, "%x", strconv.FormatInt(int64(i), 16), 1), "%d", strconv.Itoa(i%14), 1))
		}
		rl := yamlLimiter(t, yamlWrite(t, b.String()))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		yamlLoad(t, rl)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 128*size {
			t.Errorf("%s: %d bytes made Load allocate %d MiB", name, b.Len(), allocated>>20)
		}
	}
}

func TestYAMLConcurrentPersistNeverGoesBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	yamlPersist(t, rl)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 12 {
				rl.RecordUsage("m", 1, 0)
				before := rl.Stats("m").RPD
				if err := rl.Persist(); err != nil {
					t.Error(err)
					return
				}
				again := yamlLimiter(t, path)
				if err := again.Load(); err != nil {
					t.Error(err)
					return
				}
				if got := again.State["m"].DayCount; got < before {
					t.Errorf("the file counts %d requests after Persist of %d", got, before)
				}
				if got := again.State["m"]; got.DayCount != len(got.Requests) || got.DayCount != len(got.Tokens) {
					t.Errorf("the file holds %d requests and %d token entries of %d", len(got.Requests), len(got.Tokens), got.DayCount)
				}
			}
		})
	}
	wg.Wait()
	if litter := yamlLitter(t, path); litter != nil {
		t.Errorf("left behind: %q", litter)
	}
}

func TestYAMLFilesAreTheOwnersAlone(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b", "state.yaml")
	rl := yamlLimiter(t, path)
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil { // Persist makes the folders too
		t.Fatal(err)
	}
	yamlPersist(t, rl)
	for name, want := range map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/state.yaml": 0o600} {
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want && os.PathSeparator == '/' {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
}

type yamlState = map[string]*ratelimit.UsageStats

var (
	yamlLimiter = limitertest.YAML
	yamlPersist = limitertest.Save
	yamlLoad    = limitertest.Load
	yamlText    = limitertest.Text
	yamlWrite   = statefile.Write
	yamlRead    = statefile.Read
	yamlLitter  = statefile.Litter
)

// Limits that are found, over restarts: what was found is there again, aged by how long it was not
// used.

package foundlimits

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// adaptiveLearned has a limiter find limits of "m" and "slots" above those of the start, each
// after a refusal.
func adaptiveLearned(t *testing.T, rl *ratelimit.RateLimiter) (rate, slots int) {
	t.Helper()
	adaptiveDrive(t, rl, "m", 8*time.Second)
	adaptiveFill(rl, "slots", 8*time.Second)
	adaptiveDrive(t, rl, "m", 2*time.Second)
	adaptiveRefuse(rl, "m", "rate_limited")
	adaptiveRefuse(rl, "slots", "overloaded")
	rate, slots = rl.Stats("m").AdaptiveRPM, rl.Stats("slots").AdaptiveInFlight
	if rate < 200 || slots < 9 {
		t.Fatalf("it found only %d a minute and %d slots", rate, slots)
	}
	return rate, slots
}

var adaptiveApart = map[string]ratelimit.ModelQuota{
	"m":     {AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 6000},
	"slots": {AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 1000},
}

// wantBetween compares a number with bounds, which count.
func wantBetween(t *testing.T, what string, got, least, most int) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %d, want %d to %d", what, got, least, most)
	}
}

// Each row: how long a limiter is not used before it is saved, and how long it takes until another
// loads the file. An hour halves the distance to the floor.
func TestAdaptiveRestart(t *testing.T) {
	const h = time.Hour
	for _, tt := range []struct {
		before, between time.Duration
		keeps           int // of the distance to the floor, in thousandths
	}{
		{0, 0, 1000},
		{0, time.Millisecond, 1000},
		{0, h, 500},
		{h, 0, 500},
		{h / 2, h / 2, 500},
		{0, 2 * h, 250},
		{0, 24 * h, 0},
		{0, 40 * 365 * 24 * h, 0},
	} {
		for _, backend := range limitertest.Backends() {
			if backend != "yaml" && tt.between != h {
				continue // what is written is the same
			}
			t.Run(fmt.Sprintf("%s %v %v", backend, tt.before, tt.between), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), Quotas: adaptiveApart}
					rl := adaptiveOpen(t, cfg)
					rate, slots := adaptiveLearned(t, rl)
					time.Sleep(tt.before)
					adaptiveCatchUp(t, rl)
					time.Sleep(tt.between)
					again := adaptiveOpen(t, cfg)
					for range 2 { // what is loaded twice is not aged twice
						if err := again.Load(); err != nil {
							t.Fatal(err)
						}
						left := func(n, floor int) int { return floor + (n-floor)*tt.keeps/1000 }
						off := (rate-60)/16 + 1 // half of the distance at once, or in two steps
						if tt.before == 0 || tt.between == 0 {
							off = 1
						}
						want := left(rate, 60)
						wantBetween(t, "the rate", again.Stats("m").AdaptiveRPM, max(want-1, 60), want+off)
						want = left(slots, 2)
						wantBetween(t, "the slots", again.Stats("slots").AdaptiveInFlight, max(want-1, 2), want+(off*slots+rate-1)/rate)
					}
					if n := adaptiveDrive(t, again, "m", 10*time.Second); n < 10 {
						t.Errorf("after the restart %d calls pass in 10 s", n)
					}
				})
			})
		}
	}
}

// A limiter that runs on, and is not used, ages like one that was restarted, whoever looks.
func TestAdaptiveAgesUnused(t *testing.T) {
	for _, looks := range []time.Duration{time.Hour, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.With(t, ratelimit.Config{Quotas: adaptiveApart})
			rate, slots := adaptiveLearned(t, rl)
			for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(looks) {
				rl.Stats("m")
				rl.Stats("slots")
				rl.CanSend("m", 1)
				rl.Explain("slots")
			}
			wantBetween(t, "the rate", rl.Stats("m").AdaptiveRPM, 60+(rate-60)/2-1, 60+(rate-60)/2+1)
			wantBetween(t, "the slots", rl.Stats("slots").AdaptiveInFlight, 2+(slots-2)/2-1, 2+(slots-2)/2+1)
			time.Sleep(24 * time.Hour)
			wantBetween(t, "the rate after a day", rl.Stats("m").AdaptiveRPM, 60, 61)
			wantBetween(t, "the slots after a day", rl.Stats("slots").AdaptiveInFlight, 2, 2)
		})
	}
}

// A refusal of a call that was sent long ago does not bring back what has aged since.
func TestAdaptiveAgesDespiteRefusals(t *testing.T) {
	for _, group := range adaptiveGroups {
		if racetest.Factor > 1 && group != "alone" && group != "of a store" {
			continue // half a day of a file takes seconds
		}
		problems := []string{"rate_limited"} // half a day of a shared limiter takes seconds
		if group == "alone" {
			problems = append(problems, "timeout")
		}
		for _, problem := range problems {
			synctest.Test(t, func(t *testing.T) {
				all, _ := adaptiveGroup(t, group, ratelimit.Config{Quotas: adaptiveApart})
				adaptiveLearned(t, all[0])
				time.Sleep(12 * time.Hour)
				for range 3 {
					adaptiveRefuse(all[0], "m", problem)
					adaptiveRefuse(all[0], "slots", problem)
					adaptiveCatchUp(t, all...)
					for _, rl := range all {
						wantBetween(t, group+", "+problem+", the rate", rl.Stats("m").AdaptiveRPM, 60, 61)
						wantBetween(t, group+", "+problem+", the slots", rl.Stats("slots").AdaptiveInFlight, 2, 2)
					}
					time.Sleep(2 * time.Second)
				}
			})
		}
	}
}

// What is used does not age, however long that goes on.
func TestAdaptiveStaysWhileUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.With(t, ratelimit.Config{Quotas: adaptiveApart})
		rate, slots := adaptiveLearned(t, rl)
		for range 6 * 60 { // far less than what was found, and all the time
			time.Sleep(10 * time.Second)
			limitertest.Reserve(t, rl, "m", 0, 0).Commit(0, 0)
			r := limitertest.Reserve(t, rl, "slots", 0, 0)
			time.Sleep(time.Second)
			r.Commit(0, 0)
		}
		wantBetween(t, "the rate after an hour", rl.Stats("m").AdaptiveRPM, rate*95/100, rate)
		wantBetween(t, "the slots after an hour", rl.Stats("slots").AdaptiveInFlight, slots*95/100, slots)
	})
}

// A file of a program that found nothing loads, and the search begins at its start.
func TestAdaptiveFileWithoutFound(t *testing.T) {
	for _, backend := range limitertest.Backends() {
		synctest.Test(t, func(t *testing.T) {
			cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 70}}}
			rl := adaptiveOpen(t, cfg)
			rl.RecordUsage("m", 5, 6)
			adaptiveCatchUp(t, rl)
			if backend == "yaml" {
				if text := statefile.Read(t, cfg.FilePath); strings.Contains(text, "found") || strings.Contains(text, "adaptive") {
					t.Errorf("a file of known limits says %s", text)
				}
			}
			cfg.Quotas = map[string]ratelimit.ModelQuota{"m": adaptiveBoth}
			again := adaptiveOpen(t, cfg)
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			again.SetQuota("m", adaptiveBoth) // the quotas of a file win
			if got := adaptiveFound(again, "m"); got != "120/20" || again.Stats("m").RPM != 1 {
				t.Errorf("%s: %s with %d calls", backend, got, again.Stats("m").RPM)
			}
		})
	}
}

// The quota itself is in the file, with its bounds.
func TestAdaptiveQuotaIsInTheFile(t *testing.T) {
	for _, backend := range limitertest.Backends() {
		synctest.Test(t, func(t *testing.T) {
			cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth}}
			rl := adaptiveOpen(t, cfg)
			adaptiveRefuse(rl, "m", "rate_limited")
			adaptiveCatchUp(t, rl)
			cfg.Quotas, cfg.Providers = nil, []ratelimit.Provider{ratelimit.ProviderLocal}
			again := adaptiveOpen(t, cfg)
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			if _, q, _ := again.QuotaFor("m"); q != adaptiveBoth {
				t.Errorf("%s: the quota is %+v", backend, q)
			}
			if got := adaptiveFound(again, "m"); got != "114/20" {
				t.Errorf("%s: %s, want 114/20", backend, got)
			}
		})
	}
}

// Other bounds, by SetQuota or in the config of the next run, take what was found into themselves.
func TestAdaptiveOtherBounds(t *testing.T) {
	type quota = ratelimit.ModelQuota
	for _, tt := range []struct {
		name                    string
		quota                   quota
		least, most             int // of the rate, which was 200 or more
		leastSlots, mostOfSlots int
	}{
		{"a lower ceiling", quota{AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 150}, 150, 150, 0, 0},
		{"a higher floor", quota{AdaptiveFloorRPM: 5000, AdaptiveCeilingRPM: 9000}, 5000, 5000, 0, 0},
		{"room on both sides", quota{AdaptiveFloorRPM: 1}, 200, 6000, 0, 0},
		{"slots, too", adaptiveBoth, 200, 6000, 20, 20},
		{"slots instead", quota{AdaptiveFloorInFlight: 4, AdaptiveCeilingInFlight: 5}, 0, 0, 5, 5},
		{"none", quota{MaxRPM: 5}, 0, 0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			rl := adaptiveOpen(t, ratelimit.Config{FilePath: path, Quotas: adaptiveApart})
			adaptiveLearned(t, rl)
			adaptiveCatchUp(t, rl)
			rl.SetQuota("m", tt.quota)
			check := func(how string, s ratelimit.ModelStats) {
				t.Helper()
				wantBetween(t, tt.name+how+", the rate", s.AdaptiveRPM, tt.least, tt.most)
				wantBetween(t, tt.name+how+", the slots", s.AdaptiveInFlight, tt.leastSlots, tt.mostOfSlots)
			}
			check("", rl.Stats("m"))
			again := adaptiveOpen(t, ratelimit.Config{FilePath: path, Quotas: adaptiveApart})
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			again.SetQuota("m", tt.quota)
			check(" after a restart", again.Stats("m"))
			rl.RemoveQuota("m")
			if got := adaptiveFound(rl, "m"); got != "0/0" {
				t.Errorf("%s: without a quota %s is found", tt.name, got)
			}
		})
	}
}

// Whatever stands in a file: it is refused with words, or what is found stays in its bounds.
func TestAdaptiveMaliciousFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := ratelimit.Config{FilePath: filepath.Join(dir, "state"), Quotas: adaptiveApart}
		rl := adaptiveOpen(t, cfg)
		adaptiveLearned(t, rl)
		adaptiveCatchUp(t, rl)
		text := statefile.Read(t, cfg.FilePath)
		begins := strings.Index(text, "found")
		if begins < 0 {
			t.Fatalf("the file has no section found:\n%s", text)
		}
		refused, loaded := 0, 0
		numbers := regexp.MustCompile(`\d+`).FindAllStringIndex(text[begins:], -1)
		for i, at := range numbers {
			for _, bad := range []string{"-1", "9223372036854775807", "x"} {
				path := filepath.Join(dir, fmt.Sprint(i))
				bad := text[:begins+at[0]] + bad + text[begins+at[1]:]
				if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
					t.Fatal(err)
				}
				again := limitertest.With(t, ratelimit.Config{FilePath: path, Quotas: adaptiveApart})
				if err := again.Load(); err != nil {
					refused++
					continue
				}
				loaded++
				for range 2 {
					wantBetween(t, bad[begins:]+": the rate", again.Stats("m").AdaptiveRPM, 60, 6000)
					wantBetween(t, bad[begins:]+": the slots", again.Stats("slots").AdaptiveInFlight, 2, 1000)
					adaptiveDrive(t, again, "m", time.Second)
					r, _ := again.Reserve("slots", 0, 0)
					r.Commit(0, 0)
					adaptiveRefuse(again, "m", "rate_limited")
					adaptiveRefuse(again, "slots", "timeout")
				}
				if t.Failed() {
					return
				}
			}
		}
		if refused == 0 || loaded == 0 {
			t.Errorf("%d files were refused, %d loaded", refused, loaded)
		}
	})
}

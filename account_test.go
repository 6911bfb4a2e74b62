// The account's own limits, quotas that are taken back, and what was learned: who wins, in memory
// and in files.

package ratelimit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

type quotas = map[string]ratelimit.ModelQuota

// quotaOf returns the quota that covers a model; ok is false where there is none.
func quotaOf(rl *ratelimit.RateLimiter, model string) (q ratelimit.ModelQuota, ok bool) {
	_, q, ok = rl.QuotaFor(model)
	return q, ok
}

// The precedence of quotas, as docs/sdk.md has it. Each row is a life of a limiter: what it does,
// with the mark "restart" where another process goes on with the file.
func TestQuotaPrecedence(t *testing.T) {
	type q = ratelimit.ModelQuota
	const model = "gpt-4o" // which the profile of OpenAI has
	inProfile := ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models[model]
	rpm := func(n int) q { return q{MaxRPM: n} }
	account := func(is q) any {
		return func(rl *ratelimit.RateLimiter) { rl.SetAccountQuotas(quotas{model: is}) }
	}
	set := func(is q) any { return func(rl *ratelimit.RateLimiter) { rl.SetQuota(model, is) } }
	says := func(n int) any {
		return func(rl *ratelimit.RateLimiter) { rl.Observe(model, limits{RPM: limit(n)}) }
	}
	remove := func(rl *ratelimit.RateLimiter) { rl.RemoveQuota(model) }
	forget := func(rl *ratelimit.RateLimiter) { rl.ForgetLearned(model) }
	profile := func(rl *ratelimit.RateLimiter) { rl.AddProvider(ratelimit.ProviderOpenAI) }
	load := func(rl *ratelimit.RateLimiter) { rl.Load() }
	const restart, deaf = "restart", "restart without LearnQuotas"
	type steps = []any
	tests := []struct {
		name  string
		steps steps
		want  q // the zero quota for none
	}{
		{"1: the program over the account", steps{set(rpm(4)), account(rpm(9))}, rpm(4)},
		{"1: and the account where it leaves a limit open", steps{account(q{MaxRPM: 9, MaxTPM: 90}), set(rpm(4))}, q{MaxRPM: 4, MaxTPM: 90}},
		{"1: with the account that a file has, until it speaks", steps{account(q{MaxTPM: 90}), restart, set(rpm(4))}, q{MaxRPM: 4, MaxTPM: 90}},
		{"2: the account over a profile", steps{profile, account(rpm(9))}, rpm(9)},
		{"2: also if that comes later", steps{account(rpm(9)), profile}, rpm(9)},
		{"2: over a file of a program", steps{set(rpm(4)), restart, account(rpm(9))}, rpm(9)},
		{"2: also if that is loaded later", steps{set(rpm(4)), restart, account(rpm(9)), load}, rpm(9)},
		{"2: its next say", steps{account(rpm(9)), account(rpm(5))}, rpm(5)},
		{"3: a file of a program over a profile", steps{set(rpm(4)), restart, profile, load}, rpm(4)},
		{"3: a file of an account over a profile", steps{account(rpm(9)), restart, profile, load}, rpm(9)},
		{"3: of both", steps{set(rpm(4)), account(q{MaxTPM: 90}), restart}, q{MaxRPM: 4, MaxTPM: 90}},
		{"5: a profile over a file of a profile", steps{profile, restart, profile, load}, inProfile},
		{"6: a file of a profile", steps{profile, restart}, inProfile},

		{"the account names the model no more", steps{profile, account(rpm(9)), func(rl *ratelimit.RateLimiter) { rl.SetAccountQuotas(nil) }}, inProfile},
		{"nor does a file that it had left", steps{account(rpm(9)), restart, func(rl *ratelimit.RateLimiter) { rl.SetAccountQuotas(quotas{"o1": rpm(1)}) }}, q{}},
		{"nor does a restart bring it back", steps{account(rpm(9)), func(rl *ratelimit.RateLimiter) { rl.SetAccountQuotas(nil) }, restart}, q{}},

		{"taken back: to the account", steps{profile, account(rpm(9)), set(rpm(4)), remove}, rpm(9)},
		{"taken back: to the profile", steps{profile, set(rpm(4)), remove}, inProfile},
		{"taken back: to nothing", steps{set(rpm(4)), remove}, q{}},
		{"taken back: Load does not bring it back", steps{set(rpm(4)), restart, set(rpm(4)), remove, load}, q{}},
		{"taken back: nor a restart", steps{set(rpm(4)), restart, set(rpm(5)), restart, remove, restart}, q{}},
		{"taken back: what an earlier process said", steps{set(rpm(4)), account(rpm(9)), restart, remove, load}, rpm(9)},
		{"taken back: what an earlier process said, beneath the account", steps{set(rpm(4)), restart, account(rpm(9)), remove, restart, func(rl *ratelimit.RateLimiter) { rl.SetAccountQuotas(nil) }}, q{}},
		{"taken back: what an earlier process said beside another", steps{set(rpm(4)), restart, profile, set(rpm(5)), load, remove, load}, inProfile},
		{"taken back: nothing was said", steps{account(rpm(9)), remove, restart, remove}, rpm(9)},

		{"learned: below the account, over a restart", steps{account(rpm(9)), says(5), restart}, rpm(5)},
		{"learned: not above it", steps{account(rpm(9)), says(5), says(50)}, rpm(9)},
		{"learned: above what a file has of it", steps{account(rpm(9)), restart, says(50)}, rpm(50)},
		{"learned: until the option is off", steps{account(rpm(9)), says(5), deaf}, rpm(9)},
		{"learned: of a program", steps{set(rpm(9)), says(5), deaf}, rpm(9)},
		{"learned: of a profile", steps{profile, says(5000), deaf}, inProfile},
		{"learned: but not beside a quota that covers all", steps{says(5), func(rl *ratelimit.RateLimiter) { rl.SetQuota("*", rpm(2)) }}, rpm(2)},
		{"learned: nor beside one of a pattern", steps{says(5), func(rl *ratelimit.RateLimiter) { rl.SetQuota("gpt-*", rpm(2)) }}, rpm(2)},
		{"learned: below it", steps{says(5), func(rl *ratelimit.RateLimiter) { rl.SetQuota("gpt-*", rpm(7)) }, says(5)}, rpm(5)},
		{"learned: nor is it after a restart", steps{says(5), restart, func(rl *ratelimit.RateLimiter) { rl.SetQuota("*", rpm(2)) }, load}, rpm(2)},
		{"learned: a copy goes with a longer pattern", steps{func(rl *ratelimit.RateLimiter) { rl.SetQuota("*", rpm(9)) }, says(5), func(rl *ratelimit.RateLimiter) { rl.SetQuota("gpt-*", rpm(2)) }}, rpm(2)},
		{"learned: and stays with a shorter one", steps{func(rl *ratelimit.RateLimiter) { rl.SetQuota("gpt-*", rpm(9)) }, says(5), func(rl *ratelimit.RateLimiter) { rl.SetQuota("*", rpm(2)) }}, rpm(5)},
		{"learned: of a model without a quota", steps{says(5), deaf}, q{}},
		{"learned: and gone with the next Persist", steps{says(5), deaf, restart}, q{}},
		{"learned: forgotten", steps{profile, says(5), forget}, inProfile},
		{"learned: forgotten over a restart", steps{profile, says(5), restart, forget, restart}, inProfile},
		{"learned: all forgotten", steps{says(5), func(rl *ratelimit.RateLimiter) { rl.ForgetLearned("") }}, q{}},
		{"learned: another forgotten", steps{says(5), func(rl *ratelimit.RateLimiter) { rl.ForgetLearned("o1") }}, rpm(5)},
	}
	for _, backend := range backends {
		for _, tt := range tests {
			t.Run(backend+"/"+tt.name, func(t *testing.T) {
				cfg := ratelimit.Config{
					Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), LearnQuotas: true,
					Quotas: quotas{"other": {MaxRPM: 1}},
				}
				rl := newLimiterWith(t, cfg)
				for _, s := range tt.steps {
					if do, is := s.(func(*ratelimit.RateLimiter)); is {
						do(rl)
						continue
					}
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
					limitertest.Close(t, rl)
					cfg.LearnQuotas = s == restart
					rl = newLimiterWith(t, cfg)
					if err := rl.Load(); err != nil {
						t.Fatal(err)
					}
				}
				if got, ok := quotaOf(rl, model); got != tt.want || ok != (tt.want != q{}) {
					t.Errorf("%+v, %t, want %+v", got, ok, tt.want)
				}
				limitertest.Close(t, rl)
			})
		}
	}
}

// Limits with one that cannot be are refused as a whole, and OnError hears of it.
func TestAccountQuotasAreRefusedAsAWhole(t *testing.T) {
	for name, bad := range map[string]ratelimit.ModelQuota{"a limit": {MaxRPM: -1}, "a zone": {MaxRPD: 1, DayZone: "Mars/Base"}} {
		synctest.Test(t, func(t *testing.T) {
			var told []error
			rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"other": {}}, OnError: func(err error) { told = append(told, err) }})
			rl.SetAccountQuotas(quotas{"m": {MaxRPM: 5}})
			rl.SetAccountQuotas(quotas{"m": {MaxRPM: 7}, "n": bad})
			synctest.Wait()
			if q, _ := quotaOf(rl, "m"); q.MaxRPM != 5 || len(rl.Quotas) != 2 {
				t.Errorf("%s: %v", name, rl.Quotas)
			}
			if len(told) != 1 || !errors.Is(told[0], ratelimit.ErrInvalidQuota) || !strings.HasPrefix(told[0].Error(), "set account quotas: ") {
				t.Errorf("%s: told %v", name, told)
			}
			limitertest.Close(t, rl)
		})
	}
}

// Waiters are served or refused at once, and days follow the zone.
func TestQuotasOfOthersAndWaiters(t *testing.T) {
	for name, change := range map[string]func(rl *ratelimit.RateLimiter, tpm int){
		"SetAccountQuotas": func(rl *ratelimit.RateLimiter, tpm int) {
			rl.SetAccountQuotas(quotas{"m": {MaxTPM: tpm, MaxTPD: 1000, DayZone: "UTC"}})
		},
		"RemoveQuota": func(rl *ratelimit.RateLimiter, tpm int) {
			rl.SetAccountQuotas(quotas{"m": {MaxTPM: tpm, MaxTPD: 1000, DayZone: "UTC"}})
			rl.RemoveQuota("m")
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 100})
			rl.RemoveQuota("m")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"other": {}}})
			rl.SetAccountQuotas(quotas{"m": {MaxTPM: 100}})
			rl.RecordUsage("m", 100, 0)
			var errs [2]error
			for i, tokens := range []int{60, 40} {
				go func() { _, errs[i] = rl.Acquire(t.Context(), "m", tokens, 0) }()
				synctest.Wait()
			}
			change(rl, 50)
			synctest.Wait()
			if !errors.Is(errs[0], ratelimit.ErrNeverFits) || rl.Stats("m").Waiting != 1 {
				t.Errorf("%s: what fits no more: %v, and %d wait", name, errs[0], rl.Stats("m").Waiting)
			}
			change(rl, 500)
			synctest.Wait()
			if got := rl.Stats("m"); got.Waiting != 0 || got.TPM != 140 || errs[1] != nil {
				t.Errorf("%s: with more: %+v, %v", name, got, errs[1])
			}
			if got, want := rl.State["m"].DayStart, time.Now().UTC().Truncate(24*time.Hour); !got.Equal(want) {
				t.Errorf("%s: the day begins at %v, want %v", name, got, want)
			}
		})
	}
}

// A model that loses its quota has the one that covers it, with its days.
func TestRemoveQuotaGoesBackToTheCover(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"*": {MaxRPM: 3}, "claude-*": {MaxRPM: 2}, "claude-x": {MaxRPM: 1, DayZone: "UTC"}}})
	for _, want := range []int{1, 2, 3} {
		if q, _ := quotaOf(rl, "claude-x"); q.MaxRPM != want {
			t.Errorf("%+v, want %d", q, want)
		}
		for range want {
			if _, d := rl.Reserve("claude-x", 1, 1); !d.Allowed {
				t.Errorf("under %d: %+v", want, d)
			}
		}
		if _, d := rl.Reserve("claude-x", 1, 1); d.Allowed {
			t.Errorf("under %d: one more", want)
		}
		rl.Reset("claude-x")
		rl.RemoveQuota([]string{"claude-x", "claude-*", "*"}[want-1])
	}
	if q, ok := quotaOf(rl, "claude-x"); ok || len(rl.Quotas) != 0 {
		t.Errorf("%+v of %v", q, rl.Quotas)
	}
	rl.RemoveQuota("claude-x")
}

// An alias is set, taken back and named by the account as what it stands for; a version is a name
// of its own.
func TestQuotasOfAliases(t *testing.T) {
	for _, match := range []bool{false, true} {
		rl := newLimiterWith(t, ratelimit.Config{
			MatchVersions: match, Aliases: map[string]string{"fast": "m", "quick": "m", "slow": "n"}, Quotas: quotas{"m": {MaxRPM: 1}},
		})
		want := func(what string, want quotas) {
			t.Helper()
			if got := fmt.Sprint(rl.Quotas); got != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		rl.SetQuota("fast", ratelimit.ModelQuota{MaxRPM: 2})
		want("set", quotas{"m": {MaxRPM: 2}})
		rl.SetQuota("m-2024-08-06", ratelimit.ModelQuota{MaxRPM: 3})
		want("a version", quotas{"m": {MaxRPM: 2}, "m-2024-08-06": {MaxRPM: 3}})
		rl.RemoveQuota("m-2024-08-06")
		rl.RemoveQuota("quick")
		want("taken back", quotas{})
		rl.SetAccountQuotas(quotas{"quick": {MaxRPM: 5}, "fast": {MaxRPM: 4}, "slow": {MaxRPM: 6}, "n": {MaxRPM: 7}})
		want("the account", quotas{"m": {MaxRPM: 4}, "n": {MaxRPM: 7}})
	}
}

// What a version before origins has written loads as it did, and it reads what this one writes: it
// passes over the section of origins.
func TestOriginsInYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := newLimiterWith(t, ratelimit.Config{FilePath: path, LearnQuotas: true, Quotas: quotas{"m": {MaxRPM: 4}, "z": {MaxRPD: 1, DayZone: "UTC", Burst: time.Second}}})
	rl.SetAccountQuotas(quotas{"m": {MaxRPM: 9, MaxTPM: 90}})
	rl.Observe("m", limits{TPM: limit(50)})
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	text := statefile.Content(t, path)
	const want = `quotas:
    m:
        max_rpm: 4
        max_tpm: 50
        max_rpd: 0
    z:
        max_rpm: 0
        max_tpm: 0
        max_rpd: 1
        day_zone: UTC
        burst: 1s
state: {}
origins:
    m:
        program:
            max_rpm: 4
            max_tpm: 0
            max_rpd: 0
        account:
            max_rpm: 9
            max_tpm: 90
            max_rpd: 0
        learned:
            max_rpm: 0
            max_tpm: 50
            max_rpd: 0
`
	if text != want {
		t.Errorf("the file is\n%s", text)
	}
	// The same in another layout, and with a quota that somebody changed.
	changed := strings.ReplaceAll(strings.Replace(want, "max_rpm: 4", "max_rpm: 5", 1), "state: {}", "state: {} # none")
	for text, want := range map[string]ratelimit.ModelQuota{
		"{" + "\"origins\": {\"m\": {\"account\": {\"max_rpm\": 3}, \"later\": {\"max_rpm\": 1}}}, \"quotas\": {\"m\": {\"max_rpm\": 3}}}": {MaxRPM: 3},
		changed: {MaxRPM: 5, MaxTPM: 50},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rl := newLimiterWith(t, ratelimit.Config{FilePath: path, Quotas: quotas{"other": {}}})
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		if got, _ := quotaOf(rl, "m"); got != want {
			t.Errorf("%+v, want %+v of\n%s", got, want, text)
		}
	}
	for _, bad := range []string{
		"origins:\n    m:\n        account:\n            max_rpm: -1\n", "origins:\n    m:\n        account: 5\n",
		"origins:\n    m: 5\n", "origins:\n    m:\n        account:\n            day_zone: Mars/Base\n",
	} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rl.Load(); !errors.Is(err, ratelimit.ErrCorruptState) || !strings.Contains(err.Error(), "origins.m") {
			t.Errorf("%v of %q", err, bad)
		}
	}
}

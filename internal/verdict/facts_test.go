package verdict

import (
	"math"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 2, 20, 3, 14, 15, 0, time.UTC)

// The lines as a person reads them.
func TestText(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts Facts
		want  string
	}{
		{"a quota that others use, too", Facts{
			Model: "openai/gpt-4o-2024-08-06", Counted: "gpt-4o", Quota: "gpt-4o", Origin: OriginGiven,
			Use: Use{Limits: []Limit{
				{Limit: "max_in_flight", Max: 8, Used: 3}, {Limit: "max_rpd", Max: 10_000, Used: 412},
				{Limit: "max_tpd", Max: 900_000, Used: 1},
				{Limit: "max_rpm", Max: 500, Used: 12}, {Limit: "max_itpm", Max: 9000, Used: 9}, {Limit: "max_otpm", Max: 9000, Used: 8},
				{Limit: "max_tpm", Max: 20_000, Used: 16_852, External: 3148, RoomAt: now.Add(12*time.Second + 310*time.Millisecond + 1)},
			}, InFlight: 3, Waiting: 2},
			Next: Next{Queued: true, Reason: "others wait for the model and come first", RetryAfter: 12*time.Second + 310*time.Millisecond + 1},
		}, `"openai/gpt-4o-2024-08-06", counted as "gpt-4o", waits: tokens per minute are used up; others wait for the model and come first
  quota: its own, of a profile or a file
  calls in flight: 3 of 8 used
  requests per day: 412 of 10000 used
  tokens per day: 1 of 900000 used
  requests per minute: 12 of 500 used
  input tokens per minute: 9 of 9000 used
  output tokens per minute: 8 of 9000 used
  tokens per minute: 16852 of 20000 used, and 3148 by others of the account, full for 12.4s
  in line: 2 callers
  next room: for a request of one token when the line has passed, in 12.4s at the earliest`},
		{"a cooldown over midnight", Facts{
			Model: "m", Counted: "m", Quota: "*", Origin: OriginProgram,
			Use:  Use{Limits: []Limit{{Limit: "max_rpm", Max: 5}}, InFlight: 1, Waiting: 1, CooldownUntil: now.Add(25 * time.Hour), Cause: "daily_quota"},
			Next: Next{Reason: "the model is in a cooldown: the provider said that the day's quota is used up", RetryAfter: 25 * time.Hour},
		}, `"m" waits: the model is in a cooldown: the provider said that the day's quota is used up
  quota: that of "*", set by the program
  requests per minute: 0 of 5 used
  calls in flight: 1, unlimited
  in line: 1 caller
  cooldown: until 2026-02-21 04:14:15 UTC, in 25h0m0s: the provider said that the day's quota is used up
  next room: for a request of one token in 25h0m0s, at 2026-02-21 04:14:15 UTC`},
		{"no quota", Facts{Model: "m", Counted: "m", Next: Next{Allowed: true, Reason: "no quota for this model"}},
			`"m" does not wait: no quota for this model
  quota: none
  next room: for a request of one token now`},
		{"unlimited", Facts{Model: "m", Counted: "m", Quota: "m", Origin: OriginLearned, Next: Next{Allowed: true, Reason: "the model is unlimited"}},
			`"m" does not wait: the model is unlimited
  quota: its own, corrected by the provider's reports
  limits: none
  next room: for a request of one token now`},
		{"invalid, and the store is down", Facts{
			Model: "a\nb", Counted: "a\nb", Quota: "a\nb", Origin: OriginShared, Use: Use{Limits: []Limit{{Limit: "max_rpm", Max: -1}, {Limit: "max_ipm", Max: 1}}},
			Next: Next{Never: true, Reason: "invalid quota"}, StoreError: "the disk is full",
		}, `"a\nb" never passes: invalid quota
  quota: its own, set in the shared database
  requests per minute: 0 of -1 used
  max_ipm: 0 of 1 used
  next room: none, waiting does not help
  shared database: cannot be used: the disk is full`},
		{"calls in flight", Facts{
			Model: "m", Counted: "m", Quota: "m", Origin: OriginProgram, Use: Use{Limits: []Limit{{Limit: "max_in_flight", Max: 1, Used: 1}}, InFlight: 1, CooldownUntil: now, Cause: "overloaded"},
			Next: Next{Reason: "calls in flight are at the limit"},
		}, `"m" waits: calls in flight are at the limit
  quota: its own, set by the program
  calls in flight: 1 of 1 used
  next room: for a request of one token at a time that is not known`},
		{"behind a large one", Facts{
			Model: "m", Counted: "m", Quota: "m", Origin: "elsewhere", Use: Use{Limits: []Limit{{Limit: "max_tpm", Max: 9}}, Waiting: 1, CooldownUntil: now.Add(time.Second), Cause: "own"},
			Next: Next{Queued: true, Reason: "others wait"},
		}, `"m" waits: the model is in a cooldown; others wait
  quota: its own
  tokens per minute: 0 of 9 used
  in line: 1 caller
  cooldown: until 03:14:16 UTC, in 1s: the program asked for it: own
  next room: for a request of one token when the line has passed`},
		{"a line, old calls, a refusal, an old profile", Facts{
			Model: "gpt-4o", Counted: "gpt-4o", Quota: "gpt-4o", Origin: OriginGiven, Provider: "openai", ReadOn: now.Add(-100*24*time.Hour - time.Hour),
			Use: Use{Limits: []Limit{{Limit: "max_in_flight", Max: 5, Used: 5}}, InFlight: 5, Waiting: 3}, OldestOpen: 64*time.Second + 999*time.Millisecond, OpenOverMinute: 2,
			Line:    []Waiter{{41*time.Second + 900*time.Millisecond, 90_000, 800, ""}, {12 * time.Second, 5, 5, ""}, {900*time.Millisecond + 1, 1, 0, ""}},
			Next:    Next{Queued: true, Reason: "others wait"},
			Refused: &Refused{At: now.Add(-3 * time.Second), Code: "in_flight_exceeded", Reason: "calls in flight are at the limit"},
		}, `"gpt-4o" waits: calls in flight are at the limit; others wait
  quota: its own, of the profile of openai, read on 2025-11-12, 100 days ago
  calls in flight: 5 of 5 used
  oldest open call: at least 1m4s old; 2 calls are open for more than a minute
  in line: 3 callers, for 41s, 12s and 900ms; the first asks for 90000 input tokens and 800 output tokens
  next room: for a request of one token when the line has passed
  last refusal: 3s ago, in_flight_exceeded: calls in flight are at the limit`},
		{"a long line, a leaked call, a profile of today", Facts{
			Model: "m", Counted: "m", Quota: "*-pro", Origin: OriginGiven, Provider: "gemini", ReadOn: now.Add(-time.Hour),
			Use: Use{InFlight: 1, Waiting: 6}, OldestOpen: time.Hour, OpenOverMinute: 1,
			Line: []Waiter{{6, 1, 0, ""}, {5, 1, 1, ""}, {4, 1, 1, ""}, {3, 1, 1, ""}, {2, 1, 1, ""}, {1, 1, 1, ""}},
			Next: Next{Allowed: true, Reason: "within the quota"}, Refused: &Refused{At: now.Add(time.Second), Code: "queued", Reason: "others wait"},
		}, `"m" does not wait: within the quota
  quota: that of "*-pro", of the profile of gemini, read on 2026-02-20
  limits: none
  calls in flight: 1, unlimited
  oldest open call: at least 1h0m0s old; 1 call is open for more than a minute
  in line: 6 callers, for 0s, 0s, 0s, 0s, 0s, …; the first asks for 1 input token
  next room: for a request of one token now
  last refusal: 0s ago, queued: others wait`},
		{"two in line, young calls", Facts{
			Model: "m", Counted: "m", Quota: "m", Origin: OriginLearned, ReadOn: now, Use: Use{InFlight: 1, Waiting: 2}, OldestOpen: 999 * time.Millisecond,
			Line: []Waiter{{time.Minute, 0, 1, ""}, {time.Second, 1, 1, ""}}, Next: Next{Reason: "full"},
		}, `"m" waits: full
  quota: its own, corrected by the provider's reports
  limits: none
  calls in flight: 1, unlimited
  in line: 2 callers, for 1m0s and 1s; the first asks for 0 input tokens and 1 output token
  next room: for a request of one token at a time that is not known`},
	} {
		tt.facts.At = now
		if got := tt.facts.Text(); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// Times are shown in the zone of the moment.
func TestTextInAZone(t *testing.T) {
	f := Facts{Model: "m", Counted: "m", At: now.In(time.FixedZone("CET", 3600)), Use: Use{CooldownUntil: now.Add(time.Minute), Cause: "caller"}, Next: Next{RetryAfter: time.Minute}}
	if got := f.Text(); strings.Count(got, "04:15:15 CET") != 2 {
		t.Error(got)
	}
}

// A duration that is shown is never too short, nor much too long.
func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1ms", time.Millisecond: "1ms", 999*time.Millisecond + 1: "1s", 1500*time.Millisecond + 1: "1.6s", 59*time.Second + 950*time.Millisecond: "1m0s",
		time.Minute: "1m0s", time.Minute + 1: "1m1s", 90 * time.Minute: "1h30m0s", math.MaxInt64: "2562047h47m16s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}

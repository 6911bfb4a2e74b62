package verdict

import (
	"testing"
	"time"
)

// found returns what is known of limits that are searched for.
func found(rate, slots search) *Found {
	return &Found{
		RPM: rate.level, FloorRPM: rate.floor, CeilingRPM: rate.ceiling, RefusedRPM: rate.refusedAt, RateLoweredAt: rate.loweredAt,
		InFlight: slots.level, FloorInFlight: slots.floor, CeilingInFlight: slots.ceiling,
		OverloadedInFlight: slots.refusedAt, InFlightLoweredAt: slots.loweredAt,
	}
}

// The lines on limits that are searched for, as a person reads them.
func TestFoundText(t *testing.T) {
	const queued = "others wait for the model and come first"
	rate := search{level: 814, floor: 30, ceiling: 6000, refusedAt: 857, loweredAt: now.Add(-1500 * time.Millisecond)}
	slots := search{level: 20, floor: 2, ceiling: 64, refusedAt: 32, loweredAt: now.Add(-222 * time.Second)}
	for _, tt := range []struct {
		name  string
		facts Facts
		want  string
	}{
		{"at the beginning", Facts{
			Use:  Use{Found: found(search{level: 60, floor: 30, ceiling: 6000}, search{level: 4, floor: 2, ceiling: 64})},
			Next: Next{Allowed: true, Reason: "within the quota"},
		}, `"m" does not wait: within the quota
  quota: its own, set by the program
  found: 60 requests per minute, evenly spaced, between 30 and 6000
  found: 4 calls in flight (0 now), between 2 and 64
  next room: for a request of one token now`},
		{"a line behind the rate", Facts{
			Use: Use{Found: found(rate, slots), InFlight: 14, Waiting: 1}, Line: []Waiter{{time.Second, 900, 300, ""}},
			Next: Next{Queued: true, Reason: queued, RetryAfter: 30 * time.Millisecond},
		}, `"m" waits: requests are spaced by the rate that was found; others wait for the model and come first
  quota: its own, set by the program
  found: 814 requests per minute, evenly spaced, between 30 and 6000; the provider last refused at 857; lowered 1s ago
  found: 20 calls in flight (14 now), between 2 and 64; the provider was last overloaded at 32; lowered 3m42s ago
  in line: 1 caller, for 1s; the first asks for 900 input tokens and 300 output tokens
  next room: for a request of one token when the line has passed, in 30ms at the earliest`},
		{"a line behind the calls in flight", Facts{
			Use:  Use{Found: found(search{}, slots), Limits: []Limit{{Limit: "max_in_flight", Max: 50, Used: 20}}, InFlight: 20, Waiting: 1},
			Next: Next{Queued: true, Reason: queued},
		}, `"m" waits: calls in flight are at the limit that was found; others wait for the model and come first
  quota: its own, set by the program
  calls in flight: 20 of 50 used
  found: 20 calls in flight (20 now), between 2 and 64; the provider was last overloaded at 32; lowered 3m42s ago
  in line: 1 caller
  next room: for a request of one token when the line has passed`},
		{"another limit is in the way", Facts{
			Use:  Use{Found: found(rate, search{}), Limits: []Limit{{Limit: "max_rpm", Max: 5, Used: 5}}, InFlight: 1, Waiting: 1},
			Next: Next{Queued: true, Reason: queued, RetryAfter: time.Second},
		}, `"m" waits: requests per minute are used up; others wait for the model and come first
  quota: its own, set by the program
  requests per minute: 5 of 5 used
  found: 814 requests per minute, evenly spaced, between 30 and 6000; the provider last refused at 857; lowered 1s ago
  calls in flight: 1, unlimited
  in line: 1 caller
  next room: for a request of one token when the line has passed, in 1s at the earliest`},
		{"the provider says its limits", Facts{
			Use:  Use{Found: &Found{FloorRPM: 30, CeilingRPM: 6000, Told: true}, Limits: []Limit{{Limit: "max_rpm", Max: 500, Used: 1}}, Waiting: 1},
			Next: Next{Queued: true, Reason: queued, RetryAfter: time.Second},
		}, `"m" waits: others wait for the model and come first
  quota: its own, set by the program
  requests per minute: 1 of 500 used
  found: no rate, because the provider says its limits
  in line: 1 caller
  next room: for a request of one token when the line has passed, in 1s at the earliest`},
	} {
		f := tt.facts
		f.Model, f.Counted, f.Quota, f.Origin, f.At = "m", "m", "m", OriginProgram, now
		if got := f.Text(); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

package verdict

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

// What is used up of a pool is why a model waits, unless it is the model's own limit; budgets,
// searches and classes of the pool are told as those of the model are.
func TestTextOfPools(t *testing.T) {
	queued := Next{Queued: true, Reason: "others wait for the model and come first"}
	full := Use{Limits: []Limit{{Limit: "max_rpm", Max: 60, Used: 60}}, Waiting: 3, WaitingByClass: map[string]int{"people": 2, "": 1}}
	for _, tt := range []struct {
		name  string
		facts Facts
		want  string
	}{
		{"a full pool", Facts{
			Model: "m", Counted: "m", Quota: "m", Use: Use{Waiting: 2, WaitingByClass: map[string]int{"people": 1, "batch": 1}}, Next: queued,
			Pools: []Pool{{"free", Use{}}, {"org", full}},
		}, `"m" waits: the pool "org": requests per minute are used up; others wait for the model and come first
  quota: its own
  limits: none
  pool "free": no limits
  pool "org": requests per minute: 60 of 60 used
  pool "org": 3 callers (2 of "people", 1 of no class) in line
  in line: 2 callers (1 of "batch", 1 of "people")
  next room: for a request of one token when the line has passed`},
		{"a model that is full itself", Facts{
			Model: "m", Counted: "m", Quota: "m", Use: Use{Limits: []Limit{{Limit: "max_rpd", Max: 5, Used: 5}}, Waiting: 1}, Next: queued,
			Pools: []Pool{{"org", full}},
		}, `"m" waits: requests per day are used up; others wait for the model and come first
  quota: its own
  requests per day: 5 of 5 used
  pool "org": requests per minute: 60 of 60 used
  pool "org": 3 callers (2 of "people", 1 of no class) in line
  in line: 1 caller
  next room: for a request of one token when the line has passed`},
		{"a budget, a search and a cooldown", Facts{
			Model: "m", Counted: "m", Quota: "m", At: now, Use: Use{Waiting: 1}, Next: queued,
			Pools: []Pool{{"a\nb", Use{
				Budgets:  []Budget{{Max: money.USD(5), Spent: money.USD(5), Until: now.Add(time.Hour)}, {Limit: "max_spend_per_month", Spent: money.USD(7)}},
				Found:    found(search{level: 60, floor: 30, ceiling: 90}, search{level: 4, floor: 2, ceiling: 8, refusedAt: 5}),
				InFlight: 3, CooldownUntil: now.Add(time.Second), Cause: "caller",
			}}},
		}, `"m" waits: the pool "a\nb": the spend of the day is used up; others wait for the model and come first
  quota: its own
  limits: none
  pool "a\nb": spend per day: $5.00 of $5.00, until 04:14:15 UTC
  pool "a\nb": spend per month: $7.00
  pool "a\nb": found: 60 requests per minute, evenly spaced, between 30 and 90
  pool "a\nb": found: 4 calls in flight (3 now), between 2 and 8; the provider was last overloaded at 5
  pool "a\nb": cooldown until 03:14:16 UTC, in 1s: the program asked for it
  in line: 1 caller
  next room: for a request of one token when the line has passed`},
		{"calls at the limit that was found", Facts{
			Model: "m", Counted: "m", Quota: "m", Use: Use{Waiting: 1}, Next: queued,
			Pools: []Pool{{"p", Use{Found: found(search{}, search{level: 4, floor: 2, ceiling: 8}), InFlight: 4}}},
		}, `"m" waits: the pool "p": calls in flight are at the limit that was found; others wait for the model and come first
  quota: its own
  limits: none
  pool "p": found: 4 calls in flight (4 now), between 2 and 8
  in line: 1 caller
  next room: for a request of one token when the line has passed`},
		{"the month of the model", Facts{
			Model: "m", Counted: "m", Quota: "m", Use: Use{Budgets: []Budget{{Limit: "max_spend_per_month", Max: 9, Spent: 10}}, Waiting: 1}, Next: queued,
			Pools: []Pool{{"p", Use{Found: &Found{Told: true}}}},
		}, `"m" waits: the spend of the month is used up; others wait for the model and come first
  quota: its own
  spend per month: $0.00001 of $0.000009
  pool "p": found: no rate, because the provider says its limits
  in line: 1 caller
  next room: for a request of one token when the line has passed`},
	} {
		if got := tt.facts.Text(); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

package verdict_test

import (
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

var now = account.Now{Instant: 1e15, Wall: 1_790_000_000e9}

func later(d time.Duration) account.Now {
	return account.Now{Instant: now.Instant + int64(d), Wall: now.Wall + int64(d)}
}

// used returns an account with a quota that has charged requests, each of 10 input and 5 output
// tokens, at now.
func used(name string, q state.Quota, requests int) *account.Account {
	a := account.New(name)
	a.SetQuota(q, true, nil, now, account.Minute)
	for range requests {
		a.Record(nil, state.Count{Input: 10, Output: 5}, 0, now, account.Minute)
	}
	return a
}

func item(a *account.Account, asked string, input, output int) verdict.Item {
	return verdict.Item{Account: a, Asked: asked, Ask: account.Ask{
		Cost: state.Cost{Requests: 1, Count: state.Count{Input: input, Output: output}, Priced: true},
		Span: account.Minute, Patience: account.Minute + 1,
	}}
}

const minute = time.Minute + 1 // a charge counts up to and including the age of a minute

func TestEachLimitDenies(t *testing.T) {
	slots := used("m", state.Quota{MaxInFlight: 1}, 0)
	slots.InFlight = 1
	cooled := used("m", state.Quota{MaxRPM: 5}, 0)
	cooled.Cool(now.Wall+int64(3*time.Second), "caller")
	tests := []struct {
		name   string
		of     *account.Account
		ask    [2]int // input and output
		code   string
		reason string
		never  bool
		retry  time.Duration
	}{
		{"room", used("m", state.Quota{MaxRPM: 3, MaxTPM: 100}, 2), [2]int{70, 0}, "ok", "within the quota", false, 0},
		{"nothing is limited", used("m", state.Quota{}, 2), [2]int{70, 0}, "unlimited", "the model is unlimited", false, 0},
		{"no quota", account.New("m"), [2]int{70, 0}, "unknown_model", "no quota for this model", false, 0},
		{"negative estimate", used("m", state.Quota{MaxRPM: 3}, 0), [2]int{-1, 0}, "invalid_tokens", verdict.NegativeTokens, true, 0},
		{"negative limit", used("m", state.Quota{MaxRPM: -1}, 0), [2]int{1, 0}, "invalid_quota", "invalid quota: MaxRPM (max_rpm) is negative", true, 0},
		{"requests per minute", used("m", state.Quota{MaxRPM: 2}, 2), [2]int{1, 0}, "rpm_exceeded", "requests per minute are used up", false, minute},
		{"requests per day", used("m", state.Quota{MaxRPD: 2}, 2), [2]int{1, 0}, "rpd_exceeded", "requests per day are used up", false, 24 * time.Hour},
		{"tokens per day", used("m", state.Quota{MaxTPD: 30}, 2), [2]int{1, 0}, "tpd_exceeded", "tokens per day are used up", false, 24 * time.Hour},
		{"input tokens", used("m", state.Quota{MaxITPM: 20}, 2), [2]int{1, 0}, "itpm_exceeded", "input tokens per minute are used up", false, minute},
		{"output tokens", used("m", state.Quota{MaxOTPM: 10}, 2), [2]int{0, 1}, "otpm_exceeded", "output tokens per minute are used up", false, minute},
		{"all tokens", used("m", state.Quota{MaxTPM: 30}, 2), [2]int{0, 1}, "tpm_exceeded", "tokens per minute are used up", false, minute},
		{"calls in flight", slots, [2]int{1, 0}, "in_flight_exceeded", "calls in flight are at the limit", false, 0},
		{"a cooldown", cooled, [2]int{1, 0}, "cooldown", "", false, 3 * time.Second},
		{"larger than the limit", used("m", state.Quota{MaxTPM: 30}, 0), [2]int{31, 0}, "tpm_exceeded", "the request alone exceeds the tokens per minute", true, 0},
		{
			"the day is named, and the longest wait", used("m", state.Quota{MaxRPM: 2, MaxRPD: 2}, 2),
			[2]int{1, 0}, "rpd_exceeded", "requests per day are used up", false, 24 * time.Hour,
		},
		{
			"never names the limit that it exceeds", used("m", state.Quota{MaxRPM: 2, MaxTPM: 30}, 2),
			[2]int{31, 0}, "rpm_exceeded", "the request alone exceeds the tokens per minute", true, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			items := []verdict.Item{item(tt.of, "m", tt.ask[0], tt.ask[1])}
			v := verdict.Judge(items, nil, now)
			if v.Code != tt.code || v.Never != tt.never || v.Retry != tt.retry || tt.reason != "" && v.Reason != tt.reason {
				t.Errorf("%+v", v)
			}
			if passes := items[0].Passes(); v.Allowed != passes {
				t.Errorf("allowed %v, passes %v", v.Allowed, passes)
			}
			if v.Retry > 0 {
				for wait, want := range map[time.Duration]bool{v.Retry: true, v.Retry - 1: false} {
					if v := verdict.Judge(items, nil, later(wait)); v.Allowed != want {
						t.Errorf("after %v allowed: %v", wait, v.Allowed)
					}
				}
			}
		})
	}
}

func TestOrderOfDenial(t *testing.T) {
	full := state.Quota{
		MaxInFlight: 1, MaxRPD: 1, MaxTPD: 15, MaxSpendPerDay: 1, MaxRPM: 1, MaxITPM: 10, MaxOTPM: 5, MaxTPM: 15,
	}
	a := used("m", full, 1)
	a.InFlight = 1
	zone := &account.Zone{Month: account.Span{Begin: now.Wall - 1e9, End: now.Wall + int64(90*time.Hour)}}
	a.NeedSpend(zone).Charge(account.Bill{Most: 1}, now)
	a.Cool(now.Wall+1, "caller")
	order := []struct {
		code string
		lift func(*state.Quota)
	}{
		{"cooldown", func(*state.Quota) { a.Cool(0, "") }},
		{"in_flight_exceeded", func(q *state.Quota) { q.MaxInFlight = 0 }},
		{"rpd_exceeded", func(q *state.Quota) { q.MaxRPD = 0 }},
		{"tpd_exceeded", func(q *state.Quota) { q.MaxTPD = 0 }},
		{"spend_exceeded", func(q *state.Quota) { q.MaxSpendPerDay = 0 }},
		{"rpm_exceeded", func(q *state.Quota) { q.MaxRPM = 0 }},
		{"itpm_exceeded", func(q *state.Quota) { q.MaxITPM = 0 }},
		{"otpm_exceeded", func(q *state.Quota) { q.MaxOTPM = 0 }},
		{"tpm_exceeded", func(q *state.Quota) { q.MaxTPM = 100 }},
		{"ok", func(*state.Quota) {}},
	}
	q := full
	for _, step := range order {
		i := item(a, "m", 1, 1)
		i.Ask.Money = 1
		if v := verdict.Judge([]verdict.Item{i}, nil, now); v.Code != step.code {
			t.Fatalf("%s denies, want %s: %+v", v.Code, step.code, v)
		}
		step.lift(&q)
		a.SetQuota(q, true, nil, now, account.Minute)
	}
}

func TestSpend(t *testing.T) {
	zone := &account.Zone{Month: account.Span{Begin: now.Wall - 1e9, End: now.Wall + int64(90*time.Hour)}}
	tests := []struct {
		name               string
		day, month         money.Amount // limits
		spent, more        money.Amount
		priced             bool
		code, reason       string
		never, budgetIsOut bool
		retry              time.Duration
	}{
		{"room", 10, 10, 4, 6, true, "ok", "within the quota", false, false, 0},
		{"the day", 10, 0, 5, 6, true, "spend_exceeded", "the spend of the day is used up", false, true, 24 * time.Hour},
		{"the month", 0, 10, 5, 6, true, "spend_exceeded", "the spend of the month is used up", false, true, 90 * time.Hour},
		{"both", 10, 10, 5, 6, true, "spend_exceeded", "the spend of the day is used up; longest: the spend of the month is used up", false, true, 90 * time.Hour},
		{"more than a day's", 10, 0, 0, 11, true, "spend_exceeded", "the request alone may cost more than the spend of a day", true, true, 0},
		{"no price", 10, 0, 0, 0, false, "unpriced", "the model has no price (Config.Prices), and spend is limited", true, false, 0},
	}
	for _, tt := range tests {
		a := used("m", state.Quota{MaxSpendPerDay: tt.day, MaxSpendPerMonth: tt.month}, 0)
		a.NeedSpend(zone).Charge(account.Bill{Most: tt.spent}, now)
		i := item(a, "m", 1, 0)
		i.Ask.Money, i.Ask.Priced = tt.more, tt.priced
		v := verdict.Judge([]verdict.Item{i}, nil, now)
		if v.Code != tt.code || v.Reason != tt.reason || v.Never != tt.never || v.OverBudget != tt.budgetIsOut || v.Retry != tt.retry {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

func TestPoolsDenyAfterModels(t *testing.T) {
	model := func(q state.Quota, n int) verdict.Item { return item(used("m", q, n), "m", 1, 0) }
	pool := func(name string, q state.Quota, n int) verdict.Item {
		return item(used(state.PoolName(name), q, n), "m", 1, 0)
	}
	rpm, rpd, tiny := state.Quota{MaxRPM: 1}, state.Quota{MaxRPD: 1}, state.Quota{MaxRPM: 9, MaxTPM: 9}
	large := pool("b", tiny, 0)
	large.Ask.Input = 10
	tests := []struct {
		name   string
		items  []verdict.Item
		code   string
		item   int
		reason string
		never  bool
		retry  time.Duration
	}{
		{"all pass", []verdict.Item{model(rpm, 0), pool("a", rpm, 0)}, "ok", 0, "within the quota", false, 0},
		{"a pool", []verdict.Item{model(rpm, 0), pool("a", rpm, 1)}, "rpm_exceeded", 1, `the pool "a": requests per minute are used up`, false, minute},
		{
			"the model names it, the pool the wait", []verdict.Item{model(rpm, 1), pool("a", rpd, 1)}, "rpm_exceeded", 0,
			`requests per minute are used up; longest: the pool "a": requests per day are used up`, false, 24 * time.Hour,
		},
		{"the first pool", []verdict.Item{model(rpm, 0), pool("a", rpm, 1), pool("b", rpm, 1)}, "rpm_exceeded", 1, `the pool "a": requests per minute are used up`, false, minute},
		{
			"never, by the second pool", []verdict.Item{model(rpm, 0), pool("a", rpd, 1), large}, "rpd_exceeded", 1,
			`the pool "b": the request alone exceeds the tokens per minute`, true, 0,
		},
		{
			"two models", []verdict.Item{model(rpm, 1), item(used("n", rpd, 1), "n", 1, 0)}, "rpm_exceeded", 0,
			`requests per minute are used up; longest: model "n": requests per day are used up`, false, 24 * time.Hour,
		},
		{"an unknown model in a pool", []verdict.Item{item(account.New("m"), "m", 1, 0), pool("a", rpm, 0)}, "unknown_model", 0, "no quota for this model", false, 0},
	}
	for _, tt := range tests {
		v := verdict.Judge(tt.items, nil, now)
		if v.Code != tt.code || v.Item != tt.item || v.Reason != tt.reason || v.Never != tt.never || v.Retry != tt.retry {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
}

func TestSlotsHaveNoTime(t *testing.T) {
	busy := used("m", state.Quota{MaxInFlight: 1, MaxRPM: 1}, 1)
	busy.InFlight = 1
	if v := verdict.Judge([]verdict.Item{item(busy, "m", 1, 0)}, nil, now); v.Retry != 0 || v.Wait() != int64(minute) {
		t.Errorf("RetryAfter is %v, the minute's wait %v", v.Retry, v.Wait())
	}
	cooled := used("n", state.Quota{MaxRPM: 1}, 0)
	cooled.Cool(now.Wall+1e9, "caller")
	two := []verdict.Item{item(cooled, "n", 1, 0), item(busy, "m", 1, 0), item(used(state.PoolName("p"), state.Quota{MaxRPM: 1}, 1), "n", 1, 0)}
	if v := verdict.Judge(two, nil, now); v.Retry != 0 {
		t.Errorf("a call in flight of another model has to end, and RetryAfter is %v", v.Retry)
	}
}

func TestQueued(t *testing.T) {
	items := []verdict.Item{item(used("m", state.Quota{MaxRPM: 1}, 0), "m", 1, 0), item(used(state.PoolName("p"), state.Quota{MaxRPM: 1}, 0), "m", 1, 0)}
	v := verdict.Judge(items, nil, now)
	v.Queue(items, 1)
	if v.Allowed || v.Code != verdict.Queued || !strings.Contains(v.Reason, `the pool "p": others wait`) {
		t.Errorf("%+v", v)
	}
	never := verdict.Verdict{Never: true, Code: "tpm_exceeded"}
	if never.Queue(items, 0); never.Code == verdict.Queued {
		t.Error("what never passes is queued")
	}
}

func TestHopeless(t *testing.T) {
	open := used("m", state.Quota{MaxTPM: 100}, 0)
	open.Record(nil, state.Count{Input: 60}, 0, now, account.Minute)
	tests := []struct {
		name     string
		open     int // tokens of open calls
		deadline time.Duration
		want     bool
	}{
		{"it opens in time", 0, time.Minute + 1, false},
		{"a nanosecond too late", 0, time.Minute, true},
		{"an open call may give it back", 50, time.Second, false},
		{"an open call gives back too little", 9, time.Second, true},
	}
	for _, tt := range tests {
		open.Open.Input = tt.open
		items := []verdict.Item{item(open, "m", 50, 0)}
		v := verdict.Judge(items, nil, now)
		if got := verdict.IsHopeless(items, &v, now.Instant+int64(tt.deadline), now); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

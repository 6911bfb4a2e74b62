package verdict_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Deny says what Judge says where plain limits deny, and nothing where they do not.
func TestDenyIsJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	denied := make(map[string]int)
	for range 20_000 {
		a := anyAccount(r)
		at := later(time.Duration(r.Int64N(int64([...]time.Duration{time.Second, 2 * time.Minute, 30 * time.Hour}[r.IntN(3)]))))
		i := item(a, "m", r.IntN(40), r.IntN(40))
		i.Ask.Requests, i.Ask.Span = 1+r.IntN(2), account.Minute+r.Int64N(3)*int64(time.Second)
		want := verdict.Judge([]verdict.Item{i}, nil, at)
		var v verdict.Verdict
		if is := v.Deny(a, &i.Ask.Cost, i.Ask.Span, at); is != !want.Allowed {
			t.Fatalf("denies: %v; the judge: %+v; %+v", is, want, a.Quota)
		} else if is && v != want {
			t.Fatalf("%+v\nthe judge: %+v\n%+v, asked: %+v", v, want, a.Quota, i.Ask)
		}
		denied[v.Reason]++
	}
	t.Log(denied)
	if len(denied) < 20 {
		t.Errorf("only %d reasons", len(denied))
	}
}

// anyAccount returns an account with some plain limits, which has charged something.
func anyAccount(r *rand.Rand) *account.Account {
	var q state.Quota
	for of := range state.Dimensions {
		if r.IntN(2) == 0 {
			*q.Limit(of) = [...]int{1, 3, 30, 100, 200, math.MaxInt}[r.IntN(6)]
		}
	}
	if q.IsUnlimited() {
		q.MaxRPM = 3
	}
	a := account.New("m")
	a.SetQuota(q, true, nil, now, account.Minute)
	for range r.IntN(12) {
		count := state.Count{Input: r.IntN(40), Output: r.IntN(40)}
		if r.IntN(100) == 0 {
			count.Input = math.MaxInt
		}
		a.Record(nil, count, 0, later(time.Duration(r.Int64N(int64(time.Second)))), account.Minute)
	}
	a.InFlight = r.IntN(4)
	return a
}

// Deny leaves to Judge what it cannot know.
func TestDenyKnowsItsBounds(t *testing.T) {
	cooled, reported, paced := state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 1, Burst: time.Second}
	for name, a := range map[string]*account.Account{
		"no quota":           account.New("m"),
		"a cooldown":         used("m", cooled, 2),
		"reports":            used("m", reported, 2),
		"a burst":            used("m", paced, 2),
		"spend":              used("m", state.Quota{MaxRPM: 1, MaxSpendPerDay: 1}, 2),
		"tokens of a month":  used("m", state.Quota{MaxRPM: 1, MaxTokensPerMonth: 1}, 2),
		"a limit is found":   used("m", state.Quota{MaxRPM: 1, AdaptiveFloorRPM: 1}, 2),
		"a quota is invalid": used("m", state.Quota{MaxRPM: 1, MaxTPM: -1}, 2),
		"a class is kept":    used("m", state.Quota{MaxRPM: 1}, 2),
	} {
		switch name {
		case "a cooldown":
			a.Cool(now.Wall+1, "caller")
		case "reports":
			a.Report(new(account.External))
		case "a class is kept":
			a.NeedUse("first")
		}
		var v verdict.Verdict
		if v.Deny(a, &state.Cost{Requests: 1}, account.Minute, now) || v != (verdict.Verdict{}) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

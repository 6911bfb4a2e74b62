package account_test

import (
	"math"
	"runtime"
	"testing"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

const span = account.Minute

// day is a zone whose days begin with whole days of UTC.
func zoneAt(wall int64) *account.Zone {
	day := time.Unix(0, wall).UTC().Truncate(24 * time.Hour)
	month := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
	return &account.Zone{
		Name:  "UTC",
		Day:   account.Span{Begin: day.UnixNano(), End: day.AddDate(0, 0, 1).UnixNano()},
		Month: account.Span{Begin: month.UnixNano(), End: month.AddDate(0, 1, 0).UnixNano()},
	}
}

// clock is the moments of a test: so long after a midnight.
type clock struct{ skew time.Duration }

var midnight = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano()

func (c clock) at(d time.Duration) account.Now {
	return account.Now{Instant: 1e15 + int64(d), Wall: midnight + int64(d+c.skew)}
}

func count(input, output int) state.Count { return state.Count{Input: input, Output: output} }

func charge(a *account.Account, used state.Count, now account.Now) *account.Call {
	a.Refresh(now, span)
	c := &account.Call{Tokens: used, At: now}
	c.ChargeTo(a, nil, now, span)
	return c
}

func commit(c *account.Call, a *account.Account, used state.Count, now account.Now) {
	a.Refresh(now, span)
	c.End(&account.Ending{How: account.Committed, Used: used, Now: now, Span: span})
}

func want(t *testing.T, a *account.Account, now account.Now, rpm, tpm, rpd, tpd int) {
	t.Helper()
	for of, want := range map[state.Dimension]int{state.RPM: rpm, state.TPM: tpm, state.RPD: rpd, state.TPD: tpd} {
		if got := a.Used(of, span, now); got != want {
			t.Errorf("%s: %d, want %d", state.Limits[of].Key, got, want)
		}
	}
}

func TestSettlement(t *testing.T) {
	var c clock
	tests := []struct {
		name               string
		after              time.Duration
		how                account.How
		used               state.Count
		rpm, tpm, rpd, tpd int
	}{
		{"less than the estimate", time.Second, account.Committed, count(3, 2), 1, 5, 1, 5},
		{"more than the estimate", time.Second, account.Committed, count(30, 2), 1, 32, 1, 32},
		{"at the end of the minute", time.Minute, account.Committed, count(30, 2), 1, 32, 1, 32},
		{"less, after the minute", time.Minute + 1, account.Committed, count(3, 2), 0, 0, 1, 5},
		{"more input and less output, after the minute", time.Minute + 1, account.Committed, count(30, 2), 0, 20, 1, 32},
		{"cancelled", time.Second, account.Cancelled, count(0, 0), 0, 0, 0, 0},
		{"cancelled after the minute", time.Hour, account.Cancelled, count(0, 0), 0, 0, 0, 0},
		{"expired", time.Second, account.Expired, count(10, 5), 1, 15, 1, 15},
		{"cancelled after the day", 25 * time.Hour, account.Cancelled, count(0, 0), 0, 0, 0, 0},
		{"more, after the day", 25 * time.Hour, account.Committed, count(30, 2), 0, 20, 0, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := account.New("m")
			call := charge(a, count(10, 5), c.at(0))
			now := c.at(tt.after)
			a.Refresh(now, span)
			call.End(&account.Ending{How: tt.how, Used: tt.used, Now: now, Span: span})
			want(t, a, now, tt.rpm, tt.tpm, tt.rpd, tt.tpd)
			if a.InFlight != 0 || a.Open != (account.Open{}) {
				t.Errorf("in flight: %d, %+v", a.InFlight, a.Open)
			}
		})
	}
}

func TestForgottenCall(t *testing.T) {
	var c clock
	a := account.New("m")
	soon, late := charge(a, count(10, 0), c.at(0)), charge(a, count(10, 0), c.at(0))
	a.Forget(c.at(0))
	want(t, a, c.at(0), 0, 0, 0, 0)
	if a.InFlight != 2 {
		t.Errorf("%d calls in flight, want 2", a.InFlight)
	}
	commit(soon, a, count(20, 0), c.at(time.Second))
	want(t, a, c.at(time.Second), 0, 0, 0, 0)
	commit(late, a, count(20, 0), c.at(2*time.Minute)) // it is above the estimate, and counts now
	want(t, a, c.at(2*time.Minute), 0, 10, 0, 10)
}

func TestArrival(t *testing.T) {
	var c clock
	a := account.New("m")
	call := charge(a, count(10, 0), c.at(0))
	if call.Arrive(c.at(-time.Second).Instant, c.at(time.Second), span); a.Open.Requests != 0 || a.Open.Arrived != 1 {
		t.Errorf("one that arrived is not given back: %+v", a.Open)
	}
	call.Arrive(c.at(30*time.Second).Instant, c.at(30*time.Second), span)
	want(t, a, c.at(90*time.Second), 1, 10, 1, 10) // it counts as of its arrival
	want(t, a, c.at(90*time.Second+1), 0, 0, 1, 10)
	a.Refresh(c.at(3*time.Minute), span)
	call.Arrive(c.at(2*time.Minute+30*time.Second).Instant, c.at(3*time.Minute), span)
	want(t, a, c.at(3*time.Minute), 1, 10, 1, 10) // it had left the minute
}

// A call of a day that is over is not charged to the present one (D1).
func TestArrivalInAnotherDay(t *testing.T) {
	var c clock
	a := account.New("m")
	zone := zoneAt(midnight)
	zoned := state.Quota{MaxRPD: 9, DayZone: "UTC"}
	a.SetQuota(zoned, true, zone, c.at(0), span)
	r1, r2 := charge(a, count(10, 0), c.at(time.Hour)), charge(a, count(10, 0), c.at(time.Hour))
	now := c.at(48 * time.Hour)
	*zone = *zoneAt(now.Wall)
	commit(r1, a, count(100, 0), now)
	r2.Arrive(c.at(48*time.Hour-5*time.Second).Instant, now, span)
	want(t, a, now, 1, 100, 0, 90)
	a.Forget(c.at(0)) // nor one that was forgotten
	later := c.at(49 * time.Hour)
	a.Refresh(later, span)
	r2.Arrive(c.at(47*time.Hour+59*time.Minute+59*time.Second).Instant, later, span)
	want(t, a, later, 0, 0, 0, 0)
}

func TestDay(t *testing.T) {
	var c clock
	zone := zoneAt(midnight)
	tests := []struct {
		name string
		zone *account.Zone
		at   time.Duration
		rpd  int
	}{
		{"24 hours from the first request", nil, 25*time.Hour - 1, 1},
		{"and no longer", nil, 25 * time.Hour, 0},
		{"to the midnight of a zone", zone, 24*time.Hour - 1, 1},
		{"and no longer", zone, 24 * time.Hour, 0},
	}
	for _, tt := range tests {
		a := account.New("m")
		q := state.Quota{MaxRPD: 9}
		if tt.zone != nil {
			q.DayZone = tt.zone.Name
		}
		a.SetQuota(q, true, tt.zone, c.at(0), span)
		a.Record(nil, count(1, 0), 0, c.at(time.Hour), span)
		if rpd := a.Used(state.RPD, span, c.at(tt.at)); rpd != tt.rpd {
			t.Errorf("%s: %d, want %d", tt.name, rpd, tt.rpd)
		}
	}
}

func TestClockIsSetBack(t *testing.T) {
	a := account.New("m")
	a.SetQuota(state.Quota{MaxRPD: 9, MaxSpendPerDay: 9}, true, nil, clock{}.at(0), span)
	s := a.NeedSpend(zoneAt(midnight))
	a.Record(nil, count(1, 0), 0, clock{}.at(0), span)
	s.Charge(account.Bill{Most: 5}, clock{}.at(0))
	back := clock{-2 * time.Hour}
	for _, step := range []struct {
		at   time.Duration
		used int
	}{{time.Second, 1}, {24 * time.Hour, 1}, {24*time.Hour + time.Second, 0}} { // a day from when it was noticed
		now := back.at(step.at)
		a.Refresh(now, span)
		s.Settle(now.Wall)
		if rpd := a.Used(state.RPD, span, now); rpd != step.used {
			t.Errorf("after %v: %d requests, want %d", step.at, rpd, step.used)
		}
		if spent := s.OfDay(now.Wall); spent != money.Amount(5*step.used) {
			t.Errorf("after %v: spent %d", step.at, spent)
		}
	}
}

func TestSharedSpendCountsWithoutOwn(t *testing.T) {
	now := clock{}.at(0)
	other, a := account.New("other"), account.New("m")
	a.SetQuota(state.Quota{MaxSpendPerMonth: 10}, true, nil, now, span)
	s := a.NeedSpend(zoneAt(midnight))
	s.Shared = other.NeedSpend(zoneAt(midnight))
	s.Shared.Charge(account.Bill{Most: 8}, now)
	ask := account.Ask{Cost: state.Cost{Money: 3, Priced: true}}
	if d := s.Deny(ask, now); d.IsNone() {
		t.Error("a budget counts what models without room have spent together, and lets more pass")
	}
	s.Charge(account.Bill{Most: 1}, now)
	if d := s.Deny(ask, now); !d.IsNone() {
		t.Errorf("it has its own: %+v", d.First())
	}
}

func TestSaturation(t *testing.T) {
	now := clock{}.at(0)
	a := account.New("m")
	large := charge(a, count(math.MaxInt, 0), now)
	charge(a, count(7, 0), now)
	want(t, a, now, 2, math.MaxInt, 2, math.MaxInt)
	commit(large, a, count(1, 0), now)
	want(t, a, now, 2, 8, 2, 8)
}

func TestReserveOfClasses(t *testing.T) {
	now := clock{}.at(0)
	a := account.New("m")
	a.SetQuota(state.Quota{MaxRPM: 10}, true, nil, now, span)
	reserves := []account.Reserve{{Class: "r", Percent: 30}}
	ask := account.Ask{Cost: state.Cost{Requests: 1}, Span: span, Patience: span + 1}
	kept := func(now account.Now, class string, requests int) int {
		ask.Class, ask.Requests = class, requests
		if h := a.HeldFrom(&ask, reserves, now); h != nil {
			return h.Parts[state.RPM].Amount
		}
		return 0
	}
	if n := kept(now, "", 1); n != 0 {
		t.Errorf("a class that never asked keeps %d", n)
	}
	a.NeedUse("r").SeenAt = now.Instant
	late := clock{}.at(time.Minute)
	for _, tt := range []struct {
		name     string
		at       account.Now
		class    string
		requests int
		want     int
	}{
		{"its share", now, "", 1, 3},
		{"nothing from itself", now, "r", 1, 0},
		{"what a large call leaves", now, "", 8, 2},
		{"for a minute", late, "", 1, 3},
		{"and no longer", clock{}.at(time.Minute + 1), "", 1, 0},
	} {
		if n := kept(tt.at, tt.class, tt.requests); n != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, n, tt.want)
		}
	}
	c := &account.Call{Class: "r", At: now}
	c.ChargeTo(a, nil, now, span)
	if n := kept(now, "", 1); n != 2 {
		t.Errorf("a call of the class uses its reserve: %d are kept", n)
	}
}

// A call that is to be used again keeps none of its accounts in memory.
func TestResetKeepsNoAccount(t *testing.T) {
	c, now := new(account.Call), clock{}.at(0)
	charge := func(name string) weak.Pointer[account.Account] {
		a := account.New(name)
		c.ChargeTo(a, nil, now, span)
		return weak.Make(a)
	}
	for range 2 { // the second time there is room for both
		accounts := []weak.Pointer[account.Account]{charge("m"), charge("p")}
		c.Reset()
		runtime.GC()
		for i, a := range accounts {
			if a.Value() != nil {
				t.Errorf("account %d is kept", i)
			}
		}
	}
	runtime.KeepAlive(c)
}

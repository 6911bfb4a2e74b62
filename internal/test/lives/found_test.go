package lives

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

// What lives have found: each as short as it gets, on each kind of limiter.
func TestFound(t *testing.T) {
	all := ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 1000}}
	for _, tt := range []struct {
		name string
		cfg  ratelimit.Config
		live func(t *testing.T, h *house)
	}{
		{"a call of yesterday is not charged to today", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPD: 10, DayZone: "UTC"}},
		}, yesterday},
		{
			"Health warns of models, and not of what counts a pool",
			ratelimit.Config{MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"m": {}}, Pools: map[string]ratelimit.Pool{"p": all}}, warnings,
		},
		{
			"events name the model that has no place", ratelimit.Config{
				MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"m": {}}, Pools: map[string]ratelimit.Pool{"p": all},
			}, placeless,
		},
		{"a limiter that opens a file anew keeps the minute for its margin", reopened, opensAnew},
		{"a look frees no place of a model with a call in a slot", ratelimit.Config{
			MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPD: 30, MaxInFlight: 2}}, LeaseTTL: 48 * time.Hour,
		}, keepsItsPlace},
		{"room is kept for a class whose calls are refused", ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}},
			Classes: map[string]ratelimit.Class{"first": {ReservePercent: 50}},
		}, keepsForTheRefused},
		{"a look forgets no class that has asked", ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"*": {MaxRPM: 4}},
			Classes: map[string]ratelimit.Class{"first": {ReservePercent: 50}},
		}, keepsForTheCancelled},
		{"a quota of another model lets nobody go for whom no room is", ratelimit.Config{
			MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 2}},
			Classes: map[string]ratelimit.Class{"first": {ReservePercent: 50}},
		}, keepsForTheReset},
		{"those that wait ask at the price that was set", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: money.USD(10)}},
			Prices: map[string]money.Price{"m": {Input: money.USD(1_000_000)}},
		}, repriced},
		{"those that wait ask at the price that was set, all at once", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: money.USD(10)}},
			Prices: map[string]money.Price{"m": {Input: money.USD(1_000_000)}},
		}, repricedTogether},
		{"what happens by itself as a month ends counts to the next", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerMonth: money.USD(10), MaxTPD: 10, DayZone: "America/New_York"}},
			Prices: map[string]money.Price{"m": {Input: money.USD(1_000_000)}},
		}, firstOfTheMonth},
		{"models that have lost their quotas take no more places than there are", ratelimit.Config{
			MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}, "own": {MaxRPM: 5}},
		}, crowded},
		{"the audit has a model by its name that gets a quota", ratelimit.Config{
			MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}},
		}, namedLater},
		{"a model of which nothing counts takes nobody's place", ratelimit.Config{
			MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"own": {MaxRPM: 5}},
		}, keepsThePlace},
		{"the place goes to the model that is limited", ratelimit.Config{
			MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"limited-*": {MaxRPM: 5}},
		}, limitedFirst},
		{"calls expire one after the other", ratelimit.Config{
			HoldTTL: 10 * time.Second, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 5}},
		}, expireInTurn},
		{"a look lets nobody start before the rate that is searched for does", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {AdaptiveFloorRPM: 2}},
		}, keepsItsGap},
		{"a look empties no bucket", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 8, Burst: time.Millisecond}},
		}, keepsItsBucket},
		{"a report on two pools is noted before those that wait for one go", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {}},
			Pools: map[string]ratelimit.Pool{
				"in":  {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxOTPM: 100}},
				"out": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxITPM: 100}},
			},
		}, reportsOnTwo},
		{"a decision tells what others have used", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}, "full": {MaxRPM: 1}},
		}, knowsOthers},
		{"a model is as unknown as others have made it", ratelimit.Config{
			Unknown: ratelimit.UnknownDeny, Quotas: map[string]ratelimit.ModelQuota{"m": {}, "n": {}},
		}, unknownByOthers},
		{"nobody waits for a model that is unknown", ratelimit.Config{
			Unknown: ratelimit.UnknownDeny, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "n": {}},
		}, nobodyWaits},
	} {
		for _, kind := range []string{private, file, inLog, three} {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				needKinds(t, kind)
				folder := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					h, err := newHouse(kind, folder, tt.cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { h.close() }()
					tt.live(t, h)
				})
			})
		}
	}
}

func reserve(t *testing.T, h *house, model string, tokens int) *ratelimit.Reservation {
	t.Helper()
	r, d := h.rl.Reserve(model, tokens, 0)
	if r == nil {
		t.Fatalf("%s: %+v", model, d)
	}
	return r
}

// lastsForDays skips a test over a file under the race detector: a limiter looks there once a
// second.
func (h *house) lastsForDays(t *testing.T) {
	t.Helper()
	if h.kind == file && racetest.Factor > 1 {
		t.Skip("the race detector sees the log alone")
	}
}

func yesterday(t *testing.T, h *house) {
	h.lastsForDays(t)
	first, second := reserve(t, h, "m", 10), reserve(t, h, "m", 10)
	time.Sleep(48 * time.Hour)
	first.Commit(100, 0) // 90 above its estimate, which are of today
	second.Arrived(time.Now().Add(-5 * time.Second))
	if s := h.rl.Stats("m"); s.RPD != 0 || s.TPD != 90 {
		t.Errorf("the day has %d requests and %d tokens, want 0 and 90", s.RPD, s.TPD)
	}
}

func warnings(t *testing.T, h *house) {
	taken := reserve(t, h, "a", 1)
	for range 40 {
		reserve(t, h, "b", 1000).Commit(1, 0)
	}
	for _, warning := range h.rl.Health().Warnings {
		t.Error(warning)
	}
	taken.Commit(1, 0)
}

func placeless(t *testing.T, h *house) {
	taken := reserve(t, h, "a", 1)
	h.take()
	reserve(t, h, "b", 2).Commit(2, 0)
	synctest.Wait()
	told := h.take()
	for _, kind := range []ratelimit.EventKind{ratelimit.EventAdmitted, ratelimit.EventSettled} {
		if !slices.ContainsFunc(told, func(e ratelimit.Event) bool { return e.Kind == kind && e.Model == "b" && e.Requested == "b" }) {
			t.Errorf("no %s of b: %s", kind, render(told))
		}
	}
	taken.Commit(1, 0)
}

var reopened = ratelimit.Config{Margin: time.Second, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}}

func opensAnew(t *testing.T, h *house) {
	reserve(t, h, "m", 1).Commit(1, 0)
	time.Sleep(time.Minute + time.Second)
	if err := h.reopen(reopened); err != nil {
		t.Fatal(err)
	}
	if is := h.rl.Stats("m").RPM; is != 1 {
		t.Errorf("%d requests count, want 1", is)
	}
}

func reportsOnTwo(t *testing.T, h *house) {
	left := func(n int) ratelimit.ProviderLimit { return ratelimit.ProviderLimit{HasRemaining: true, Remaining: n} }
	h.rl.Observe("m", ratelimit.ProviderLimits{OTPM: left(0)})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := h.rl.Acquire(t.Context(), "m", 5, 5); err != nil {
			t.Error(err)
		} else {
			r.Commit(5, 5)
		}
	}()
	synctest.Wait()
	h.rl.Observe("m", ratelimit.ProviderLimits{OTPM: left(50), ITPM: left(40)})
	if is := h.rl.PoolStats("out").ExternalITPM; is != 60 {
		t.Errorf("others use %d tokens, want 60", is)
	}
	<-done
}

func keepsItsPlace(t *testing.T, h *house) {
	h.lastsForDays(t)
	r, d := h.rl.Reserve("one", 1, 1)
	if r == nil {
		t.Fatal(d)
	}
	time.Sleep(25 * time.Hour)
	h.rl.Stats("one")
	if d := h.rl.Decide("another", 1); d.Code != ratelimit.DecisionTooManyModels {
		t.Errorf("another model is decided on with %+v", d)
	}
	r.Cancel()
	if d := h.rl.Decide("another", 1); !d.Allowed {
		t.Errorf("after the end of the call another model is decided on with %+v", d)
	}
}

func keepsForTheRefused(t *testing.T, h *house) {
	for range 10 {
		reserve(t, h, "m", 0)
	}
	time.Sleep(30 * time.Second)
	if _, d := h.rl.ReserveAll(ratelimit.Request{Model: "m", Class: "first"}); d.Allowed {
		t.Fatal("a full quota lets a class with a reserve pass")
	}
	time.Sleep(30*time.Second + 1)
	for range 5 {
		reserve(t, h, "m", 0)
	}
	if r, _ := h.rl.Reserve("m", 0, 0); r != nil {
		t.Error("others take what is kept for the class that was refused half a minute ago")
	}
}

func keepsForTheCancelled(t *testing.T, h *house) {
	rs, d := h.rl.ReserveAll(ratelimit.Request{Model: "m", Class: "first"})
	if rs == nil {
		t.Fatal(d)
	}
	rs[0].Cancel()
	h.rl.Stats("m")
	reserve(t, h, "m", 0)
	reserve(t, h, "m", 0)
	if r, _ := h.rl.Reserve("m", 0, 0); r != nil {
		t.Error("others take what is kept for the class whose call was just cancelled")
	}
}

func firstOfTheMonth(t *testing.T, h *house) {
	reserve(t, h, "m", 9).Commit(9, 0)
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip(err)
	}
	first := time.Date(2000, 2, 1, 0, 0, 0, 0, zone)
	if begun := time.Now().In(zone); begun.Month() == time.December { // New York is behind
		first = time.Date(2000, 1, 1, 0, 0, 0, 0, zone)
	}
	time.Sleep(time.Until(first) - time.Second)
	passes := waitFor(t, h, 2)
	if at := <-passes; !at.Equal(first) {
		t.Errorf("the call passes at %v, want %v", at, first)
	}
	synctest.Wait()
	if s := h.rl.Stats("m"); s.TPD != 2 || s.SpendMonth != money.USD(2) || !s.DayStart.Equal(first) {
		t.Errorf("the new day and month have %+v", s)
	}
}

func crowded(t *testing.T, h *house) {
	reserve(t, h, "own", 1).Commit(1, 0)
	reserve(t, h, "a", 1).Commit(1, 0)
	h.rl.RemoveQuota("own")
	synctest.Wait()
	time.Sleep(2 * time.Minute) // they are idle now
	reserve(t, h, "b", 1).Commit(1, 0)
	if d := h.rl.Decide("c", 1); d.Code != ratelimit.DecisionTooManyModels {
		t.Errorf("two models for one place: another one is decided on with %+v", d)
	}
	if d := h.rl.Decide("b", 1); !d.Allowed {
		t.Errorf("the model that has the place is decided on with %+v", d)
	}
}

func limitedFirst(t *testing.T, h *house) {
	rs, d := h.rl.ReserveAll(ratelimit.Request{Model: "unknown"}, ratelimit.Request{Model: "limited-1"})
	if rs == nil {
		t.Fatal(d)
	}
	if n := h.rl.Stats("limited-1").RPM; n != 1 {
		t.Errorf("%d requests of the model that is limited are counted", n)
	}
}

func expireInTurn(t *testing.T, h *house) {
	held := []*ratelimit.Reservation{reserve(t, h, "m", 1)}
	time.Sleep(time.Nanosecond)
	h.turn(1)
	held = append(held, reserve(t, h, "m", 1))
	time.Sleep(11 * time.Second)
	synctest.Wait()
	for _, e := range h.take() {
		if e.Kind == ratelimit.EventExpired && e.Held != 10*time.Second {
			t.Errorf("a call expires after %v", e.Held)
		}
	}
	runtime.KeepAlive(held)
}

func keepsItsBucket(t *testing.T, h *house) {
	r := reserve(t, h, "m", 50)
	h.rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 250, Burst: time.Millisecond})
	synctest.Wait()
	r.Cancel()
	before := h.rl.Decide("m", 50)
	h.rl.Stats("m")
	if after := h.rl.Decide("m", 50); after.RetryAfter != before.RetryAfter || after.Allowed {
		t.Errorf("a call passes in %v, and after a look in %v", before.RetryAfter, after.RetryAfter)
	}
}

func knowsOthers(t *testing.T, h *house) {
	reserve(t, h, "m", 10)
	h.turn(1)
	if _, d := h.rl.Reserve("m", 1, 0); d.Stats.RPM != 1 || d.Stats.TPM != 10 {
		t.Errorf("a Reserve that passes tells %+v", d)
	}
	h.turn(2)
	h.rl.SetQuota("m", ratelimit.ModelQuota{})
	h.turn(1)
	if _, d := h.rl.Reserve("m", 1, 0); d.Code != ratelimit.DecisionUnlimited || d.Stats.RPM != 2 || d.Stats.MaxRPM != 0 {
		t.Errorf("without a limit it tells %+v", d)
	}
	reserve(t, h, "full", 5)
	h.turn(2)
	_, d := h.rl.ReserveAll(ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "full"})
	if d.Allowed || d.Model != "full" || d.Stats.RPM != 1 || d.Stats.TPM != 5 {
		t.Errorf("of two models it tells %+v", d)
	}
}

func unknownByOthers(t *testing.T, h *house) {
	h.rl.RemoveQuota("m")
	h.turn(1)
	if _, d := h.rl.Reserve("m", 1, 0); d.Code != ratelimit.DecisionUnknownModel || !d.Never || !strings.Contains(d.Reason, `"n"`) {
		t.Errorf("without a quota a model is decided on with %+v", d)
	}
	h.turn(2)
	h.rl.Stats("m") // so that it knows
	h.turn(1)
	h.rl.SetPool("p", ratelimit.Pool{Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 5}})
	h.turn(2)
	if r, err := h.rl.Acquire(t.Context(), "m", 1, 0); err != nil {
		t.Errorf("a model that a pool names: %v", err)
	} else {
		r.Cancel()
	}
}

func nobodyWaits(t *testing.T, h *house) {
	reserve(t, h, "m", 1)
	refused := make(chan error, 1)
	go func() {
		_, err := h.all[0].Acquire(t.Context(), "m", 1, 0)
		refused <- err
	}()
	synctest.Wait()
	h.turn(1)
	h.rl.RemoveQuota("m")
	synctest.Wait()
	select {
	case err := <-refused:
		if !errors.Is(err, ratelimit.ErrNeverFits) || !strings.Contains(err.Error(), `"n"`) {
			t.Error(err)
		}
	default:
		t.Error("a call waits for a model that has lost its quota")
	}
}

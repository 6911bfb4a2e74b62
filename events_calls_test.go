// Events: what each way to call the limiter tells.

package ratelimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// eventStage is a limiter with a witness.
type eventStage struct {
	*testing.T
	rl  *ratelimit.RateLimiter
	w   *witness
	ctx context.Context // of the calls
}

// onEventStages runs a test in a bubble for each kind of limiter, with one of three models: m has
// 100 tokens a minute, slots one call in flight, and free no limit.
func onEventStages(t *testing.T, change func(*ratelimit.Config), run func(s *eventStage)) {
	t.Helper()
	onKinds(t, func(t *testing.T, p *place) {
		w := witnessOf(t)
		w.spoils = true
		cfg := ratelimit.Config{Events: w, Quotas: map[string]ratelimit.ModelQuota{
			"m": {MaxTPM: 100}, "slots": {MaxInFlight: 1}, "free": {},
		}}
		if change != nil {
			change(&cfg)
		}
		rl := p.open(t, cfg)
		synctest.Wait()
		w.lines()
		run(&eventStage{t, rl, w, callNamed(t.Context(), "call")})
	})
}

// lastsForDays skips a test over a file with -short: a limiter looks there once a second.
func (s *eventStage) lastsForDays() {
	s.Helper()
	if testing.Short() && strings.HasSuffix(s.Name(), "/sqlite") {
		s.Skip("it lasts for days")
	}
}

func (s *eventStage) reserve(model string, prompt, output int) *ratelimit.Reservation {
	s.Helper()
	return reserve(s.T, s.rl, model, prompt, output)
}

func (s *eventStage) acquire(model string, prompt, output int) *ratelimit.Reservation {
	s.Helper()
	r, err := s.rl.Acquire(s.ctx, model, prompt, output)
	if err != nil {
		s.Errorf("Acquire: %v", err)
	}
	return r
}

// refused checks that a call returned an error, and returns its text.
func (s *eventStage) refused(err error, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error is %v, want %v", err, want)
	}
}

// full uses up m for a minute, without a reservation.
func (s *eventStage) full() {
	s.rl.RecordUsage("m", 100, 0)
	s.w.want("#1 recorded m used 100+0")
}

type eventRow struct {
	name string
	do   func(s *eventStage)
	want []string
}

func TestEventsOfReserve(t *testing.T) {
	type req = ratelimit.Request
	for _, tt := range []eventRow{
		{"Commit", func(s *eventStage) {
			r := s.reserve("m", 10, 5)
			time.Sleep(2 * time.Second)
			r.Commit(3, 4)
		}, []string{"#1 admitted m 10+5", "#1 settled m 10+5 used 3+4 held 2s"}},
		{"Commit of the estimate, at once", func(s *eventStage) { s.reserve("m", 10, 5).Commit(10, 5) },
			[]string{"#1 admitted m 10+5", "#1 settled m 10+5 used 10+5"}},
		{"Commit of more", func(s *eventStage) { s.reserve("m", 10, 5).Commit(1000, 500) },
			[]string{"#1 admitted m 10+5", "#1 settled m 10+5 used 1000+500"}},
		{"Commit of negative numbers", func(s *eventStage) { s.reserve("m", 10, 5).Commit(-3, -4) },
			[]string{"#1 admitted m 10+5", "#1 settled m 10+5 used 0+0"}},
		{"Commit after the minute", func(s *eventStage) {
			r := s.reserve("m", 10, 5)
			time.Sleep(2 * time.Minute)
			r.Commit(20, 5)
		}, []string{"#1 admitted m 10+5", "#1 settled m 10+5 used 20+5 held 2m0s"}},
		{"Cancel", func(s *eventStage) { s.reserve("slots", 10, 5).Cancel() },
			[]string{"#1 admitted slots 10+5", "#1 released slots 10+5 used 0+0"}},
		{"the first end counts", func(s *eventStage) {
			r := s.reserve("m", 10, 5)
			r.Commit(1, 1)
			r.Commit(2, 2)
			r.Cancel()
			r = s.reserve("m", 10, 5)
			r.Cancel()
			r.Cancel()
			r.Commit(2, 2)
		}, []string{
			"#1 admitted m 10+5", "#1 settled m 10+5 used 1+1",
			"#2 admitted m 10+5", "#2 released m 10+5 used 0+0",
		}},
		{"none", func(s *eventStage) {
			var none *ratelimit.Reservation
			none.Commit(1, 1)
			none.Cancel()
			ratelimit.Reservations{nil}.Cancel()
		}, nil},
		{"a model without limits", func(s *eventStage) { s.reserve("free", 10, 5).Commit(1, 2) },
			[]string{"#1 admitted free 10+5", "#1 settled free 10+5 used 1+2"}},
		{"Arrived tells nothing", func(s *eventStage) {
			r := s.reserve("m", 10, 5)
			time.Sleep(time.Second)
			r.Arrived(time.Now())
			time.Sleep(time.Second)
			r.Commit(1, 1)
		}, []string{"#1 admitted m 10+5", "#1 settled m 10+5 used 1+1 held 2s"}},
		{"Reset between", func(s *eventStage) {
			r := s.reserve("m", 10, 5)
			s.rl.Reset("m")
			r.Commit(1, 1)
			r = s.reserve("m", 10, 5)
			s.rl.Reset("")
			r.Cancel()
		}, []string{
			"#1 admitted m 10+5", "#1 settled m 10+5 used 1+1",
			"#2 admitted m 10+5", "#2 released m 10+5 used 0+0",
		}},
		{"refused", func(s *eventStage) {
			r := s.reserve("slots", 10, 5)
			s.rl.Reserve("slots", 1, 2)
			s.rl.Reserve("m", 60, 41)
			r.Cancel()
		}, []string{
			"#1 admitted slots 10+5", "#2 refused slots 1+2 [in_flight_exceeded]",
			"#3 refused m 60+41 [tpm_exceeded]", "#1 released slots 10+5 used 0+0",
		}},
		{"ReserveAll", func(s *eventStage) {
			rs, _ := s.rl.ReserveAll(req{Model: "m", PromptTokens: 1, OutputTokens: 2}, req{Model: "slots", PromptTokens: 3, OutputTokens: 4}, req{Model: "m", PromptTokens: 5, OutputTokens: 6})
			time.Sleep(time.Second)
			rs[1].Commit(1, 1)
			time.Sleep(time.Second)
			rs[0].Cancel()
			rs.Cancel()
			rs.Cancel()
		}, []string{
			"#1 admitted m 1+2", "#1 admitted slots 3+4", "#1 admitted m 5+6", "#1 settled slots 3+4 used 1+1 held 1s",
			"#1 released m 1+2 used 0+0 held 2s", "#1 released m 5+6 used 0+0 held 2s",
		}},
		{"ReserveAll of nothing", func(s *eventStage) { s.rl.ReserveAll() }, nil},
		{"who only asks", func(s *eventStage) {
			s.rl.CanSend("m", 101)
			s.rl.CanSend("m", -1)
			s.rl.Decide("m", 101)
			s.rl.DecideRequest(req{Model: "slots", PromptTokens: 101, OutputTokens: 5})
			s.rl.Stats("m")
			s.rl.AllStats()
			s.rl.Explain("m")
			s.rl.QuotaFor("m")
			s.rl.Estimate("m")
		}, nil},
		{"RecordUsage", func(s *eventStage) {
			s.rl.RecordUsage("m", 3, 4)
			s.rl.RecordUsage("m", -3, 4)
		}, []string{"#1 recorded m used 3+4", "#2 recorded m used 0+4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEventStages(t, nil, func(s *eventStage) {
				s.ctx = context.Background()
				tt.do(s)
				s.w.want(tt.want...)
				s.w.wantOpen(0)
				for _, model := range []string{"m", "slots", "free"} {
					if n := s.rl.Stats(model).InFlight; n != 0 {
						s.Errorf("%d calls of %s are in flight", n, model)
					}
				}
				s.w.closes(s.rl)
				s.w.want()
			})
		})
	}
}

// Of several requests, the event of a refusal names the model that denied.
func TestEventsOfAReserveAllThatIsRefused(t *testing.T) {
	type req = ratelimit.Request
	onEventStages(t, nil, func(s *eventStage) {
		s.w.spoils = false
		_, d := s.rl.ReserveAll(req{Model: "free", PromptTokens: 1, OutputTokens: 2}, req{Model: "m", PromptTokens: 60, OutputTokens: 41})
		synctest.Wait()
		all := s.w.ofCalls()
		if len(all) != 1 {
			s.Fatalf("told %+v", all)
		}
		is := all[0]
		if is.Kind != ratelimit.EventRefused || is.Model != "m" || is.Requested != "m" || is.decision != d || is.Err != nil {
			s.Errorf("told %+v of %+v", is.Event, d)
		}
		if is.ctx != context.Background() {
			s.Errorf("the context is %v", is.ctx)
		}
	})
}

// ReserveContext passes its context on.
func TestEventsOfReserveContext(t *testing.T) {
	onEventStages(t, nil, func(s *eventStage) {
		rs, d := s.rl.ReserveContext(s.ctx, ratelimit.Request{Model: "m", PromptTokens: 1}, ratelimit.Request{Model: "slots"})
		if len(rs) != 2 || !d.Allowed {
			s.Fatalf("%+v", d)
		}
		rs[0].Commit(2, 0)
		rs.Cancel()
		s.rl.ReserveContext(s.ctx, ratelimit.Request{Model: "m", PromptTokens: 101})
		synctest.Wait()
		all := s.w.ofCalls()
		for _, is := range all {
			if is.ctx.Value(callKey{}) != "call" {
				s.Errorf("%s has the context %v", is.Kind, is.ctx)
			}
		}
		s.w.wantLines(linesOf(all), []string{
			"#1 admitted m 1+0", "#1 admitted slots 0+0", "#1 settled m 1+0 used 2+0", "#1 released slots 0+0 used 0+0",
			"#2 refused m 101+0 [tpm_exceeded]",
		})
	})
}

// Names: the model is the one that is counted, and its provider the one of the profile.
func TestEventsTellBothNames(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) {
		cfg.Providers = []ratelimit.Provider{ratelimit.ProviderOpenAI}
		cfg.Aliases = map[string]string{"alias": "m", "big": "gpt-4o"}
		cfg.MatchVersions = true
		cfg.MaxQueue = 1
	}, func(s *eventStage) {
		s.reserve("alias", 1, 2).Commit(3, 4)
		s.reserve("gpt-4o-2024-08-06", 1, 2).Cancel()
		s.acquire("big", 1, 2).Commit(1, 1)
		s.rl.RecordUsage("alias", 1, 1)
		s.rl.Reserve("alias", 101, 0)
		s.refused(s.rl.WaitForCapacity(s.ctx, "alias", 102), ratelimit.ErrNeverFits)
		s.rl.Cooldown("alias", time.Now().Add(time.Second))
		s.w.want(
			"#1 admitted m as alias 1+2", "#1 settled m as alias 1+2 used 3+4",
			"#2 admitted gpt-4o as gpt-4o-2024-08-06 of openai 1+2", "#2 released gpt-4o as gpt-4o-2024-08-06 of openai 1+2 used 0+0",
			"#3 admitted gpt-4o as big of openai 1+2", "#3 settled gpt-4o as big of openai 1+2 used 1+1",
			"#4 recorded m as alias used 1+1",
			"#5 refused m as alias 101+0 [tpm_exceeded]",
			"#6 refused m as alias 102+0 [tpm_exceeded] error: "+
				`wait for capacity: model "alias": the request alone exceeds the tokens per minute: request never fits its quota`,
			"cooldown_began m as alias cause caller for 1s",
		)
	})
}

// A reservation that the program never settles expires, and a late Commit tells nothing.
func TestEventsOfHoldTTL(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) { cfg.HoldTTL = time.Minute }, func(s *eventStage) {
		r := s.reserve("m", 10, 5)
		time.Sleep(time.Second)
		acquired := s.acquire("slots", 3, 4)
		settled := s.reserve("free", 1, 1)
		time.Sleep(time.Second)
		settled.Commit(1, 1)
		s.w.want("#1 admitted m 10+5", "#2 admitted slots 3+4", "#3 admitted free 1+1", "#3 settled free 1+1 used 1+1 held 1s")
		time.Sleep(time.Hour)
		r.Commit(1, 1)
		acquired.Cancel()
		s.w.want("#1 expired m 10+5 used 10+5 held 1m0s", "#2 expired slots 3+4 used 3+4 held 1m0s")
		s.w.wantOpen(0)
	})
}

// Close reports what is open, and nothing comes after it.
func TestEventsOfClose(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) { cfg.HoldTTL = time.Hour }, func(s *eventStage) {
		open := []*ratelimit.Reservation{s.reserve("m", 10, 5), s.acquire("slots", 3, 4), s.reserve("free", 1, 1)}
		open[2].Commit(1, 1)
		open = append(open, s.acquire("free", 5, 6))
		s.w.lines()
		time.Sleep(3 * time.Second)
		s.w.closes(s.rl)
		got := s.w.lines()
		want := map[string]bool{
			"#1 released m 10+5 used 10+5 held 3s": true, "#2 released slots 3+4 used 3+4 held 3s": true,
			"#3 released free 5+6 used 5+6 held 3s": true,
		}
		for i, line := range got {
			line = "#" + string(rune('1'+i)) + line[2:] // in any order
			for was := range want {
				if was[2:] == line[2:] {
					delete(want, was)
				}
			}
		}
		if len(got) != 3 || len(want) != 0 {
			s.Errorf("told %q, not %v", got, want)
		}
		s.w.wantOpen(0)
		for _, r := range open {
			r.Commit(7, 7)
			r.Cancel()
		}
		s.rl.RecordUsage("m", 1, 1)
		s.rl.Reserve("m", 1, 1)
		s.rl.Reserve("m", 1000, 1)
		s.rl.Acquire(s.ctx, "m", 1, 1)
		s.rl.Acquire(s.ctx, "m", 1000, 1)
		s.rl.Cooldown("m", time.Now().Add(time.Second))
		s.rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 3})
		s.rl.Reset("")
		s.rl.Persist()
		time.Sleep(2 * time.Hour)
		s.rl.Close()
		synctest.Wait()
		s.w.wantOpen(0)
	})
}

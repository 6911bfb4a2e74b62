// Events of calls that wait, and the class, the pool and the cost of a call.

package ratelimit_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestEventsOfWaits(t *testing.T) {
	type req = ratelimit.Request
	const never = `model "m": the request alone exceeds the tokens per minute: request never fits its quota`
	const late = `model "m": tokens per minute are used up, free in `
	background := func(s *eventStage, do func()) *sync.WaitGroup {
		var wg sync.WaitGroup
		wg.Go(do)
		synctest.Wait()
		return &wg
	}
	for _, tt := range []eventRow{
		{"Acquire at once", func(s *eventStage) { s.acquire("m", 10, 5).Commit(1, 1) },
			[]string{"#1 admitted m 10+5", "#1 settled m 10+5 used 1+1"}},
		{"Acquire after a wait", func(s *eventStage) {
			s.full()
			time.Sleep(10 * time.Second)
			r := s.acquire("m", 10, 5)
			time.Sleep(time.Second)
			r.Commit(1, 1)
		}, []string{
			"#1 queued m 10+5 [tpm_exceeded]", "#1 admitted m 10+5 after 50.000000001s [tpm_exceeded]", "#1 settled m 10+5 used 1+1 held 1s",
		}},
		{"Acquire behind another", func(s *eventStage) {
			slot := s.reserve("slots", 1, 0)
			first := background(s, func() { s.acquire("slots", 1, 1).Cancel() })
			second := background(s, func() { s.acquire("slots", 2, 2).Cancel() })
			time.Sleep(time.Second)
			slot.Cancel()
			first.Wait()
			second.Wait()
			want := []string{ // in an order of each call, because they go on at once
				"#1 admitted slots 1+0", "#1 released slots 1+0 used 0+0 held 1s",
				"#2 admitted slots 1+1 after 1s [in_flight_exceeded]", "#2 queued slots 1+1 [in_flight_exceeded]",
				"#2 released slots 1+1 used 0+0",
				"#3 admitted slots 2+2 after 1s [queued]", "#3 queued slots 2+2 [queued]", "#3 released slots 2+2 used 0+0",
			}
			synctest.Wait()
			got := s.w.lines()
			slices.Sort(got)
			s.w.wantLines(got, want)
		}, nil},
		{"cancelled in line", func(s *eventStage) {
			s.full()
			ctx, cancel := context.WithCancel(s.ctx)
			time.AfterFunc(5*time.Second, cancel)
			_, err := s.rl.Acquire(ctx, "m", 10, 5)
			s.refused(err, context.Canceled)
		}, []string{"#1 queued m 10+5 [tpm_exceeded]", "#1 refused m 10+5 after 5s [tpm_exceeded] error: context canceled"}},
		{"the deadline comes in line", func(s *eventStage) {
			held := s.reserve("slots", 1, 0) // until the limiter is closed
			ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
			defer cancel()
			_, err := s.rl.Acquire(ctx, "slots", 10, 5)
			s.refused(err, context.DeadlineExceeded)
			s.Cleanup(func() { runtime.KeepAlive(held) })
		}, []string{
			"#1 admitted slots 1+0", "#2 queued slots 10+5 [in_flight_exceeded]",
			"#2 refused slots 10+5 after 5s [in_flight_exceeded] error: context deadline exceeded",
		}},
		{"it cannot pass before the deadline", func(s *eventStage) {
			s.full()
			ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
			defer cancel()
			_, err := s.rl.Acquire(ctx, "m", 10, 5)
			s.refused(err, context.DeadlineExceeded)
		}, []string{"#1 refused m 10+5 [tpm_exceeded] error: acquire: " + late + "1m0.000000001s: context deadline exceeded"}},
		{"never fits", func(s *eventStage) {
			_, err := s.rl.Acquire(s.ctx, "m", 100, 1)
			s.refused(err, ratelimit.ErrNeverFits)
		}, []string{"#1 refused m 100+1 [tpm_exceeded] error: acquire: " + never}},
		{"never fits, because of a change", func(s *eventStage) {
			s.full()
			time.AfterFunc(5*time.Second, func() { s.rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 14}) })
			_, err := s.rl.Acquire(s.ctx, "m", 10, 5)
			s.refused(err, ratelimit.ErrNeverFits)
			synctest.Wait()
			s.w.wantLines(s.w.lines(ratelimit.EventQueued, ratelimit.EventRefused), []string{
				"#1 queued m 10+5 [tpm_exceeded]", "#1 refused m 10+5 after 5s [tpm_exceeded] error: acquire: " + never,
			})
		}, nil},
		{"the queue is full", func(s *eventStage) {
			s.full()
			first := background(s, func() { s.acquire("m", 10, 5).Commit(1, 1) })
			_, err := s.rl.Acquire(s.ctx, "m", 1, 1)
			s.refused(err, ratelimit.ErrQueueFull)
			first.Wait()
			s.w.want(
				"#1 queued m 10+5 [tpm_exceeded]",
				`#2 refused m 1+1 [queued] error: acquire: model "m": others wait for the model and come first, free in 1m0.000000001s: the queue is full`,
				"#1 admitted m 10+5 after 1m0.000000001s [tpm_exceeded]", "#1 settled m 10+5 used 1+1",
			)
		}, nil},
		{"closed while it waits", func(s *eventStage) {
			s.full()
			closed := make(chan bool)
			time.AfterFunc(5*time.Second, func() {
				s.w.closes(s.rl)
				close(closed)
			})
			_, err := s.rl.Acquire(s.ctx, "m", 10, 5)
			s.refused(err, ratelimit.ErrClosed)
			<-closed
		}, []string{"#1 queued m 10+5 [tpm_exceeded]", "#1 refused m 10+5 after 5s [closed] error: acquire: limiter is closed"}},
		{"AcquireAll", func(s *eventStage) {
			rs, err := s.rl.AcquireAll(s.ctx, req{Model: "m", PromptTokens: 1, OutputTokens: 2}, req{Model: "slots", PromptTokens: 3, OutputTokens: 4})
			if err != nil {
				s.Fatal(err)
			}
			rs[0].Commit(1, 1)
			rs.Cancel()
		}, []string{
			"#1 admitted m 1+2", "#1 admitted slots 3+4", "#1 settled m 1+2 used 1+1", "#1 released slots 3+4 used 0+0",
		}},
		{"AcquireAll of nothing", func(s *eventStage) { s.rl.AcquireAll(s.ctx) }, nil},
		{"WaitForCapacity at once", func(s *eventStage) { s.rl.WaitForCapacity(s.ctx, "m", 1) }, nil},
		{"WaitForCapacity after a wait", func(s *eventStage) {
			s.full()
			s.rl.WaitForCapacity(s.ctx, "m", 20)
		}, []string{"#1 queued m 20+0 [tpm_exceeded]", "#1 passed m 20+0 after 1m0.000000001s [tpm_exceeded]"}},
		{"WaitForCapacity that is cancelled", func(s *eventStage) {
			s.full()
			ctx, cancel := context.WithCancel(s.ctx)
			time.AfterFunc(5*time.Second, cancel)
			s.refused(s.rl.WaitForCapacity(ctx, "m", 20), context.Canceled)
		}, []string{"#1 queued m 20+0 [tpm_exceeded]", "#1 refused m 20+0 after 5s [tpm_exceeded] error: context canceled"}},
		{"WaitForCapacity that never fits", func(s *eventStage) {
			s.refused(s.rl.WaitForCapacity(s.ctx, "m", 101), ratelimit.ErrNeverFits)
		}, []string{"#1 refused m 101+0 [tpm_exceeded] error: wait for capacity: " + never}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEventStages(t, func(cfg *ratelimit.Config) {
				if tt.name == "the queue is full" {
					cfg.MaxQueue = 1
				}
			}, func(s *eventStage) {
				tt.do(s)
				s.w.want(tt.want...)
				if tt.name != "the deadline comes in line" {
					s.w.wantOpen(0)
				}
				s.w.closes(s.rl)
				s.w.wantOpen(0)
			})
		})
	}
}

// AcquireAll that waits tells it once, and each of its reservations.
func TestEventsOfAcquireAllAfterAWait(t *testing.T) {
	type req = ratelimit.Request
	onEventStages(t, nil, func(s *eventStage) {
		s.full()
		rs, err := s.rl.AcquireAll(s.ctx, req{Model: "free", PromptTokens: 1, OutputTokens: 2}, req{Model: "m", PromptTokens: 3, OutputTokens: 4}, req{Model: "m", PromptTokens: 5, OutputTokens: 6})
		if err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		all := s.w.ofCalls()
		if len(all) != 4 || all[0].Kind != ratelimit.EventQueued || all[0].Model != "m" || all[0].decision.Code != ratelimit.DecisionTPMLimit {
			s.Fatalf("told %+v", all)
		}
		for i, want := range []req{{Model: "free", PromptTokens: 1, OutputTokens: 2}, {Model: "m", PromptTokens: 3, OutputTokens: 4}, {Model: "m", PromptTokens: 5, OutputTokens: 6}} {
			is := all[1+i]
			if is.Kind != ratelimit.EventAdmitted || is.ID != all[0].ID || is.Requested != want.Model || is.Wait != time.Minute+1 ||
				is.Estimated != (ratelimit.Usage{PromptTokens: want.PromptTokens, OutputTokens: want.OutputTokens}) {
				s.Errorf("reservation %d was told as %+v", i, is.Event)
			}
		}
		s.w.wantOpen(3)
		rs.Cancel()
		s.w.wantOpen(0)
	})
}

// Do returns the error of its call, and tells of an end that is booked as well.
func TestEventsOfDo(t *testing.T) {
	failure := errors.New("made up")
	call := func(used ratelimit.Usage, err error) func(context.Context) (ratelimit.Usage, error) {
		return func(context.Context) (ratelimit.Usage, error) {
			time.Sleep(time.Second)
			return used, err
		}
	}
	some := ratelimit.Usage{PromptTokens: 7, OutputTokens: 8}
	for _, tt := range []struct {
		name string
		call func(ctx context.Context) (ratelimit.Usage, error)
		want string // the end
		used string // of the model, then
	}{
		{"a success", call(some, nil), "#1 settled m 10+5 used 7+8 held 1s", "1/7+8/1/15/0"},
		{"a success without usage", call(ratelimit.Usage{}, nil), "#1 settled m 10+5 used 10+5 held 1s", "1/10+5/1/15/0"},
		{"an error", call(ratelimit.Usage{}, failure), "#1 settled m 10+5 used 10+5 held 1s", "1/10+5/1/15/0"},
		{"an error with usage", call(some, failure), "#1 settled m 10+5 used 7+8 held 1s", "1/7+8/1/15/0"},
		{"not sent", call(ratelimit.Usage{}, ratelimit.ErrNotSent), "#1 released m 10+5 used 0+0 held 1s", "0/0+0/0/0/0"},
		{"not sent, with usage", call(some, ratelimit.ErrNotSent), "#1 settled m 10+5 used 7+8 held 1s", "1/7+8/1/15/0"},
		{"a panic", func(context.Context) (ratelimit.Usage, error) { panic("made up") }, "#1 settled m 10+5 used 10+5", "1/10+5/1/15/0"},
		{"it settles itself", func(ctx context.Context) (ratelimit.Usage, error) {
			ratelimit.ReservationFrom(ctx).Commit(2, 3)
			return some, nil
		}, "#1 settled m 10+5 used 2+3", "1/2+3/1/5/0"},
		{"it cancels itself", func(ctx context.Context) (ratelimit.Usage, error) {
			ratelimit.ReservationFrom(ctx).Cancel()
			return some, nil
		}, "#1 released m 10+5 used 0+0", "0/0+0/0/0/0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEventStages(t, nil, func(s *eventStage) {
				func() {
					defer func() {
						if p := recover(); (p == "made up") != (tt.name == "a panic") {
							s.Errorf("recovered %v", p)
						}
					}()
					var failed error
					err := s.rl.Do(s.ctx, ratelimit.Request{Model: "m", PromptTokens: 10, OutputTokens: 5}, func(ctx context.Context) (used ratelimit.Usage, err error) {
						if r := ratelimit.ReservationFrom(ctx); r.Model() != "m" || ratelimit.ReservationFrom(s.ctx) != nil || ctx.Done() != s.ctx.Done() {
							s.Errorf("the reservation is %v", r)
						}
						wantUsed(s.T, s.rl, "m", "1/10+5/1/15/1")
						used, failed = tt.call(ctx)
						return used, failed
					})
					if err != failed {
						s.Errorf("Do returns %v, want %v", err, failed)
					}
				}()
				synctest.Wait()
				all := s.w.ofCalls()
				for _, is := range all {
					if is.ctx.Value(callKey{}) != "call" {
						s.Errorf("%s has the context %v", is.Kind, is.ctx)
					}
				}
				s.w.wantLines(linesOf(all), []string{"#1 admitted m 10+5", tt.want})
				s.w.wantOpen(0)
				wantUsed(s.T, s.rl, "m", tt.used)
			})
		})
	}
}

// A call whose context has ended, and one with negative tokens, are refused before anything else.
func TestEventsOfCallsThatAreNoCalls(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	onEventStages(t, nil, func(s *eventStage) {
		_, err := s.rl.Acquire(callNamed(ended, "ended"), "m", 1, 1)
		s.refused(err, context.Canceled)
		_, err = s.rl.Acquire(s.ctx, "m", -1, 1)
		s.refused(err, ratelimit.ErrInvalidTokens)
		_, err = s.rl.AcquireAll(s.ctx, ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "free", OutputTokens: -1})
		s.refused(err, ratelimit.ErrInvalidTokens)
		s.refused(s.rl.WaitForCapacity(s.ctx, "m", -1), ratelimit.ErrInvalidTokens)
		s.rl.Reserve("m", -1, 1)
		s.rl.ReserveAll(ratelimit.Request{Model: "m", OutputTokens: -1})
		synctest.Wait()
		all := s.w.ofCalls()
		if len(all) != 6 {
			s.Errorf("%d refusals were told, want 6", len(all))
		}
		for i, is := range all {
			if is.Kind != ratelimit.EventRefused || i > 0 && is.decision.Code != ratelimit.DecisionInvalidTokens {
				s.Errorf("refusal %d was told as %+v, %+v", i, is.Event, is.decision)
			}
			if u := is.Estimated; u.PromptTokens < -1 || u.OutputTokens < -1 || u.PromptTokens > 1 || u.OutputTokens > 1 {
				s.Errorf("refusal %d is of %+v", i, u)
			}
		}
		s.w.wantOpen(0)
	})
}

// fairLine is what these tests look at in an event.
type fairLine struct {
	kind        ratelimit.EventKind
	class, pool string
	cost        money.Amount
}

func (w *witness) fairLines() (all []fairLine) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if e.Kind != ratelimit.EventSaved && e.Kind != ratelimit.EventQuotaChanged {
			all = append(all, fairLine{e.Kind, e.Class, e.Pool, e.Cost})
		}
	}
	w.all = nil
	return all
}

// TestEventsOfFairShares: each event of a call says its class, those of a denial by a pool the
// pool, and those with a cost the cost; nothing of an earlier event is left in a later one.
func TestEventsOfFairShares(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) {
		cfg.Pools = map[string]ratelimit.Pool{"org": {Models: []string{"free"}, Quota: ratelimit.ModelQuota{MaxInFlight: 1}}}
		cfg.Classes = map[string]ratelimit.Class{"batch": {}, "people": {Weight: 3}}
		cfg.Prices = map[string]money.Price{"free": {Input: money.USD(1), Output: money.USD(2)}}
	}, func(s *eventStage) {
		want := func(lines ...fairLine) {
			s.Helper()
			byKind := func(a, b fairLine) int { return strings.Compare(string(a.kind), string(b.kind)) }
			got := s.w.fairLines()
			slices.SortStableFunc(got, byKind) // those of two goroutines come in any order
			slices.SortStableFunc(lines, byKind)
			if !slices.Equal(got, lines) {
				s.Errorf("got\n%+v, want\n%+v", got, lines)
			}
		}
		batch := ratelimit.WithClass(s.ctx, "batch")
		first, err := s.rl.Acquire(batch, "free", 1000, 100)
		if err != nil {
			s.Fatal(err)
		}
		want(fairLine{ratelimit.EventAdmitted, "batch", "", 1200})

		people, give := context.WithCancel(ratelimit.WithClass(s.ctx, "people"))
		served := make(chan *ratelimit.Reservation)
		go func() {
			r, _ := s.rl.Acquire(s.ctx, "free", 500, 0)
			served <- r
		}()
		synctest.Wait()
		want(fairLine{ratelimit.EventQueued, "", "org", 0})
		gone := make(chan error)
		go func() {
			_, err := s.rl.Acquire(people, "free", 1, 1)
			gone <- err
		}()
		synctest.Wait()
		want(fairLine{ratelimit.EventQueued, "people", "", 0}) // in the line of its model
		give()
		s.refused(<-gone, context.Canceled)
		want(fairLine{ratelimit.EventRefused, "people", "", 0})

		time.Sleep(time.Second)
		first.Commit(100, 10)
		second := <-served
		want(fairLine{ratelimit.EventSettled, "batch", "", 120}, fairLine{ratelimit.EventAdmitted, "", "org", 500})

		_, d := s.rl.ReserveContext(batch, ratelimit.Request{Model: "free", PromptTokens: 1})
		if d.Allowed || d.Pool != "org" {
			s.Errorf("decision %+v", d)
		}
		want(fairLine{ratelimit.EventRefused, "batch", "org", 0})
		second.Cancel()
		s.rl.RecordUsage("free", 10, 0)
		s.rl.CooldownFor("m", time.Minute, ratelimit.CauseCaller)
		want(fairLine{ratelimit.EventReleased, "", "", 0}, fairLine{ratelimit.EventRecorded, "", "", 10},
			fairLine{ratelimit.EventCooldownBegan, "", "", 0})
		for _, class := range []string{"people", "none", ""} { // of which "none" is no class
			r, d := s.rl.ReserveAll(ratelimit.Request{Model: "m", Class: class})
			if d.Allowed {
				s.Errorf("%v in a cooldown", r)
			}
		}
		want(fairLine{ratelimit.EventRefused, "people", "", 0}, fairLine{ratelimit.EventRefused, "", "", 0},
			fairLine{ratelimit.EventRefused, "", "", 0})
		s.rl.Reset("m")
		want(fairLine{ratelimit.EventCooldownEnded, "", "", 0})
	})
}

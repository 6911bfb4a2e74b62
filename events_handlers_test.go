// Events: what handlers may do, and what they cost.

package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// handling is a function as an EventHandler.
type handling func(ctx context.Context, e *ratelimit.Event)

func (f handling) HandleEvent(ctx context.Context, e *ratelimit.Event) { f(ctx, e) }

func TestEventHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		note := func(name string) ratelimit.EventHandler {
			return handling(func(ctx context.Context, e *ratelimit.Event) { got = append(got, name+" "+string(e.Kind)) })
		}
		panics := handling(func(context.Context, *ratelimit.Event) { panic("made up") })
		var reported []string
		open := func(h ratelimit.EventHandler) *ratelimit.RateLimiter {
			return newLimiterWith(t, ratelimit.Config{
				FilePath: filepath.Join(t.TempDir(), "state"), Quotas: quotas{"m": {MaxInFlight: 1}}, Events: h,
				OnError: func(err error) { reported = append(reported, err.Error()) },
			})
		}
		for _, tt := range []struct {
			name    string
			handler ratelimit.EventHandler
			want    []string
			panics  bool
		}{
			{"none", ratelimit.EventHandlers(), nil, false},
			{"nil", ratelimit.EventHandlers(nil, nil), nil, false},
			{"one", ratelimit.EventHandlers(nil, note("a"), nil), []string{"a"}, false},
			{"several, in order", ratelimit.EventHandlers(note("b"), note("a"), note("c")), []string{"b", "a", "c"}, false},
			{"nested", ratelimit.EventHandlers(ratelimit.EventHandlers(note("a"), nil, note("b")), note("c")), []string{"a", "b", "c"}, false},
			{"a panic keeps nobody from it", ratelimit.EventHandlers(panics, note("a"), panics, note("b")), []string{"a", "b"}, true},
			{"a panic in a nested one", ratelimit.EventHandlers(ratelimit.EventHandlers(panics, note("a")), note("b")), []string{"a", "b"}, true},
			{"a panic alone", panics, nil, true},
		} {
			got, reported = nil, nil
			rl := open(tt.handler)
			reserve(t, rl, "m", 1, 1).Commit(1, 1)
			reserve(t, rl, "m", 1, 1).Cancel()
			if n := rl.Stats("m").InFlight; n != 0 {
				t.Errorf("%s: %d are in flight", tt.name, n)
			}
			synctest.Wait()
			var want []string
			for _, kind := range []string{"admitted", "settled", "admitted", "released"} {
				for _, name := range tt.want {
					want = append(want, name+" "+kind)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: told %v, want %v", tt.name, got, want)
			}
			if told := len(reported) > 0 && strings.Contains(reported[0], "made up"); told != tt.panics {
				t.Errorf("%s: OnError got %q", tt.name, reported)
			}
			if err := rl.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second) // reports of a kind come at most once a second
		}
	})
}

// A panic stops no call and no work in the background, whatever is told.
func TestEventHandlerThatPanics(t *testing.T) {
	inBubbles(t, func(t *testing.T, p *place) {
		w := newWitness(t)
		rl := p.open(t, ratelimit.Config{HoldTTL: time.Minute, Quotas: hammerModels, Events: ratelimit.EventHandlers(
			handling(func(context.Context, *ratelimit.Event) { panic("made up") }), w,
		)})
		books := eventBooks{rl: rl, disturbs: true}
		books.hammer(1, 4, times(20, 6, 20))
		expires := reserve(t, rl, "m", 1, 1)
		rl.CooldownFor("m", time.Second, ratelimit.CauseOverloaded)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.wantOpen(0)
		if got, want := w.count(ratelimit.EventAdmitted), int(books.admitted.Load())+1; got != want {
			t.Errorf("%d were admitted, want %d", got, want)
		}
		if w.count(ratelimit.EventCooldownBegan) != 1 || w.count(ratelimit.EventCooldownEnded) != 1 || w.count(ratelimit.EventExpired) == 0 {
			t.Errorf("told %v", w.counts())
		}
		w.closes(rl)
		runtime.KeepAlive([]any{expires, books.kept}) // what is garbage in a bubble is settled by later calls
	})
}

// A handler may call the limiter in each event: no lock is held, and the event stays as it is.
func TestEventHandlerCallsTheLimiter(t *testing.T) {
	inBubbles(t, func(t *testing.T, p *place) {
		w := newWitness(t)
		var rl atomic.Pointer[ratelimit.RateLimiter]
		inner := callNamed(context.Background(), "inner")
		w.within = func(ctx context.Context, e *ratelimit.Event) {
			rl := rl.Load()
			if rl == nil || e.Model == "inner" || ctx.Value(callKey{}) == "inner" || e.Kind == ratelimit.EventSaved {
				return
			}
			rl.Stats(e.Model)
			rl.Explain(e.Model)
			rl.CanSend(e.Model, 1)
			rl.DecideRequest(ratelimit.Request{Model: e.Model})
			r, _ := rl.Reserve("inner", 1, 2)
			r.Commit(3, 4)
			if r, err := rl.Acquire(inner, "inner", 5, 6); err == nil {
				r.Cancel()
			}
		}
		opened := p.open(t, ratelimit.Config{Events: w, HoldTTL: time.Minute, Quotas: hammerModels})
		rl.Store(opened)
		books := eventBooks{rl: opened, disturbs: true}
		books.hammer(3, 4, times(15, 5, 15))
		expires := reserve(t, opened, "m", 1, 1)
		opened.CooldownFor("free", time.Second, ratelimit.CauseOverloaded)
		opened.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 7})
		opened.Reserve("unknown", 1, 1)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.wantOpen(0)
		for kind, n := range w.counts() {
			if n == 0 {
				t.Errorf("no %s was told", kind)
			}
		}
		w.closes(opened)
		w.wantOpen(0)
		runtime.KeepAlive([]any{expires, books.kept}) // as above
	})
}

// Close in a handler returns, and nothing is told afterwards.
func TestEventHandlerThatCloses(t *testing.T) {
	for _, kind := range []ratelimit.EventKind{
		ratelimit.EventAdmitted, ratelimit.EventSettled, ratelimit.EventRefused, ratelimit.EventQueued, ratelimit.EventExpired,
	} {
		t.Run(string(kind), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, p *place) {
				var rl *ratelimit.RateLimiter
				var closed, after atomic.Bool
				began := time.Now()
				rl = p.open(t, ratelimit.Config{HoldTTL: time.Minute, Quotas: hammerModels, Events: handling(func(ctx context.Context, e *ratelimit.Event) {
					if after.Load() && e.Kind != ratelimit.EventReleased {
						t.Errorf("%s after Close had returned", e.Kind)
					}
					if e.Kind == kind && !closed.Swap(true) {
						if err := rl.Close(); err != nil {
							t.Error(err)
						}
						after.Store(true)
					}
				})})
				r, _ := rl.Reserve("m", 1, 1)
				rl.Reserve("m", math.MaxInt, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				hold := reserveAny(rl, "slots", 2)
				rl.Acquire(ctx, "slots", 1, 1)
				for _, r := range hold {
					r.Cancel()
				}
				if kind == ratelimit.EventExpired {
					time.Sleep(2 * time.Minute)
				}
				r.Commit(1, 1)
				synctest.Wait()
				if !closed.Load() {
					t.Error("it did not happen")
				}
				if took := time.Since(began); took > 5*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// reserveAny makes reservations, as many as are admitted.
func reserveAny(rl *ratelimit.RateLimiter, model string, n int) (rs ratelimit.Reservations) {
	for range n {
		if r, _ := rl.Reserve(model, 1, 1); r != nil {
			rs = append(rs, r)
		}
	}
	return rs
}

// A handler that does not return from an event without a caller holds up no call, and Close waits
// for it for a bounded time.
func TestEventHandlerThatBlocks(t *testing.T) {
	for _, blocks := range []ratelimit.EventKind{ratelimit.EventExpired, ratelimit.EventCooldownEnded, ratelimit.EventAdmitted} {
		t.Run(string(blocks), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, p *place) {
				blocked := make(chan bool)
				var over, met atomic.Bool
				entered := make(chan bool, 1)
				rl := p.open(t, ratelimit.Config{HoldTTL: time.Minute, Quotas: hammerModels, Events: handling(func(ctx context.Context, e *ratelimit.Event) {
					if over.Load() {
						t.Errorf("%s after Close had returned", e.Kind)
					}
					if e.Kind == blocks && !met.Swap(true) {
						entered <- true
						<-blocked
					}
				})})
				through := make(chan bool, 1)
				go func() {
					reserve(t, rl, "free", 1, 1)
					rl.CooldownFor("free", time.Second, ratelimit.CauseOverloaded)
					through <- true
				}()
				<-entered
				if blocks == ratelimit.EventExpired || blocks == ratelimit.EventCooldownEnded {
					<-through
				}
				began := time.Now()
				for range 10 {
					r, err := rl.Acquire(t.Context(), "m", 1, 1)
					if err != nil {
						t.Fatal(err)
					}
					r.Commit(1, 1)
					r, _ = rl.Reserve("slots", 1, 1)
					r.Cancel()
				}
				rl.CooldownFor("m", time.Second, ratelimit.CauseOverloaded)
				rl.Reset("m")
				if took := time.Since(began); took > 0 {
					t.Errorf("calls took %v", took)
				}
				began = time.Now()
				closed := make(chan bool)
				go func() {
					if err := rl.Close(); err != nil {
						t.Error(err)
					}
					over.Store(true)
					close(closed)
				}()
				select {
				case <-closed:
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("Close took %v", took)
					}
				case <-time.After(time.Hour):
					t.Error("Close does not return")
				}
				close(blocked)
				<-closed
				if blocks == ratelimit.EventAdmitted {
					<-through
				}
				time.Sleep(time.Hour)
				synctest.Wait()
			})
		})
	}
}

// While a handler blocks, what would wait for it stays bounded.
func TestEventsThatNobodyTakesAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		blocked, entered := make(chan bool), make(chan bool, 1)
		var met atomic.Bool
		var saved atomic.Int64
		rl := overStore(t, fake, ratelimit.Config{Quotas: quotas{"m": {}}, Events: handling(func(ctx context.Context, e *ratelimit.Event) {
			if e.Kind == ratelimit.EventSaved {
				if !met.Swap(true) {
					entered <- true
					<-blocked
				}
				saved.Add(1)
			}
		})})
		reserve(t, rl, "m", 1, 1).Commit(2, 2)
		<-entered
		const calls = 1000
		for range calls {
			reserve(t, rl, "m", 1, 1).Commit(2, 2)
		}
		close(blocked)
		synctest.Wait()
		if n := saved.Load(); n > 3*calls/2 {
			t.Errorf("%d events were kept", n)
		}
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The error of a refusal is the one that the method returned.
func TestEventsTellTheErrorOfTheMethod(t *testing.T) {
	onEventStages(t, nil, func(s *eventStage) {
		_, err := s.rl.Acquire(s.ctx, "m", 101, 0)
		synctest.Wait()
		all := s.w.ofCalls()
		var limit *ratelimit.LimitError
		if len(all) == 0 || !errors.As(err, &limit) {
			s.Fatalf("%v, told %v", err, all)
		}
		if is := all[0]; is.Err != err || is.decision != limit.Decision {
			s.Errorf("told %v and %+v, want %v", is.Err, is.decision, err)
		}
	})
}

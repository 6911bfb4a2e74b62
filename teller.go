package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// drainFor is how long Close waits for a handler, also one that calls it, or for the next event.
const drainFor = time.Second

// EventHandlers returns a handler that hands each event to all handlers, in their order. Nil ones
// are left out. A panic in one, which Config.OnError gets, does not keep it from the others.
func EventHandlers(handlers ...EventHandler) EventHandler {
	all := make(eventHandlers, 0, len(handlers))
	for _, h := range handlers {
		switch h := h.(type) {
		case nil:
		case eventHandlers:
			all = append(all, h...)
		default:
			all = append(all, h)
		}
	}
	return all
}

type eventHandlers []EventHandler

// HandleEvent hands an event to all of them, whatever one does.
func (hs eventHandlers) HandleEvent(ctx context.Context, e *Event) {
	for _, h := range hs {
		func() {
			defer func() { _ = recover() }()
			h.HandleEvent(ctx, e)
		}()
	}
}

// telling is an event on its way to the handlers, with the memory for what it points to.
type telling struct {
	Event
	ctx      context.Context
	decision Decision
	quota    ModelQuota
	admits   *toldCall // of an admission: the call, if that may end before this is told
	next     *telling  // is told after it
}

var tellings = sync.Pool{New: func() any { return new(telling) }}

// decided adds a decision to the event.
func (e *telling) decided(d *Decision) {
	e.decision = *d
	e.Decision, e.Pool = &e.decision, d.Pool
}

// then appends an event that is told after e. Either may be nil.
func (e *telling) then(next *telling) *telling {
	if e == nil {
		return next
	}
	last := e
	for last.next != nil {
		last = last.next
	}
	last.next = next
	return e
}

// each takes a row of events apart, which may be nil.
func (e *telling) each(do func(*telling)) {
	for e != nil {
		one := e
		e, one.next = one.next, nil
		do(one)
	}
}

// teller tells Config.Events what the limiter does. What is told is noted under RateLimiter.mu, and
// handed to the handlers without it. A limiter without a handler has a nil teller.
type teller struct {
	rl       *RateLimiter
	handlers eventHandlers
	outlet   *notice.Outlet[*telling]

	// Guarded by RateLimiter.mu:
	pending []*telling // are told by the method that is under way, when it has unlocked
	unused  *toldCall
	cooled  notice.Cooldowns // whose end is to be told
}

// newTeller returns a teller that is silent until Open; nil without a handler.
func newTeller(rl *RateLimiter, h EventHandler) *teller {
	if h == nil {
		return nil
	}
	profile.Models() // which reads the profiles, before events ask for them under the lock
	t := &teller{rl: rl, handlers: EventHandlers(h).(eventHandlers)}
	t.outlet = notice.NewOutlet(notice.Handing[*telling]{
		Handlers: len(t.handlers),
		Hand:     func(i int, e *telling) { t.handlers[i].HandleEvent(e.ctx, &e.Event) },
		Panicked: func(e *telling, p any) {
			t.rl.reporter.Report(fmt.Errorf("handle event %q: panic: %v", e.Kind, p))
		},
		Handed: func(e *telling) {
			t.handed(e)
			t.drop(e)
		},
		Left: func(e *telling) {
			t.handed(e)
			e.next.each(t.outlet.PostBegun)
		},
	})
	return t
}

// begin lets events be told, when the constructor is through.
func (t *teller) begin() {
	if t != nil {
		t.outlet.Open()
	}
}

// newTelling returns an event that is to be told; nil where it did not begin.
func newTelling(ctx context.Context, kind EventKind, begun bool) *telling {
	if !begun {
		return nil
	}
	e := tellings.Get().(*telling)
	e.Kind, e.ctx = kind, ctx
	return e
}

// tell hands events to the handlers, on this goroutine and without locks. If a handler ends that,
// the goroutine of the limiter tells the others.
func (t *teller) tell(e *telling) {
	for e != nil {
		next := e.next
		t.outlet.Now(e)
		e = next
	}
}

// tellAndWatch tells of a reservation, and has it watched, also if a handler ends the goroutine.
func (t *teller) tellAndWatch(e *telling, made *Reservation) {
	defer made.watch()
	t.tell(e)
}

// drop takes an event back that was handed out, or is not to be.
func (t *teller) drop(e *telling) {
	e.Event, e.ctx, e.admits, e.next = Event{}, nil, nil, nil
	tellings.Put(e)
}

// postRLocked has an event told by a goroutine of the limiter, because no caller is there to.
func (t *teller) postRLocked(e *telling) {
	e.each(func(e *telling) {
		t.outlet.Post(e)
		t.outlet.End() // Post has begun it, too
	})
}

// postLaxRLocked is postRLocked for an event that is left out while too many wait.
func (t *teller) postLaxRLocked(e *telling) {
	if !t.outlet.PostLax(e) {
		t.drop(e)
	}
	t.outlet.End()
}

// postLaterRLocked is postRLocked for a finalizer, which may start no goroutine in a bubble.
func (t *teller) postLaterRLocked(e *telling) {
	if e != nil {
		t.outlet.PostLater(e)
		t.outlet.End()
	}
}

// pendLocked has events told by the method that is under way.
func (t *teller) pendLocked(e *telling) {
	if e != nil {
		t.pending = append(t.pending, e)
	}
}

// flush tells the pending events. No lock may be held.
func (t *teller) flush() {
	if t == nil {
		return
	}
	t.rl.mu.Lock()
	pending := t.pending
	t.pending = nil
	t.rl.mu.Unlock()
	for _, e := range pending {
		t.tell(e)
	}
}

// close tells of what is open, and then nothing more.
func (t *teller) close() {
	if t == nil {
		return
	}
	t.rl.mu.Lock()
	var last []*telling
	now := t.rl.nowLocked()
	for c := range t.rl.openLocked {
		if told, is := c.Local.(*toldCall); is {
			if e := t.endLocked(&caller{ctx: told.ctx}, c, told, closedOf(c), now); e != nil {
				last = append(last, e)
				t.outlet.End() // Drain begins it, when the admission was told
			}
		}
	}
	t.cooled.Clear()
	t.outlet.Close()
	t.rl.mu.Unlock()
	t.flush()
	t.outlet.Drain(drainFor, last...)
}

// caller is what is known of the call of a method, for its events.
type caller struct {
	ctx       context.Context // that events get; never nil
	id        uint64          // 0 until it is needed
	tentative bool            // a denial is no refusal yet
	waited    time.Duration   // in line
	why       *Decision       // why it stood there
	queued    bool            // that was told, and what follows has to be told, too
	waitsOnly bool            // it asks for no reservation
	request   bool            // it is of an llmhttp.Transport
	asking                    // its class and flow, as far as they matter
}

// callerOf returns the caller with a context.
func callerOf(ctx context.Context) caller {
	if c := notice.CallFrom(ctx); c != nil {
		return caller{ctx: c.Context, id: c.ID, tentative: c.Tentative, request: true}
	}
	return caller{ctx: ctx}
}

// caller returns the caller of a method that waits. A first denial is no refusal.
func (t *teller) caller(ctx context.Context) caller {
	by := caller{ctx: ctx}
	if t != nil {
		by = callerOf(ctx)
	}
	by.tentative = true
	return by
}

// now returns the time at which something begins whose duration is told.
func (t *teller) now() (began time.Time) {
	if t != nil {
		began = time.Now()
	}
	return began
}

// number returns the ID of the call.
func (c *caller) number() uint64 {
	if c.id == 0 {
		c.id = notice.NextCallID()
	}
	return c.id
}

// makeLocked makes an event of the call that is to be told; nil if the limiter is closed, unless
// the call was told to be in line.
func (c *caller) makeLocked(t *teller, kind EventKind) (e *telling) {
	begun := c.queued
	if begun {
		t.outlet.Keep()
	} else {
		begun = t.outlet.BeginLocked()
	}
	if e = newTelling(c.ctx, kind, begun); e == nil {
		return nil
	}
	if c.waitsOnly {
		e.Operation = waitOperation
	}
	if c.class != "" {
		e.Class = t.rl.engine.KnownClass(c.class)
	}
	return e
}

// usage returns tokens as events have them.
func usage(c state.Count) Usage { return Usage{max(c.Input, 0), max(c.Output, 0)} }

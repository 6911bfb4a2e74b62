package replica

import (
	"context"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// ask is a command of this process, until it is known what came of it.
type ask struct {
	n       int64
	command fleet.Command
	bytes   []byte
	room    [usualBytes]byte // for them
	fact    *record          // that it tells
	since   time.Time        // when that was asked first which grows older; zero where nothing does
	sent    bool             // so that it may be in the log, under its number or an earlier one
	lined   chan int64       // of one: its number, once its waiter stands in line; nil where nobody asks
	own     Owner            // see DoOwn; nil for none
	owned   bool             // it was called,
	gone    bool             // or nobody is there any more who wants that
	is      answer           // once it is answered,
	done    chan struct{}    // and this has a value then
	over    bool             // it was answered
}

// answer is what came of an ask.
type answer struct {
	outcome *engine.Outcome // nil for none, as where its owner has heard of it,
	calls   []account.ID    // but for the calls that it made then
	at      int64           // the instant of the log
	again   bool            // it was not decided: ask anew
	alone   bool            // it was decided without the log
	err     error
}

// asks are the commands whose outcome is not known, by number and in the order of that.
type asks struct {
	last  int64
	of    map[int64]*ask
	queue []*ask         // to be sent
	flown []*ask         // that were sent, until a number as great was heard
	told  *ask           // the last that nobody waits for; nil for none
	lined map[int64]bool // by number, those whose waiters stand in line
}

// usualBytes is how many bytes a command seldom exceeds.
const usualBytes = 48

func (r *Replica) newAsk(c fleet.Command) *ask {
	done, is := r.signals.Get().(chan struct{})
	if !is {
		done = make(chan struct{}, 1)
	}
	a := &ask{command: c, done: done}
	a.bytes = c.Append(a.room[:0])
	return a
}

// put numbers a command and has it sent, behind the days and the months that it has to find known:
// with any command something may happen by itself that counts to them.
func (r *Replica) put(c fleet.Command) *ask {
	if r.needsZones() {
		r.tellZones()
	}
	return r.putFirst(c)
}

// putFirst is put of a command that needs nothing else to be known.
func (r *Replica) putFirst(c fleet.Command) *ask {
	a := r.newAsk(c)
	a.since = time.Now()
	r.number(a)
	poke(r.wake)
	return a
}

func (r *Replica) number(a *ask) {
	r.asks.last++
	a.n = r.asks.last
	r.asks.of[a.n] = a
	r.asks.queue = append(r.asks.queue, a)
}

// settle ends an ask.
func (r *Replica) settle(a *ask, is answer) {
	delete(r.asks.of, a.n)
	delete(r.asks.lined, a.n)
	a.answer(is)
}

// answer tells the caller what came of an ask, who may have been told before.
func (a *ask) answer(is answer) {
	if !a.over {
		a.is, a.over = is, true
		a.done <- struct{}{}
	}
}

// tell has an ask be another one, as it is now.
func (a *ask) tell(c engine.Command) {
	a.command, a.since = fleet.Verb{Command: c}, time.Now()
	a.bytes = a.command.Append(nil)
}

// open returns all asks in the order of their numbers.
func (s *asks) open() []*ask {
	all := make([]*ask, 0, len(s.of))
	for _, a := range s.of {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *ask) int { return int(a.n - b.n) })
	return all
}

// drop forgets an ask that was not sent, or whose outcome nobody wants.
func (s *asks) drop(a *ask) {
	delete(s.of, a.n)
	delete(s.lined, a.n)
	s.queue = slices.DeleteFunc(s.queue, func(other *ask) bool { return other == a })
}

// Outcome is what came of a command. Alone says that this process decided by its share, while the
// log was away: the engine does not know it.
type Outcome struct {
	engine.Outcome
	Alone bool
}

// Do has a command decided, and returns what came of it: by all processes, or by the share of this
// one while the log is away. For Enter it returns once the wait is over. If ctx ends before, calls
// that the command may make later are taken back; one that asks for none is told all the same.
func (r *Replica) Do(ctx context.Context, c engine.Command) (Outcome, error) {
	return r.do(ctx, c, nil, nil)
}

// Owner is told what came of its command, with Options.Lock held. It is told nil where that came
// too late, and then of the next. It must not keep o.
type Owner interface {
	Hear(o *engine.Outcome, alone bool)
}

// DoOwn is Do for a command that waits for nothing. Its owner need not take Options.Lock, which is
// taken once for all that come together.
func (r *Replica) DoOwn(ctx context.Context, c engine.Command, own Owner) error {
	_, err := r.do(ctx, c, nil, own)
	return err
}

// Wait is Do for a command that waits. lined is called, on this goroutine, with the number of the
// waiter when it stands in line, and again where it does so anew.
func (r *Replica) Wait(ctx context.Context, c engine.Enter, lined func(n int64)) (Outcome, error) {
	return r.do(ctx, c, lined, nil)
}

func (r *Replica) do(ctx context.Context, c engine.Command, lined func(n int64), own Owner) (Outcome, error) {
	for {
		if err := r.mayWait(ctx, c); err != nil {
			return Outcome{}, err
		}
		a := r.newAsk(fleet.Verb{Command: c})
		if a.own = own; lined != nil {
			a.lined = make(chan int64, 1)
		}
		if r.needsZones() {
			r.mu.Lock()
			r.tellZones()
			r.mu.Unlock()
		}
		first, err := r.inbox.add(a)
		if err != nil {
			return Outcome{}, err
		}
		switch {
		case r.isAlone.Load(): // the sender may wait for the log
			r.mu.Lock()
			r.take()
			r.mu.Unlock()
		case first && ctx.Done() == nil:
			r.sendNow()
		case first:
			poke(r.wake)
		}
		is := &a.is
		if err = r.hearOf(ctx, a, lined); err == nil {
			r.signals.Put(a.done)
			err = is.err
		}
		switch {
		case err != nil:
			if own != nil && !r.giveUp(a) {
				err = nil
			}
			return Outcome{}, err
		case is.again:
		case r.isLate(c, is):
			r.disown(a)
			r.giveBack(is)
		case own != nil && a.owned:
			return Outcome{}, nil
		default:
			o := is.outcome
			if o == nil {
				o = new(engine.Outcome)
			}
			if own == nil {
				return Outcome{*o, is.alone}, nil
			}
			r.options.Lock.Lock()
			own.Hear(o, is.alone)
			r.options.Lock.Unlock()
			return Outcome{}, nil
		}
	}
}

// mayWait returns the error of ctx. Where that has ended, a command is told that asks for no calls.
func (r *Replica) mayWait(ctx context.Context, c engine.Command) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	switch c.(type) {
	case engine.Admit, engine.Enter:
	default:
		r.Tell(c)
	}
	return err
}

// giveUp has own do nothing any more. It reports false where that has the outcome already.
func (r *Replica) giveUp(a *ask) bool {
	r.options.Lock.Lock()
	defer r.options.Lock.Unlock()
	a.gone = !a.owned
	return a.gone
}

// disown has own take back what it has done.
func (r *Replica) disown(a *ask) {
	if a.owned {
		r.options.Lock.Lock()
		a.own.Hear(nil, false)
		r.options.Lock.Unlock()
	}
}

// hand calls own of an ask whose outcome has come, with Options.Lock held.
func (r *Replica) hand(is *result) {
	if is.Process != r.process || is.Kind != fleet.Applied || is.Outcome.Ignored {
		return
	}
	a := r.asks.of[is.N]
	if a == nil || a.own == nil || a.gone {
		return
	}
	verb, _ := a.command.(fleet.Verb)
	if !r.isLateAt(verb.Command, is.Outcome.Calls, is.Result.Now.Instant) {
		a.owned = true
		a.own.Hear(&is.Outcome, false)
	}
}

// hearOf waits for the answer to an ask.
func (r *Replica) hearOf(ctx context.Context, a *ask, lined func(int64)) error {
	if ctx.Done() == nil && lined == nil {
		<-a.done
		return nil
	}
	for {
		select {
		case <-a.done:
			return nil
		case n := <-a.lined:
			lined(n)
		case <-ctx.Done():
			r.abandon(a)
			return ctx.Err()
		}
	}
}

// stands notes that the waiter of an ask stands in line.
func (r *Replica) stands(a *ask) {
	if !r.waits() {
		r.moved() // the read that is under way may hold news back
		poke(r.lookNow)
	}
	if r.asks.lined[a.n] = true; a.lined != nil {
		select {
		case a.lined <- a.n:
		default:
		}
	}
}

// Tell has a command applied, and does not wait for it.
func (r *Replica) Tell(c engine.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.put(fleet.Verb{Command: c})
	if r.asks.told = a; r.status == cutOff {
		r.decideAlone(a)
	}
}

// leastPatience is the age at which an answer is late at the earliest: windows with a margin below
// that are not exact to it.
const leastPatience = int64(time.Second)

// isLate reports whether an answer comes so late that the call would reach its provider when its
// charge here leaves the window before the provider's.
func (r *Replica) isLate(c engine.Command, is *answer) bool {
	return !is.alone && r.isLateAt(c, is.made(), is.at)
}

func (r *Replica) isLateAt(c engine.Command, calls []account.ID, at int64) bool {
	if len(calls) == 0 {
		return false
	}
	var by *engine.By
	switch c := c.(type) {
	case engine.Admit:
		by = &c.By
	case engine.Enter:
		by = &c.By
	default:
		return false
	}
	return r.clock.expected()-at > max(by.Span-account.Minute, leastPatience)
}

// made returns the calls that the command has made.
func (is *answer) made() []account.ID {
	switch {
	case is.outcome == nil:
		return is.calls
	case len(is.outcome.Ended) > 0:
		return is.outcome.Ended[0].Calls
	}
	return is.outcome.Calls
}

// giveBack cancels the calls of an answer that nobody hears of.
func (r *Replica) giveBack(is *answer) {
	for _, id := range is.made() {
		r.Tell(engine.Settle{ID: id, How: account.Cancelled})
	}
}

// abandon takes back an ask whose caller has gone.
func (r *Replica) abandon(a *ask) {
	r.mu.Lock()
	r.take()
	select {
	case <-a.done: // just now
		r.mu.Unlock()
		if !a.owned { // or else its owner keeps what it has heard of
			r.giveBack(&a.is)
		}
		return
	default:
	}
	verb, _ := a.command.(fleet.Verb)
	switch c := verb.Command.(type) {
	case engine.Admit:
		r.abandonLocked(a, len(c.Wants))
	case engine.Enter:
		most := 0
		for _, wants := range c.Options {
			most = max(most, len(wants))
		}
		r.abandonLocked(a, most)
	default: // it is told all the same
		r.asks.told = a
	}
	r.mu.Unlock()
}

// abandonLocked forgets an ask. What it brings about is no call of this process, so its calls are
// cancelled where they are found; a waiter is told to leave.
func (r *Replica) abandonLocked(a *ask, calls int) {
	if r.asks.drop(a); a.sent {
		r.asks.told = r.put(fleet.Verb{Command: engine.Leave{Process: r.process, N: a.n, Places: calls}})
	}
}

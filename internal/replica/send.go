package replica

import (
	"context"
	"errors"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	mostBatch = 512                   // commands of one append
	resend    = 10 * time.Millisecond // after a batch that failed
)

// send appends what is asked, a batch at a time, until the replica is closed.
func (r *Replica) send() {
	for r.ctx.Err() == nil {
		if isFailure(r.sendAll()) {
			r.pause(r.resendAfter())
			continue
		}
		select {
		case <-r.wake:
		case <-r.ctx.Done():
		}
	}
}

// sendAll appends until there is nothing to be sent. It keeps the turn as long as commands come
// together: those that were answered ask again, and come together once more.
func (r *Replica) sendAll() error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	for r.ctx.Err() == nil {
		n, err := r.sendBatch()
		if n == 0 || isFailure(err) {
			return err
		}
		r.inbox.gather(n)
		if rest := r.rest(n); rest > 0 {
			r.pause(rest)
		}
	}
	return nil
}

// rest returns how long to rest after a batch, so that others get on as well.
func (r *Replica) rest(n int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pace.sent(n)
}

// sendNow has what is asked appended. If nothing is under way this goroutine does it: to wake
// another one, and to be woken, takes as long as a near store.
func (r *Replica) sendNow() {
	select {
	case r.turn <- struct{}{}:
	default:
		poke(r.wake)
		return
	}
	_, err := r.sendBatch()
	<-r.turn
	r.mu.Lock()
	more := len(r.asks.queue) > 0
	r.mu.Unlock()
	if more || err != nil {
		poke(r.wake)
	}
}

// sendBatch appends a batch, and returns of how many commands. Whoever calls it has the turn.
func (r *Replica) sendBatch() (n int, err error) {
	batch, flying, after := r.batch()
	if len(batch) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	sent := time.Now()
	doubt := time.AfterFunc(r.timeout/2, func() { r.probe(ctx) })
	news, err := r.log.Append(ctx, after, batch)
	if doubt.Stop() && isFailure(err) {
		r.probe(ctx)
	}
	if r.options.Sent != nil {
		r.options.Sent(sent, err)
	}
	if err != nil {
		r.unsent(flying, sent, err)
	}
	r.hear(after, news, err, sent)
	return len(batch), err
}

// isFailure reports whether an append has no answer.
func isFailure(err error) bool {
	return err != nil && !errors.Is(err, store.ErrLost) && !errors.Is(err, store.ErrTrimmed)
}

// probe asks whether the log is there, because an append has failed, or has no answer yet. If it
// is, the append is sent again, and nobody goes on with a share only because an answer got lost. Of
// a log that takes no appends any more, the process knows all members then, and so its share.
func (r *Replica) probe(ctx context.Context) {
	r.mu.Lock()
	after := r.at
	r.mu.Unlock()
	sent := time.Now()
	if news, err := r.log.Read(ctx, after, 0, 0); err == nil {
		r.hear(after, news, nil, sent)
	}
}

// resendAfter returns how long to wait after a batch that failed.
func (r *Replica) resendAfter() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == cutOff {
		return probe
	}
	return resend
}

// batch returns what is to be sent next, in the order of its numbers.
func (r *Replica) batch() (batch []store.Entry, flying []*ask, after store.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take()
	n := min(len(r.asks.queue), mostBatch)
	if r.status == cutOff || r.status == catching {
		if !r.isOut(r.life.home) {
			return nil, nil, r.at
		}
		for n > 0 && r.asks.queue[n-1].n > r.life.home.n {
			n--
		}
	}
	if n == 0 {
		r.life.refusals = 0
	}
	flying = r.asks.queue[:n:n]
	r.asks.queue = r.asks.queue[n:]
	expect := r.clock.expected()
	batch = make([]store.Entry, 0, n)
	r.asks.flown = append(r.asks.flown, flying...)
	for _, a := range flying {
		a.sent = true
		batch = append(batch, store.Entry{Process: r.process, N: a.n, Expect: expect, Command: a.bytes})
	}
	if n > 0 {
		r.life.spokeAt = time.Now()
	}
	return batch, flying, r.at
}

// unsent puts commands back of which nobody knows whether they were written. Sent again under the
// same number, they count once. On the way home, what was sent before waits until it is known.
func (r *Replica) unsent(flying []*ask, sent time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var back []*ask
	for _, a := range flying {
		if _, asks := a.command.(fleet.Verb); r.asks.of[a.n] == a && (!asks || !r.isOut(r.life.home)) {
			back = append(back, a)
		}
	}
	r.asks.queue = append(back, r.asks.queue...)
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrTrimmed) || r.ctx.Err() != nil {
		return
	}
	if r.life.refusals++; r.life.refusals == 1 {
		r.life.refusedAt = sent
	}
	if !errors.Is(err, store.ErrNotWritten) {
		r.life.failures++ // an append is not tried twice before its callers are answered
	}
}

// resendOvertaken sends again, under new numbers, what was accepted and lost before this process
// heard it: the log has a greater number, so it counts those no more.
func (r *Replica) resendOvertaken(heard int64) {
	n := 0
	for n < len(r.asks.flown) && r.asks.flown[n].n <= heard {
		n++
	}
	overtaken := r.asks.flown[:n]
	r.asks.flown = r.asks.flown[n:]
	if r.status != here { // all is asked anew there
		return
	}
	for _, a := range overtaken {
		if a.n > heard || !r.isOut(a) || r.asks.lined[a.n] {
			continue
		}
		r.asks.drop(a)
		if verb, is := a.command.(fleet.Verb); is {
			r.tellRecord(a, verb.Command)
		}
		r.number(a)
		poke(r.wake)
	}
}

// endsUntold reports whether an ask ends a call whose fact is under way: it was lost, and is sent
// again, and behind it so is the end.
func (r *Replica) endsUntold(a *ask) bool {
	verb, _ := a.command.(fleet.Verb)
	end, is := verb.Command.(engine.Settle)
	if !is {
		return false
	}
	for _, other := range r.asks.of {
		verb, _ := other.command.(fleet.Verb)
		if told, is := verb.Command.(engine.Charged); is && told.ID == end.ID {
			return true
		}
	}
	return false
}

// fail notes that a call of the log that was sent at a time had no answer. Without contact for as
// long as a call may take, and with more than one of them, the log is away. So it is where it
// refuses for as long what is appended, whatever can be read.
func (r *Replica) fail(err error, sent time.Time) {
	if r.ctx.Err() != nil {
		return
	}
	r.life.failures++
	r.life.failedAt = time.Now()
	silent := r.life.failures > 1 && time.Since(r.contact) >= r.timeout
	refuses := r.life.refusals > 1 && time.Since(r.life.refusedAt) >= r.timeout
	if r.status != here || refuses || r.contact.Before(sent) { // else it has answered since
		r.err = err
	}
	switch {
	case (r.status == here || r.status == catching) && (silent || refuses):
		r.leave()
	case r.status == cutOff && silent && r.life.home != nil:
		r.turnBack()
		r.alone.since = r.clock.expected() // an Outage that landed now would be an earlier one
	}
}

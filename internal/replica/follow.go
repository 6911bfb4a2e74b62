package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	probe    = 100 * time.Millisecond // between two tries while the log is away
	together = 64                     // entries that are applied under one lock

	// longestRest is how long an idle process leaves a log alone in which nothing happens. It
	// answers an outage so much later.
	longestRest = 10 * time.Second
)

// follow reads the log, until the replica is closed. While the appends bring the news it reads
// nothing.
func (r *Replica) follow() {
	for r.ctx.Err() == nil {
		r.mu.Lock()
		after, wait, gather := r.at, r.traits.Contact/3, r.idles()
		comes := (r.status == cutOff || r.status == catching) && !r.life.leaves
		if comes && !r.isOut(r.life.home) || r.life.failures > 0 {
			wait = 0
		}
		ctx, cancel := context.WithTimeout(r.ctx, wait+r.timeout)
		r.moved = cancel
		if r.isSending() && gather > 0 && time.Since(r.life.currentAt) < min(r.timeout/2, r.traits.Contact/3) && r.life.failures == 0 {
			r.mu.Unlock()
			sleep(ctx, min(gather, round/2))
			cancel()
			continue
		}
		r.mu.Unlock()
		sent := time.Now()
		news, err := r.log.Read(ctx, after, wait, gather)
		moved := errors.Is(ctx.Err(), context.Canceled)
		cancel()
		if moved && err != nil {
			continue
		}
		if r.hear(after, news, err, sent); err != nil {
			r.pause(probe)
		}
	}
}

// isSending reports whether appends bring the news: something is asked, or many callers are between
// two batches. A read would bring the same news once more, and most where they are late already.
func (r *Replica) isSending() bool {
	return len(r.asks.of) > 0 || len(r.turn) > 0 && r.pace.own > 0
}

// idles returns how long news may be held back: nobody waits for them but those who look, and a
// look asks where what is known is older than MaxStale.
func (r *Replica) idles() time.Duration {
	switch {
	case r.waits() || r.status != here:
		return 0
	case r.traits.MaxStale < time.Millisecond:
		return min(r.traits.Contact/3, longestRest, max(time.Since(r.life.newsAt)/8, time.Second))
	}
	return r.traits.MaxStale / 2
}

// pause waits for so long, or until the replica is closed.
func (r *Replica) pause(span time.Duration) { sleep(r.ctx, span) }

// sleep waits for so long, or until ctx ends.
func sleep(ctx context.Context, span time.Duration) {
	select {
	case <-time.After(span):
	case <-ctx.Done():
	}
}

// hear takes in what a call of the log has returned that was sent at a time, from a place.
func (r *Replica) hear(after store.Position, news store.News, err error, sent time.Time) {
	lost, trimmed := errors.Is(err, store.ErrLost), errors.Is(err, store.ErrTrimmed)
	if err != nil && !lost && !trimmed {
		r.mu.Lock()
		r.fail(err, sent)
		r.mu.Unlock()
		return
	}
	r.mu.Lock()
	r.met(sent)
	stands := after == r.at
	if err == nil {
		stands = false
		r.advance(after, &news, sent)
	}
	r.mu.Unlock()
	if stands {
		r.load(after, lost)
	}
}

// met notes that the log has answered what was sent at a time.
func (r *Replica) met(sent time.Time) {
	if sent.Sub(r.contact) > r.traits.Contact {
		r.steady = sent
	}
	if sent.After(r.contact) {
		r.contact = sent
	}
	if r.life.failures = 0; r.status != cutOff {
		r.err = nil
	}
}

// advance applies news. They count only from where the process stands: a page from an earlier place
// must contain that very entry, or else the log lost its end meanwhile.
func (r *Replica) advance(after store.Position, news *store.News, sent time.Time) {
	entries := news.Entries
	if after != r.at {
		i := 0
		for i < len(entries) && entries[i].At != r.at {
			i++
		}
		if i >= len(entries) {
			return
		}
		entries = entries[i+1:]
	}
	if len(entries) > 0 {
		r.life.newsAt = time.Now()
	}
	for len(entries) > 0 {
		n := min(len(entries), together)
		if !r.apply(entries[:n]) {
			return
		}
		entries = entries[n:]
	}
	if news.More || news.Now == (store.Stamp{}) {
		return
	}
	instant := r.state.TimeOf(news.Now)
	if r.life.isTold {
		r.life.isTold = false
		r.catchUp(account.Now{Instant: instant, Wall: news.Now.Wall})
	}
	r.clock.reply(instant, news.Now.Wall, sent)
	r.life.stamp, r.life.stampedAt = news.Now, time.Now()
	if sent.After(r.life.currentAt) {
		r.life.currentAt = sent
	}
	r.caughtUp()
}

// result is an entry and what came of it.
type result struct {
	*store.Entry
	fleet.Result
}

// apply applies entries, and hands the outcomes on. It reports whether all of them were applied.
func (r *Replica) apply(entries []store.Entry) bool {
	results := r.results[:0]
	defer func() {
		clear(results)
		r.results, r.one = results, result{}
	}()
	r.options.Lock.Lock()
	for i := range entries {
		e := &entries[i]
		is := &r.one
		if err := r.applyOne(e, is); err != nil {
			r.options.Lock.Unlock()
			if i > 0 {
				r.finish(results)
			}
			r.poison(e, err)
			return false
		}
		if r.concerns(is) {
			r.hand(is)
			results = append(results, *is)
		}
		if e.Process != r.process {
			r.pace.hear(e.Process)
		}
		r.at = e.At
		r.digests.add(r.at.Seq, r.state.Digest())
		r.volume += int64(len(e.Command) + entrySize)
	}
	r.options.Lock.Unlock()
	r.finish(results)
	return true
}

// applyOne applies an entry to the state. A panic is returned as an error.
func (r *Replica) applyOne(e *store.Entry, is *result) (err error) {
	is.Entry, is.Result = e, fleet.Result{Kind: fleet.Damaged, Now: r.state.Now(), Err: errSkipped}
	if r.poisoned.skips(e.At) {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("apply entry %d: panic: %v", e.At.Seq, p)
		}
	}()
	c, err := r.state.Decode(e.Command)
	if err != nil {
		is.Err = err
		return nil
	}
	verb, isVerb := c.(fleet.Verb)
	end, _ := verb.Command.(*engine.Settle)
	settled := r.settledBy(end)
	if isVerb && r.options.Next != nil {
		r.options.Next(e.Process, verb.Command)
	}
	if is.Result = r.state.ApplyCommand(e, c); is.Kind == fleet.Applied {
		if end != nil && e.Process == r.process {
			delete(r.mine, end.ID)
		}
		r.journal.note(e.Process, e.N, &is.Result, r.state.Engine, settled)
	}
	return nil
}

// concerns reports whether an entry has to do with this process, as calls of others have not.
func (r *Replica) concerns(is *result) bool {
	if is.Process == r.process || is.Kind == fleet.Damaged || len(is.Outcome.Ended) > 0 || r.status == joining || !r.life.sayTimeAt.IsZero() {
		return true
	}
	verb, _ := is.Result.Command.(fleet.Verb)
	told, _ := verb.Command.(engine.Charged)
	return !isCall(verb.Command) || told.ID.Process == r.process
}

// settledBy returns the call that a command ends, as it is before, to be told.
func (r *Replica) settledBy(settle *engine.Settle) *engine.Charged {
	if settle == nil {
		return nil
	}
	call := r.state.Engine.Call(settle.ID)
	if call == nil {
		return nil
	}
	fact := &r.settled
	*fact = factOf(call, r.state.Now().Instant)
	fact.Open, fact.Hold, fact.How, fact.Used, fact.Cost = false, 0, settle.How, settle.Used, settle.Cost
	return fact
}

// finish hands on what came of entries.
func (r *Replica) finish(results []result) {
	r.clock.entry(r.state.Now())
	heard := int64(0)
	for i := range results {
		is := &results[i]
		if is.Kind == fleet.Damaged && is.Err != errSkipped {
			r.tell(fmt.Errorf("entry %d of the log: %w", is.At.Seq, is.Err))
		}
		if is.Kind == fleet.Applied {
			r.heed(is)
		}
		if is.Process == r.process {
			r.answerOwn(is)
			heard = is.N
		}
		for k := range is.Outcome.Ended {
			if end := &is.Outcome.Ended[k]; end.ID.Process == r.process {
				r.answerWaiter(is, end)
			}
		}
	}
	r.resendOvertaken(heard)
	r.atHome()
	r.poisoned.row = 0
	r.journal.forget(r.state.Now().Instant, r.state.Engine.Span())
	r.progress()
}

const entrySize = 32 // of an entry beside its command

// answerOwn answers the ask of an own entry, which is found by its number.
func (r *Replica) answerOwn(is *result) {
	a := r.asks.of[is.N]
	r.life.refusals = 0
	switch {
	case is.Kind == fleet.Repeated:
		return
	case is.Kind == fleet.Damaged:
		if a != nil {
			r.settle(a, answer{err: is.Err})
		}
		return
	case is.Kind != fleet.Applied:
		if a != nil {
			r.settle(a, answer{again: true})
		}
		return
	}
	switch {
	case a == nil:
		r.life.stray = r.life.stray || len(is.Outcome.Calls) > 0 || is.Outcome.Waits // nobody knows it: see caughtUp
		return
	case a.fact != nil:
		r.alone.charges.told(a.fact)
	}
	if is.Outcome.Waits {
		r.stands(a)
		return
	}
	if verb, is := a.command.(fleet.Verb); is {
		if _, is := verb.Command.(engine.Enter); is {
			return // answered as its waiter ended
		}
	}
	if is.Outcome.Ignored && (r.found(a) || r.endsUntold(a)) {
		return
	}
	r.own(is.Outcome.Calls)
	said := answer{calls: is.Outcome.Calls, at: is.Result.Now.Instant}
	if !a.owned {
		o := is.Outcome
		o.Ended, said.outcome = nil, &o
	}
	r.settle(a, said)
}

// answerWaiter answers the ask of a waiter that has ended.
func (r *Replica) answerWaiter(is *result, end *engine.Ended) {
	a := r.asks.of[end.ID.N]
	if a == nil {
		r.life.stray = r.life.stray || len(end.Calls) > 0
		return
	}
	r.own(end.Calls)
	r.settle(a, answer{outcome: &engine.Outcome{Ended: []engine.Ended{*end}}, at: is.Result.Now.Instant})
}

// own notes calls as those of this process.
func (r *Replica) own(calls []account.ID) {
	for _, id := range calls {
		if c := r.state.Engine.Call(id); c != nil {
			r.mine[id] = nil
			r.expires = r.expires || c.HoldUntil != 0
		}
	}
}

// record returns what is known of a call of this process; nil for nothing.
func (r *Replica) record(id account.ID) *record {
	k, is := r.mine[id]
	if is && k == nil {
		if c := r.state.Engine.Call(id); c != nil {
			k = recordOf(c)
			r.mine[id] = k
		}
	}
	return k
}

// keepMine has the calls of this process be known without the engine.
func (r *Replica) keepMine() {
	for id := range r.mine {
		if r.record(id) == nil { // it has expired
			delete(r.mine, id)
		}
	}
}

package engine

import (
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Command is a verb and its parameters, or a fact, to be ordered among those of other processes.
// It names models by the names under which they are asked for and counted, and calls and waiters by
// their numbers: what these stand for is resolved where the command is applied.
type Command interface {
	// Append appends the command as bytes, from which Decode reads the same one. A number that is
	// out of its range gives bytes that Decode refuses.
	Append(to []byte) []byte
	// apply calls the verb.
	apply(e *Engine, id account.ID, now account.Now) Outcome
}

// The kinds of commands, which are the first number of their bytes. New ones come at the end.
const (
	kindAdmit = iota
	kindEnter
	kindLeave
	kindSettle
	kindArrive
	kindRecord
	kindCool
	kindObserve
	kindRefuse
	kindReset
	kindBounds
	kindSetQuota
	kindRemoveQuota
	kindSetAccount
	kindAddProfile
	kindLearn
	kindForgetLearned
	kindSetPool
	kindRemovePool
	kindLoaded
	kindSetClasses
	kindSetMaxModels
	kindAdvance
	kindCharged
	kindReprice
	kindEnd
)

var readers = [kindEnd]func(*wire.Reader) Command{
	kindAdmit: readAdmit, kindEnter: readEnter, kindLeave: readLeave, kindSettle: readSettle,
	kindArrive: readArrive, kindRecord: readRecord, kindCool: readCool, kindObserve: readObserve,
	kindRefuse: readRefuse, kindReset: readReset, kindBounds: readBounds, kindSetQuota: readSetQuota,
	kindRemoveQuota: readRemoveQuota, kindSetAccount: readSetAccount, kindAddProfile: readAddProfile,
	kindLearn: readLearn, kindForgetLearned: readForgetLearned, kindSetPool: readSetPool,
	kindRemovePool: readRemovePool, kindLoaded: readLoaded, kindSetClasses: readSetClasses,
	kindSetMaxModels: readSetMaxModels, kindAdvance: readAdvance, kindCharged: readCharged,
	kindReprice: readReprice,
}

// Decode reads the bytes of one command. It accepts only what Append writes for a command whose
// numbers are in range.
func Decode(data []byte) (Command, error) { return ReadCommand(wire.NewReader(data)) }

// ReadCommand is Decode of what is left of a Reader.
func ReadCommand(r *wire.Reader) (Command, error) { return ended(r, readers[r.UpTo(kindEnd-1)](r)) }

func ended(r *wire.Reader, c Command) (Command, error) {
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	return c, nil
}

// Decoder is for who reads many commands, one after the other: those of calls take no memory. They
// are *Admit and *Settle, and stay until the next is read.
type Decoder struct {
	admit  Admit
	want   [1]Want
	settle Settle
}

// Read is ReadCommand.
func (d *Decoder) Read(r *wire.Reader) (Command, error) {
	switch kind := r.UpTo(kindEnd - 1); kind {
	case kindAdmit:
		d.admit = Admit{By: readBy(r), Wants: readWants(r, d.want[:])}
		return ended(r, &d.admit)
	case kindSettle:
		d.settle = settleOf(r)
		return ended(r, &d.settle)
	default:
		return ended(r, readers[kind](r))
	}
}

// Apply applies the n-th command of a process. The same commands at the same moments have the same
// outcomes and lead to the same state. A command that names calls or waiters which are not there
// changes nothing but the moment, as does one whose own calls are there already.
func (e *Engine) Apply(now account.Now, process, n int64, c Command) Outcome {
	now = account.Now{Instant: clampTime(now.Instant), Wall: clampTime(now.Wall)}
	if is, tells := c.(Bounds); tells {
		is.apply(e, account.ID{}, now) // what is due happens in the day and the month that it tells
	}
	now = e.begin(now, 0)
	e.told.forget(now.Instant - 2*e.span)
	o := c.apply(e, account.ID{Process: process, N: n}, now)
	e.collect(&o)
	return o
}

// Do applies a command of the engine's owner, who learns by Done which waiters have ended.
func (e *Engine) Do(c Command, now account.Now) Outcome {
	return c.apply(e, account.ID{}, e.begin(now, 0))
}

// farthest bounds all instants and times, so that no sum or difference of two overflows: it is in
// the year 2116.
const farthest = int64(1) << 62

func clampTime(t int64) int64 { return min(max(t, 1), farthest) }

// ClampTime returns the time nearest to t, in UnixNano, that a command can have.
func ClampTime(t int64) int64 { return clampTime(t) }

// collect takes over the waiters that have ended.
func (e *Engine) collect(o *Outcome) {
	if !e.lines.HasDone() {
		return
	}
	for _, w := range e.Done() {
		delete(e.waiters, w.ID)
		o.Ended = append(o.Ended, endOf(w))
	}
}

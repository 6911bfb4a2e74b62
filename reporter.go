package ratelimit

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// reportEvery is how long no other error of a kind is reported after one.
const reportEvery = time.Second

// reporter hands the errors of work in the background to the program, without a
// lock and without waiting for it: one at a time, and of those that come in
// the meantime the last of each kind.
type reporter struct {
	onError func(error)
	errs    *debounce.Coalescer[any, error]
	stopped atomic.Bool
	last    map[any]time.Time // when an error of a kind was reported, for reportEvery
}

// newReporter returns a reporter; nil, which reports nothing, without a function.
func newReporter(onError func(error)) *reporter {
	if onError == nil {
		return nil
	}
	r := &reporter{onError: onError, last: make(map[any]time.Time)}
	r.errs = debounce.NewCoalescer(debounce.CoalescerOptions[error]{}, r.deliver)
	return r
}

func (r *reporter) report(err error) {
	if r != nil {
		r.errs.Add(kindOf(err), err)
	}
}

// deliver is the action of the coalescer, which calls it for one batch at a time.
func (r *reporter) deliver(errs map[any]error) {
	for kind, err := range errs {
		now := time.Now() // onError may have taken long
		maps.DeleteFunc(r.last, func(_ any, at time.Time) bool { return now.Sub(at) >= reportEvery })
		if _, recently := r.last[kind]; recently || r.stopped.Load() {
			continue
		}
		r.last[kind] = now
		r.onError(err)
	}
}

// stop has no other error delivered. It does not wait for a call that is running, which
// may be what calls it: the context for that has ended.
func (r *reporter) stop() {
	if r == nil {
		return
	}
	r.stopped.Store(true)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r.errs.Stop(ended)
}

// kindOf returns what errors of the same kind have in common: the number that the
// system or the database gives them, or else the type of their innermost cause.
func kindOf(err error) any {
	var errno syscall.Errno
	var refusal interface{ Code() int } // of SQLite
	switch {
	case errors.Is(err, ErrCorruptState):
		return ErrCorruptState
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &refusal):
		return refusal.Code()
	}
	for {
		cause := errors.Unwrap(err)
		if cause == nil {
			return reflect.TypeOf(err)
		}
		err = cause
	}
}
